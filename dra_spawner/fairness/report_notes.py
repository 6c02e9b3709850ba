"""What the figures of a report do not contain, as sentences."""

from __future__ import annotations

from collections.abc import Iterator

from dra_spawner.fairness.budget_replay import Effect, Memberships, UseReport
from dra_spawner.fairness.budget_settings import ReadBudgets


def report_notes(report: UseReport, budgets: ReadBudgets, memberships: Memberships) -> Iterator[str]:
    """What was left out, and what is not known."""
    yield from budgets.left_out
    if report.unknown:
        yield (
            f"{report.unknown:,} launches count as without devices, as what they held is not recorded: launches of "
            "earlier versions, and most imported ones."
        )
    if not memberships and any(each.groups for each in budgets.policy.budgets):
        yield "No groups are known, so budgets for groups hold for no user."
    if memberships and report.by_user and not memberships.keys() & report.by_user.keys():
        yield "No user of these groups is in the history. Its names may be hashed with another key."


def effect_text(report: UseReport) -> str:
    """What the budgets would have done, in sentences."""
    total = sum(report.effects.values(), Effect())
    if not total.over:
        return "What these budgets would have done: nothing. No user was over budget."
    return (
        f"What these budgets would have done: {total.over:,} of {report.launches:,} launches were asked for over "
        f"budget, by {len(report.effects):,} users. {total.behind:,} of them would have been behind a user within "
        "budget, who waited at that time. It is assumed that users would have asked as they did."
    )
