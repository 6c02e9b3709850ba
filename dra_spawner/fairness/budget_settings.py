"""Budgets as people write them: the policies of jupyterhub-usage-quotas, with device-hours."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from dra_spawner.fairness.budgets import Budget, BudgetPolicy, Combination, Per
from dra_spawner.fairness.device_hours import ALL_DRIVERS
from dra_spawner.profiles.syntax.problems import Problem, shown
from dra_spawner.profiles.syntax.settings_reader import SettingsReader, readers_of_list, refuse_settings

_MOST_BUDGETS: Final = 1_000
_MOST_HOURS: Final = 1e9
_MOST_DAYS: Final = 3_650
#: Resources of jupyterhub-usage-quotas that are not in this history.
_NOT_RECORDED: Final = frozenset(("memory", "cpu"))
_UNITS: Final = ("device-hours", "GPU-hours", "gpu-hours", "hours")
_LIMIT: Final = '{"value": 100, "unit": "device-hours"}'
_A_BUDGET: Final = f'a mapping like {{"resource": "devices", "limit": {_LIMIT}, "window": 30}}'


@dataclass(frozen=True, slots=True)
class ReadBudgets:
    """Budgets, and what was left out."""

    policy: BudgetPolicy = field(default_factory=BudgetPolicy)
    left_out: tuple[str, ...] = ()
    """A sentence for each entry that counts no devices."""


def read_budgets(value: object, path: str = "budgets") -> ReadBudgets:
    """The budgets of a file or a setting: a mapping with ``policy``, or the list alone.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem.
    """
    reader = SettingsReader(
        {"policy": value} if isinstance(value, list) else value, path, "a mapping with the key policy, or a list"
    )
    problems, left_out = reader.problems, list[str]()
    budgets = _budgets(reader.value("policy") or [], reader.path_of("policy"), problems, left_out)
    # Later versions of jupyterhub-usage-quotas have another name for the same.
    backup, fallback = (reader.value(name) for name in ("scope_backup_strategy", "scope_fallback_strategy"))
    if backup is not None and fallback is not None:
        reader.refuse("scope_fallback_strategy", "nothing beside scope_backup_strategy, which is the same")
    name = "scope_fallback_strategy" if backup is None and fallback is not None else "scope_backup_strategy"
    strategy = reader.inner(name, backup or fallback or {}, "a mapping")
    empty = strategy.value("empty")
    entries = [] if empty is None else empty if isinstance(empty, list) else [empty]
    for_others = _budgets(entries, strategy.path_of("empty"), problems, left_out)
    combination = strategy.checked("intersection", Combination, " or ".join(Combination)) or Combination.MIN
    strategy.refuse_other_keys()
    prices = _prices(reader)
    reader.refuse_other_keys()
    refuse_settings(problems)
    return ReadBudgets(BudgetPolicy(budgets, for_others, combination, prices), tuple(left_out))


def _budgets(value: object, path: str, problems: list[Problem], left_out: list[str]) -> tuple[Budget, ...]:
    readers = readers_of_list(value, path, _MOST_BUDGETS, _A_BUDGET, problems)
    return tuple(budget for each in readers if (budget := _budget(each, left_out)) is not None)


def _budget(reader: SettingsReader, left_out: list[str]) -> Budget | None:
    """One budget; None if it is wrong, or counts no devices."""
    if not reader.is_mapping:
        return None
    resource = reader.text("resource", ALL_DRIVERS)
    if resource in _NOT_RECORDED:
        left_out.append(f"{reader.path}: {resource} is not recorded in the history, so this budget is left out")
        return None
    driver = ALL_DRIVERS if resource.lower() in (ALL_DRIVERS, "gpu") else resource
    given = reader.value("limit")
    limit = reader.inner("limit", _mapping_of(given), f"a number, or a mapping like {_LIMIT}")
    limit.required("value", "a number above 0")
    hours = limit.number("value", 1.0, 1e-6, _MOST_HOURS)
    limit.checked("unit", _unit, f"one of {', '.join(_UNITS)}")
    limit.refuse_other_keys()
    days = reader.number("window", 30.0, 1 / 24, _MOST_DAYS)
    scope = reader.inner("scope", reader.value("scope") or {}, 'a mapping like {"group": ["maths"]}')
    groups = scope.texts("group")
    scope.refuse_other_keys()
    per = reader.checked("per", Per, " or ".join(Per)) or Per.USER
    if per is Per.GROUP and not groups:
        reader.refuse("per", "user, or group beside a scope with groups")
    reader.refuse_other_keys()
    return Budget(hours, timedelta(days=days), groups, driver, per)


def _mapping_of(limit: object) -> object:
    """A limit as a mapping: later versions of jupyterhub-usage-quotas write a number, or a text with one."""
    if isinstance(limit, str):
        with suppress(ValueError):
            return {"value": float(limit)}
    return {"value": limit} if isinstance(limit, int | float) and not isinstance(limit, bool) else limit


def _unit(text: str) -> str:
    if text not in _UNITS:
        raise ValueError(text)
    return text


def _prices(reader: SettingsReader) -> dict[str, float]:
    given = reader.value("prices")
    if given is None:
        return {}
    path, found = reader.path_of("prices"), dict[str, float]()
    if not isinstance(given, Mapping):
        reader.problems.append(Problem(path, shown(given), "a mapping of profiles or drivers to prices of an hour"))
        return {}
    for name, price in given.items():
        if isinstance(price, int | float) and not isinstance(price, bool) and 0 <= price <= _MOST_HOURS:
            found[str(name)] = float(price)
        else:
            reader.problems.append(Problem(f"{path}.{shown(name)}", shown(price), "a price of 0 or more"))
    return found
