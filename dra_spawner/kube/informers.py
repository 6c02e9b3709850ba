"""Informers: each lists one collection, then watches it for as long as the program runs.

Objects stay the JSON of the API; the receiver keeps what it needs of them. An informer itself remembers uid and version
of each object, so that it passes on only the differences when it lists again.

A failure removes no object. Only a deletion in a watch does, and a list of this kind that is newer than all before.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final, NamedTuple, NoReturn, Protocol, TypeVar

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.answer_checks import AnswerChecks, WrongAnswer
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, ResourceExpired, WatchEventType
from dra_spawner.kube.client.discovery import is_absent, served_version
from dra_spawner.kube.client.versions import is_older
from dra_spawner.kube.resource import Resource
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Knowledge

log = logging.getLogger(__name__)

T = TypeVar("T")

_OBJECTS_A_TURN: Final = 20
"""Objects of a list that are taken in before the event loop gets a turn."""
_SHORT_WATCH_SECONDS: Final = 1.0
"""A watch that ends sooner, without an event, counts as a failure; the next one must last so long to count."""


class Receiver(Protocol):
    """Takes in the objects. If a method raises, only that object is lost, and `InformerStatus.problem` names it."""

    def put(self, obj: JsonObject) -> None:
        """An object is new, or has changed."""

    def remove(self, key: ObjectKey) -> None:
        """A known object is gone."""


@dataclass(frozen=True, slots=True)
class InformerSettings:
    """Page size and durations of an informer."""

    page_size: int = 200
    list_timeout_seconds: float = 60.0
    """For each page."""
    watch_seconds: int = 10
    """Longest duration of a watch. Without changes the data get this old: a watch that begins anew is the heartbeat of
    the API server. It costs the API server 0.1 requests a second for each collection."""
    grace_seconds: float = 4.5
    """Seconds after the end of a watch until its connection counts as dead: at most 15 s after the last news."""
    first_delay_seconds: float = 0.5
    longest_delay_seconds: float = 10.0
    """Limit of the delay after failures, which doubles from `first_delay_seconds`; half of it is random. Not longer
    than a watch: a collection that fails costs the API server no more than one that works, and pages find back soon."""
    relist_seconds: float = 30.0
    """Age of the data from which on everything is listed again. The cluster may have been restored from a backup
    meanwhile: a watch would go on in another history, and objects that are no more would stay."""
    off_delay_seconds: float = 300.0
    """Before the next look whether the cluster serves the resource."""


class InformerEnded(Exception):
    """An informer has ended; its error is the cause."""


class InformerState(StrEnum):
    """What an informer does now."""

    LISTING = "listing"
    WATCHING = "watching"
    WAITING = "waiting"  # after something went wrong
    OFF = "off"  # the cluster does not serve the resource


@dataclass(frozen=True, slots=True)
class InformerStatus:
    """State of an informer, for people."""

    resource: str
    state: InformerState
    synced: bool
    """Whether everything was listed once, or the cluster serves no such resource (`InformerState.OFF`)."""
    staleness_seconds: float
    """Seconds since the data were last known to be complete; infinite before that."""
    objects: int
    problem: str
    """The last failure and what to do about it; empty without one."""
    lists: int
    events: int


class _Version(NamedTuple):
    uid: str
    resource_version: str


class Informer:
    """Follows one collection, and notifies a receiver of every new, changed and removed object.

    It never gives up: a broken watch goes on where it ended, or everything is listed again, as after an outage.
    `staleness_seconds` is the age of the data meanwhile.

    Parameters
    ----------
    api
        Its account must be allowed to ``list`` and ``watch`` the resource.
    clock
        Monotonic seconds.
    may_be_absent
        Whether a cluster may not serve the resource, as discovery says (`is_absent`). What was listed once is never
        absent.
    on_absent
        Called when the cluster turns out not to serve the resource.
    versions
        API versions of the resource; if its own is not served, the first one that discovery names is followed.
    needs_right
        Whether nothing is complete without the right to list it. Without this need, what the account may not list
        counts as absent, and is a problem.
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
        may_be_absent: bool = False,
        on_absent: Callable[[Resource], None] = lambda resource: None,
        versions: Sequence[str] = (),
        needs_right: bool = True,
    ) -> None:
        self.resource = resource
        self._versions = tuple(versions)
        self._needs_right = needs_right
        self._is_forbidden = False
        self._may_be_absent = may_be_absent
        self._on_absent = on_absent
        self._api = api
        self._receiver = receiver
        self._settings = settings or InformerSettings()
        self._clock = clock
        self._random = random or Random()  # noqa: S311 (jitter)
        self._known: dict[ObjectKey, _Version] = {}
        self._resource_version: str | None = None
        self._checks = AnswerChecks(resource.kind, resource.plural)
        self._is_doubtful = False
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
        """Whether everything was listed once, or the cluster serves no such resource."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str | None:
        """Version up to which everything was seen; None while unknown."""
        return self._resource_version

    @property
    def knowledge(self) -> Knowledge:
        """Whether an object that was not passed on does not exist."""
        if self._is_without:
            return Knowledge.ABSENT
        return Knowledge.KNOWN if self._state is InformerState.WATCHING else Knowledge.UNKNOWN

    def staleness_seconds(self) -> float:
        """Seconds since the data were complete; infinite before that, 0 if there are none to follow."""
        return 0.0 if self._is_without else self._clock() - self._complete_at

    @property
    def _is_without(self) -> bool:
        """Whether everything goes on without the resource: it is not served, or the account may not list it."""
        return self._state is InformerState.OFF or self._is_forbidden

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
        """Wait until the first list was taken in."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the collection until cancelled.

        Raises only by a mistake of this program; `ClusterWatch.wait_ended` passes the error on.
        """
        while True:
            delay = 0.0
            try:
                if self._resource_version is None or self.staleness_seconds() > self._settings.relist_seconds:
                    await self._list()
                await self._watch(self._resource_version)
            except ResourceExpired as error:
                # Once is normal. Again at once means that lists take longer than the server keeps a version.
                log.info("Listing again: resource=%s because=%s", self.resource, error.message)
                self._resource_version = None
                delay = self._delay() if self._failures else 0.0
                self._failures += 1
            except KubernetesError as error:
                delay = await self._note_error(error)
            except WrongAnswer as error:
                delay = self._note_failure(str(error))
            except (KeyError, TypeError, AttributeError, ValueError):
                # The answer is no list or object of the API, for example a proxy's: try again later.
                log.exception("Cannot follow %s: an answer is invalid.", self.resource)
                self._resource_version = None
                delay = self._note_failure("an answer of the API server is invalid")
            await asyncio.sleep(delay)

    async def _list(self) -> None:
        """List everything, and pass on the differences."""
        if self._state is not InformerState.OFF:
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
                of_page = self._checks.version_of_list(page)
                version = version or of_page
                for number, item in enumerate(page["items"], start=1):
                    key = self._put(item)
                    if key is not None:
                        gone.discard(key)
                    if number % _OBJECTS_A_TURN == 0:
                        await asyncio.sleep(0)
        self._checks.check_removal(len(gone), len(self._known), version)
        for key in gone:
            self._remove(key)
        self._lists += 1
        self._resource_version = self._checks.newest = version
        self._note_complete(started)

    async def _watch(self, version: str | None) -> None:
        """Pass on changes until the server ends the watch."""
        seconds = self._settings.watch_seconds
        shortest = min(_SHORT_WATCH_SECONDS, seconds / 2)
        heard = 0
        opened: float | None = None
        lasting: asyncio.TimerHandle | None = None

        def note_open() -> None:
            """The server accepts the watch, so everything until now was seen."""
            nonlocal opened, lasting
            opened = self._clock()
            if self._is_doubtful:
                lasting = asyncio.get_running_loop().call_later(shortest, self._note_complete, opened)
            else:
                self._note_complete(opened)

        events = self._api.watch(
            self.resource.path,
            field_selector=self.resource.field_selector,
            resource_version=version,
            bookmarks=True,
            watch_seconds=max(1, round(seconds * self._random.uniform(0.8, 1.0))),
            grace_seconds=self._settings.grace_seconds,
            on_open=note_open,
        )
        try:
            async with aclosing(events):
                async for event_type, obj in events:
                    reached = self._checks.version_of_event(obj)
                    heard += 1
                    if event_type is WatchEventType.DELETED:
                        self._events += 1
                        self._remove(_identity(obj)[0])
                    elif event_type is not WatchEventType.BOOKMARK:
                        self._events += 1
                        self._put(obj)
                    self._resource_version = self._checks.newest = reached
                    self._failures = 0
                    self._note_complete(self._clock())
        finally:
            if lasting is not None:
                lasting.cancel()
            if opened is not None:
                # A load balancer without its servers may accept each watch, and end it.
                self._is_doubtful = not heard and self._clock() - opened < shortest
        if self._is_doubtful:
            self._state = InformerState.WAITING
            self._failures += 1
            await asyncio.sleep(self._delay())
        else:
            self._failures = 0

    def _note_complete(self, at: float) -> None:
        if self._problem:
            log.info("Following again: resource=%s", self.resource)
        self._complete_at = max(self._complete_at, at)
        self._state = InformerState.WATCHING
        self._problem = ""
        self._is_forbidden = False
        self._synced.set()

    def _put(self, item: JsonObject) -> ObjectKey | None:
        """Pass an object on, unless it is known in this version; None if it has no name."""
        try:
            key, version = _identity(item)
        except (KeyError, TypeError, AttributeError):
            log.warning("An object without a name is ignored: resource=%s", self.resource)
            return None
        known = self._known.get(key)
        if known == version:
            return key
        is_restored = known is not None and is_older(version.resource_version, known.resource_version)
        if known is not None and (known.uid != version.uid or is_restored):
            # Deleted and created again between two lists, or of a backup: another object of the same name.
            self._notify(key, self._receiver.remove, key)
        self._known[key] = version
        if "kind" not in item:  # as in lists
            item = {"apiVersion": self.resource.group_version, "kind": self.resource.kind, **item}
        self._notify(key, self._receiver.put, item)
        return key

    def _remove(self, key: ObjectKey) -> None:
        if self._known.pop(key, None) is not None:
            self._notify(key, self._receiver.remove, key)

    def _notify(self, key: ObjectKey, method: Callable[[T], None], argument: T) -> None:
        """Notify the receiver; one object that it cannot take in must not stop the others."""
        if self._not_taken:
            self._not_taken.pop(key, None)
        try:
            method(argument)
        except Exception as error:
            log.exception("An object cannot be taken in: kind=%s key=%s", self.resource.kind, key)
            problem = f"{self.resource.kind} {key} cannot be taken in ({type(error).__name__}: {str(error)[:200]})"
            self._not_taken[key] = problem

    async def _note_error(self, error: KubernetesError) -> float:
        """Note an error of a request; the seconds to wait."""
        if error.status == 404 and await self._turn_to_served_version():
            return self._delay()
        if error.status == 404 and await self._is_absent():
            return self._note_absence()
        problem = self.resource.missing_rule(error) if error.status == 403 else str(error)
        if error.status == 403 and not self._needs_right and not (self._lists or self._known):
            self._is_forbidden = True
            self._synced.set()
        asked = min(error.retry_after_seconds or 0.0, self._settings.longest_delay_seconds)
        return max(self._note_failure(problem), asked)

    async def _turn_to_served_version(self) -> bool:
        """Follow another API version from now on, if discovery names one; whether it does."""
        others = [each for each in self._versions if each != self.resource.group_version]
        try:
            served = await served_version(self._api, others, self.resource.plural)
        except KubernetesError as error:
            log.info("It is not known which version of %s is served: error=%s", self.resource, error)
            return False
        if served is None:
            return False
        log.info("Following another version: resource=%s version=%s", self.resource, served)
        self.resource = replace(self.resource, group_version=served)
        self._resource_version = None
        return True

    async def _is_absent(self) -> bool:
        """Whether the cluster does not serve the resource, and never did."""
        if not self._may_be_absent or self._lists or self._known:
            return False
        try:
            return await is_absent(self._api, self.resource.group_version, self.resource.plural)
        except KubernetesError as error:
            log.info("It is not known whether the cluster serves %s: error=%s", self.resource, error)
            return False

    def _note_failure(self, problem: str) -> float:
        """Note why the collection cannot be followed; the seconds to wait."""
        if self._state is InformerState.OFF:
            # It stays absent until it is listed.
            return self._off_delay()
        if problem != self._problem:
            log.warning("Cannot follow %s: %s", self.resource, problem)
        self._state, self._problem = InformerState.WAITING, problem
        delay = self._delay()
        self._failures += 1
        return delay

    def _note_absence(self) -> float:
        """The cluster does not serve the resource; the seconds to wait."""
        if self._state is not InformerState.OFF:
            self._on_absent(self.resource)
        self._state = InformerState.OFF
        self._problem = f"the cluster does not serve {self.resource.plural} of {self.resource.group_version}"
        self._failures = 0
        self._synced.set()
        return self._off_delay()

    def _off_delay(self) -> float:
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


def _identity(obj: JsonObject) -> tuple[ObjectKey, _Version]:
    metadata = obj["metadata"]
    key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
    if not (isinstance(key.name, str) and isinstance(key.namespace, str)):
        raise TypeError("metadata.name and metadata.namespace must be strings")
    return key, _Version(metadata.get("uid", ""), metadata.get("resourceVersion", ""))
