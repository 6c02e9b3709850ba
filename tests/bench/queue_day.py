"""A queue for scarce devices in virtual time: order, idle devices, holds and expected waits.

``python -m tests.bench.queue_day`` prints the figures of some days: 200 users, 20 devices, sessions of about an hour.
The planner decides, the simulator schedules; an API server and its delays are missing.
``python -m tests.bench.queue_day pairs`` prints days on which a tenth of the users wants two devices of a node, with and
without a node that is kept for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Final

from dra_spawner import names
from dra_spawner.fairness.tickets.interval_widths import AS_COMPUTED
from dra_spawner.fairness.tickets.queue_waits import habits_in
from dra_spawner.fairness.tickets.ticket_waits import KnownSessions, outlooks_of, waits_of
from dra_spawner.placeholders.lifecycle import TicketEvent, TicketState
from dra_spawner.placeholders.planner.answers.waits import SeenSession, SessionLengths
from dra_spawner.placeholders.planner.cluster.view import age
from dra_spawner.simulator.model.pods import Pod
from tests.bench.queue_figures import QueueCounts, session_length, time_until_taken
from tests.placeholders.planner.objects import GPU, gpu_claim, user_shape
from tests.placeholders.planner.ticket_world import OWN_HUB, TicketWorld

__all__ = ["QueueDay", "QueueFigures"]

_ROUND_SECONDS: Final = 10
#: Rounds between two estimates.
_ESTIMATE_AFTER: Final = 6
_HOLD: Final = timedelta(minutes=5)
_TWO: Final = user_shape({"gpu": gpu_claim(count=2)})
_DEVICES_OF_NODE: Final = 4
_MOST_HOURS: Final = 48
#: Parts of the users who leave the queue before their turn, and who do not take their device.
_LEAVE, _MISS = 0.05, 0.1


@dataclass
class QueueFigures(QueueCounts):
    """What was measured."""

    overtaken: int = 0
    """Devices that were held for a user although one before still waited, or that started without a ticket."""
    idle_hours: float = 0.0
    """Device-hours that were idle while somebody waited."""
    waits_of_pairs: list[float] = field(default_factory=list)
    """Hours until users of two devices had them held."""
    hours: float = 0.0


@dataclass
class _User:
    """A user: when to join, how long to work, and whether to come."""

    name: str
    choice: str
    joins: datetime
    session: timedelta
    takes_after: timedelta | None
    leaves_after: timedelta | None
    held_at: datetime | None = None
    ends: datetime | None = None
    estimates: list[tuple[datetime, int, int]] = field(default_factory=list)


class QueueDay:
    """See the module."""

    def __init__(
        self,
        seed: int,
        users: int = 200,
        devices: int = 20,
        hours: float = 2.0,
        *,
        pairs: float = 0.0,
        keep: timedelta = timedelta(0),
    ) -> None:
        self._random = Random(seed)
        self._pairs = pairs
        self.world = TicketWorld({"gpu": GPU, "two": _TWO} if pairs else {"gpu": GPU}, _HOLD, keep=keep)
        for number in range(0, devices, _DEVICES_OF_NODE):
            self.world.node(f"n{number}", cpu="100", gpus=min(_DEVICES_OF_NODE, devices - number))
        self.world.settle()
        self._devices = devices
        begin = self.world.now
        self._users = [self._user(f"u{number}", begin, hours) for number in range(users)]
        self._by_name = {each.name: each for each in self._users}
        past = (SeenSession(session_length(self._random).total_seconds()) for _ in range(300))
        self._lengths = SessionLengths(past)
        self._figures = QueueFigures()
        self._idle = 0.0
        self._begin = begin
        self._take_seconds = [60.0]
        self._remember_past_users()

    def _remember_past_users(self) -> None:
        """Tickets of an earlier day that have ended, by which the service knows what users do."""
        world = self.world
        for number in range(100):
            ticket = world.join(f"past-{number}")
            draw = self._random.random()
            last = TicketEvent.LEAVE if draw < _LEAVE else TicketEvent.TAKE
            if _LEAVE <= draw < _LEAVE + _MISS:
                world.book = world.book.after(ticket.id, TicketEvent.HOLD, world.now, until=world.now)
                last = TicketEvent.TIME_OVER
            world.book = world.book.after(ticket.id, last, world.now)

    def _user(self, name: str, begin: datetime, hours: float) -> _User:
        draw = self._random.random()
        takes = None if draw < _MISS else time_until_taken(self._random)
        leaves = timedelta(hours=self._random.uniform(0.1, 4.0)) if self._random.random() < _LEAVE else None
        joins = begin + timedelta(hours=self._random.uniform(0.0, hours))
        choice = "two" if self._pairs and self._random.random() < self._pairs else "gpu"
        return _User(name, choice, joins, session_length(self._random), takes, leaves)

    def run(self) -> QueueFigures:
        """A whole day, until all users are served."""
        world, figures = self.world, self._figures
        rounds = 0
        while not self._is_over() and rounds < _MOST_HOURS * 3600 / _ROUND_SECONDS:
            self._act()
            world.schedule(_kind_of)
            events = len(world.events)
            waiting_before = [each for each in world.book.open if each.state is TicketState.WAITING]
            world.decide()
            self._judge_holds(events, [each.user for each in waiting_before])
            world.schedule(_kind_of)
            self._measure_idle()
            if rounds % _ESTIMATE_AFTER == 0:
                self._estimate()
            world.pass_time(seconds=_ROUND_SECONDS)
            rounds += 1
        figures.hours = (world.now - self._begin) / timedelta(hours=1)
        figures.unserved = len(world.book.open)
        self._judge_estimates()
        return figures

    def _is_over(self) -> bool:
        return all(each.joins <= self.world.now for each in self._users) and not self.world.book.open

    def _act(self) -> None:
        world, now = self.world, self.world.now
        for user in self._users:
            if user.joins <= now < user.joins + timedelta(seconds=_ROUND_SECONDS):
                world.join(user.name, user.choice)
                if self._random.random() < 0.3:  # tries to be first without the queue
                    self._figures.overtaken += world.start(user.name, user.choice) == "direct"
            elif user.ends is not None and user.ends <= now:
                world.leave(user.name)
                user.ends = None
            elif user.held_at is not None:
                self._take(user)
            elif user.leaves_after is not None and now >= user.joins + user.leaves_after:
                user.leaves_after = None
                ticket = world.book.find(user.name, user.choice)
                if ticket is not None and ticket.state is TicketState.WAITING:
                    world.leave_queue(user.name, user.choice)
                    user.estimates = [(world.now, 0, 0)]
                    self._figures.left += 1

    def _take(self, user: _User) -> None:
        world = self.world
        assert user.held_at is not None
        if user.takes_after is None or world.now < user.held_at + user.takes_after:
            return
        is_held = world.state(user.name, user.choice) is TicketState.HELD
        if is_held and world.start(user.name, user.choice) == "taken":
            self._take_seconds.append((world.now - user.held_at).total_seconds())
            user.ends = world.now + user.session
            self._figures.taken += 1
        user.held_at = None

    def _judge_holds(self, first: int, waiting: list[str]) -> None:
        for at, name, event in self.world.events[first:]:
            user = self._by_name[name]
            if event is TicketEvent.HOLD:
                # With pairs, a later one may get a device that the first cannot use.
                self._figures.overtaken += waiting[0] != name and not self._pairs
                waiting.remove(name)
                user.held_at = at
                self._figures.longest_wait = max(self._figures.longest_wait, (at - user.joins).total_seconds())
                user.estimates.append((at, -1, -1))
                if user.choice == "two":
                    self._figures.waits_of_pairs.append((at - user.joins) / timedelta(hours=1))
            elif event is TicketEvent.TIME_OVER:
                assert user.held_at is not None
                self._figures.longest_hold = max(self._figures.longest_hold, (at - user.held_at).total_seconds())
                self._figures.expired += 1
                user.held_at = None

    def _measure_idle(self) -> None:
        view = self.world.view()
        pods = (*view.users.values(), *(each.pod for each in view.placeholders.values()))
        two = self.world.choices["two"].id if self._pairs else ""
        used = sum(2 if pod.labels.get(names.SHAPE) == two else 1 for pod in pods if pod.node_name)
        is_waiting = any(each.state is TicketState.WAITING for each in self.world.book.open)
        if is_waiting:
            self._figures.idle_hours += (self._devices - used) * _ROUND_SECONDS / 3600
        self._idle = self._idle + _ROUND_SECONDS if is_waiting and used < self._devices else 0.0
        self._figures.longest_idle = max(self._figures.longest_idle, self._idle)

    def _estimate(self) -> None:
        """Note what users who have just joined are told."""
        waiting = [each.user for each in self.world.book.open if each.state is TicketState.WAITING]
        if all(self._by_name[each].estimates for each in waiting):
            return
        view = self.world.view()
        habits = habits_in(self.world.book, sum(self._take_seconds) / len(self._take_seconds))
        known = KnownSessions(lambda shape: self._lengths, lambda pod: age(pod.created, view.now).total_seconds())
        widths = self.world.book.widths.get(OWN_HUB, AS_COMPUTED)
        outlooks = outlooks_of(view, self.world.policy, known, habits, widths)
        found = waits_of(outlooks, view.now, self._random.random)
        self.world.book = self.world.book.with_waits(found, OWN_HUB)
        for key, wait in found.of.items():
            user = self._by_name[self.world.book.tickets[key].user]
            if not user.estimates:
                user.estimates.append((found.at, wait.low_seconds, wait.high_seconds))

    def _judge_estimates(self) -> None:
        """Compare the first estimate of each user with the wait."""
        for at, low, high, end in self._judged():
            seconds = (end - at).total_seconds()
            if seconds < low:
                self._figures.early += 1
            elif seconds > high + _ROUND_SECONDS:
                self._figures.late += 1
            else:
                self._figures.inside += 1

    def _judged(self) -> Iterator[tuple[datetime, int, int, datetime]]:
        for user in self._users:
            told = [each for each in user.estimates if each[1] >= 0]
            ends = [at for at, low, _ in user.estimates if low < 0]
            if told and ends and told[0][0] < ends[0]:
                yield (*told[0], ends[0])


def _kind_of(pod: Pod) -> str:
    """Equal pods: where one does not fit, no other does."""
    return pod.labels.get(names.SHAPE, "")


def main_of_pairs() -> None:
    """Print days with users of two devices, by the time for which a node is kept for them."""
    for minutes in (0, 30, 60):
        waits, idle, hours = list[float](), 0.0, 0.0
        for seed in range(3):
            found = QueueDay(seed, 60, 8, pairs=0.1, keep=timedelta(minutes=minutes)).run()
            waits += found.waits_of_pairs
            idle, hours = idle + found.idle_hours, hours + found.hours
            assert found.unserved == 0
        print(
            f"kept {minutes} min: pairs waited {sum(waits) / len(waits):.1f} h on average, {max(waits):.1f} h at most;"
        )
        print(
            f"  devices idle while users waited: {idle:.1f} of {8 * hours:.0f} device-hours; the last was served after"
        )
        print(f"  {hours / 3:.1f} h on average", flush=True)


def main(days: int) -> None:
    """Print the figures of some days."""
    inside = judged = 0
    for seed in range(days):
        found = QueueDay(seed).run()
        inside += found.inside
        judged += found.inside + found.early + found.late
        print(seed, found)
    print(f"inside of the interval: {inside / judged:.3f} of {judged}")


if __name__ == "__main__":
    if sys.argv[1:] == ["pairs"]:
        main_of_pairs()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
