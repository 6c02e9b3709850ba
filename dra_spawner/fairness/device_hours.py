"""Device-hours over any window of time, from recorded launches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dra_spawner.history.records import Launch

ALL_DRIVERS: Final = "devices"
"""The sum over all drivers, where a driver's name may stand."""

_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class HeldTime:
    """Devices that one server held, from its node on until its end."""

    user: str
    choice: str
    begin: float
    """Seconds since 1970."""
    end: float
    devices: Mapping[str, float]
    """Whole devices by driver."""

    def number(self, driver: str) -> float:
        """Whole devices of a driver, or of all."""
        return sum(self.devices.values()) if driver == ALL_DRIVERS else self.devices.get(driver, 0.0)


def held_times(launches: Iterable[Launch], now: datetime) -> tuple[list[HeldTime], int]:
    """Times of all servers that held devices, and the number of servers whose devices are not known.

    A server without a node held nothing. One that has not ended holds its devices until now.
    """
    found, unknown = [], 0
    for each in launches:
        if each.bound is None:
            continue
        # No server has its node before it was asked for: a clock was set in between.
        begin, end = max(each.bound, each.asked).timestamp(), min(each.ended or now, now).timestamp()
        if each.devices is None:
            unknown += 1
        elif each.devices and end > begin:
            found.append(HeldTime(each.user, each.choice or each.profile, begin, end, each.devices))
    return found, unknown


class UseOverTime:
    """The device-hours of one user, group or choice in any window; the cost is the logarithm of its launches.

    The use until a time is the sum of ``devices * (time - begin)`` over begins before it, minus the same over ends.

    Parameters
    ----------
    parts
        Begin and end (seconds since 1970), and whole devices.
    """

    def __init__(self, parts: Iterable[tuple[float, float, float]]) -> None:
        found = list(parts)
        self._begins = _RunningSums((begin, number) for begin, _, number in found)
        self._ends = _RunningSums((end, number) for _, end, number in found)

    def until(self, moment: float) -> float:
        """Device-hours from the beginning until a time."""
        return (self._begins.area(moment) - self._ends.area(moment)) / _HOUR

    def within(self, begin: float, end: float) -> float:
        """Device-hours in a window."""
        return max(self.until(end) - self.until(begin), 0.0)


class _RunningSums:
    """Sums of numbers, and of numbers times their moments, up to each moment."""

    def __init__(self, parts: Iterable[tuple[float, float]]) -> None:
        self._moments: list[float] = []
        self._numbers = [0.0]
        self._products = [0.0]
        ordered = sorted(parts)
        #: Times since 1970 are large: their products would lose the last digits.
        self._origin = ordered[0][0] if ordered else 0.0
        for moment, number in ordered:
            self._moments.append(moment)
            self._numbers.append(self._numbers[-1] + number)
            self._products.append(self._products[-1] + number * (moment - self._origin))

    def area(self, moment: float) -> float:
        """Sum of ``number * (moment - its moment)`` over the moments before it."""
        place = bisect_right(self._moments, moment)
        return self._numbers[place] * (moment - self._origin) - self._products[place]
