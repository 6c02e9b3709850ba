"""Handler of forecasts of demand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.class_records import ClassOutcome
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode
from dra_spawner.scale_ahead.controller.group_forecast import GroupForecast
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.demand.minutes import datetime_of
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.http.api.placeholder_handlers import PlaceholderHandler
from dra_spawner.service.http.requests.endpoints import CONTINUE, LIMIT_OR_ALL, Access, endpoint
from dra_spawner.service.http.schemas.demand_schemas import FORECASTS

_AHEAD: Final = timedelta(days=7)


class ForecastsHandler(PlaceholderHandler):
    """``GET api/forecasts``: the placeholders that each choice needs, and why; calendar entries of the next week."""

    @endpoint(
        "Forecasts of each choice, and calendar entries of the next week.",
        Access.READ,
        answer=FORECASTS,
        query=(LIMIT_OR_ALL, CONTINUE),
    )
    async def get(self) -> None:
        ahead = self.controller.scale_ahead
        self.write_json(
            {
                "mode": ahead.mode,
                **self.page(forecasts_json(self.controller), lambda each: str(each["name"])),
                "expected": expected_json(self.controller, self.context.scale_ahead),
                "problems": list(ahead.problems(self.controller.now())),
                "incomplete_because": self.context.incomplete_because(),
            }
        )


def forecasts_json(controller: ScaleAheadController) -> list[dict[str, Any]]:
    """The last forecast of each choice with placeholders, sorted by name."""
    is_target = controller.scale_ahead.mode is ScaleAheadMode.ACT
    return [_forecast_json(each, is_target=is_target) for _, each in sorted(controller.scale_ahead.forecasts.items())]


def expected_json(controller: ScaleAheadController, runner: ScaleAheadRunner | None) -> list[dict[str, Any]]:
    """Calendar entries that have not ended and begin within a week, with their last rehearsals."""
    now = controller.now()
    found = controller.scale_ahead.calendars.occurrences(now, _AHEAD)
    with_placeholders = {choice: None for group in controller.groups() for choice in group.choices}
    return [
        {
            **_occurrence_json(
                each,
                runner.class_figures.outcome_of(each) if runner is not None else None,
                _unusable(each, controller, with_placeholders),
                controller.choice_not_prepared_because(each.profile) or None,
            ),
            "added_by": runner.classes.owner_of_time(each) if runner is not None else "",
        }
        for each in found
        if each.ends > now
    ]


def _unusable(
    occurrence: Occurrence, controller: ScaleAheadController, with_placeholders: Mapping[str, None]
) -> str | None:
    """Why an entry changes nothing, as a sentence without its full stop; None if it does."""
    if find_choice(occurrence.profile, with_placeholders) is not None or not controller.published.shapes:
        return None
    if find_choice(occurrence.profile, controller.published.shapes) is None:
        return "the hub publishes no such choice"
    return "the choice has no placeholders (setting placeholders)"


def _forecast_json(made: GroupForecast, *, is_target: bool) -> dict[str, Any]:
    forecast, situation, replicas = made.forecast, made.situation, made.group.replicas
    return {
        "name": made.group.name,
        "at": datetime_of(made.at).isoformat(),
        "placeholders": forecast.placeholders,
        "reason": forecast.reason,
        "target": made.target,
        "is_target": is_target,
        "configured": {"min": replicas.min, "max": replicas.max},
        "lead_minutes": situation.lead.total_seconds() / 60,
        "in_use": situation.present,
        "pending": situation.pending_spawns,
        "reserved": situation.reserved,
        "expected": forecast.expected,
        "deviation": forecast.deviation,
        "safety_factor": forecast.factor,
        "decided_by": forecast.decided_by,
        "is_held": forecast.is_held,
        "inputs": [
            {
                "source": each.source,
                "expected": each.expected,
                "launches": each.launches,
                "placeholders": each.assured,
                "note": each.note,
            }
            for each in forecast.estimates
        ],
    }


def _occurrence_json(
    occurrence: Occurrence, outcome: ClassOutcome | None, unusable: str | None, not_prepared: str | None
) -> dict[str, Any]:
    rehearsal = None
    if outcome is not None and outcome.rehearsed_at is not None:
        at = outcome.rehearsed_at.isoformat()
        rehearsal = {"is_possible": outcome.is_possible, "verdict": outcome.verdict, "at": at}
    return {
        "name": occurrence.name,
        "profile": occurrence.profile,
        "users": occurrence.users,
        "counts": occurrence.counts,
        "begins": occurrence.begins.isoformat(),
        "ends": occurrence.ends.isoformat(),
        "zone": occurrence.begins.tzname(),
        "ramp_minutes": occurrence.ramp.total_seconds() / 60,
        "source": occurrence.source,
        "unusable_because": unusable,
        "not_prepared_because": not_prepared,
        "rehearsal": rehearsal,
    }
