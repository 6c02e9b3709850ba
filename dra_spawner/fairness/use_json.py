"""A report of use as JSON."""

from __future__ import annotations

from datetime import timedelta

from dra_spawner.common.json_types import JsonObject
from dra_spawner.fairness.budget_replay import Effect, UseReport


def use_json(report: UseReport) -> JsonObject:
    """All figures of a report."""
    total = sum(report.effects.values(), Effect())
    return {
        "begin": report.begin.isoformat(),
        "end": report.end.isoformat(),
        "launches": report.launches,
        "launchesWithUnknownDevices": report.unknown,
        "deviceHours": {"byUser": report.by_user, "byGroup": report.by_group, "byChoice": report.by_choice},
        "costByUser": report.cost_by_user,
        "budgets": [
            {
                "subject": each.subject,
                "per": each.budget.per.value,
                "resource": each.budget.driver,
                "limit": each.budget.hours,
                "windowDays": each.budget.window / timedelta(days=1),
                "used": each.hours,
                "isOver": each.is_over,
            }
            for each in report.standings
        ],
        "effect": {
            "launchesOverBudget": total.over,
            "launchesBehindOthers": total.behind,
            "byUser": {
                user: {"launchesOverBudget": each.over, "launchesBehindOthers": each.behind}
                for user, each in report.effects.items()
            },
        },
    }
