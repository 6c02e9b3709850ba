"""Expected waits of tickets: what happens until a device is free for each, tried many times by chance.

Devices are free when running servers stop, by the usual lengths of sessions. The first ticket gets the first device.
Its user takes it after a while, and keeps it for a session of the usual length, or the next ticket gets it after the
hold. The intervals contain 80 of 100 waits, as far as users go on as they did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import ceil, floor, inf, sqrt
from typing import Final

from dra_spawner.fairness.tickets.ticket_book import TicketBook
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.placeholders.planner.answers.waits import RunningServer, SessionLengths, WaitInterval

__all__ = ["QueueHabits", "QueueOutlook", "expected_waits", "habits_in"]

_TRIALS: Final = 300
_FEWEST_TRIALS: Final = 60
#: Devices that all trials give together, about; later tickets of a long queue have fewer trials.
_MOST_GIVEN: Final = 60_000
#: Tickets with an estimate.
_MOST_PLACES: Final = 500
#: Narrower than a tenth, as the lengths of sessions are known from examples only.
_TAIL: Final = 0.09
_LEAST_FACTOR: Final = 0.2


#: Tickets that count as taken before any was seen.
_TAKEN_BEFORE: Final = 8


@dataclass(frozen=True, slots=True)
class QueueHabits:
    """What users of the queue do.

    Attributes
    ----------
    left_share
        Part of the tickets whose users leave the queue before they get a device.
    taken_share
        Part of the held devices that are taken.
    take_seconds
        Mean time until a held device is taken.
    """

    left_share: float = 0.0
    taken_share: float = 1.0
    take_seconds: float = 60.0


def habits_in(book: TicketBook, take_seconds: float) -> QueueHabits:
    """What users did with the tickets that have ended lately."""
    ended = Counter(each.state for each in book.tickets.values() if not each.state.is_open)
    taken, left = ended[TicketState.TAKEN] + _TAKEN_BEFORE, ended[TicketState.LEFT]
    expired = ended[TicketState.EXPIRED]
    return QueueHabits(left / (left + taken + expired), taken / (taken + expired), take_seconds)


@dataclass(frozen=True, slots=True)
class QueueOutlook:
    """What is known of a queue for the same devices.

    Attributes
    ----------
    running
        Servers that hold such devices.
    ready
        Devices that are free, or come without a server's end.
    sessions
        Usual lengths of sessions of each waiting ticket's choice, in the order of tickets.
    habits
        What the users before do.
    hold_seconds
        Time after which a device that is not taken goes to the next ticket.
    """

    running: Sequence[RunningServer]
    sessions: Sequence[SessionLengths]
    ready: int = 0
    habits: QueueHabits = QueueHabits()
    hold_seconds: float = 300.0


def expected_waits(outlook: QueueOutlook, chance: Callable[[], float]) -> list[WaitInterval | None]:
    """The wait of each ticket until a device is held for it; None where too little is known.

    Parameters
    ----------
    chance
        Returns random numbers from 0 to 1.
    """
    count = min(len(outlook.sessions), _MOST_PLACES)
    devices = len(outlook.running) + outlook.ready
    if not count or not devices:
        return [None] * len(outlook.sessions)
    waits: list[list[float]] = [[] for _ in range(count)]
    for _ in range(max(_FEWEST_TRIALS, min(_TRIALS, _MOST_GIVEN // count))):
        _try(outlook, chance, waits)
    found = [_interval(each) for each in waits]
    return [*found, *[None] * (len(outlook.sessions) - count)]


def _try(outlook: QueueOutlook, chance: Callable[[], float], waits: Sequence[list[float]]) -> None:
    # Sessions of all may be longer than the examples say.
    factor = _factor(outlook.sessions[0].examples_after(0.0), chance)
    free_at = [factor * each.lengths.rest(each.age, chance()) for each in outlook.running] + [0.0] * outlook.ready
    heapify(free_at)
    habits = outlook.habits
    latest = min(2.0 * habits.take_seconds, outlook.hold_seconds)
    for of_ticket, lengths in zip(waits, outlook.sessions, strict=False):
        begin = free_at[0]
        of_ticket.append(begin)
        if chance() < habits.left_share:
            continue
        if chance() < habits.taken_share:
            busy = latest * chance() + factor * lengths.rest(0.0, chance())
        else:
            busy = outlook.hold_seconds
        heapreplace(free_at, begin + busy)


def _factor(examples: int, chance: Callable[[], float]) -> float:
    """By how much the mean of examples may be wrong, if lengths vary as much as an exponential distribution's."""
    normal = (chance() + chance() + chance() + chance() - 2.0) * sqrt(3.0)
    return max(1.0 + normal / sqrt(max(examples, 1)), _LEAST_FACTOR)


def _interval(waits: list[float]) -> WaitInterval | None:
    waits.sort()
    last = len(waits) - 1
    low, high = waits[floor(_TAIL * last)], waits[ceil((1.0 - _TAIL) * last)]
    return WaitInterval(floor(low), ceil(high)) if high < inf else None
