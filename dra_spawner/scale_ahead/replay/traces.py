"""Launches of one profile group, by the minute."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat
from math import log

__all__ = ["Durations", "Trace"]


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
    """

    begin: int
    launches: array[int] = field(default_factory=lambda: array("L"))
    lengths: array[int] | None = None

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

    def since(self, minute: int) -> Trace:
        """The trace from a minute on."""
        skipped = min(max(minute - self.begin, 0), len(self.launches))
        lengths = None if self.lengths is None else self.lengths[sum(self.launches[:skipped]) :]
        return Trace(self.begin + skipped, self.launches[skipped:], lengths)

    def with_more(self, more: Trace) -> Trace:
        """The launches of both traces; launches before or after this trace are dropped."""
        more = more.since(self.begin)
        launches = array("L", self.launches)
        last = min(more.end, self.end)
        for minute in range(more.begin, last):
            launches[minute - self.begin] += more.launches[minute - more.begin]
        if self.lengths is None and more.lengths is None:
            return Trace(self.begin, launches)
        lengths = array("l")
        own, others = self._lengths(), more._lengths()
        for minute, count in self.minutes():
            lengths.extend(islice(own, count))
            if more.begin <= minute < last:
                lengths.extend(islice(others, more.launches[minute - more.begin]))
        return Trace(self.begin, launches, lengths)

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
        return Trace(self.begin, self.launches, lengths)
