"""Cost of the check of a budget: ``python -m tests.bench.budgets``.

A year of launches, of many users in a few groups; each check is of a user at a time of the year, with budgets for users
and for whole groups. The naive check, which adds up the user's launches and those of the groups, runs beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from random import Random

from dra_spawner.fairness.budget_replay import BudgetCheck, Memberships
from dra_spawner.fairness.budgets import Budget, BudgetPolicy, Per
from dra_spawner.fairness.device_hours import HeldTime
from tests.bench.figures import options_parser
from tests.bench.figures import times as show_times

YEAR = 365 * 86_400.0
DRIVER = "gpu.example.com"
GROUPS = 20


def world(users: int, launches: int, random: Random) -> tuple[list[HeldTime], Memberships]:
    """Launches over a year, and groups of each user."""
    names = [f"user-{number}" for number in range(users)]
    times = []
    for _ in range(launches):
        begin = random.uniform(0, YEAR)
        end = begin + random.lognormvariate(8.2, 1.0)
        times.append(HeldTime(random.choice(names), "gpu", begin, end, {DRIVER: random.choice((0.125, 0.25, 1.0))}))
    groups = {
        name: tuple(f"group-{each}" for each in random.sample(range(GROUPS), random.randint(1, 2))) for name in names
    }
    return times, groups


def policy() -> BudgetPolicy:
    of_users = [Budget(20, timedelta(days=7), (f"group-{number}",)) for number in range(GROUPS)]
    of_groups = [Budget(5_000, timedelta(days=30), (f"group-{number}",), per=Per.GROUP) for number in range(GROUPS)]
    return BudgetPolicy((*of_users, *of_groups), (Budget(10, timedelta(days=7)),))


def naive(times: list[HeldTime], memberships: Memberships) -> Callable[[str, float], bool]:
    """The same answer by adding up."""
    found = policy()

    def is_over(user: str, moment: float) -> bool:
        groups = memberships.get(user, ())
        budgets = [(each, {user}) for each in found.of_user(groups, "devices")]
        for group, each in found.of_groups():
            if group in groups:
                budgets.append((each, {name for name, own in memberships.items() if group in own}))
        for budget, whose in budgets:
            begin = moment - budget.window.total_seconds()
            hours = sum(
                max(min(each.end, moment) - max(each.begin, begin), 0) / 3600 * each.number(DRIVER)
                for each in times
                if each.user in whose
            )
            if hours >= budget.hours:
                return True
        return False

    return is_over


def main() -> None:
    asked = options_parser(__doc__, users=10_000, launches=1_000_000, checks=2_000).parse_args()
    random = Random(1)
    times, memberships = world(asked.users, asked.launches, random)
    began = time.perf_counter()
    check = BudgetCheck(times, policy(), memberships)
    print(f"read {asked.launches:,} launches of {asked.users:,} users: {time.perf_counter() - began:.2f} s")
    began = time.perf_counter()
    check.all_standings(YEAR)
    print(f"standings of all users and groups: {time.perf_counter() - began:.2f} s")
    asks = [(f"user-{random.randrange(asked.users)}", random.uniform(0, YEAR)) for _ in range(asked.checks)]
    seconds = []
    answers = []
    for user, moment in asks:
        began = time.perf_counter()
        answers.append(check.is_over(user, moment))
        seconds.append(time.perf_counter() - began)
    print(f"a check: {show_times(seconds)}; {sum(answers):,} of {len(answers):,} over budget")
    plain = naive(times, memberships)
    began = time.perf_counter()
    same = [plain(*each) for each in asks[:5]]
    print(
        f"by adding up: {(time.perf_counter() - began) / 5 * 1000:.0f} ms each, the same answers: {same == answers[:5]}"
    )


if __name__ == "__main__":
    main()
