"""Budgets as people write them: forms of jupyterhub-usage-quotas, and values that make no sense."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dra_spawner.fairness.budget_settings import read_budgets
from dra_spawner.fairness.budgets import Budget, Combination
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from tests.all_of_them import all_of_them

WEEK = timedelta(days=7)
MATHS = {"resource": "devices", "window": 7, "scope": {"group": ["maths"]}}


@all_of_them(
    "limit",
    {
        "a mapping": {"value": 40, "unit": "device-hours"},
        "without unit": {"value": 40},
        "a number": 40,
        "a text, as its later versions write": "40",
    },
)
def test_forms_of_a_limit(limit: Any) -> None:
    assert read_budgets([{**MATHS, "limit": limit}]).policy.budgets == (Budget(40, WEEK, ("maths",)),)


def test_both_names_of_the_strategy() -> None:
    others = {"resource": "devices", "limit": {"value": 10}, "window": 7}
    for name in ("scope_backup_strategy", "scope_fallback_strategy"):
        found = read_budgets({"policy": [], name: {"empty": others, "intersection": "max"}}).policy
        assert (found.for_others, found.combination) == ((Budget(10, WEEK),), Combination.MAX)
    with pytest.raises(SettingsError, match="which is the same"):
        read_budgets({"scope_backup_strategy": {}, "scope_fallback_strategy": {}})


def test_what_is_not_recorded_is_left_out_in_all_forms() -> None:
    for limit in ("5000G", {"value": 5000, "unit": "GiB-hours"}):
        found = read_budgets([{"resource": "memory", "limit": limit, "window": 30, "scope": {"group": ["A"]}}])
        assert found.policy.budgets == ()
        assert "memory is not recorded" in found.left_out[0]


@all_of_them(
    "more",
    {
        "no hours": {"limit": 0},
        "negative": {"limit": {"value": -1}},
        "infinite": {"limit": {"value": float("inf")}},
        "infinite text": {"limit": "inf"},
        "not a number": {"limit": "nan"},
        "huge": {"limit": 1e300},
        "true": {"limit": True},
        "bytes": {"limit": "40G"},
        "nothing": {"limit": None},
        "no window": {"limit": 1, "window": 0},
        "endless window": {"limit": 1, "window": float("inf")},
        "negative window": {"limit": 1, "window": -7},
        "a group that is no text": {"limit": 1, "scope": {"group": [5]}},
        "a key that nobody knows": {"limit": 1, "user": "ada"},
        "a group's budget without groups": {"limit": 1, "scope": {}, "per": "group"},
    },
)
def test_values_that_make_no_sense_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"budgets\.policy\[0\]"):
        read_budgets([{**MATHS, **more}])
