"""Times at which nodes must be ordered, and waits of users. All times are in UTC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest
from math import floor, sqrt

from dra_spawner.scale_ahead.calendars.occurrences import RUSH_PEAK


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits of users that do not start at once.

    Attributes
    ----------
    users
        Number of waiting users, also of those without end.
    longest, mean
        Longest and mean wait of users whose wait ends.
    without_end
        Number of users that wait until other servers end, as no capacity comes for them.
    """

    users: int = 0
    longest: timedelta = timedelta(0)
    mean: timedelta = timedelta(0)
    without_end: int = 0


def arrivals(begins: datetime, ramp: timedelta, users: int) -> tuple[datetime, ...]:
    """Times at which users start their servers: the first at once, and most soon after it, as in a replay."""
    return tuple(begins + ramp * _rush(number / users) for number in range(users))


def _rush(share: float) -> float:
    """Part of the ramp after which this share of the users has come."""
    if share <= RUSH_PEAK:
        return sqrt(share * RUSH_PEAK)
    return 1.0 - sqrt((1.0 - share) * (1.0 - RUSH_PEAK))


def start_delays(nodes: int, per_minute: float | None) -> tuple[timedelta, ...]:
    """Times from an order until each of its nodes is started, with a limit of starts per minute."""
    if per_minute is None:
        return (timedelta(0),) * nodes
    at_once, interval = _pace(per_minute)
    return tuple(interval * (number // at_once) for number in range(nodes))


def order_time(usable_by: datetime, usable_after: timedelta, nodes: int, per_minute: float | None) -> datetime:
    """Time at which nodes must be ordered, so that all are usable by a time.

    Parameters
    ----------
    usable_after
        Time from the start of a node until it is usable.
    """
    last = start_delays(nodes, per_minute)[-1] if nodes else timedelta(0)
    return usable_by - usable_after - last


def starts_on_demand(ordered: Sequence[datetime], per_minute: float | None) -> tuple[datetime, ...]:
    """Start times of nodes that are ordered one by one, in the order of time."""
    if per_minute is None:
        return tuple(ordered)
    at_once, interval = _pace(per_minute)
    starts: list[datetime] = []
    for number, moment in enumerate(ordered):
        after = starts[number - at_once] + interval if number >= at_once else moment
        starts.append(max(moment, after))
    return tuple(starts)


def waits(come: Sequence[datetime], slots: Iterable[datetime]) -> Waits:
    """Waits of users; each user gets the next free slot.

    Parameters
    ----------
    come
        Times at which users start their servers, in order.
    slots
        Times from which slots are free; each is for one user.
    """
    return shared_waits((come,), slots)[0]


def shared_waits(groups: Sequence[Sequence[datetime]], slots: Iterable[datetime]) -> list[Waits]:
    """Waits of the users of each group, if all take the next free slot; at one time the first group is first."""
    coming = sorted((moment, number) for number, come in enumerate(groups) for moment in come)
    found: list[list[timedelta]] = [[] for _ in groups]
    without_end = [0] * len(groups)
    for (moment, number), slot in zip_longest(coming, sorted(slots)[: len(coming)]):
        if slot is None:
            without_end[number] += 1
        elif slot > moment:
            found[number].append(slot - moment)
    return [
        Waits(
            len(ending) + never,
            max(ending, default=timedelta(0)),
            sum(ending, timedelta(0)) / max(len(ending), 1),
            never,
        )
        for ending, never in zip(found, without_end, strict=True)
    ]


def _pace(per_minute: float) -> tuple[int, timedelta]:
    """Number of nodes that start together, and the time until the next ones start."""
    at_once = max(floor(per_minute), 1)
    return at_once, timedelta(minutes=at_once / per_minute)
