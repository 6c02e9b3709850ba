"""Rows of the page of placeholders: target against running for each choice, the reason, and what people have set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dra_spawner.placeholders.lifecycle import PlaceholderState
from dra_spawner.placeholders.planner.targets.overrides import OverrideKind
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.api.forecast_handler import forecasts_json
from dra_spawner.service.http.api.override_handlers import setting_json
from dra_spawner.service.http.api.placeholder_handlers import limited_json, placeholders_json, profiles_json
from dra_spawner.service.http.requests.guarded_handler import etag_of

#: States of the bar, in their order; `reserved` placeholders are besides the target.
_BAR: Final = (PlaceholderState.WARM, PlaceholderState.STARTING, PlaceholderState.PENDING)
#: Width of a bar in its own units.
_BAR_WIDTH: Final = 100.0

DEMAND_MEANINGS: Final = {
    "expected": "new servers minus servers that end, while a node starts",
    "lead time": "from the order of a node until users are let in, as nodes have shown it",
    "deviations": "a safety for bursts; how many is learned, so that the wanted share of launches (hit_rate) is warm",
    "held": "demand has fallen; the number falls when nothing in the last lead times was higher",
    Source.REACTIVE: "launches go on at their recent rate",
    Source.SEASONAL: "launches at this time of the last weeks",
    Source.BURST: "far more launches than usual; as many again may come while they go on",
    Source.STEADY: "the number that served the last weeks best, where following launches saves nothing",
    Source.RECURRING: "a rush at this time that at least three of the last weeks had",
    Source.CALENDAR: "users of an entry who have not come yet",
    Source.PENDING: "servers that are about to take placeholders",
    Source.FLOOR: "min of the setting placeholders",
    Source.FIXED: "a number that demand_policies says",
    Source.WEBHOOK: "the last answer of a program that demand_policies names",
}
"""Words of forecasts, for the page."""


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar: from `left`, in hundredths of the bar."""

    kind: str
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class SetByPeople:
    """A setting, and its ETag for `If-Match`."""

    setting: Mapping[str, Any]
    etag: str


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """A choice with placeholders, and the choices that share them.

    Attributes
    ----------
    choice
        As in ``api/profiles``.
    also
        Other choices with the same needs.
    running
        Placeholders for the target: in any state but reserved and terminating.
    because
        Where the target comes from, as a sentence.
    limited
        As in ``api/placeholders``; None without a limit that counts.
    numbers, paused
        What people have set.
    """

    choice: Mapping[str, Any]
    also: Sequence[str]
    target: int
    most: int
    because: str
    forecast: Mapping[str, Any] | None
    placeholders: Sequence[Mapping[str, Any]]
    limited: Mapping[str, Any] | None
    numbers: SetByPeople | None
    paused: SetByPeople | None

    @property
    def name(self) -> str:
        return str(self.choice["name"])

    @property
    def counts(self) -> Mapping[str, int]:
        """Placeholders by state."""
        found: Mapping[str, int] = self.choice["placeholders"]
        return found

    @property
    def running(self) -> int:
        return sum(self.counts[each] for each in _BAR)

    @property
    def state(self) -> str:
        """One word for the row."""
        if self.paused is not None:
            return "paused"
        if self.limited is not None:
            return "limited"
        if self.counts[PlaceholderState.WARM] >= self.target:
            return "ready" if self.target else "none wanted"
        if self.running < self.target:
            return "missing"
        return "pending" if self.counts[PlaceholderState.PENDING] else "starting"

    @property
    def pending_because(self) -> str:
        """Why a placeholder is pending, by the scheduler; empty if none is, or it has not said."""
        return next((each["pending_because"] for each in self.placeholders if each["pending_because"]), "")

    @property
    def states(self) -> str:
        """Numbers of placeholders by state, for people; empty without any."""
        return ", ".join(f"{count} {state}" for state, count in self.counts.items() if count)


@dataclass(frozen=True, slots=True)
class ChoiceRows:
    """All choices.

    Attributes
    ----------
    others
        Choices without placeholders of their own, as in ``api/profiles``.
    """

    rows: Sequence[ChoiceRow] = ()
    others: Sequence[Mapping[str, Any]] = ()
    observing: SetByPeople | None = None
    by_name: Mapping[str, ChoiceRow] = field(default_factory=dict)


def bar_of(row: ChoiceRow) -> tuple[Sequence[BarPart], float]:
    """Parts of a choice's bar, and the place of its target."""
    most = max(row.target, row.running, 1)
    parts, left = [], 0.0
    for state in _BAR:
        width = _BAR_WIDTH * row.counts[state] / most
        if width:
            parts.append(BarPart(state, round(left, 2), round(width, 2)))
        left += width
    return parts, round(_BAR_WIDTH * row.target / most, 2)


def set_by_people(controller: ScaleAheadController) -> dict[tuple[OverrideKind, str], SetByPeople]:
    """Present settings by kind and name, with their ETags; empty if they are not known."""
    if controller.overrides.unknown_because:
        return {}
    found = {key: setting_json(each) for key, each in sorted(controller.overrides.present.settings.items())}
    return {key: SetByPeople(each, etag_of(each)) for key, each in found.items()}


async def choice_rows(context: ServiceContext) -> ChoiceRows:
    """The rows, in the order of ``api/profiles``."""
    controller = context.controller
    if controller is None:
        return ChoiceRows()
    choices = {each["name"]: each for each in await profiles_json(context)}
    settings = set_by_people(controller)
    is_shown = controller.scale_ahead.mode is not ScaleAheadMode.OBSERVE
    forecasts = {each["name"]: each for each in forecasts_json(controller)} if is_shown else {}
    limited = {each["shape"]: each for each in limited_json(controller)}
    of_shape: dict[str, list[Mapping[str, Any]]] = {}
    for placeholder in placeholders_json(controller, context):
        of_shape.setdefault(placeholder["shape"], []).append(placeholder)
    rows: dict[str, ChoiceRow] = {}
    shown: set[str] = set()
    for group in controller.groups():
        if group.name not in choices:
            continue
        replicas = controller.policy.replicas.get(group.shape, group.replicas)
        names = controller.names_of(group.shape)
        numbers, paused = (
            next((settings[kind, name] for name in names if (kind, name) in settings), None)
            for kind in (OverrideKind.PLACEHOLDERS, OverrideKind.PAUSED)
        )
        shown.update(names)
        rows[group.name] = ChoiceRow(
            choice=choices[group.name],
            also=names[1:],
            target=replicas.min,
            most=replicas.max,
            because=_because(forecasts.get(group.name), numbers, group.replicas.min, group.replicas.max),
            forecast=forecasts.get(group.name),
            placeholders=of_shape.get(group.shape, []),
            limited=limited.get(group.shape),
            numbers=numbers,
            paused=paused,
        )
    return ChoiceRows(
        [rows[name] for name in choices if name in rows],
        [each for name, each in choices.items() if name not in shown],
        next((each for (kind, _), each in settings.items() if kind is OverrideKind.OBSERVING), None),
        rows,
    )


def _because(forecast: Mapping[str, Any] | None, numbers: SetByPeople | None, least: int, most: int) -> str:
    """Where a target comes from."""
    bounds = f"at least {least}, at most {most}"
    source = "as set" if numbers is not None else "as configured"
    if forecast is None:
        return f"{bounds}, {source}"
    why = forecast["reason"].partition(": ")[2]
    if not forecast["is_target"]:
        return f"{bounds}, {source}; forecast {forecast['target']}: {why}"
    if forecast["target"] == forecast["placeholders"]:
        return f"by the forecast: {why}"
    return f"{bounds}, {source}; the forecast alone {forecast['placeholders']}: {why}"
