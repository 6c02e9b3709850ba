"""Calendar entries of a setting or of the API: once, or every week at the same local time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from dra_spawner.scale_ahead.calendars.demand_lines import DemandLine
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

_WEEK: Final = timedelta(weeks=1)
_MAX_WEEKS: Final = 520


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """A class, once or every week.

    Attributes
    ----------
    name
        Title, for people.
    demand
        Expected users.
    begins
        First begin in local time, without a time zone.
    lasts
        Duration.
    zone
        Time zone of the local time.
    weekly_until
        Last day of a weekly entry; None for a single one.
    skipped
        Days on which a weekly entry does not take place.
    id
        Id of an added entry; empty of others, and of one that is not added yet.
    """

    name: str
    demand: DemandLine
    begins: datetime
    lasts: timedelta
    zone: tzinfo
    weekly_until: date | None = None
    skipped: frozenset[date] = frozenset()
    id: str = ""

    def occurrences(self, begins: datetime, ends: datetime, source: str) -> Iterator[Occurrence]:
        """Occurrences between two times with time zones, in the order of their begin.

        A local time that does not exist, as summer time begins, is moved by the change. Of a local time that exists
        twice, the first one counts.
        """
        for number in range(_MAX_WEEKS if self.weekly_until is not None else 1):
            local = self.begins + number * _WEEK
            if self.weekly_until is not None and local.date() > self.weekly_until:
                return
            # In UTC: Python subtracts local times of one zone without regard to changes of the clock.
            start = local.replace(tzinfo=self.zone).astimezone(UTC)
            if start >= ends:
                return
            if local.date() in self.skipped or start + self.lasts <= begins:
                continue
            yield self._occurrence(start.astimezone(self.zone), source)

    def _occurrence(self, start: datetime, source: str) -> Occurrence:
        demand = self.demand
        end = (start.astimezone(UTC) + self.lasts).astimezone(self.zone)
        usual = Occurrence(
            self.name, demand.profile, start, end, demand.users, demand.counts, source=source, entry_id=self.id
        )
        return replace(usual, ramp=demand.ramp) if demand.ramp is not None else usual
