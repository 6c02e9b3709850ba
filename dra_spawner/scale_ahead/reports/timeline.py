"""Figures by the minute, and their sums over longer steps, for plots."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final

from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, datetime_of, minute_of

#: Lengths of steps, in minutes: each divides a day.
_LENGTHS: Final = (1, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)
_MAX_STEPS: Final = 400


def _counts() -> array[int]:
    return array("L")


@dataclass(slots=True)
class Timeline:
    """Figures by the minute, from `begin` on. `target`, `warm` and `nodes` are empty if they are unknown."""

    begin: int
    launches: array[int] = field(default_factory=_counts)
    missed: array[int] = field(default_factory=_counts)
    """Launches that waited."""

    target: array[int] = field(default_factory=_counts)
    """Target of placeholders."""
    warm: array[int] = field(default_factory=_counts)
    """Warm placeholders."""
    nodes: array[int] = field(default_factory=_counts)

    @property
    def end(self) -> int:
        """The minute after the last one."""
        return self.begin + len(self.launches)

    def missed_within(self, begin: int, end: int) -> int:
        """Number of launches that waited, from minute `begin` on and before `end`."""
        return sum(self.missed[max(begin - self.begin, 0) : max(end - self.begin, 0)])


@dataclass(frozen=True, slots=True)
class Steps:
    """A timeline in steps of several minutes; the last step may be shorter."""

    edges: tuple[int, ...]
    """Minutes: the begin of each step, and the end of the last one."""

    launches: tuple[float, ...]
    """Launches per hour."""

    missed: tuple[float, ...]
    """Launches that waited, per hour."""

    target: tuple[int, ...]
    """Highest target in each step."""

    warm: tuple[float, ...]
    """Mean number of warm placeholders."""

    nodes: tuple[float, ...]
    """Mean number of nodes."""

    @property
    def length(self) -> int:
        """Duration of a step in minutes."""
        return self.edges[1] - self.edges[0] if len(self.edges) > 1 else 0


@dataclass(frozen=True, slots=True)
class DayOfTimeline:
    """Figures of a local day."""

    day: date
    begin: int
    """The day's first minute in the timeline."""

    end: int
    """The minute after the day's last one."""
    launches: int
    missed: int


def steps(timeline: Timeline, begin: int | None = None, end: int | None = None, *, most: int = _MAX_STEPS) -> Steps:
    """A timeline, or a part of it, in equal steps.

    Parameters
    ----------
    begin, end
        The first minute, and the minute after the last one; None for those of the timeline.
    most
        Limit of the number of steps, which sets their duration.
    """
    first = max(begin if begin is not None else timeline.begin, timeline.begin) - timeline.begin
    last = max(min(end if end is not None else timeline.end, timeline.end) - timeline.begin, first)
    whole_days = -((first - last) // (most * MINUTES_A_DAY)) * MINUTES_A_DAY
    length = next((each for each in _LENGTHS if each * most >= last - first), whole_days)
    spans = [(start, min(start + length, last)) for start in range(first, last, length)]

    def per_hour(counts: array[int]) -> tuple[float, ...]:
        return tuple(sum(counts[start:stop]) * 60 / (stop - start) for start, stop in spans)

    def means(figures: array[int]) -> tuple[float, ...]:
        return tuple(sum(figures[start:stop]) / (stop - start) for start, stop in spans) if figures else ()

    return Steps(
        edges=tuple(timeline.begin + each for each in (*(start for start, _ in spans), last)),
        launches=per_hour(timeline.launches),
        missed=per_hour(timeline.missed),
        target=tuple(max(timeline.target[start:stop]) for start, stop in spans) if timeline.target else (),
        warm=means(timeline.warm),
        nodes=means(timeline.nodes),
    )


def days(timeline: Timeline, zone: tzinfo) -> Iterator[DayOfTimeline]:
    """The local days of a timeline, in order; the first and the last one may be shorter."""
    begin = timeline.begin
    while begin < timeline.end:
        day = datetime_of(begin).astimezone(zone).date()
        # In local time: a day may have 23 or 25 hours.
        midnight = datetime.combine(day + timedelta(days=1), time(), zone)
        end = min(max(minute_of(midnight), begin + 1), timeline.end)
        first, last = begin - timeline.begin, end - timeline.begin
        launches, missed = sum(timeline.launches[first:last]), sum(timeline.missed[first:last])
        yield DayOfTimeline(day, begin, end, launches, missed)
        begin = end


def worst_day(timeline: Timeline, zone: tzinfo) -> DayOfTimeline | None:
    """The day with the most launches that waited, else with the most launches; None for an empty timeline."""
    return max(days(timeline, zone), key=lambda each: (each.missed, each.launches), default=None)
