"""Changes that this process made and the watch does not show yet, so that nothing is done twice.

As in Kubernetes' controllers, decisions count a done action until the watch shows it.

- A deletion under way makes its placeholder `terminating` (`View.ending`).
- A reservation makes its placeholder `reserved` (`View.reserved`) from before its first request to its end.
- A server for which a placement was asked is awaited (`View.awaited`) until its pod is seen.
- While a created placeholder is not seen, no other one is created, as their number is unknown.
- A creation without an answer may have worked. The next placeholder of its shape gets the same name, so it exists once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder, ReservePlaceholder
from dra_spawner.placeholders.planner.cluster.view import AwaitedServer, Reservation
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

#: After this time the watch shows the object, or it is stale and nothing is decided.
_UNANSWERED_SECONDS: Final = 120.0
#: Time for which a server's pod is awaited.
_AWAITED: Final = timedelta(minutes=2)
_MAX_AWAITED: Final = 500


@dataclass(frozen=True, slots=True)
class Expectation:
    """A change of one object that the watch will show.

    Attributes
    ----------
    is_met
        Whether the watch shows it.
    is_new
        Whether the object was created.
    shape, uid
        Of a created placeholder's pod; else empty.
    """

    kind: Kind
    key: ObjectKey
    is_met: Callable[[ClusterWatch], bool]
    is_new: bool = False
    shape: str = ""
    uid: str = ""


class Expectations:
    """See the module.

    Parameters
    ----------
    clock
        Monotonic seconds; the event loop's by default.

    Attributes
    ----------
    reserved
        Reservations by placeholder, seen or not.
    awaited
        Servers for which a placement was asked, by pod.
    deleting
        Placeholders that are being deleted in this round.
    version
        Number of changes of `deleting`.
    """

    def __init__(self, clock: Callable[[], float] = lambda: asyncio.get_running_loop().time()) -> None:
        self._clock = clock
        self._created: list[tuple[Expectation, float]] = []
        self._unanswered: dict[str, dict[str, float]] = {}
        self.reserved: dict[ObjectKey, Reservation] = {}
        self.awaited: dict[ObjectKey, AwaitedServer] = {}
        self.deleting: frozenset[ObjectKey] = frozenset()
        self.version = 0

    def expect_deletions(self, actions: Iterable[Action]) -> None:
        """Count exactly the placeholders that these actions delete as terminating."""
        deleting = frozenset(each.key for each in actions if isinstance(each, DeletePlaceholder))
        if deleting != self.deleting:
            self.deleting = deleting
            self.version += 1

    def expect_reservation(self, action: ReservePlaceholder) -> None:
        self.reserved[action.placeholder] = Reservation(action.pod.name, action.until, action.since, action.ticket)

    def forget_reservation(self, action: ReservePlaceholder) -> None:
        """Count a placeholder as reserved only if its claims show it."""
        self.reserved.pop(action.placeholder, None)

    def forget_ended_reservations(self, now: datetime) -> None:
        self.reserved = {key: each for key, each in self.reserved.items() if now < each.until}

    def expect_server(self, server: AwaitedServer) -> None:
        """Await a server's pod for two minutes: if the API server refuses it, the user may try again."""
        self.awaited.pop(server.pod, None)
        while len(self.awaited) >= _MAX_AWAITED:
            del self.awaited[next(iter(self.awaited))]
        self.awaited[server.pod] = server

    def forget_awaited(self, now: datetime, pods: Container[ObjectKey]) -> None:
        """Forget servers whose pods are there, or did not come in time."""
        for key, each in tuple(self.awaited.items()):
            if key in pods or not timedelta(0) <= now - each.since < _AWAITED:
                del self.awaited[key]

    def keep_creations(self, unmet: Iterable[Expectation], seconds: float) -> None:
        """Remember created pods that were not seen in time; after `seconds` they count as gone."""
        until = self._clock() + seconds
        self._created += [(each, until) for each in unmet if each.kind is Kind.POD and each.is_new]

    def allowed(self, actions: tuple[Action, ...], watch: ClusterWatch) -> tuple[Action, ...]:
        """The actions, without creations while a created placeholder is not seen."""
        now = self._clock()
        self._created = [(each, until) for each, until in self._created if now < until and not each.is_met(watch)]
        if not self._created:
            return actions
        return tuple(each for each in actions if not isinstance(each, CreatePlaceholder))

    def keep_unanswered(self, shape: str, name: str) -> None:
        """Remember the name of a placeholder whose creation was not answered, for two minutes."""
        now = self._clock()
        self._unanswered = {each: left for each, names in self._unanswered.items() if (left := _fresh(names, now))}
        self._unanswered.setdefault(shape, {})[name] = now + _UNANSWERED_SECONDS

    def take_unanswered(self, shape: str) -> str | None:
        """Take the oldest remembered name for a shape; None if there is none."""
        fresh = _fresh(self._unanswered.pop(shape, {}), self._clock())
        found = next(iter(fresh), None)
        if found is not None and len(fresh) > 1:
            del fresh[found]
            self._unanswered[shape] = fresh
        return found


def _fresh(names: dict[str, float], now: float) -> dict[str, float]:
    return {name: until for name, until in names.items() if now < until}
