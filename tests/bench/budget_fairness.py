"""Fairness of budgets over 30 days in virtual time: ``python -m tests.bench.budget_fairness``.

Ten groups share the devices of one kind. Their users come at random times, more by day than by night, and some groups
want five times what their budget allows. Sessions are log-normal, shares of a device are drawn, too. Everything follows
from the seed. The queue has the order of tickets: first come, users of groups over budget last; a device that the first
one cannot use goes to a later one after half a minute. ``--passing 0`` lets nobody pass. What is over a budget says the
product's own check, from the sessions so far, each 15 minutes; it is judged as the service would.

Printed are Jain's index of each group's share-hours, divided by its budget, while somebody waits, and the utilization.
What is unused is told apart: while somebody waits, and while nobody does. The same days without budgets run beside.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from dra_spawner.fairness.budget_replay import BudgetCheck
from dra_spawner.fairness.budgets import Budget, BudgetPolicy, Per
from dra_spawner.fairness.device_hours import HeldTime
from tests.bench.figures import options_parser

DRIVER = "gpu.example.com"
HOUR, DAY = 3600.0, 86_400.0
WINDOW = timedelta(days=7)
#: Seconds between two looks at who is over a budget.
LOOK = 900.0
SHARES = (0.25, 0.5, 1.0)
#: Seconds for which devices may be free although a ticket waits for them, as in `decisions.tickets`.
FREE_FOR = 30.0


@dataclass(frozen=True)
class Wish:
    """A session that a user wants."""

    asked: float
    group: str
    user: str
    seconds: float
    share: float


@dataclass
class Outcome:
    """What came of the days."""

    while_waiting: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Share-hours by group, of times in which somebody waited."""
    used: float = 0.0
    unused_while_waiting: float = 0.0
    waited_hours: float = 0.0


def budgets(groups: int, devices: int) -> dict[str, float]:
    """Share-hours of each group in a window, in sum all that there are; the last one has three times the first one's."""
    weights = [1 + 2 * number / max(groups - 1, 1) for number in range(groups)]
    every = devices * WINDOW / timedelta(hours=1)
    return {f"group-{number}": every * each / sum(weights) for number, each in enumerate(weights)}


def wishes(limits: dict[str, float], days: float, random: Random, appetite_factor: float = 1.0) -> list[Wish]:
    """What users want: of each group 1.3 to 5 times its budget and the factor, in random order of the groups."""
    appetites = [appetite_factor * (1.3 + 3.7 * number / max(len(limits) - 1, 1)) for number in range(len(limits))]
    random.shuffle(appetites)
    found = []
    for (group, hours), appetite in zip(limits.items(), appetites, strict=True):
        # A log-normal session of this mean, of a share of this mean.
        mean_hours = math.exp(0.5**2 / 2) * sum(SHARES) / len(SHARES)
        rate = appetite * hours / WINDOW.total_seconds() / mean_hours
        moment = 0.0
        while (moment := moment + random.expovariate(rate * 1.6)) < days * DAY:
            if random.random() * 1.6 < 1 + 0.6 * math.sin(2 * math.pi * (moment / DAY - 0.25)):
                seconds = min(random.lognormvariate(0, 0.5), 8.0) * HOUR
                found.append(Wish(moment, group, f"{group}-{random.randrange(20)}", seconds, random.choice(SHARES)))
    return sorted(found, key=lambda each: each.asked)


def run(
    wanted: Sequence[Wish],
    limits: dict[str, float],
    devices: int,
    days: float,
    *,
    enforced: bool,
    look_seconds: float = LOOK,
    patience_hours: float = 2.0,
    passing: bool = True,
) -> Outcome:
    """Let the days pass.

    Parameters
    ----------
    patience_hours
        Time after which a user gives up.
    passing
        Whether a device that the first one cannot use goes to a later one.
    """
    policy = BudgetPolicy(tuple(Budget(hours, WINDOW, (group,), per=Per.GROUP) for group, hours in limits.items()))
    found, free, now, looked_at, come = Outcome(), float(devices), 0.0, -DAY, 0
    over: set[str] = set()
    queue: list[Wish] = []
    running: list[tuple[float, int, Wish]] = []
    held: list[HeldTime] = []
    free_since: dict[float, float] = {}
    while True:
        moment = min(wanted[come].asked if come < len(wanted) else math.inf, running[0][0] if running else math.inf)
        if queue and passing:
            moment = min([moment, *(each + FREE_FOR for each in free_since.values() if each + FREE_FOR > now)])
        if moment >= days * DAY:
            return found
        if queue:
            for _, _, each in running:
                found.while_waiting[each.group] += (moment - now) / HOUR * each.share
            found.waited_hours += (moment - now) / HOUR
            found.unused_while_waiting += free * (moment - now) / HOUR
        found.used += (devices - free) * (moment - now) / HOUR
        now = moment
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[2].share
        while come < len(wanted) and wanted[come].asked <= now:
            queue.append(wanted[come])
            come += 1
        queue = [each for each in queue if now - each.asked < patience_hours * HOUR]
        if enforced and now - looked_at >= look_seconds:
            looked_at, over = now, _over(held, policy, limits, now)
        free_since = {share: free_since.get(share, now) for share in SHARES if share <= free + 1e-9}
        is_passed = False
        for each in sorted(queue, key=lambda each: (each.group in over, each.asked)):
            since = free_since.get(each.share, math.inf)
            if each.share > free + 1e-9 or (is_passed and not (passing and now - since >= FREE_FOR)):
                is_passed = True
                if not (passing and free_since):
                    break
                continue
            queue.remove(each)
            free -= each.share
            end = now + each.seconds
            heapq.heappush(running, (end, len(held), each))
            held.append(HeldTime(each.user, "gpu", now, end, {DRIVER: each.share}))


def _over(held: Sequence[HeldTime], policy: BudgetPolicy, limits: dict[str, float], now: float) -> set[str]:
    """Groups over their budgets; sessions that run count until now."""
    begin = now - WINDOW.total_seconds()
    times = [
        HeldTime(each.user, each.choice, each.begin, min(each.end, now), each.devices)
        for each in held
        if each.end > begin
    ]
    memberships = {each.user: (each.user.rpartition("-")[0],) for each in times}
    check = BudgetCheck(times, policy, memberships)
    return {group for group in limits if check.worst("", now, (group,)) is not None}


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 if all are equal, and 1 / n if one has everything."""
    squares = sum(each**2 for each in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def main() -> None:
    parser = options_parser(__doc__, groups=10, devices=20, days=30, seed=1, percent=100, patience=2, passing=1)
    asked = parser.parse_args()
    limits = budgets(asked.groups, asked.devices)
    wanted = wishes(limits, asked.days, Random(asked.seed), asked.percent / 100)
    print(
        f"{len(wanted):,} sessions are wanted in {asked.days} days by {asked.groups} groups, on {asked.devices} devices"
    )
    every = asked.devices * asked.days * 24
    for name, enforced in (("without budgets", False), ("with budgets", True)):
        found = run(
            *(wanted, limits, asked.devices, asked.days),
            enforced=enforced,
            patience_hours=asked.patience,
            passing=bool(asked.passing),
        )
        index = jain([found.while_waiting[group] / hours for group, hours in limits.items()])
        print(
            f"{name}: Jain's index {index:.3f} while somebody waits ({found.waited_hours / asked.days / 24:.0%} of the "
            f"time), utilization {found.used / every:.2%}, unused while somebody waits "
            f"{found.unused_while_waiting / every:.2%}, while nobody does "
            f"{1 - (found.used + found.unused_while_waiting) / every:.2%}"
        )


if __name__ == "__main__":
    main()
