"""What was used, and what budgets would have done: each launch is judged at the time at which it was asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from dra_spawner.fairness.budgets import Budget, BudgetPolicy
from dra_spawner.fairness.device_hours import ALL_DRIVERS, HeldTime, UseOverTime, held_times
from dra_spawner.history.records import Launch

Memberships = Mapping[str, tuple[str, ...]]
"""Groups of each user, by the user's name as the history has it."""

#: A server that has its node within this time did not wait.
_AT_ONCE: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a user or a group has used of a budget."""

    subject: str
    hours: float
    budget: Budget

    @property
    def is_over(self) -> bool:
        return self.hours >= self.budget.hours


@dataclass(frozen=True, slots=True)
class Effect:
    """What budgets would have done to launches."""

    over: int = 0
    """Launches that were asked for over budget."""
    behind: int = 0
    """Of these, launches that would have been behind in a queue: a user within budget waited, too."""

    def __add__(self, other: Effect) -> Effect:
        return Effect(self.over + other.over, self.behind + other.behind)


@dataclass(frozen=True, slots=True)
class UseReport:
    """Device-hours of a time, the standing of each budget at its end, and the effect of the budgets."""

    begin: datetime
    end: datetime
    by_user: Mapping[str, float]
    by_group: Mapping[str, float]
    """A user of several groups counts in each."""
    by_choice: Mapping[str, float]
    cost_by_user: Mapping[str, float]
    """Empty without prices."""
    standings: tuple[Standing, ...]
    """The fullest first."""
    effects: Mapping[str, Effect]
    """By user; users who were never over budget are left out."""
    launches: int
    unknown: int
    """Launches whose devices are not known; they count as none."""


class BudgetCheck:
    """Whether a user may have a device before others.

    Parameters
    ----------
    times
        What servers held, at least of the longest window.
    memberships
        Groups of users; today's, as earlier ones are not known.
    """

    def __init__(self, times: Sequence[HeldTime], policy: BudgetPolicy, memberships: Memberships) -> None:
        self._policy = policy
        self._memberships = memberships
        self._of_user: dict[str, list[HeldTime]] = defaultdict(list)
        self._of_group: dict[str, list[HeldTime]] = defaultdict(list)
        for each in times:
            self._of_user[each.user].append(each)
            for group in memberships.get(each.user, ()):
                self._of_group[group].append(each)
        self._known: dict[tuple[bool, str, str], UseOverTime] = {}
        self._of_groups = policy.of_groups()

    def standings(self, user: str, moment: float, groups: Iterable[str] | None = None) -> Iterator[Standing]:
        """The user's own budgets, and those of the user's groups, at a time.

        Parameters
        ----------
        groups
            Of the user, where the caller knows them better; None for the known ones.
        """
        groups = set(self._memberships.get(user, ()) if groups is None else groups)
        for driver in self._policy.drivers:
            for budget in self._policy.of_user(groups, driver):
                yield self._standing(user, budget, moment, is_group=False)
        for group, budget in self._of_groups:
            if group in groups:
                yield self._standing(group, budget, moment, is_group=True)

    def is_over(self, user: str, moment: float) -> bool:
        """Whether one of the budgets is used up."""
        return any(each.is_over for each in self.standings(user, moment))

    def worst(self, user: str, moment: float, groups: Iterable[str] | None = None) -> Standing | None:
        """The budget that is used up most; None while the user is within all of them."""
        over = (each for each in self.standings(user, moment, groups) if each.is_over)
        return max(over, key=lambda each: each.hours / each.budget.hours, default=None)

    def all_standings(self, moment: float) -> list[Standing]:
        """Each budget of each user with devices, and of each group, the fullest first."""
        found = [self._standing(group, budget, moment, is_group=True) for group, budget in self._of_groups]
        for user in self._of_user:
            groups = self._memberships.get(user, ())
            for driver in self._policy.drivers:
                found += [
                    self._standing(user, each, moment, is_group=False) for each in self._policy.of_user(groups, driver)
                ]
        return sorted(found, key=lambda each: (-each.hours / each.budget.hours, each.subject))

    def hours(self, begin: float, end: float, *, of_groups: bool) -> dict[str, float]:
        """Device-hours of each user, or of each group, in a window."""
        found = {
            subject: self._use(subject, ALL_DRIVERS, is_group=of_groups).within(begin, end)
            for subject in (self._of_group if of_groups else self._of_user)
        }
        return {subject: hours for subject, hours in found.items() if hours > 0}

    def _standing(self, subject: str, budget: Budget, moment: float, *, is_group: bool) -> Standing:
        begin = moment - budget.window.total_seconds()
        return Standing(subject, self._use(subject, budget.driver, is_group=is_group).within(begin, moment), budget)

    def _use(self, subject: str, driver: str, *, is_group: bool) -> UseOverTime:
        key = is_group, subject, driver
        if key not in self._known:
            times = (self._of_group if is_group else self._of_user).get(subject, ())
            self._known[key] = UseOverTime((each.begin, each.end, each.number(driver)) for each in times)
        return self._known[key]


def use_report(
    launches: Sequence[Launch], begin: datetime, end: datetime, policy: BudgetPolicy, memberships: Memberships
) -> UseReport:
    """What was used from `begin` to `end`, and what the policy would have done.

    Parameters
    ----------
    launches
        All launches that may reach into the time, or into the windows before it.
    """
    times, unknown = held_times(launches, end)
    check = BudgetCheck(times, policy, memberships)
    since, until = begin.timestamp(), end.timestamp()
    choices: defaultdict[str, float] = defaultdict(float)
    costs: defaultdict[str, float] = defaultdict(float)
    for each in times:
        hours = max(min(each.end, until) - max(each.begin, since), 0.0) / 3600
        if hours:
            choices[each.choice] += hours * each.number(ALL_DRIVERS)
            costs[each.user] += hours * _price_of_hour(each, policy.prices)
    asked = [each for each in launches if begin <= each.asked < end]
    return UseReport(
        begin,
        end,
        by_user=check.hours(since, until, of_groups=False),
        by_group=check.hours(since, until, of_groups=True),
        by_choice=dict(choices),
        cost_by_user=dict(costs) if policy.prices else {},
        standings=tuple(check.all_standings(until)),
        effects=_effects(asked, check, end),
        launches=len(asked),
        unknown=unknown,
    )


def _price_of_hour(held: HeldTime, prices: Mapping[str, float]) -> float:
    """Price of an hour of a server: of its choice, of its profile, or of its devices by driver."""
    for name in (held.choice, held.choice.partition("/")[0]):
        if name in prices:
            return prices[name] * held.number(ALL_DRIVERS)
    return sum(prices.get(driver, 0.0) * number for driver, number in held.devices.items())


def _effects(asked: Sequence[Launch], check: BudgetCheck, end: datetime) -> dict[str, Effect]:
    """Effects of the budgets on the recorded launches; users are assumed to ask as they did."""
    with_devices = [each for each in asked if each.devices]
    is_over = [check.is_over(each.user, each.asked.timestamp()) for each in with_devices]
    waits = sorted(
        (each.asked, each.bound or each.ended or end)
        for each, over in zip(with_devices, is_over, strict=True)
        if not over and (each.bound or each.ended or end) - each.asked > _AT_ONCE
    )
    begins = [begin for begin, _ in waits]
    latest = list(accumulate((wait_end for _, wait_end in waits), max))
    found: dict[str, Effect] = {}
    for each, over in zip(with_devices, is_over, strict=True):
        if over:
            place = bisect_left(begins, max(each.bound or end, each.asked))
            is_behind = place > 0 and latest[place - 1] > each.asked
            found[each.user] = found.get(each.user, Effect()) + Effect(1, int(is_behind))
    return found
