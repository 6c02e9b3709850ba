"""Launches of one profile group, by the minute."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, repeat
from math import log


@dataclass(frozen=True, slots=True)
class Durations:
    """Lognormal distribution of the durations of servers, for launches whose end is not recorded."""

    median_minutes: float
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.median_minutes < float("inf"):
            raise ValueError(f"median_minutes is {self.median_minutes}; it must be more than 0")
        if not 0 <= self.sigma <= 5:
            raise ValueError(f"sigma is {self.sigma}; it must be 0 to 5")


@dataclass(slots=True)
class Trace:
    """Counts of launches, and durations of servers.

    Attributes
    ----------
    begin
        The first minute (see `placeholders.planner.demand.minutes`).
    launches
        Number of launches in each minute from `begin` on.
    lengths
        Duration of each server in minutes, in the order of the launches; -1 for an unknown end: the server never ends.
        None if no end is known.
    gaps
        Times of which nothing is recorded, each with its first minute and the minute after its last one.
    """

    begin: int
    launches: array[int] = field(default_factory=lambda: array("L"))
    lengths: array[int] | None = None
    gaps: tuple[tuple[int, int], ...] = ()

    @property
    def end(self) -> int:
        """The minute after the last one."""
        return self.begin + len(self.launches)

    @property
    def total(self) -> int:
        """Number of all launches."""
        return sum(self.launches)

    def minutes(self) -> Iterator[tuple[int, int]]:
        """Each minute with its number of launches."""
        return enumerate(self.launches, self.begin)

    def recorded(self, begin: int) -> int:
        """Number of minutes from one on of which there is a record."""
        gaps = sum(max(end - max(first, begin), 0) for first, end in self.gaps)
        return self.end - begin - gaps

    def is_gap(self, minute: int) -> bool:
        """Whether nothing is recorded of a minute."""
        return any(first <= minute < end for first, end in self.gaps)

    def since(self, minute: int) -> Trace:
        """The trace from a minute on."""
        skipped = min(max(minute - self.begin, 0), len(self.launches))
        lengths = None if self.lengths is None else self.lengths[sum(self.launches[:skipped]) :]
        return replace(self, begin=self.begin + skipped, launches=self.launches[skipped:], lengths=lengths)

    def with_more(self, more: Trace) -> Trace:
        """The launches of both traces; launches before or after this trace are dropped."""
        more = more.since(self.begin)
        launches = array("L", self.launches)
        last = min(more.end, self.end)
        for minute in range(more.begin, last):
            launches[minute - self.begin] += more.launches[minute - more.begin]
        if self.lengths is None and more.lengths is None:
            return replace(self, launches=launches)
        lengths = array("l")
        own, others = self._lengths(), more._lengths()
        for minute, count in self.minutes():
            lengths.extend(islice(own, count))
            if more.begin <= minute < last:
                lengths.extend(islice(others, more.launches[minute - more.begin]))
        return replace(self, launches=launches, lengths=lengths)

    def _lengths(self) -> Iterator[int]:
        return repeat(-1) if self.lengths is None else iter(self.lengths)

    def with_lengths(self, durations: Durations, seed: int) -> Trace:
        """The same launches with durations that are drawn at random."""
        draw = random.Random(seed)  # noqa: S311  # no secret
        mu = log(durations.median_minutes)
        most = 7 * 1440
        lengths = array(
            "l", (min(max(round(draw.lognormvariate(mu, durations.sigma)), 1), most) for _ in range(self.total))
        )
        return replace(self, lengths=lengths)
