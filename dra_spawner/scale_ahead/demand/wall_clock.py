"""The same local time in past weeks, and holidays."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta, tzinfo

from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_WEEK, datetime_of

_QUARTER = 15
#: Past weeks that are searched for some that were no holidays.
_SEARCHED = 8


class WallClock:
    """Local time of a site.

    Parameters
    ----------
    zone
        Its time zone.
    holidays
        Local days.
    weeks
        How many past weeks are asked for.
    """

    def __init__(self, zone: tzinfo, holidays: AbstractSet[date], weeks: int) -> None:
        self._zone = zone
        self._holidays = holidays
        self._weeks = weeks
        self._is_plain = zone is UTC and not holidays
        self._plain = tuple(MINUTES_A_WEEK * week for week in range(1, weeks + 1))
        self._quarter = -1
        self._known: tuple[int, ...] = ()

    def minutes_back(self, minute: int) -> tuple[int, ...]:
        """Minutes back to the same local time of each past week, the last week first.

        Earlier weeks take the place of those in which the day was a holiday, so a class is known after a break.
        """
        if self._is_plain:
            return self._plain
        quarter = minute // _QUARTER  # clocks change at whole quarters
        if quarter != self._quarter:
            self._quarter, self._known = quarter, self._computed(minute)
        return self._known

    def yesterday(self, minute: int) -> int | None:
        """Minutes back to the same local time of the day before; None if that was a holiday."""
        then = self._local(minute) - timedelta(days=1)
        return minute - int(then.timestamp() // 60) if then.date() not in self._holidays else None

    def is_holiday(self, minute: int) -> bool:
        """Whether the local day of a minute is a holiday."""
        return bool(self._holidays) and self._local(minute).date() in self._holidays

    def _computed(self, minute: int) -> tuple[int, ...]:
        now = self._local(minute)
        found: list[int] = []
        for week in range(1, max(self._weeks, _SEARCHED) + 1):
            if len(found) == self._weeks:
                break
            # Arithmetic on a local time keeps what the clock on the wall shows.
            then = now - timedelta(weeks=week)
            if then.date() not in self._holidays:
                found.append(minute - int(then.timestamp() // 60))
        return tuple(found)

    def _local(self, minute: int) -> datetime:
        return datetime_of(minute).astimezone(self._zone)
