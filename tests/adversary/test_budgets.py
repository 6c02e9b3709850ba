"""Budgets under clocks that jump, a history with gaps and nonsense, and names that are made to confuse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from dra_spawner.fairness.budget_replay import BudgetCheck, Standing
from dra_spawner.fairness.budget_settings import ReadBudgets, read_budgets
from dra_spawner.fairness.budgets import Budget, BudgetPolicy, Per
from dra_spawner.fairness.device_hours import HeldTime, held_times
from dra_spawner.fairness.standing_text import behind_sentence, standing_sentences
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.service.figures.budget_use import BudgetUse
from tests.all_of_them import all_of_them

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
GPU, WEEK, HOUR = "gpu.example.com", timedelta(days=7), timedelta(hours=1)
POLICY = read_budgets({"policy": [{"limit": 10, "window": 7}]})


def used(uid: str, bound: timedelta, ended: timedelta | None, asked: timedelta | None = None, **more: Any) -> Launch:
    """A launch of ada; times before now."""
    fields = {"devices": {GPU: 1.0}, "user": "ada", **more}
    asked = bound if asked is None else asked
    end = NOW - ended if ended is not None else None
    return Launch(uid, NOW - asked, "gpu", "gpu", **fields, bound=NOW - bound, ended=end)


async def hours_of(path: Path, launches: tuple[Launch, ...], policy: ReadBudgets = POLICY) -> float:
    """What ada has used, as the service computes it."""
    database = HistoryDatabase.open(f"sqlite:///{path}")
    database.add(launches)
    use = BudgetUse(policy, lambda: database, lambda: ("", ""), lambda: NOW)
    await use.refresh()
    (standing,) = use.standings("ada", ())
    return standing.hours


async def test_a_clock_that_jumped_makes_nobody_use_more(tmp_path: Path) -> None:
    launches = {
        "as it was": (used("1", 6 * HOUR, 2 * HOUR), 4),
        # The clock was a year ahead when the server ended: nobody knows when that was.
        "an end in a year": (used("2", 6 * HOUR, -timedelta(days=365)), 0),
        "an end within the skew of clocks": (used("3", 6 * HOUR, -timedelta(minutes=2)), 6),
        "all in a year": (used("4", -timedelta(days=365), -timedelta(days=366)), 0),
        # The clock was at its beginning when the node was noted.
        "a node in 1970": (used("5", NOW - datetime(1970, 1, 1, tzinfo=UTC), None, 3 * HOUR), 3),
        "an end before the begin": (used("6", 2 * HOUR, 6 * HOUR), 0),
        "a begin before the launch was asked for": (used("7", 90 * HOUR, 4 * HOUR, 5 * HOUR), 1),
        # The hub or the service was away: the end is an estimate, the launch was never seen to run.
        "a gap without an end": (used("8", 200 * HOUR, 199 * HOUR, end_is_estimate=True), 0),
    }
    for name, (launch, expected) in launches.items():
        found = await hours_of(tmp_path / f"{launch.uid}.sqlite", (launch,))
        assert abs(found - expected) < 1e-6, name


@all_of_them("stored", {
    "no JSON": "{",
    "a list": "[1]",
    "a number": "1",
    "words": '{"gpu.example.com": "many"}',
    "NaN": '{"gpu.example.com": NaN}',
    "infinite": '{"gpu.example.com": Infinity}',
    "negative": '{"gpu.example.com": -5}',
    "huge": '{"gpu.example.com": 1e300}',
    "beyond floats": '{"gpu.example.com": 1' + "0" * 400 + "}",
    "deep": "[" * 5000 + "]" * 5000,
})  # fmt: skip
async def test_rows_of_nonsense_count_as_unknown(tmp_path: Path, stored: str) -> None:
    path = tmp_path / "history.sqlite"
    database = HistoryDatabase.open(f"sqlite:///{path}")
    database.add((used("good", 3 * HOUR, HOUR), used("bad", 3 * HOUR, HOUR)))
    with sqlalchemy.create_engine(f"sqlite:///{path}").begin() as connection:
        connection.execute(
            sqlalchemy.text("update launches set devices = :stored where uid = 'bad'"), {"stored": stored}
        )
    assert await hours_of(path, ()) == 2


NAMES = ("ada\n\u202egroup", "<script>", "__proto__", "maths", "*", "a" * 10_000, "\ud800", "", "devices")


def test_names_that_are_made_to_confuse() -> None:
    """A user with the name of a group, or of a driver, has the own use alone; a sentence stays one line."""
    begin, end = (NOW - 3 * HOUR).timestamp(), NOW.timestamp()
    times = [HeldTime(user, "gpu", begin, end, {GPU: 1.0}) for user in NAMES]
    policy = BudgetPolicy((Budget(2, WEEK, ("maths",)), Budget(100, WEEK, NAMES, per=Per.GROUP)))
    check = BudgetCheck(times, policy, {user: (user,) for user in NAMES})
    for user in NAMES:
        hours = {each.budget.per: each.hours for each in check.standings(user, end)}
        assert hours == ({Per.USER: 3} if user == "maths" else {}) | {Per.GROUP: 3}, repr(user)
        assert check.is_over(user, end) is (user == "maths"), repr(user)
        for sentence in standing_sentences([Standing(user, 3, Budget(2, WEEK, (user,), per=Per.GROUP))]):
            assert sentence.isprintable(), repr(user)
            assert len(sentence) < 1_000
    assert behind_sentence(Standing(NAMES[0], 3, Budget(2, WEEK, per=Per.GROUP))).isprintable()


def test_several_groups_give_no_way_around() -> None:
    """A user is behind if one of the groups is over, whatever else the user joins; each use counts in each group."""
    times, _ = held_times([used("1", 6 * HOUR, None)], NOW)
    groups = [Budget(hours, WEEK, (name,), per=Per.GROUP) for hours, name in ((5, "small"), (1e9, "large"))]
    own = [Budget(5, WEEK, ("small",)), Budget(1e9, WEEK, ("large",))]
    for budgets in (groups, own):
        check = BudgetCheck(times, BudgetPolicy(tuple(budgets)), {"ada": ("large", "small")})
        assert check.is_over("ada", NOW.timestamp())
        assert check.worst("ada", NOW.timestamp(), ("large", "small", *NAMES)) is not None
        assert check.worst("ada", NOW.timestamp(), ("large",)) is None, "the hub knows groups better than the history"


@all_of_them("limit", [
    float("nan"), float("inf"), -1, 0, "nan", "inf", "1e999", True, [], {"value": "many"}, {"value": float("nan")}, 10**400,
])  # fmt: skip
def test_limits_of_nonsense_are_refused(limit: object) -> None:
    for key in ("limit", "window"):
        with pytest.raises(SettingsError) as error:
            read_budgets({"policy": [{"limit": 1, key: limit}]})
        assert len(str(error.value)) < 500
