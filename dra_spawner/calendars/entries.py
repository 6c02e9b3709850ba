"""Calendar entries that are written down by themselves: once, or every week at the same wall-clock time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from dra_spawner.calendars.demand_lines import DemandLine
from dra_spawner.calendars.occurrences import Occurrence

__all__ = ["CalendarEntry"]

_WEEK: Final = timedelta(weeks=1)
_MOST_WEEKS: Final = 520


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """One class, or one class a week.

    Attributes
    ----------
    name
        For people.
    demand
        Who is expected.
    begins
        First begin, as the clock on the wall shows it; without a time zone.
    lasts
        Time until the end.
    zone
        Time zone of that clock.
    weekly_until
        Last day of an entry that repeats every week; None for one that does not.
    skipped
        Days of a weekly entry on which nothing takes place.
    """

    name: str
    demand: DemandLine
    begins: datetime
    lasts: timedelta
    zone: tzinfo
    weekly_until: date | None = None
    skipped: frozenset[date] = frozenset()

    def occurrences(self, begins: datetime, ends: datetime, source: str) -> Iterator[Occurrence]:
        """Occurrences that overlap a time, given with time zones, in their order.

        A time that the clock skips when summer time begins is the same time after the change; of one that comes twice,
        the first.
        """
        for number in range(_MOST_WEEKS if self.weekly_until is not None else 1):
            on_the_wall = self.begins + number * _WEEK
            if self.weekly_until is not None and on_the_wall.date() > self.weekly_until:
                return
            # By way of UTC: the difference of two times of one zone is that of their clocks.
            start = on_the_wall.replace(tzinfo=self.zone).astimezone(UTC)
            if start >= ends:
                return
            if on_the_wall.date() in self.skipped or start + self.lasts <= begins:
                continue
            yield self._occurrence(start.astimezone(self.zone), source)

    def _occurrence(self, start: datetime, source: str) -> Occurrence:
        demand = self.demand
        end = (start.astimezone(UTC) + self.lasts).astimezone(self.zone)
        usual = Occurrence(self.name, demand.profile, start, end, demand.users, demand.counts, source=source)
        if demand.ramp is None:
            return usual
        return Occurrence(
            self.name, demand.profile, start, end, demand.users, demand.counts, ramp=demand.ramp, source=source
        )
