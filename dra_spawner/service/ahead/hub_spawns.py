"""Servers that the hub is starting, read from its REST API: they have no pod yet, so the cluster does not show them.

The hub has no filter for them. ``state=active`` lists users with a server that runs, starts or ends, in pages. A
starting server has ``pending: "spawn"``, from the user's click until the server answers. The service's role in the hub
needs the scopes ``list:users`` and ``read:servers``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

import aiohttp
from jupyterhub.services.auth import HubOAuth
from jupyterhub.utils import make_ssl_context

from dra_spawner import names
from dra_spawner.common.project_links import where
from dra_spawner.kube.cluster_watch import Change, ChangeType
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.placeholders.planner.targets.spawn_counts import (
    Choices,
    KnownServers,
    PendingSpawn,
    ServerName,
    count_spawns,
)
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

log = logging.getLogger(__name__)

#: Pause after an answer with servers that are starting and have no pod.
_INTERVAL_SECONDS: Final = 5.0
#: Longest pause after answers without such servers; a new pod ends it. Each question is a line in the hub's log. A hook
#: of the hub may hold back all pods, so it is asked at all; see `_FORM_SECONDS`.
_IDLE_SECONDS: Final = 120.0
#: Time without a question of a spawn form after which the last form counts as sent or left, and its limit: forms of
#: others go on. A start that a hook of the hub holds back has no pod, and its form is the only sign of it.
_FORM_SECONDS: Final = 10.0
_LONGEST_FORM_SECONDS: Final = 60.0
#: Pause after a failure.
_RETRY_SECONDS: Final = 60.0
#: The hub is one process, so the pause is at least this many times as long as the last answer took.
_PAUSE_FACTOR: Final = 20
#: Age from which an answer does not count any more.
_LONGEST_AGE_SECONDS: Final = 120.0
_COUNT_SECONDS: Final = 1.0
_TIMEOUT_SECONDS: Final = 20.0
_PAGE: Final = 200
_MAX_PAGES: Final = 500
_MAX_BYTES: Final = 32 * 2**20
_PAGINATED: Final = "application/jupyterhub-pagination+json"
_NO_RIGHT: Final = (
    "the hub refuses it; the service's role there needs the scopes list:users and read:servers "
    f"({where('helm-values/full.yaml')})"
)


class _Unusable(Exception):
    """Raised for an answer that cannot be used; the message is a part of a sentence."""


class _Refused(_Unusable):
    """Raised where the service lacks a scope."""


class HubSpawns:
    """Numbers of servers that the hub is starting.

    Parameters
    ----------
    api_url, token
        Address of the hub's REST API, and a token for it.
    published
        Returns the shapes of the hub's choices.
    known
        Returns the servers that the cluster shows.
    encryption
        Certificates of a hub with ``internal_ssl``.
    interval_seconds, idle_seconds
        Pause after an answer, and its limit, to which it doubles after answers without servers that have no pod.
    form_seconds
        Time after the last question of a spawn form, until the hub is asked.
    now
        Returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        api_url: str,
        token: str,
        published: Callable[[], PublishedShapes],
        known: Callable[[], KnownServers],
        *,
        encryption: ssl.SSLContext | None = None,
        interval_seconds: float = _INTERVAL_SECONDS,
        idle_seconds: float = _IDLE_SECONDS,
        form_seconds: float = _FORM_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = f"{api_url.rstrip('/')}/users"
        self._token = token
        self._published = published
        self._known = known
        self._encryption = encryption
        self._interval_seconds = interval_seconds
        self.idle_seconds = idle_seconds
        self._form_seconds = form_seconds
        self._form_since = 0.0
        self._form_timer: asyncio.TimerHandle | None = None
        self._now = now
        self._servers: dict[ServerName, object] = {}
        self._asked_at: float | None = None
        self._problem = ""
        self._choices: tuple[PublishedShapes, Choices] | None = None
        self._counted: tuple[float, Counter[str]] | None = None
        self._new_pod = asyncio.Event()

    @classmethod
    def of(cls, hub: HubOAuth, controller: ScaleAheadController) -> Self:
        """The servers of the hub to which a service belongs."""
        encryption = make_ssl_context(hub.keyfile, hub.certfile, cafile=hub.client_ca)
        found = cls(
            hub.api_url,
            hub.api_token,
            lambda: controller.published,
            lambda: known_servers(controller),
            encryption=encryption,
        )

        def note(change: Change) -> None:
            if change.kind is Kind.POD and change.type is ChangeType.ADDED:
                pod = controller.watch.snapshot.pods.get(change.key)
                if pod is not None and not pod.node_name and controller.launch_waits.is_server(pod):
                    found.note_new_pod()

        controller.watch.on_change(note)
        return found

    def note_new_pod(self) -> None:
        """Note that the hub has made a pod: it may be starting further servers, and is asked soon."""
        self._new_pod.set()

    def note_form(self) -> None:
        """Note that a spawn form is open: the hub is asked after it was sent or left."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._form_timer is None:
            self._form_since = now
        else:
            self._form_timer.cancel()
        at = min(now + self._form_seconds, self._form_since + _LONGEST_FORM_SECONDS)
        self._form_timer = loop.call_at(at, self._note_left_form)

    def _note_left_form(self) -> None:
        self._form_timer = None
        self._new_pod.set()

    def pending(self, choice: str) -> int:
        """Number of starting servers of a choice without a pod and without a reserved placeholder.

        The slug of a profile means its default choice.
        """
        counts = self._counts()
        name = find_choice(choice, counts)
        return counts[name] if name is not None else 0

    def problems(self) -> tuple[str, ...]:
        """Why starting servers are not counted, as sentences."""
        if not self._problem:
            return ()
        return (f"Servers that the hub is starting are not counted; all else works: {self._problem}.",)

    async def run(self) -> None:
        """Ask the hub while it starts servers, until cancelled; seldom while it does not.

        The first server of a rush has its pod within a second, which the watch shows. Only the hub knows the servers
        behind it that have none.
        """
        pause = 0.0
        while True:
            self._new_pod.clear()
            began = self._now()
            try:
                await self.refresh()
            except Exception:  # a defect here must not end the service, and the next answer may be better
                log.exception("The hub's pending spawns are not read")
            least = _RETRY_SECONDS if self._problem else self._interval_seconds
            await asyncio.sleep(max(least, _PAUSE_FACTOR * (self._now() - began)))
            is_busy = bool(self._problem or self._counts() or self._new_pod.is_set())
            pause = 0.0 if is_busy else min(2 * pause + self._interval_seconds, self.idle_seconds)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._new_pod.wait()
                    pause = 0.0

    async def refresh(self) -> None:
        """Ask the hub once. After a failure the last answer counts for two minutes, and `problems` has the cause."""
        try:
            servers = await self._read()
        except _Refused as error:
            # The right was withdrawn, so the last answer must not be used any more.
            self._servers, self._asked_at, problem = {}, None, str(error)
        except (OSError, aiohttp.ClientError, TimeoutError, _Unusable) as error:
            problem = _cause(error)
        else:
            self._servers, self._asked_at, problem = servers, self._now(), ""
        self._counted = None
        if problem and problem != self._problem:
            log.warning("The hub's pending spawns are not counted: %s", problem)
        self._problem = problem

    def _counts(self) -> Counter[str]:
        now = self._now()
        if self._asked_at is None or now - self._asked_at > _LONGEST_AGE_SECONDS:
            return Counter()
        if self._counted is None or not 0 <= now - self._counted[0] < _COUNT_SECONDS:
            self._counted = now, self._count()
        return self._counted[1]

    def _count(self) -> Counter[str]:
        if not self._servers:
            return Counter()
        published = self._published()
        if self._choices is None or self._choices[0] is not published:
            self._choices = published, Choices(published.shapes, published.skipped)
        choices = self._choices[1]
        spawns = (PendingSpawn(name, choices.of(options)) for name, options in self._servers.items())
        return count_spawns(spawns, self._known())

    # --- the hub ------------------------------------------------------------------------------------------------------

    async def _read(self) -> dict[ServerName, object]:
        """Options of each server that is starting."""
        found: dict[ServerName, object] = {}
        headers = {"Authorization": f"token {self._token}", "Accept": _PAGINATED, "Accept-Encoding": "identity"}
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        connector = aiohttp.TCPConnector(ssl=self._encryption) if self._encryption is not None else None
        async with aiohttp.ClientSession(
            headers=headers, timeout=timeout, connector=connector, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            offset = 0
            for _ in range(_MAX_PAGES):
                page = await self._page(session, offset)
                found.update(_starting(page))
                following = _next_offset(page, offset)
                if following is None:
                    return found
                offset = following
        raise _Unusable(f"the hub has more than {_MAX_PAGES} pages of users")

    async def _page(self, session: aiohttp.ClientSession, offset: int) -> Any:
        query = {"state": "active", "limit": str(_PAGE), "offset": str(offset)}
        async with session.get(self._url, params=query, allow_redirects=False) as answer:
            if answer.status in (401, 403):
                raise _Refused(_NO_RIGHT)
            if answer.status != 200:
                raise _Unusable(f"the hub answers with status {answer.status}")
            content = b""
            while len(content) <= _MAX_BYTES and (more := await answer.content.read(_MAX_BYTES + 1 - len(content))):
                content += more
        if len(content) > _MAX_BYTES:
            raise _Unusable(f"the hub answers with more than {_MAX_BYTES // 2**20} MiB")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise _Unusable("the hub's answer is not JSON") from None


def _items(page: object) -> list[Any]:
    items = page.get("items") if isinstance(page, dict) else page
    if not isinstance(items, list):
        raise _Unusable("the hub's answer is not a list of users")
    return items


def _starting(page: object) -> Iterator[tuple[ServerName, object]]:
    """Users' servers of a page that are starting, with their options."""
    for user in _items(page):
        name = user.get("name") if isinstance(user, dict) else None
        if not isinstance(name, str):
            raise _Unusable("the hub's answer has a user without a name")
        if "servers" not in user:
            raise _Refused(_NO_RIGHT)
        servers = user["servers"]
        for server, model in servers.items() if isinstance(servers, dict) else ():
            if not isinstance(model, dict) or model.get("pending") != "spawn":
                continue
            options = model.get("user_options")
            if not (isinstance(options, dict) and options.get(names.TRIAL_OPTION)):
                yield ServerName(name, server), options


def _next_offset(page: object, offset: int) -> int | None:
    """Offset of the next page; None after the last one."""
    pagination = page.get("_pagination") if isinstance(page, dict) else None
    following = pagination.get("next") if isinstance(pagination, dict) else None
    found = following.get("offset") if isinstance(following, dict) else None
    return found if isinstance(found, int) and found > offset else None


def _cause(error: Exception) -> str:
    match error:
        case _Unusable():
            return str(error)
        case TimeoutError():
            return f"the hub does not answer within {_TIMEOUT_SECONDS:g} s"
        case OSError() if error.strerror:
            return f"the hub cannot be reached: {error.strerror}"
    return f"the hub cannot be reached: {type(error).__name__}"


# --- the cluster ------------------------------------------------------------------------------------------------------


def known_servers(controller: ScaleAheadController) -> KnownServers:
    """Servers with a pod, by the names in KubeSpawner's annotations, and reservations of servers without a pod."""
    view = controller.view()
    with_pod = set()
    for key, pod in view.users.items():
        observed = controller.watch.observed(Kind.POD, key)
        if observed is not None and not pod.is_deleted:
            annotations = observed.annotations
            with_pod.add(ServerName(annotations.get(names.USERNAME, ""), annotations.get(names.SERVERNAME, "")))
    reserved = [
        controller.names_of(placeholder.shape)
        for placeholder in view.placeholders.values()
        if placeholder.reservation is not None
        and ObjectKey(placeholder.pod.namespace, placeholder.reservation.pod) not in view.users
    ]
    return KnownServers(with_pod, reserved)
