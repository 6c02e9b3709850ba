"""One kind of object, followed for as long as the program runs: listed once, then watched.

Objects stay the JSON of the API; who is told of them takes out what is needed and lets go of the rest. Of each object
an informer itself remembers only uid and version, so that a list that is read again is passed on as what is different.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final, NamedTuple, NoReturn, Protocol, TypeVar

from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, ResourceExpired, WatchEventType, resource_path
from dra_spawner.simulator.claims import ObjectKey

__all__ = [
    "Informer",
    "InformerEnded",
    "InformerSettings",
    "InformerState",
    "InformerStatus",
    "Receiver",
    "Resource",
    "missing_rule",
    "wait_informers_ended",
]

log = logging.getLogger(__name__)

T = TypeVar("T")

_OBJECTS_A_TURN: Final = 20
"""Of a list, between two chances for others in the event loop."""
_SHORT_WATCH_SECONDS: Final = 1.0
"""A watch that ends sooner, without a word, is no success."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection of the API, in all namespaces, or one object of it."""

    kind: str
    group_version: str
    """As in ``apiVersion``."""
    plural: str
    namespace: str = ""
    name: str = ""
    """Only the object of this name, which is to be in `namespace`."""

    @property
    def path(self) -> str:
        return resource_path(self.group_version, self.plural, self.namespace or None)

    @property
    def field_selector(self) -> str:
        return f"metadata.name={self.name}" if self.name else ""

    @property
    def group(self) -> str:
        """Empty for the core group."""
        return self.group_version.rpartition("/")[0]

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Receiver(Protocol):
    """Who is told of the objects. A method that raises costs this one object, which `InformerStatus.problem` names."""

    def put(self, obj: JsonObject) -> None:
        """An object is new, or has changed."""

    def remove(self, key: ObjectKey) -> None:
        """An object that was told of is gone."""


@dataclass(frozen=True, slots=True)
class InformerSettings:
    """How an informer asks; durations in seconds."""

    page_size: int = 200
    list_timeout_seconds: float = 60.0
    """For each page."""
    watch_seconds: int = 30
    """After so long a watch is begun anew. With nothing to report that is how old the knowledge gets, and (10 s later)
    when a connection is found to be dead that nobody closed. 30 s cost the API server 0.2 requests a second in all."""
    first_delay_seconds: float = 0.5
    longest_delay_seconds: float = 30.0
    """Between two tries while the API server fails: the delay doubles from `first_delay_seconds`, and half of it is
    left to chance."""
    off_delay_seconds: float = 300.0
    """Until it is looked again whether the cluster serves the resource by now."""


class InformerEnded(Exception):
    """An informer follows its collection no longer; the cause is the error that ended it."""


class InformerState(StrEnum):
    """What an informer is about."""

    LISTING = "listing"
    WATCHING = "watching"
    WAITING = "waiting"  # after something went wrong
    OFF = "off"  # the cluster does not serve the resource


@dataclass(frozen=True, slots=True)
class InformerStatus:
    """What people are told of an informer."""

    resource: str
    state: InformerState
    synced: bool
    """Whether everything was seen once, or there is nothing to see (`InformerState.OFF`)."""
    staleness_seconds: float
    """How long ago it was last known that nothing is missing; infinite before that."""
    objects: int
    problem: str
    """What went wrong last, and what to do about it; empty while all is well."""
    lists: int
    events: int


class _Version(NamedTuple):
    uid: str
    resource_version: str


class Informer:
    """Follows one collection, and tells a receiver of every object that comes, changes and goes.

    It never gives up: a broken watch goes on where it ended, or all is listed again. How old its knowledge is by then,
    `staleness_seconds` tells.

    Parameters
    ----------
    api
        Its account must be allowed to ``list`` and ``watch`` the resource.
    clock
        Seconds that only go forward.
    on_absent
        Called when it turns out that the cluster does not serve the resource.
    """

    def __init__(
        self,
        api: KubernetesApi,
        resource: Resource,
        receiver: Receiver,
        *,
        settings: InformerSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        on_absent: Callable[[Resource], None] = lambda resource: None,
    ) -> None:
        self.resource = resource
        self._on_absent = on_absent
        self._api = api
        self._receiver = receiver
        self._settings = settings or InformerSettings()
        self._clock = clock
        self._random = random or Random()  # noqa: S311 (jitter)
        self._known: dict[ObjectKey, _Version] = {}
        self._resource_version: str | None = None
        self._complete_at = -math.inf
        self._synced = asyncio.Event()
        self._state = InformerState.LISTING
        self._problem = ""
        self._not_taken: dict[ObjectKey, str] = {}
        self._failures = 0
        self._lists = 0
        self._events = 0

    @property
    def synced(self) -> bool:
        """Whether everything was seen once, or there is nothing to see."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str | None:
        """Up to where everything was seen; None while that is not known."""
        return self._resource_version

    def staleness_seconds(self) -> float:
        """How long ago it was last known that nothing is missing; infinite before that, 0 if there is nothing."""
        return 0.0 if self._state is InformerState.OFF else self._clock() - self._complete_at

    @property
    def status(self) -> InformerStatus:
        return InformerStatus(
            resource=str(self.resource),
            state=self._state,
            synced=self.synced,
            staleness_seconds=self.staleness_seconds(),
            objects=len(self._known),
            problem=self._problem or next(iter(self._not_taken.values()), ""),
            lists=self._lists,
            events=self._events,
        )

    async def wait_synced(self) -> None:
        """Wait until the first list has been taken over."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the collection until cancelled.

        Ends by an error only if there is one that nobody thought of: `ClusterWatch.wait_ended` passes it on.
        """
        while True:
            delay = 0.0
            try:
                if self._resource_version is None:
                    await self._list()
                await self._watch(self._resource_version)
            except ResourceExpired as error:
                # Once is nothing to worry about; again at once means that lists take longer than the server remembers.
                log.info("Listing again: resource=%s because=%s", self.resource, error.message)
                self._resource_version = None
                delay = self._delay() if self._failures else 0.0
                self._failures += 1
            except KubernetesError as error:
                delay = self._failed(error)
            except (KeyError, TypeError, AttributeError, ValueError):
                # An answer that is no list or object of the API: whatever answered, it may be itself again later.
                log.exception("Cannot follow %s: an answer makes no sense.", self.resource)
                self._state, self._problem = InformerState.WAITING, "an answer of the API server makes no sense"
                self._resource_version = None
                delay = self._delay()
                self._failures += 1
            await asyncio.sleep(delay)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        """Read everything, and pass on what is different from what was known."""
        self._state = InformerState.LISTING
        started, version = self._clock(), ""
        gone = set(self._known)
        pages = self._api.list_pages(
            self.resource.path,
            field_selector=self.resource.field_selector,
            page_size=self._settings.page_size,
            timeout_seconds=self._settings.list_timeout_seconds,
        )
        async with aclosing(pages):
            async for page in pages:
                version = version or page["metadata"].get("resourceVersion", "")
                for number, item in enumerate(page.get("items") or (), start=1):
                    key = self._put(item)
                    if key is not None:
                        gone.discard(key)
                    if number % _OBJECTS_A_TURN == 0:
                        await asyncio.sleep(0)
        for key in gone:
            self._remove(key)
        self._lists += 1
        self._resource_version = version
        self._is_complete(started)

    async def _watch(self, version: str | None) -> None:
        """Pass on changes until the server ends the watch."""
        heard, opened = 0, self._clock()
        seconds = self._settings.watch_seconds
        events = self._api.watch(
            self.resource.path,
            field_selector=self.resource.field_selector,
            resource_version=version,
            bookmarks=True,
            watch_seconds=max(1, round(seconds * self._random.uniform(0.8, 1.2))),
            on_open=lambda: self._is_complete(self._clock()),
        )
        async with aclosing(events):
            async for event_type, obj in events:
                heard += 1
                if event_type is WatchEventType.DELETED:
                    self._events += 1
                    self._remove(_identity(obj)[0])
                elif event_type is not WatchEventType.BOOKMARK:
                    self._events += 1
                    self._put(obj)
                self._resource_version = obj["metadata"]["resourceVersion"]
                self._failures = 0
                self._is_complete(self._clock())
        if not heard and self._clock() - opened < min(_SHORT_WATCH_SECONDS, seconds / 2):
            self._failures += 1
            await asyncio.sleep(self._delay())
        else:
            self._failures = 0

    def _is_complete(self, at: float) -> None:
        if self._problem:
            log.info("All is well again: resource=%s", self.resource)
        self._complete_at = max(self._complete_at, at)
        self._state = InformerState.WATCHING
        self._problem = ""
        self._synced.set()

    def _put(self, item: JsonObject) -> ObjectKey | None:
        """Pass an object on, unless it is known in this version; None if it has no name."""
        try:
            key, version = _identity(item)
        except (KeyError, TypeError, AttributeError):
            log.warning("An object without a name is passed over: resource=%s", self.resource)
            return None
        known = self._known.get(key)
        if known == version:
            return key
        if known is not None and known.uid != version.uid:
            # Deleted and made again while nobody looked: another object, though of the same name.
            self._tell(key, self._receiver.remove, key)
        self._known[key] = version
        if "kind" not in item:  # as in lists
            item = {"apiVersion": self.resource.group_version, "kind": self.resource.kind, **item}
        self._tell(key, self._receiver.put, item)
        return key

    def _remove(self, key: ObjectKey) -> None:
        if self._known.pop(key, None) is not None:
            self._tell(key, self._receiver.remove, key)

    def _tell(self, key: ObjectKey, tell: Callable[[T], None], what: T) -> None:
        """Tell the receiver; nothing that somebody puts into one object may stop what is told of the others."""
        if self._not_taken:
            self._not_taken.pop(key, None)
        try:
            tell(what)
        except Exception as error:
            log.exception("An object cannot be taken in: kind=%s key=%s", self.resource.kind, key)
            problem = f"{self.resource.kind} {key} cannot be taken in ({type(error).__name__}: {str(error)[:200]})"
            self._not_taken[key] = problem

    # --- trouble -----------------------------------------------------------------------------------------------------

    def _failed(self, error: KubernetesError) -> float:
        """Take note of an error; how long to wait."""
        if error.not_found and error.verb in ("list", "watch"):
            return self._is_absent()
        problem = missing_rule(self.resource, error) if error.status == 403 else str(error)
        if problem != self._problem:
            log.warning("Cannot follow %s: %s", self.resource, problem)
        self._state, self._problem = InformerState.WAITING, problem
        delay = self._delay()
        self._failures += 1
        return max(delay, error.retry_after_seconds or 0.0)

    def _is_absent(self) -> float:
        """The cluster does not serve the resource (any more): there is nothing to see."""
        if self._state is not InformerState.OFF:
            self._on_absent(self.resource)
        for key in list(self._known):
            self._remove(key)
        self._resource_version = None
        self._state = InformerState.OFF
        self._problem = f"the cluster does not serve {self.resource.plural} of {self.resource.group_version}"
        self._failures = 0
        self._synced.set()
        return self._settings.off_delay_seconds * self._random.uniform(0.9, 1.1)

    def _delay(self) -> float:
        settings = self._settings
        longest = min(settings.longest_delay_seconds, settings.first_delay_seconds * 2.0 ** min(self._failures, 16))
        return longest * self._random.uniform(0.5, 1.0)


async def wait_informers_ended(tasks: Collection[asyncio.Task[None]]) -> NoReturn:
    """Wait until one of the tasks that run informers ends, and raise `InformerEnded` with the cause."""
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    task = next(iter(ended))
    cause = None if task.cancelled() else task.exception()
    raise InformerEnded(f"the {task.get_name()} has ended") from cause


def missing_rule(resource: Resource, error: KubernetesError) -> str:
    """What to grant when the account may not list and watch: a rule of a role, ready to be copied."""
    names = f", resourceNames: [{resource.name}]" if resource.name else ""
    rule = f'{{apiGroups: ["{resource.group}"], resources: [{resource.plural}]{names}, verbs: [list, watch]}}'
    role = f"rule {rule} in namespace {resource.namespace}" if resource.namespace else f"ClusterRole rule {rule}"
    return f"its account lacks the {role} (the API server says: {error.message})"


def _identity(obj: JsonObject) -> tuple[ObjectKey, _Version]:
    metadata = obj["metadata"]
    key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
    if not (isinstance(key.name, str) and isinstance(key.namespace, str)):
        raise TypeError("metadata.name and metadata.namespace must be strings")
    return key, _Version(metadata.get("uid", ""), metadata.get("resourceVersion", ""))
