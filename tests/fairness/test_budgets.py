"""Budgets: which one holds for a user, and what they would have done to recorded launches."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from dra_spawner.fairness.budget_replay import BudgetCheck, Effect, use_report
from dra_spawner.fairness.budgets import Budget, BudgetPolicy, Combination, Per
from dra_spawner.fairness.device_hours import held_times
from dra_spawner.history.records import Launch
from tests.all_of_them import all_of_them
from tests.bench.budget_fairness import budgets, jain, run, wishes
from tests.history.records import START, after, launch

DAY, WEEK = timedelta(days=1), timedelta(days=7)
HOUR = 3600.0
GPU = "gpu.example.com"
ALL = Budget(10, WEEK)
MATHS, PHYSICS = Budget(20, WEEK, ("maths",)), Budget(10, DAY, ("physics",))
OTHERS = Budget(1, WEEK)


@all_of_them("policy, groups, expected", {
    "no budgets": (BudgetPolicy(), (), []),
    "all users": (BudgetPolicy((ALL,)), (), [ALL]),
    "one group": (BudgetPolicy((MATHS, PHYSICS)), ("maths",), [MATHS]),
    "several hold": (BudgetPolicy((ALL, MATHS)), ("maths",), [ALL, MATHS]),
    "none holds": (BudgetPolicy((MATHS,), (OTHERS,)), ("arts",), [OTHERS]),
    # 10 hours a day are more than 20 a week.
    "the largest": (BudgetPolicy((MATHS, PHYSICS), combination=Combination.MAX), ("maths", "physics"), [PHYSICS]),
    # 10 a day and 20 a week, in a day.
    "the sum": (
        BudgetPolicy((MATHS, PHYSICS), combination=Combination.SUM), ("maths", "physics"), [Budget(10 + 20 / 7, DAY)],
    ),
    "of a group as a whole": (BudgetPolicy((Budget(9, DAY, ("maths",), per=Per.GROUP),)), ("maths",), []),
})  # fmt: skip
def test_which_budgets_hold(policy: BudgetPolicy, groups: tuple[str, ...], expected: list[Budget]) -> None:
    assert list(policy.of_user(groups, "devices")) == expected


def held(uid: str, user: str, begin: float, hours: float, number: float = 1.0, waited: float = 0.0) -> Launch:
    """A launch that was asked for so many hours after the start."""
    bound = (begin + waited) * HOUR
    more: dict[str, Any] = {"bound": after(bound), "ended": after(bound + hours * HOUR), "devices": {GPU: number}}
    return launch(uid, begin * HOUR, user=user, choice=f"{uid.rstrip('0123456789')}/x", **more)


GROUPS = {"ada": ("maths",), "bob": ("maths", "physics")}


def test_use_by_user_group_and_choice_with_costs() -> None:
    launches = [held("whole1", "ada", -2, 4), held("share1", "bob", 1, 8, 0.25), held("share2", "bob", 20, 10, 0.25)]
    policy = BudgetPolicy(prices={"whole": 3.0, GPU: 1.0})
    found = use_report(launches, START, after(24 * HOUR), policy, GROUPS)
    assert found.by_user == {"ada": 2, "bob": 3}, "what reaches over an end is cut"
    assert found.by_group == {"maths": 5, "physics": 3}
    assert found.by_choice == {"whole/x": 2, "share/x": 3}
    assert found.cost_by_user == {"ada": 6, "bob": 3}
    assert (found.launches, found.unknown) == (2, 0)


def test_a_rolling_window_lets_old_use_go() -> None:
    times, _ = held_times([held("a", "ada", 0, 6)], after(100 * HOUR))
    check = BudgetCheck(times, BudgetPolicy((Budget(5, DAY),)), {})
    moments = {hours: check.is_over("ada", after(hours * HOUR).timestamp()) for hours in (4.9, 5, 24, 25, 25.1, 99)}
    assert moments == {4.9: False, 5: True, 24: True, 25: True, 25.1: False, 99: False}
    assert not check.is_over("bob", after(6 * HOUR).timestamp())


def test_a_window_over_the_change_to_summer_time_counts_hours() -> None:
    """A day of 23 hours by the clock of a wall: windows are counted in seconds."""
    berlin = ZoneInfo("Europe/Berlin")
    begin, end = datetime(2026, 3, 28, 20, tzinfo=berlin), datetime(2026, 3, 29, 5, tzinfo=berlin)
    times, _ = held_times([launch("a", 0, user="ada", bound=begin, ended=end, devices={GPU: 1.0})], end)
    check = BudgetCheck(times, BudgetPolicy((Budget(8, DAY),)), {})
    (standing,) = check.standings("ada", end.timestamp())
    assert standing.hours == 8
    assert check.is_over("ada", end.timestamp())
    assert not check.is_over("ada", datetime(2026, 3, 29, 21, 30, tzinfo=berlin).timestamp()), (
        "24 hours after its first"
    )


def test_a_group_as_a_whole() -> None:
    times, _ = held_times([held("a", "ada", 0, 6), held("b", "bob", 0, 6)], after(100 * HOUR))
    check = BudgetCheck(times, BudgetPolicy((Budget(10, DAY, ("maths", "physics"), per=Per.GROUP),)), GROUPS)
    assert check.is_over("ada", after(6 * HOUR).timestamp()), "ada has used 6, and her group 12"
    standings = check.all_standings(after(6 * HOUR).timestamp())
    assert [(each.subject, each.hours, each.is_over) for each in standings] == [
        ("maths", 12, True),
        ("physics", 6, False),
    ]


def test_what_a_limit_would_have_done() -> None:
    launches = [
        held("a1", "ada", 0, 5),
        held("a2", "ada", 6, 1),  # over budget, and no one waits
        held("a3", "ada", 8, 1, waited=0.5),  # over budget, while bob waits
        held("b1", "bob", 8.2, 1, waited=1),
        held("a4", "ada", 12, 1),  # over budget, after bob's wait
        held("a5", "ada", 40, 1),  # within budget again
    ]
    found = use_report(launches, START, after(48 * HOUR), BudgetPolicy((Budget(5, DAY),)), {})
    assert found.effects == {"ada": Effect(3, 1)}
    longer = use_report(launches, after(7 * HOUR), after(48 * HOUR), BudgetPolicy((Budget(5, DAY),)), {})
    assert longer.effects == {"ada": Effect(2, 1)}, "use before the time counts in the window"


def test_groups_of_unequal_appetite_get_their_budgets_and_devices_stay_in_use() -> None:
    """A small one of `tests.bench.budget_fairness`, which has 10 groups over 30 days.

    On two devices, sessions of a whole one never start if shares pass them.
    """
    limits = budgets(4, 2)
    wanted = wishes(limits, 12, Random(7))
    found = {
        enforced: run(wanted, limits, 2, 12, enforced=enforced, look_seconds=2 * HOUR, passing=False)
        for enforced in (True, False)
    }
    fair, unfair = (
        jain([found[each].while_waiting[group] / hours for group, hours in limits.items()]) for each in (True, False)
    )
    assert fair >= 0.95 > unfair
    assert found[True].used >= 0.98 * found[False].used


def test_borrowing_leaves_no_device_free_while_somebody_waits() -> None:
    """At two fifths of the demand. What a budget costs is in hours in which nobody waits."""
    limits, devices, days = budgets(4, 8), 8, 8
    wanted = wishes(limits, days, Random(7), 0.4)
    with_, without = (
        run(wanted, limits, devices, days, enforced=enforced, look_seconds=2 * HOUR) for enforced in (True, False)
    )
    every = devices * days * 24
    for found in (with_, without):
        assert found.waited_hours > 24
        assert found.unused_while_waiting <= 0.01 * every
    assert with_.used >= without.used - 0.02 * every
