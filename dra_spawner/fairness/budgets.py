"""Budgets of device-hours: rules for users and groups over rolling windows, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

from dra_spawner.fairness.device_hours import ALL_DRIVERS

#: A server that runs for longer before the time is left out.
_LONGEST_SERVER: Final = timedelta(days=31)


class Per(StrEnum):
    """Whose use a budget limits."""

    #: That of each user for itself.
    USER = "user"
    #: That of all users of a group together.
    GROUP = "group"


class Combination(StrEnum):
    """Which of several budgets holds for a user."""

    MIN = "min"
    MAX = "max"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Budget:
    """A number of device-hours in a rolling window."""

    hours: float
    """Above 0."""
    window: timedelta
    groups: tuple[str, ...] = ()
    """Groups of JupyterHub for whose users it holds; empty for all users."""
    driver: str = ALL_DRIVERS
    per: Per = Per.USER


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """All budgets, and how they are combined."""

    budgets: tuple[Budget, ...] = ()
    for_others: tuple[Budget, ...] = ()
    """Budgets of users for whom no other one holds."""
    combination: Combination = Combination.MIN
    prices: Mapping[str, float] = field(default_factory=dict)
    """Price of a device-hour, by profile or driver."""

    def of_user(self, groups: Iterable[str], driver: str) -> tuple[Budget, ...]:
        """Budgets for each user that hold for one with these groups, of devices of one driver.

        With `Combination.MIN` all hold. Otherwise one is made of them: the largest, or their sum in the largest one's
        window.
        """
        own = set(groups)
        found = [
            each
            for each in self.budgets
            if each.per is Per.USER and each.driver == driver and (not each.groups or own.intersection(each.groups))
        ]
        found = found or [each for each in self.for_others if each.driver == driver]
        if self.combination is Combination.MIN or len(found) < 2:
            return tuple(found)
        largest = max(found, key=lambda each: each.hours / each.window.total_seconds())
        if self.combination is Combination.MAX:
            return (largest,)
        return (Budget(_sum_of(found, largest), largest.window, driver=driver),)

    def of_groups(self) -> tuple[tuple[str, Budget], ...]:
        """Budgets of whole groups, each with its group."""
        return tuple((group, each) for each in self.budgets if each.per is Per.GROUP for group in each.groups)

    @property
    def reach(self) -> timedelta:
        """Time before a report from which launches count: the longest window, and the longest server before it."""
        longest = max((each.window for each in (*self.budgets, *self.for_others)), default=timedelta(0))
        return longest + _LONGEST_SERVER

    @property
    def drivers(self) -> tuple[str, ...]:
        """Drivers that budgets name, in order."""
        return tuple(sorted({each.driver for each in (*self.budgets, *self.for_others)}))


def _sum_of(budgets: Sequence[Budget], largest: Budget) -> float:
    """Hours in the window of the largest one."""
    return sum(each.hours / each.window.total_seconds() for each in budgets) * largest.window.total_seconds()
