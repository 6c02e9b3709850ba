"""Days of a queue for devices on a real control plane: order, idle devices, holds and expected waits.

The service, the queue in its ConfigMap, the API server and kube-scheduler are real; sessions, holds and the service's
clock are virtual. `tests.bench.queue_day` has the same day with the simulated scheduler. The clock jumps from event to
event: users join, take what is held, stop, or leave the queue. In between everything comes to rest.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from dra_spawner import names
from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketBook
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.ticket_store.ticket_store import TicketStore
from tests.bench.class_cluster import ClassCluster, PlaceholderSetup, class_cluster
from tests.bench.queue_figures import QueueCounts, session_length, time_until_taken
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import IMAGE, WHOLE, shape
from tests.presence import present
from tests.service.replica import Replica, publish_shapes

__all__ = ["Sizes", "TicketDays", "TicketFigures", "ticket_days"]

GPU: Final = shape(WHOLE)
CHOICE: Final = "gpu"
_HOLD: Final = timedelta(minutes=5)
_DEVICES_OF_NODE: Final = 4
#: Parts of the users who leave the queue before their turn, who do not take their device, and who try without a turn.
_LEAVE, _MISS, _TRY = 0.05, 0.1, 0.3
#: Time between two looks at a queue in which nothing happens.
_A_LOOK: Final = timedelta(minutes=10)
_A_DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class Sizes:
    """A hub: users of a day, devices, days, and the hours in which the users of a day come."""

    users: int
    devices: int
    days: int = 1
    hours: float = 2.0


@dataclass
class TicketFigures(QueueCounts):
    """What was measured."""

    overtaken: list[str] = field(default_factory=list)
    """Users who got a device although one before still waited, or without a ticket."""
    lost: int = 0
    """Devices that were held and could not be used any more."""
    refused: int = 0
    """Starts without a turn that were refused."""
    unknown: int = 0
    """Users who waited and were told no interval."""
    steps: int = 0


@dataclass
class _User:
    name: str
    joins: datetime
    session: timedelta
    takes_after: timedelta | None
    leaves_after: timedelta | None
    has_started: bool = False
    held_at: datetime | None = None
    told: tuple[datetime, int, int] | None = None


class TicketDays:
    """See the module."""

    def __init__(self, cluster: ClusterUnderTest, world: ClassCluster, sizes: Sizes, seed: int) -> None:
        self._cluster = cluster
        self._time = world.time
        self._world = world.world
        self._sizes = sizes
        self._random = Random(seed)
        self._replica = present(self._world.replica)
        hub = f"{cluster.namespace}/{names.SHAPES_CONFIG_MAP}"
        self._store = TicketStore(self._world.api, cluster.namespace, hub, now=self._time.now)
        self._users: dict[str, _User] = {}
        self._events: list[tuple[datetime, int, Callable[[], Awaitable[None]]]] = []
        self._before = TicketBook()
        self._idle_since: datetime | None = None
        self.figures = TicketFigures()
        self._followed.on_change(self._note)

    @property
    def _service(self) -> Replica:
        return self._replica.running

    @property
    def _followed(self) -> Any:
        return present(present(self._service.context.tickets).followed)

    async def run(self, report: Callable[[str], None] = lambda text: None) -> TicketFigures:
        """Let all days pass, until all users are served."""
        for number in range(0, self._sizes.devices, _DEVICES_OF_NODE):
            gpus = min(_DEVICES_OF_NODE, self._sizes.devices - number)
            self._world.node(f"node-{number:03}", cpu="100", gpus=gpus, images=(IMAGE,))
        await self._world.flush()
        begin = self._time.now()
        for day in range(self._sizes.days):
            for number in range(self._sizes.users):
                self._come(f"user-{day}-{number}", begin + day * _A_DAY)
        await self._rest()
        while self._events or self._waiting():
            await self._step()
            self.figures.steps += 1
            if self.figures.steps % 100 == 0:
                report(f"{self._time.now():%d %H:%M} {self.figures}")
        self.figures.unserved = len(self._waiting())
        return self.figures

    def _come(self, name: str, day: datetime) -> None:
        chance = self._random.random
        session = session_length(self._random)
        takes = None if chance() < _MISS else time_until_taken(self._random)
        leaves = timedelta(hours=self._random.uniform(0.1, 4.0)) if chance() < _LEAVE else None
        user = _User(name, day + timedelta(hours=self._random.uniform(0.0, self._sizes.hours)), session, takes, leaves)
        self._users[name] = user
        self._at(user.joins, lambda: self._join(user))

    def _at(self, moment: datetime, event: Callable[[], Awaitable[None]]) -> None:
        heapq.heappush(self._events, (moment, len(self._events) + self.figures.steps * 100_000, event))

    # --- what users do ------------------------------------------------------------------------------------------------

    async def _join(self, user: _User) -> None:
        await self._store.join(user.name, CHOICE)
        if user.leaves_after is not None:
            self._at(self._time.now() + user.leaves_after, lambda: self._leave(user))
        if self._random.random() < _TRY:
            await self._start_without_turn(user)

    async def _start_without_turn(self, user: _User) -> None:
        waited = bool(self._waiting())
        answer = await self._service.place(GPU, f"{user.name}-early", tickets=[])
        if answer.get("before"):
            self.figures.refused += 1
        elif waited:
            self.figures.overtaken.append(f"{user.name} without a turn")

    async def _leave(self, user: _User) -> None:
        ticket = (await self._store.book()).find(user.name, CHOICE)
        if ticket is not None and ticket.state is TicketState.WAITING and await self._store.leave(user.name, CHOICE):
            self.figures.left += 1

    async def _take(self, user: _User) -> None:
        """One click: the hub sends the user's tickets with its question, and the pod names what it is given."""
        ticket = present(self._followed.present.find(user.name, CHOICE))
        if user.has_started or not ticket.is_held(self._time.now()):  # of an earlier hold, whose device was lost
            return
        user.has_started = True
        answer = await self._service.place(GPU, user.name, tickets=[ticket.id])
        assert answer["claims"], (user.name, answer, self._shown())
        await self._service.start(GPU, user.name, WHOLE, answer, image=IMAGE)
        key = ObjectKey(self._cluster.namespace, user.name)
        await self._world.until(lambda: bool(self._node_of(key)), f"{user.name} has a node")
        self.figures.taken += 1
        self._at(self._time.now() + user.session, lambda: self._stop(user))

    async def _stop(self, user: _User) -> None:
        await self._world.leave(user.name)

    def _shown(self) -> str:
        """For a failure: what the service sees and has decided."""
        service = self._service
        held = [each for each in self._followed.present.open if each.state is TicketState.HELD]
        placeholders = [(each.key.name, each.state, each.ticket, each.node) for each in service.placeholders().values()]
        return f"{self._time.now()} {held} {placeholders} {service.context.decisions.newest(12)}"

    def _node_of(self, key: ObjectKey) -> str:
        pod = self._world.snapshot.pods.get(key)
        return pod.node_name if pod is not None else ""

    # --- time ---------------------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        """Go to the next event, let it happen, and wait until all that follows from it has happened."""
        moments = [event[0] for event in self._events[:1]]
        moments += (each.until for each in self._followed.present.open if each.until is not None)
        self._time.clock.jump_to(min([*moments, self._time.now() + _A_LOOK]))
        self._world.quiet.stir()
        self._replica.note_jump()
        now = self._time.now()
        while self._events and self._events[0][0] <= now:
            await heapq.heappop(self._events)[2]()
        await self._rest()
        await present(self._service.context.tickets).look(self._followed)
        self._learn_waits(await self._store.book())
        self._measure_idle()

    async def _rest(self) -> None:
        await self._service.decide(1)
        await self._world.quiet.wait()
        await self._world.until(lambda: not self._is_late(), "the service has decided about all that is warm")

    def _is_late(self) -> bool:
        """Whether a hold is over and not ended, or a warm placeholder waits for its ticket."""
        now, view = self._time.now(), self._service.controller.view()
        over = any(each.until is not None and each.until <= now for each in self._followed.present.open)
        return over or (bool(self._waiting()) and bool(view.warm(GPU.id)))

    def _waiting(self) -> list[Ticket]:
        return [each for each in self._followed.present.open if each.state is TicketState.WAITING]

    # --- what is measured ---------------------------------------------------------------------------------------------

    def _note(self) -> None:
        """Judge the changes since the last version of the queue."""
        before, after, now = self._before, self._followed.present, self._time.now()
        self._before = after
        for key, ticket in after.tickets.items():
            old = before.tickets.get(key)
            user = self._users[ticket.user]
            if ticket.state is TicketState.HELD and (old is None or old.state is not TicketState.HELD):
                passed = [e.user for e in after.open if e.state is TicketState.WAITING and e.number < ticket.number]
                self.figures.overtaken += [f"{ticket.user} before {each}" for each in passed]
                self._note_hold(user, now)
            elif ticket.state is TicketState.WAITING and old is not None and old.state is TicketState.HELD:
                self.figures.lost += 1
            elif ticket.state is TicketState.EXPIRED and old is not None and old.state is TicketState.HELD:
                held = (now - present(user.held_at)).total_seconds()
                self.figures.longest_hold = max(self.figures.longest_hold, held)
                self.figures.expired += 1

    def _note_hold(self, user: _User, now: datetime) -> None:
        user.held_at = now
        waited = (now - user.joins).total_seconds()
        self.figures.longest_wait = max(self.figures.longest_wait, waited)
        if user.takes_after is not None:
            self._at(now + user.takes_after, lambda: self._take(user))
        if user.told is None:
            self.figures.unknown += waited > _A_LOOK.total_seconds()
            return
        at, low, high = user.told
        seconds = (now - at).total_seconds()
        self.figures.early += seconds < low - 1
        self.figures.late += seconds > high + 1
        self.figures.inside += low - 1 <= seconds <= high + 1

    def _learn_waits(self, book: TicketBook) -> None:
        """What the page tells users first."""
        now = self._time.now()
        for ticket in self._waiting():
            user, wait = self._users[ticket.user], book.standing(ticket, now).wait
            if user.told is None and wait is not None:
                user.told = now, wait.low_seconds, wait.high_seconds

    def _measure_idle(self) -> None:
        now = self._time.now()
        used = sum(bool(pod.node_name) and bool(pod.claims) for pod in self._world.snapshot.pods.values())
        if used >= self._sizes.devices or not self._waiting():
            self._idle_since = None
            return
        self._idle_since = self._idle_since or now
        self.figures.longest_idle = max(self.figures.longest_idle, (now - self._idle_since).total_seconds())


async def ticket_days(
    cluster: ClusterUnderTest, sizes: Sizes, seed: int = 1, report: Callable[[str], None] = lambda text: None
) -> TicketFigures:
    """The figures of some days on a cluster without nodes."""
    await publish_shapes(cluster, {CHOICE: GPU})
    settings = {"tickets": True, "ticket_hold_seconds": int(_HOLD.total_seconds()), "prefix": "/"}
    async with class_cluster(cluster, PlaceholderSetup("queue", settings), 1) as world:
        return await TicketDays(cluster, world, sizes, seed).run(report)
