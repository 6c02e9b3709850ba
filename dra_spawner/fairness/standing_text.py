"""What a user reads of the own use and budgets; of a group, only whether its budget is used up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from dra_spawner.fairness.budget_replay import Standing
from dra_spawner.fairness.budgets import Per
from dra_spawner.fairness.device_hours import ALL_DRIVERS
from dra_spawner.profiles.syntax.problems import on_one_line

_LONGEST_NAME: Final = 80


def standing_sentences(standings: Iterable[Standing]) -> Iterator[str]:
    """A sentence for each budget of a user, in the order given, each once."""
    found = tuple(standings)
    yield from dict.fromkeys(map(_sentence, found))
    if any(each.is_over for each in found):
        yield "While no device is free, users within their budget come first. You can start as long as any is free."


def behind_sentence(standing: Standing) -> str:
    """Why a user comes after others now."""
    return f"{_sentence(standing)} No device is free at the moment, so users within their budget come first."


def _sentence(standing: Standing) -> str:
    budget = standing.budget
    when = _window(budget.window)
    kind = "" if budget.driver == ALL_DRIVERS else f" of {budget.driver}"
    if budget.per is Per.GROUP:
        state = "has used up" if standing.is_over else "is within"
        return f"Your group {_name(standing.subject)} {state} its device-hours{kind} of {when}."
    return f"You have used {_hours(standing.hours)} of your {_hours(budget.hours)} device-hours{kind} in {when}."


def _name(group: str) -> str:
    """A name of any text, for a sentence."""
    return on_one_line(group[:_LONGEST_NAME])


def _hours(hours: float) -> str:
    # Never rounded to a budget that is not used up.
    return f"{int(hours * 10) / 10:,.1f}".removesuffix(".0")


def _window(window: timedelta) -> str:
    if window < timedelta(days=2):
        hours = round(window / timedelta(hours=1))
        return "the last hour" if hours <= 1 else f"the last {hours} hours"
    return f"the last {window / timedelta(days=1):g} days"
