"""Synthetic weekly classes, whose users start their servers within some minutes."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from dra_spawner.scale_ahead.calendars.occurrences import ADDITIONAL, RUSH_PEAK, Occurrence
from dra_spawner.scale_ahead.demand.minutes import datetime_of, minute_of
from dra_spawner.scale_ahead.replay.traces import Trace


@dataclass(frozen=True, slots=True)
class WeeklyClass:
    """A weekly class, and the arrivals of its users.

    Raises
    ------
    ValueError
        If a number is outside of its range.
    """

    profile: str
    users: int
    weekday: int
    """0 is Monday."""
    at: time
    ramp: timedelta = timedelta(minutes=15)
    """Time within which all users come; most come in its first third."""
    absent: float = 0.0
    """Limit of the share of absent users; the share is drawn at random for each week."""
    zone: tzinfo = UTC

    def __post_init__(self) -> None:
        if self.users < 0:
            raise ValueError(f"users is {self.users}; it must be 0 or more")
        if not 0 <= self.weekday <= 6:
            raise ValueError(f"weekday is {self.weekday}; it must be 0 (Monday) to 6 (Sunday)")
        if self.ramp < timedelta(minutes=1):
            raise ValueError(f"ramp is {self.ramp}; it must be a minute or more")
        if not 0 <= self.absent <= 1:
            raise ValueError(f"absent is {self.absent}; it must be 0 to 1")

    def begins(self, first: int, last: int) -> Iterable[datetime]:
        """Begins of the class between two minutes."""
        day = datetime_of(first).astimezone(self.zone).date()
        day += timedelta(days=(self.weekday - day.weekday()) % 7)
        while (moment := datetime.combine(day, self.at, self.zone)) < datetime_of(last):
            if moment >= datetime_of(first):
                yield moment
            day += timedelta(weeks=1)


def class_launches(classes: Iterable[WeeklyClass], first: int, last: int, seed: int) -> Trace:
    """The launches of classes between two minutes."""
    draw = random.Random(seed)  # noqa: S311  # no secret
    launches = array("L", bytes(array("L").itemsize * (last - first)))
    for each in classes:
        for begins in each.begins(first, last):
            start, ramp = minute_of(begins), each.ramp // timedelta(minutes=1)
            for _ in range(each.users - round(each.users * draw.uniform(0.0, each.absent))):
                minute = start + int(draw.triangular(0.0, ramp, ramp * RUSH_PEAK))
                if minute < last:
                    launches[minute - first] += 1
    return Trace(first, launches)


def class_occurrences(classes: Iterable[WeeklyClass], first: int, last: int) -> tuple[Occurrence, ...]:
    """Calendar entries for all occurrences of classes, in the order of their begin."""
    found = [
        Occurrence(
            name=f"{each.users} of {each.profile}",
            profile=each.profile,
            begins=begins,
            ends=begins + max(timedelta(hours=1), 2 * each.ramp),
            users=each.users,
            counts=ADDITIONAL,
            ramp=each.ramp,
            source="synthetic",
        )
        for each in classes
        for begins in each.begins(first, last)
    ]
    return tuple(sorted(found, key=lambda each: each.begins.timestamp()))
