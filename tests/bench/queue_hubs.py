"""Are expected waits of the queue right for hubs of all kinds? Large and small ones, new ones, and habits that change.

``python -m tests.bench.queue_hubs`` prints, for each kind of hub, how many of the waits ended in the interval that their
users were told when they joined. The book of tickets, habits, lengths of sessions and expected waits are the service's.
The hub is a model: its devices are given in the order of the queue, at once. `tests.bench.queue_day` has the planner.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from math import log
from random import Random
from typing import Final

from dra_spawner.fairness.tickets.interval_widths import AS_COMPUTED
from dra_spawner.fairness.tickets.queue_waits import FEWEST_SESSIONS, QueueOutlook, expected_waits, habits_in
from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketBook, Waits
from dra_spawner.placeholders.lifecycle import TicketEvent, TicketState
from dra_spawner.placeholders.planner.answers.waits import RunningServer, SeenSession, SessionLengths

__all__ = ["HUBS", "Hub", "HubDays", "shares"]

_BEGIN: Final = datetime(2030, 1, 7, tzinfo=UTC)
_HOLD_SECONDS: Final = 300.0
_A_DAY: Final = 86_400.0
_SPREAD: Final = 0.6
#: Sessions that the service remembers.
_REMEMBERED: Final = 300
_HUB: Final = "hub/shapes"


@dataclass(frozen=True)
class Hub:
    """A kind of hub.

    Attributes
    ----------
    hours_of
        Mean length of the sessions of a day, by its number.
    has_history
        Whether 300 sessions and 100 tickets have ended before the first day.
    leave, miss
        Parts of the users who leave the queue before their turn, and who do not take their device.
    told
        One of so many users counts; the others wait and start, too.
    """

    devices: int
    users: int
    days: int
    hours_of: Callable[[int], float] = lambda day: 1.0
    has_history: bool = True
    leave: float = 0.05
    miss: float = 0.1
    told: int = 1


HUBS: Final[Mapping[str, Hub]] = {
    "small: 2 devices, 10 users": Hub(2, 10, 60),
    "small, new": Hub(2, 10, 40, has_history=False),
    "small, twice as long on weekends": Hub(2, 10, 70, lambda day: 2.0 if day % 7 >= 5 else 1.0),
    "small, half as long after half of the days": Hub(2, 10, 60, lambda day: 0.5 if day >= 30 else 1.0),
    "middle: 8 devices, 60 users, twice as long on weekends": Hub(
        8, 60, 28, lambda day: 2.0 if day % 7 >= 5 else 1.0, told=3
    ),
    "middle, twice as long before an exam": Hub(8, 60, 28, lambda day: 2.0 if day >= 14 else 1.0, told=3),
    "large: 20 devices, 200 users": Hub(20, 200, 16, told=8),
    "large, new": Hub(20, 200, 8, has_history=False, told=8),
    "large, a fifth leaves, a third comes too late": Hub(20, 200, 8, leave=0.2, miss=0.33, told=8),
}


class HubDays:
    """Days of a hub.

    Attributes
    ----------
    found
        Waits by how they ended: ``inside``, ``early``, ``late``, or ``unknown`` if nothing was told.
    """

    def __init__(self, hub: Hub, seed: int) -> None:
        self.hub = hub
        self.book = TicketBook()
        self.found = Counter[str]()
        self._random = Random(seed)
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._free = hub.devices
        self._running: dict[str, float] = {}
        self._ended: deque[float] = deque(maxlen=_REMEMBERED)
        if hub.has_history:
            self._ended.extend(self._session(0) for _ in range(_REMEMBERED))
            for number in range(100):
                self._remember(f"past-{number}")

    def run(self) -> Counter[str]:
        """Let all days pass."""
        for day in range(self.hub.days):
            for number in range(self.hub.users):
                at = day * _A_DAY + self._random.uniform(0.0, 7200.0)
                self._at(at, lambda day=day, number=number: self._join(f"{day}-{number}", day, number))  # type: ignore[misc]
        while self._events:
            self._now, _, event = heappop(self._events)
            event()
        return self.found

    @property
    def _moment(self) -> datetime:
        return _BEGIN + timedelta(seconds=self._now)

    def _at(self, seconds: float, event: Callable[[], None]) -> None:
        self._serial += 1
        heappush(self._events, (seconds, self._serial, event))

    def _session(self, day: int) -> float:
        hours = self.hub.hours_of(day)
        return 3600.0 * min(hours * self._random.lognormvariate(-(_SPREAD**2) / 2, _SPREAD), 6.0 * hours)

    def _remember(self, user: str) -> None:
        draw, hub = self._random.random(), self.hub
        ticket = self._new(user)
        last = TicketEvent.TAKE
        if draw < hub.leave:
            last = TicketEvent.LEAVE
        elif draw < hub.leave + hub.miss:
            self._change(ticket, TicketEvent.HOLD)
            last = TicketEvent.TIME_OVER
        self._change(ticket, last)

    def _new(self, user: str) -> str:
        self._serial += 1
        ticket = Ticket(f"{self._serial:x}", 0, user, _HUB, "gpu", self._moment, self._moment)
        _, self.book = self.book.join(ticket)
        return ticket.id

    def _change(self, ticket: str, event: TicketEvent) -> None:
        self.book = self.book.after(ticket, event, self._moment)

    def _join(self, user: str, day: int, number: int) -> None:
        ticket = self._new(user)
        if self._random.random() < self.hub.leave:
            self._at(self._now + 3600.0 * self._random.uniform(0.1, 4.0), lambda: self._leave(ticket))
        self._give(day)
        if number % self.hub.told == 0 and self.book.tickets[ticket].state is TicketState.WAITING:
            self._tell(ticket)

    def _leave(self, ticket: str) -> None:
        if ticket in self.book.tickets and self.book.tickets[ticket].state is TicketState.WAITING:
            self._change(ticket, TicketEvent.LEAVE)

    def _give(self, day: int) -> None:
        for ticket in [each for each in self.book.open if each.state is TicketState.WAITING][: self._free]:
            self._free -= 1
            self._judge(ticket)
            self._change(ticket.id, TicketEvent.HOLD)
            if self._random.random() < self.hub.miss:
                self._at(self._now + _HOLD_SECONDS, lambda key=ticket.id: self._miss(key, day))  # type: ignore[misc]
            else:
                after = min(-log(1.0 - self._random.random()) * 60.0, 280.0)
                self._at(self._now + after, lambda key=ticket.id: self._take(key, day))  # type: ignore[misc]

    def _miss(self, ticket: str, day: int) -> None:
        self._change(ticket, TicketEvent.TIME_OVER)
        self._free += 1
        self._give(day)

    def _take(self, ticket: str, day: int) -> None:
        self._change(ticket, TicketEvent.TAKE)
        self._running[ticket] = self._now
        self._at(self._now + self._session(day), lambda: self._stop(ticket, day))

    def _stop(self, ticket: str, day: int) -> None:
        self._ended.append(self._now - self._running.pop(ticket))
        self._free += 1
        self._give(day)

    def _tell(self, ticket: str) -> None:
        """What the user's page says, as the service computes it."""
        waits = Waits(self._moment, {})
        if len(self._ended) >= FEWEST_SESSIONS:
            now, held = self._now, [each for each in self.book.open if each.state is TicketState.HELD]
            running = (SeenSession(now - began, is_over=False) for began in self._running.values() if now > began)
            lengths = SessionLengths([*map(SeenSession, self._ended), *running])
            servers = [RunningServer(now - began, lengths) for began in self._running.values()]
            servers += (RunningServer(0.0, lengths) for _ in held)
            count = len(self.book.open) - len(held)
            habits, widths = habits_in(self.book, 60.0), self.book.widths.get(_HUB, AS_COMPUTED)
            outlook = QueueOutlook(servers, [lengths] * count, self._free, habits, _HOLD_SECONDS, widths)
            found = expected_waits(outlook, self._random.random)[-1]
            waits = Waits(self._moment, {ticket: found} if found is not None else {})
        self.found["unknown"] += not waits.of
        self.book = self.book.with_waits(waits, _HUB)

    def _judge(self, ticket: Ticket) -> None:
        """Note how the wait of a ticket has ended; one that is late was judged before."""
        if ticket.told_at is None:
            return
        seconds = (self._moment - ticket.told_at).total_seconds()
        if ticket.told is None or seconds > ticket.told.high_seconds:
            self.found["late"] += 1
        else:
            self.found["early" if seconds < ticket.told.low_seconds else "inside"] += 1


def shares(found: Mapping[str, int]) -> tuple[float, float, float]:
    """The parts of the waits that were told and ended inside of their interval, early and late."""
    judged = max(sum(found.get(each, 0) for each in ("inside", "early", "late")), 1)
    return found.get("inside", 0) / judged, found.get("early", 0) / judged, found.get("late", 0) / judged


def main(seeds: int) -> None:
    """Print a row for each kind of hub."""
    for name, hub in HUBS.items():
        found = sum((HubDays(hub, seed).run() for seed in range(seeds)), Counter[str]())
        inside, early, late = shares(found)
        print(f"{name:60} inside {inside:.3f} early {early:.3f} late {late:.3f} {dict(found)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
