"""The timeline: launches, waits, placeholders, forecast and calendar entries of the last and the next hours."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from dra_spawner.placeholders.controller.sources.target_source import ProfileGroup
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.demand.forecast import usual_launches
from dra_spawner.scale_ahead.demand.minutes import datetime_of, minute_of
from dra_spawner.scale_ahead.demand.near_entries import LONGEST_LEAD
from dra_spawner.service.ahead.launch_steps import LaunchesUnavailable, LaunchStep, Steps
from dra_spawner.service.ahead.placeholder_samples import Sample
from dra_spawner.service.context import ServiceContext

MAX_HOURS: Final = 7 * 24
#: Durations of a step in minutes; each divides an hour or is whole hours.
_STEPS: Final = (5, 15, 30, 60, 120)
_MAX_STEPS: Final = 100
#: Begins of calendar entries for which the forecast is asked, beside regular minutes: each answer takes time.
_MAX_OPENING: Final = 100
#: Minutes between questions about later placeholders, at most: a forecast looks as far before and after a minute. The
#: begin of each calendar entry is asked about, too.
_ASKED_EVERY: Final = 30


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """Figures of one step; None where they are not known. Later steps have `forecast` and `usual` only."""

    begin: int
    launches: int | None = None
    waited: int | None = None
    median_seconds: float | None = None
    high_seconds: float | None = None
    """95th percentile."""
    warm: float | None = None
    """Mean number of warm placeholders."""
    servers: float | None = None
    target: int | None = None
    """Highest target."""
    forecast: int | None = None
    """Most placeholders that the forecast wants."""
    usual: float | None = None
    """Average launches of past weeks; only of later steps."""


@dataclass(frozen=True, slots=True)
class TimelineFigures:
    """Steps of equal duration, and calendar entries.

    Attributes
    ----------
    begin, now, end
        Minutes: `now` is in the last step that is not in the future.
    minutes
        Duration of a step.
    profile
        The choice; empty for all.
    entries
        In the order of their begin, each with whether its users can start, if that is known.
    unknown_because
        Why figures are missing, as sentences.
    remembered_from
        The first minute of which placeholders are remembered; None without any.
    """

    begin: int
    now: int
    end: int
    minutes: int
    profile: str = ""
    steps: Sequence[TimelineStep] = ()
    entries: Sequence[tuple[Occurrence, bool | None]] = ()
    unknown_because: Sequence[str] = field(default_factory=tuple)
    remembered_from: int | None = None

    def json(self) -> Mapping[str, Any]:
        """As the API says it."""
        return {
            "begin": _iso(self.begin),
            "now": _iso(self.now),
            "end": _iso(self.end),
            "step_minutes": self.minutes,
            "profile": self.profile,
            "items": [
                {
                    "begin": _iso(each.begin),
                    "launches": each.launches,
                    "waited": each.waited,
                    "wait_median_seconds": each.median_seconds,
                    "wait_p95_seconds": each.high_seconds,
                    "warm": each.warm,
                    "servers": each.servers,
                    "target": each.target,
                    "forecast": each.forecast,
                    "usual_launches": each.usual,
                }
                for each in self.steps
            ],
            "entries": [
                {
                    "name": each.name,
                    "profile": each.profile,
                    "users": each.users,
                    "begins": each.begins.isoformat(),
                    "ends": each.ends.isoformat(),
                    "source": each.source,
                    "is_possible": is_possible,
                }
                for each, is_possible in self.entries
            ],
            "unknown_because": list(self.unknown_because),
            "placeholders_since": _iso(self.remembered_from) if self.remembered_from is not None else None,
        }


async def read_timeline(context: ServiceContext, hours: int, profile: str = "") -> TimelineFigures:
    """The timeline of the last hours, and of half as many that follow.

    Parameters
    ----------
    profile
        Only launches, placeholders and entries of this choice, and of those that share its placeholders.
    """
    controller = context.controller
    now = controller.now() if controller is not None else context.now()
    length = next((each for each in _STEPS if hours * 60 <= each * _MAX_STEPS), _STEPS[-1])
    present = minute_of(now)
    begin = (present - hours * 60) // length * length
    end = begin + -(-(present + hours * 30 - begin) // length) * length
    if controller is None:
        return TimelineFigures(begin, present, end, length, profile, unknown_because=("The cluster is not found yet.",))
    groups = [each for each in controller.groups() if not profile or find_choice(profile, each.choices) is not None]
    choices = frozenset(choice for each in groups for choice in each.choices) | ({profile} if profile else set())
    launches, unknown = await _launches(context, begin, length, now)
    return TimelineFigures(
        begin,
        present,
        end,
        length,
        profile,
        [
            *_past(launches, _samples(context, begin, present + 1, [each.name for each in groups]), begin, present,
                   length, choices if profile else None),
            *await _coming(controller, groups, range(begin, end, length), present),
        ],
        _entries(context, begin, end, choices if profile else None),
        unknown,
        context.scale_ahead.samples.first if context.scale_ahead is not None else None,
    )  # fmt: skip


async def _launches(
    context: ServiceContext, begin: int, length: int, now: datetime
) -> tuple[Steps | None, tuple[str, ...]]:
    database, because = context.open_history()
    if database is None:
        return None, (because,)
    try:
        return await context.launch_steps.read(database, begin, length, now), ()
    except LaunchesUnavailable as error:
        return None, (str(error),)


def _samples(context: ServiceContext, begin: int, end: int, groups: Collection[str]) -> dict[int, list[Sample]]:
    """Sums of all groups, by minute."""
    runner = context.scale_ahead
    found: dict[int, list[Sample]] = {}
    for minute, samples in runner.samples.between(begin, end) if runner is not None else ():
        chosen = [samples[name] for name in groups if name in samples]
        if chosen:
            found[minute] = chosen
    return found


def _past(
    launches: Steps | None,
    samples: Mapping[int, Sequence[Sample]],
    begin: int,
    present: int,
    length: int,
    choices: Collection[str] | None,
) -> list[TimelineStep]:
    of_step: dict[int, LaunchStep] = {}
    for (choice, number), each in (launches or {}).items():
        if choices is None or choice in choices:
            merged = of_step.setdefault(number, LaunchStep())
            merged.launches += each.launches
            merged.waited += each.waited
            merged.waits = sorted((*merged.waits, *each.waits))
    found = []
    for number, start in enumerate(range(begin, present + 1, length)):
        step = of_step.get(number, LaunchStep())
        seen = [samples[minute] for minute in range(start, start + length) if minute in samples]
        forecasts = [_sum(minute, "forecast") for minute in seen]
        found.append(
            TimelineStep(
                start,
                launches=step.launches if launches is not None else None,
                waited=step.waited if launches is not None else None,
                median_seconds=step.quantile(0.5),
                high_seconds=step.quantile(0.95),
                warm=_mean([_sum(minute, "warm") for minute in seen]),
                servers=_mean([_sum(minute, "servers") for minute in seen]),
                target=max((_sum(minute, "target") for minute in seen), default=None),
                forecast=max(forecasts, default=None) if any(_has_forecast(minute) for minute in seen) else None,
            )
        )
    return found


def _sum(samples: Sequence[Sample], name: str) -> int:
    return sum(getattr(each, name) or 0 for each in samples)


def _mean(figures: Sequence[int]) -> float | None:
    return round(sum(figures) / len(figures), 2) if figures else None


def _has_forecast(samples: Sequence[Sample]) -> bool:
    return any(each.forecast is not None for each in samples)


async def _coming(
    controller: ScaleAheadController, groups: Sequence[ProfileGroup], steps: range, present: int
) -> list[TimelineStep]:
    ahead, length = controller.scale_ahead, steps.step
    starts = [each for each in steps if each > present]
    if not starts:
        return []
    now = controller.now()
    entries = ahead.calendars.occurrences(now, datetime_of(steps[-1] + length) - now + LONGEST_LEAD)
    opening = {begins for each in entries if starts[0] <= (begins := minute_of(each.begins)) < starts[-1] + length}
    regular = range(starts[0], starts[-1] + length, min(length, _ASKED_EVERY))
    minutes = sorted({*regular, *sorted(opening)[:_MAX_OPENING]})
    wanted: Counter[int] = Counter()
    usual: dict[int, float] = {}
    is_known = False
    for group in groups:
        if (numbers := ahead.ahead(group, minutes, entries)) is not None:
            is_known = True
            wanted.update(dict(zip(minutes, numbers, strict=True)))
        if (demand := ahead.demand_of(group.name)) is not None:
            for start in starts:
                if (launches := usual_launches(demand.record, start, length)) is not None:
                    usual[start] = usual.get(start, 0.0) + launches
        await asyncio.sleep(0)
    highest: dict[int, int] = {}
    for minute in minutes if is_known else ():
        start = starts[(minute - starts[0]) // length]
        highest[start] = max(highest.get(start, 0), wanted[minute])
    return [
        TimelineStep(start, forecast=highest.get(start), usual=round(usual[start], 2) if start in usual else None)
        for start in starts
    ]


def _entries(
    context: ServiceContext, begin: int, end: int, choices: Collection[str] | None
) -> list[tuple[Occurrence, bool | None]]:
    controller, runner = context.controller, context.scale_ahead
    assert controller is not None
    rehearsed = runner.rehearsed.results if runner is not None else {}
    begins, ends = datetime_of(begin), datetime_of(end)
    found = []
    for each in controller.scale_ahead.calendars.occurrences(begins, ends - begins):
        if each.ends > begins and (choices is None or find_choice(each.profile, choices) is not None):
            rehearsal = rehearsed.get(each)
            found.append((each, rehearsal.is_possible if rehearsal is not None else None))
    return found


def _iso(minute: int) -> str:
    return datetime_of(minute).isoformat()
