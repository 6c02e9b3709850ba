"""Expected waits of tickets: what happens until a device is free for each, tried many times by chance.

Devices are free when running servers stop, by the usual lengths of sessions. The first ticket gets the first device.
Its user takes it after a while, and keeps it for a session of the usual length, or the next ticket gets it after the
hold. Each try draws anew how long sessions are and what users do, as far as few examples leave that open: so intervals
are wide at the beginning. How earlier ones came true makes them wider or narrower (`interval_widths`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import ceil, floor, sqrt
from typing import Final

from dra_spawner.fairness.tickets.interval_widths import AS_COMPUTED, IntervalWidths
from dra_spawner.fairness.tickets.ticket_book import TicketBook
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.placeholders.planner.answers.waits import RunningServer, SessionLengths, WaitInterval

#: With fewer sessions that have ended nothing is expected.
FEWEST_SESSIONS: Final = 20
_TRIALS: Final = 300
_FEWEST_TRIALS: Final = 60
#: Devices that all trials give together, about; later tickets of a long queue have fewer trials.
_MOST_GIVEN: Final = 60_000
#: Tickets with an estimate.
_MOST_PLACES: Final = 500
_TAIL: Final = 0.1
_LEAST_FACTOR: Final = 0.2
#: Lengths that stand for all sessions that begin.
_LENGTHS: Final = 200
#: Before any ticket was seen, this many count as seen, and this part of them as left, or not taken.
_SEEN_BEFORE: Final = 5
_PART_BEFORE: Final = 0.1


@dataclass(frozen=True, slots=True)
class QueueHabits:
    """What users of the queue did.

    Attributes
    ----------
    left, taken, expired
        Number of tickets whose users left the queue before they got a device, took it, and did not take it.
    take_seconds
        Mean time until a held device is taken.
    """

    left: int = 0
    taken: int = 0
    expired: int = 0
    take_seconds: float = 60.0


def habits_in(book: TicketBook, take_seconds: float) -> QueueHabits:
    """What users did with the tickets that have ended lately."""
    ended = Counter(each.state for each in book.tickets.values() if not each.state.is_open)
    left, taken, expired = (ended[each] for each in (TicketState.LEFT, TicketState.TAKEN, TicketState.EXPIRED))
    return QueueHabits(left, taken, expired, take_seconds)


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
        What the users before did.
    hold_seconds
        Time after which a device that is not taken goes to the next ticket.
    widths
        How earlier intervals came true.
    """

    running: Sequence[RunningServer]
    sessions: Sequence[SessionLengths]
    ready: int = 0
    habits: QueueHabits = QueueHabits()
    hold_seconds: float = 300.0
    widths: IntervalWidths = AS_COMPUTED


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
    lengths = {id(each): _lengths_of(each) for each in outlook.sessions[:count]}
    new = [lengths[id(each)] for each in outlook.sessions[:count]]
    waits: list[list[float]] = [[] for _ in range(count)]
    for _ in range(max(_FEWEST_TRIALS, min(_TRIALS, _MOST_GIVEN // count))):
        _try(outlook, new, chance, waits)
    found = [_interval(each, outlook.widths) for each in waits]
    return [*found, *[None] * (len(outlook.sessions) - count)]


def _lengths_of(sessions: SessionLengths) -> list[float]:
    """Lengths of new sessions, each as likely as any other."""
    return [sessions.rest_or_more(0.0, (number + 0.5) / _LENGTHS) for number in range(_LENGTHS)]


def _try(
    outlook: QueueOutlook,
    new: Sequence[Sequence[float]],
    chance: Callable[[], float],
    waits: Sequence[list[float]],
) -> None:
    # Sessions of all may be longer than the examples say.
    examples = outlook.sessions[0].examples_after(0.0)
    factor = max(1.0 + _normal(chance) / sqrt(max(examples, 1)), _LEAST_FACTOR)
    free_at = [factor * each.lengths.rest_or_more(each.age, chance()) for each in outlook.running]
    free_at += [0.0] * outlook.ready
    heapify(free_at)
    habits = outlook.habits
    got = habits.taken + habits.expired
    left, missed = _part(habits.left, got, chance), _part(habits.expired, habits.taken, chance)
    latest = min(2.0 * habits.take_seconds, outlook.hold_seconds)
    for of_ticket, lengths in zip(waits, new, strict=True):
        begin = free_at[0]
        of_ticket.append(begin)
        if chance() < left:
            continue
        if chance() < missed:
            busy = outlook.hold_seconds
        else:
            busy = latest * chance() + factor * lengths[int(_LENGTHS * chance())]
        heapreplace(free_at, begin + busy)


def _part(these: int, others: int, chance: Callable[[], float]) -> float:
    """A part of users, as wrong as numbers that were seen, and what counts before, allow."""
    seen = these + others + _SEEN_BEFORE
    mean = (these + _PART_BEFORE * _SEEN_BEFORE) / seen
    return max(mean + _normal(chance) * sqrt(mean * (1.0 - mean) / (seen + 1)), 0.0)


def _normal(chance: Callable[[], float]) -> float:
    """About normally distributed, with mean 0 and deviation 1."""
    return (chance() + chance() + chance() + chance() - 2.0) * sqrt(3.0)


def _interval(waits: list[float], widths: IntervalWidths) -> WaitInterval:
    waits.sort()
    last = len(waits) - 1
    ends = widths.stretched(waits[floor(_TAIL * last)], waits[last // 2], waits[ceil((1.0 - _TAIL) * last)])
    return WaitInterval(floor(ends[0]), ceil(ends[1]))
