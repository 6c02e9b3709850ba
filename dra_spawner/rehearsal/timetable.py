"""When nodes must be ordered, and how long users wait; exact to the second, all times in UTC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor

__all__ = ["Waits", "arrivals", "order_time", "start_delays", "starts_on_demand", "waits"]


@dataclass(frozen=True, slots=True)
class Waits:
    """Users who do not start at once.

    Attributes
    ----------
    users
        Number of users who wait, also without an end.
    longest, mean
        Of users whose wait ends.
    without_end
        For how many users nothing comes, until others leave.
    """

    users: int = 0
    longest: timedelta = timedelta(0)
    mean: timedelta = timedelta(0)
    without_end: int = 0


def arrivals(begins: datetime, ramp: timedelta, users: int) -> tuple[datetime, ...]:
    """When each user starts a server: evenly over the ramp, the first at its begin."""
    return tuple(begins + ramp * number / users for number in range(users))


def start_delays(nodes: int, per_minute: float | None) -> tuple[timedelta, ...]:
    """Time from an order until each of its nodes is started, where only so many are started in a minute."""
    if per_minute is None:
        return (timedelta(0),) * nodes
    at_once, interval = _pace(per_minute)
    return tuple(interval * (number // at_once) for number in range(nodes))


def order_time(useful_by: datetime, useful_after: timedelta, nodes: int, per_minute: float | None) -> datetime:
    """When so many nodes must be ordered, so that all are useful by a time.

    Parameters
    ----------
    useful_after
        Time that one node takes from its start.
    """
    last = start_delays(nodes, per_minute)[-1] if nodes else timedelta(0)
    return useful_by - useful_after - last


def starts_on_demand(ordered: Sequence[datetime], per_minute: float | None) -> tuple[datetime, ...]:
    """When nodes are started that are ordered one by one, in the order of time."""
    if per_minute is None:
        return tuple(ordered)
    at_once, interval = _pace(per_minute)
    starts: list[datetime] = []
    for number, moment in enumerate(ordered):
        after = starts[number - at_once] + interval if number >= at_once else moment
        starts.append(max(moment, after))
    return tuple(starts)


def waits(come: Sequence[datetime], slots: Iterable[datetime]) -> Waits:
    """How long users wait who come in this order, each for the next slot.

    Parameters
    ----------
    slots
        Time from which on each can be used; one user each.
    """
    free = sorted(slots)
    ending = [slot - user for user, slot in zip(come, free, strict=False) if slot > user]
    without_end = max(len(come) - len(free), 0)
    mean = sum(ending, timedelta(0)) / len(ending) if ending else timedelta(0)
    return Waits(len(ending) + without_end, max(ending, default=timedelta(0)), mean, without_end)


def _pace(per_minute: float) -> tuple[int, timedelta]:
    """Nodes that start together, and the time until the next of them do."""
    at_once = max(floor(per_minute), 1)
    return at_once, timedelta(minutes=at_once / per_minute)
