"""Launches from JupyterHub's own records.

JupyterHub's database and its REST API have the servers that run now, each with the time of its start, and nothing of
servers that have ended. Its event log (``c.EventLogger.handlers``) has each start that succeeded and each stop by the
hub; it is the only history that a hub keeps, and only where an administrator has switched it on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import column, create_engine, select, table
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from dra_spawner.history.connecting import HistoryUrlError, parsed_url
from dra_spawner.history.http_source import get_json, is_http, read_json, token_of
from dra_spawner.history.imported_rows import BadRow, SourceError, misordered, parsed_time, quoted
from dra_spawner.history.records import Launch
from dra_spawner.history.user_names import UserNames

__all__ = ["JupyterHubSource"]

_SOURCE: Final = "jupyterhub"
_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_PAGE: Final = 200
_PAGINATED: Final = "application/jupyterhub-pagination+json"
_TIMESTAMPS: Final = ("__timestamp__", "timestamp")


@dataclass(frozen=True)
class JupyterHubSource:
    """What is read, by what the source looks like.

    Attributes
    ----------
    source
        URL of the REST API (``https://hub.example.org/hub/api``), URL or SQLite file of the hub's database, file of
        what ``GET /users`` answers, or file of the event log.
    names
        Make identifiers of launches.
    now
        No launch was later.
    token_file
        File with a token for the REST API, with the scopes ``list:users`` and ``read:servers``.
    profile
        Of launches that name none.
    """

    source: str
    names: UserNames
    now: datetime
    token_file: str = ""
    profile: str = ""

    def rows(self) -> Iterator[Launch | BadRow]:
        """Its launches, and its bad rows.

        Raises
        ------
        SourceError
        """
        if is_http(self.source):
            return self._of_users(self._users())
        if "://" in self.source:
            return self._of_database(self.source)
        path = Path(self.source)
        try:
            with path.open("rb") as stream:
                beginning = stream.read(4096)
        except OSError as error:
            raise SourceError(f"{path}: {error.strerror}") from None
        if beginning.startswith(_SQLITE_MAGIC):
            return self._of_database(f"sqlite:///{path}")
        if beginning.lstrip().startswith(b"["):
            return self._of_users(enumerate(_users_of_file(path), 1))
        return self._of_events(path)

    # --- servers that run ---------------------------------------------------------------------------------------------

    def _users(self) -> Iterator[tuple[int, Any]]:
        """What the REST API says of all users, in pages."""
        headers = {"Accept": _PAGINATED}
        if token := token_of(self.token_file):
            headers["Authorization"] = f"token {token}"
        number = 0
        while True:
            url = f"{self.source.rstrip('/')}/users?limit={_PAGE}&offset={number}&state=active"
            answer = get_json(url, headers)
            items = answer.get("items") if isinstance(answer, dict) else answer
            if not isinstance(items, list):
                raise SourceError(f"{url}: found {quoted(answer)}; allowed: a list of users")
            for user in items:
                number += 1
                yield number, user
            # A hub that does not page answers with a list of all.
            if len(items) < _PAGE or not isinstance(answer, dict):
                return

    def _of_users(self, users: Iterator[tuple[int, Any]]) -> Iterator[Launch | BadRow]:
        for number, user in users:
            name = user.get("name") if isinstance(user, dict) else None
            servers = user.get("servers", {}) if isinstance(user, dict) else None
            if not isinstance(name, str) or not isinstance(servers, dict):
                yield BadRow(f"user {number}", f"found {quoted(user)}; allowed: a user with a name, and its servers")
                continue
            for server, model in servers.items():
                started = model.get("started") if isinstance(model, dict) else None
                if started is None or (isinstance(model, dict) and model.get("stopped")):
                    continue
                yield self._launch(f"user {number}", name, server, started, model.get("user_options"))

    def _of_database(self, url: str) -> Iterator[Launch | BadRow]:
        """What the hub's database says; its times are UTC without a zone."""
        users = table("users", column("id"), column("name"))
        spawners = table(
            "spawners",
            column("user_id"),
            column("name"),
            column("started"),
            column("server_id"),
            column("user_options"),
        )
        running = (
            select(users.c.name, spawners.c.name, spawners.c.started, spawners.c.user_options)
            .join_from(spawners, users, spawners.c.user_id == users.c.id)
            .where(spawners.c.server_id.is_not(None), spawners.c.started.is_not(None))
            .order_by(spawners.c.started)
        )
        try:
            with closing(_connected(url)) as connection:
                for number, (user, server, started, options) in enumerate(connection.execute(running), 1):
                    yield self._launch(f"spawner {number}", user, server or "", f"{started}+00:00", options)
        except SQLAlchemyError as error:
            cause = " ".join(str(getattr(error, "orig", None) or error).split())
            raise SourceError(f"{_shown(url)}: JupyterHub's tables cannot be read: {cause}") from None

    def _launch(self, place: str, user: str, server: str, started: Any, options: Any) -> Launch | BadRow:
        try:
            asked = parsed_time(str(started))
        except ValueError as error:
            return BadRow(place, f"started: {error}")
        launch = replace(self._new(user, server, asked), profile=_profile_of(options) or self.profile)
        problem = misordered(launch, self.now)
        return BadRow(place, problem) if problem else launch

    def _new(self, user: str, server: str, asked: datetime) -> Launch:
        identity = self.names.hash("\0".join((user, server, asked.isoformat())))
        return Launch(f"{_SOURCE}-{identity}", asked, self.profile, user=user, source=_SOURCE)

    # --- the event log ------------------------------------------------------------------------------------------------

    def _of_events(self, path: Path) -> Iterator[Launch | BadRow]:
        """Starts and stops. A server runs when its start is logged: when it was asked for is not known more exactly."""
        launched: dict[tuple[str, str], Launch] = {}
        latest: dict[tuple[str, str], datetime] = {}
        try:
            with path.open(encoding="utf-8") as stream:
                for number, line in enumerate(stream, 1):
                    if not line.strip():
                        continue
                    try:
                        action, server, at = _event(line)
                        if at > self.now or at < latest.get(server, at):
                            raise ValueError(
                                f"found {at.isoformat()}; allowed: a time that is over, after the server's event before"
                            )
                    except ValueError as error:
                        yield BadRow(f"line {number}", f"{error}")
                        continue
                    latest[server] = at
                    before = launched.pop(server, None)
                    if before is not None:
                        # The hub does not log the end of a server whose node dies.
                        yield replace(before, ended=at, end_is_estimate=action != "stop")
                    if action == "start":
                        launched[server] = replace(self._new(*server, at), running=at)
        except UnicodeDecodeError:
            raise SourceError(f"{path}: is not UTF-8 text") from None
        yield from launched.values()


def _event(line: str) -> tuple[str, tuple[str, str], datetime]:
    """Action, user and server, and time.

    Raises
    ------
    ValueError
        With what was found, and what is allowed.
    """
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"found {quoted(line.strip())}; allowed: an event as JSON") from None
    if not isinstance(event, Mapping):
        raise ValueError(f"found {quoted(event)}; allowed: an event as a JSON object")
    action, user, server = (event.get(name, "") for name in ("action", "username", "servername"))
    if action not in ("start", "stop") or not isinstance(user, str) or not user or not isinstance(server, str):
        raise ValueError(f"found {quoted(event)}; allowed: action start or stop, username, servername")
    stamp = str(next((event[name] for name in _TIMESTAMPS if name in event), ""))
    # The hub's library writes an offset and a Z besides.
    stamp = stamp.replace("+00:00Z", "Z")
    return action, (user, server), parsed_time(stamp, UTC)


def _users_of_file(path: Path) -> list[Any]:
    found: list[Any] = read_json(str(path))
    return found


def _connected(url: str) -> Any:
    """A connection to the hub's database, which is not changed."""
    try:
        parsed = parsed_url(url)
    except HistoryUrlError as error:
        raise SourceError(f"{_shown(url)}: allowed: {error}") from None
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or not Path(parsed.database).is_file():
            raise SourceError(f"{_shown(url)}: there is no such file")
        parsed = parsed.set(database=f"file:{parsed.database}", query={"mode": "ro", "uri": "true"})
    return create_engine(parsed, hide_parameters=True).connect()


def _shown(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url.partition(":")[0]


def _profile_of(options: Any) -> str:
    """The profile that KubeSpawner was asked for."""
    if isinstance(options, str):
        try:
            options = json.loads(options)
        except (ValueError, RecursionError):
            return ""
    profile = options.get("profile") if isinstance(options, Mapping) else None
    return profile if isinstance(profile, str) else ""
