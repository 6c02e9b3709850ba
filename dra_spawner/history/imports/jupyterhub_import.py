"""Launches from JupyterHub's own records.

JupyterHub's database and its REST API have only the running servers, each with the time of its start. Its event log
(``c.EventLogger.handlers``) has each successful start and each stop by the hub. A hub has no other history, and this
one only if an administrator has configured it.
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
from sqlalchemy.exc import SQLAlchemyError

from dra_spawner.history.connecting import HistoryUrlError, parsed_url, url_without_password
from dra_spawner.history.imports.http_source import hub_items, is_http, read_json, read_token
from dra_spawner.history.imports.imported_rows import BadRow, SourceError, misordered, parsed_time, quoted
from dra_spawner.history.imports.limited_lines import TooManyLines, limited_lines
from dra_spawner.history.records import Launch
from dra_spawner.history.user_names import UserNames

_SOURCE: Final = "jupyterhub"
_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_TIMESTAMPS: Final = ("__timestamp__", "timestamp")


@dataclass(frozen=True)
class JupyterHubSource:
    """A source of JupyterHub's records; its kind is recognized by its form.

    Attributes
    ----------
    source
        URL of the REST API (``https://hub.example.org/hub/api``), URL or SQLite file of the hub's database, file with
        the answer to ``GET /users``, or file of the event log.
    names
        Makes identifiers of launches.
    now
        Present time; later launches are bad rows.
    token_file
        File with a token for the REST API, with the scopes ``list:users`` and ``read:servers``.
    profile
        Profile of launches without one.
    """

    source: str
    names: UserNames
    now: datetime
    token_file: str = ""
    profile: str = ""

    def rows(self) -> Iterator[Launch | BadRow]:
        """Launches and bad rows of the source.

        Raises
        ------
        SourceError
            If the source cannot be read.
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
        """Numbered users of the REST API, read in pages."""
        return enumerate(hub_items(self.source, "users", read_token(self.token_file), "state=active"), 1)

    def _of_users(self, users: Iterator[tuple[int, Any]]) -> Iterator[Launch | BadRow]:
        for number, user in users:
            name = user.get("name") if isinstance(user, dict) else None
            servers = user.get("servers", {}) if isinstance(user, dict) else None
            if not isinstance(name, str) or not isinstance(servers, dict):
                yield BadRow(f"user {number}", f"found {quoted(user)}; allowed: a user with name and servers")
                continue
            for server, model in servers.items():
                started = model.get("started") if isinstance(model, dict) else None
                if started is None or (isinstance(model, dict) and model.get("stopped")):
                    continue
                yield self._launch(f"user {number}", name, server, started, model.get("user_options"))

    def _of_database(self, url: str) -> Iterator[Launch | BadRow]:
        """Running servers in the hub's database; its times are UTC without a zone."""
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
            raise SourceError(f"{url_without_password(url)}: JupyterHub's tables cannot be read: {cause}") from None

    def _launch(self, location: str, user: str, server: str, started: Any, options: Any) -> Launch | BadRow:
        try:
            asked = parsed_time(str(started))
        except ValueError as error:
            return BadRow(location, f"started: {error}")
        launch = replace(self._new(user, server, asked), profile=_profile_of(options) or self.profile)
        problem = misordered(launch, self.now)
        return BadRow(location, problem) if problem else launch

    def _new(self, user: str, server: str, asked: datetime) -> Launch:
        identity = self.names.hash("\0".join((user, server, asked.isoformat())))
        return Launch(f"{_SOURCE}-{identity}", asked, self.profile, user=user, source=_SOURCE)

    # --- the event log ------------------------------------------------------------------------------------------------

    def _of_events(self, path: Path) -> Iterator[Launch | BadRow]:
        """Launches from starts and stops. The hub logs a start when the server runs; there is no earlier time of it."""
        launched: dict[tuple[str, str], Launch] = {}
        latest: dict[tuple[str, str], datetime] = {}
        try:
            with path.open(encoding="utf-8") as stream:
                for number, line in enumerate(limited_lines(stream), 1):
                    if not line.strip():
                        continue
                    try:
                        action, server, at = _event(line)
                        if at > self.now or at < latest.get(server, at):
                            raise ValueError(
                                f"found {at.isoformat()}; allowed: a past time, after the server's previous event"
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
        except TooManyLines as error:
            raise SourceError(f"{path}: {error}") from None
        yield from launched.values()


def _event(line: str) -> tuple[str, tuple[str, str], datetime]:
    """Action, user and server, and time of an event.

    Raises
    ------
    ValueError
        If the line is not an event; with the found and the allowed value.
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
    # The hub's library writes both an offset and a Z.
    stamp = stamp.replace("+00:00Z", "Z")
    return action, (user, server), parsed_time(stamp, UTC)


def _users_of_file(path: Path) -> list[Any]:
    found: list[Any] = read_json(str(path))
    return found


def _connected(url: str) -> Any:
    """A read-only connection to the hub's database."""
    try:
        parsed = parsed_url(url)
    except HistoryUrlError as error:
        raise SourceError(f"{url_without_password(url)}: allowed: {error}") from None
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or not Path(parsed.database).is_file():
            raise SourceError(f"{url_without_password(url)}: the file does not exist")
        parsed = parsed.set(database=f"file:{parsed.database}", query={"mode": "ro", "uri": "true"})
    return create_engine(parsed, hide_parameters=True).connect()


def _profile_of(options: Any) -> str:
    """The profile in the user's options of KubeSpawner; empty without one."""
    if isinstance(options, str):
        try:
            options = json.loads(options)
        except (ValueError, RecursionError):
            return ""
    profile = options.get("profile") if isinstance(options, Mapping) else None
    return profile if isinstance(profile, str) else ""
