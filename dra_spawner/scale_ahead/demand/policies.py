"""Policies with names: each is a small function of a question, and a chain takes the first that applies.

The kinds are those of Agones' FleetAutoscaler: buffer by number or percent, schedule, webhook, chain; and the forecast,
which is the default and needs no configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from math import ceil
from typing import Protocol

from dra_spawner.scale_ahead.demand.demand_record import DemandRecord
from dra_spawner.scale_ahead.demand.estimators.estimates import Estimate, Source
from dra_spawner.scale_ahead.demand.estimators.floor import floor_estimate
from dra_spawner.scale_ahead.demand.estimators.pending_spawns import pending_estimate
from dra_spawner.scale_ahead.demand.forecast import Forecast, GroupSituation, calendar_only, forecast
from dra_spawner.scale_ahead.demand.minutes import datetime_of


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """The last good answer of a webhook."""

    placeholders: int
    at: datetime
    """Time of the answer; with a time zone."""

    def __post_init__(self) -> None:
        if self.placeholders < 0:
            raise ValueError(f"the webhook answered {self.placeholders}; it must be 0 or more")
        if self.at.utcoffset() is None:
            raise ValueError(f"the webhook's answer is of {self.at.isoformat()}, which has no time zone")


@dataclass(frozen=True, slots=True)
class Question:
    """The question of how many placeholders a profile group needs now."""

    now: int
    """The minute that begins."""
    situation: GroupSituation
    record: DemandRecord
    """Has observed all minutes before `now`."""
    webhooks: Mapping[str, WebhookAnswer] = field(default_factory=dict)
    """The last good answers, by the name of the webhook's policy."""


class DemandPolicy(Protocol):
    """A way to answer."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    def __call__(self, question: Question) -> Forecast | None:
        """The answer; None if the policy does not apply now."""


@dataclass(frozen=True, slots=True)
class ForecastDemand:
    """The forecast, with the settings of the record."""

    name: str = "forecast"

    def __call__(self, question: Question) -> Forecast:
        """Always applies."""
        return forecast(question.record, question.situation, question.now)


@dataclass(frozen=True, slots=True)
class CalendarOnly:
    """Calendar entries and the floor, nothing else."""

    name: str = "calendar"

    def __call__(self, question: Question) -> Forecast:
        """Always applies."""
        return calendar_only(question.record, question.situation, question.now)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Always the same number."""

    placeholders: int
    name: str = "buffer"

    def __post_init__(self) -> None:
        if self.placeholders < 0:
            raise ValueError(f"the buffer {self.name!r} is {self.placeholders}; it must be 0 or more")

    def __call__(self, question: Question) -> Forecast:
        """Always applies."""
        return _answer(self.placeholders, Source.FIXED, self.name, question.situation)


@dataclass(frozen=True, slots=True)
class PercentBuffer:
    """A part of the servers that run."""

    percent: float
    least: int = 0
    most: int | None = None
    name: str = "percent buffer"

    def __post_init__(self) -> None:
        if not 0 <= self.percent < float("inf"):
            raise ValueError(f"the percentage of {self.name!r} is {self.percent}; it must be 0 or more")
        if self.least < 0 or (self.most is not None and self.most < self.least):
            raise ValueError(f"{self.name!r} has {self.least} at least and {self.most} at most; 0 <= least <= most")

    def __call__(self, question: Question) -> Forecast:
        """Always applies."""
        number = max(ceil(question.situation.present * self.percent / 100), self.least)
        number = number if self.most is None else min(number, self.most)
        note = f"{self.name}, {self.percent:g} % of {question.situation.present}"
        return _answer(number, Source.FIXED, note, question.situation)


@dataclass(frozen=True, slots=True)
class Window:
    """A time of the week; one that ends before it begins goes over midnight."""

    days: frozenset[int]
    """Days on which it begins: 0 is Monday."""
    begins: time
    ends: time
    zone: tzinfo = UTC

    def __post_init__(self) -> None:
        if not self.days or not self.days <= frozenset(range(7)):
            raise ValueError(f"days are {sorted(self.days)}; they must be some of 0 (Monday) to 6 (Sunday)")
        if self.begins == self.ends:
            raise ValueError(f"the window begins and ends at {self.begins}")

    def contains(self, moment: datetime) -> bool:
        """Whether a moment is in it."""
        local = moment.astimezone(self.zone)
        clock, day = local.time(), local.weekday()
        if self.begins < self.ends:
            return day in self.days and self.begins <= clock < self.ends
        return (day in self.days and clock >= self.begins) or ((day - 1) % 7 in self.days and clock < self.ends)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Another policy, in some windows of the week."""

    windows: tuple[Window, ...]
    policy: DemandPolicy
    name: str = "schedule"

    def __call__(self, question: Question) -> Forecast | None:
        """Applies within a window."""
        moment = datetime_of(question.now)
        return self.policy(question) if any(each.contains(moment) for each in self.windows) else None


@dataclass(frozen=True, slots=True)
class Webhook:
    """What another program said last; the caller asks it and hands over the answer as data."""

    name: str = "webhook"
    longest_age: timedelta = timedelta(minutes=10)

    def __call__(self, question: Question) -> Forecast | None:
        """Applies while its last good answer is not too old."""
        answer = question.webhooks.get(self.name)
        if answer is None or datetime_of(question.now) - answer.at > self.longest_age:
            return None
        return _answer(answer.placeholders, Source.WEBHOOK, self.name, question.situation)


@dataclass(frozen=True, slots=True)
class Chain:
    """The first policy that applies."""

    policies: tuple[DemandPolicy, ...]
    name: str = "chain"

    def __call__(self, question: Question) -> Forecast | None:
        """Applies if one of its policies does."""
        answers = (policy(question) for policy in self.policies)
        return next((answer for answer in answers if answer is not None), None)


@dataclass(frozen=True, slots=True)
class OrForecast:
    """Another policy; the forecast where that one does not apply.

    The forecast is made in any case, as it learns from each minute.
    """

    policy: DemandPolicy

    @property
    def name(self) -> str:
        return self.policy.name

    def __call__(self, question: Question) -> Forecast:
        """Always applies."""
        usual = forecast(question.record, question.situation, question.now)
        return self.policy(question) or usual


def follows_calendar(policy: DemandPolicy) -> bool:
    """Whether a policy surely takes calendar entries into account."""
    match policy:
        case ForecastDemand() | CalendarOnly():
            return True
        case OrForecast(policy=other) | Scheduled(policy=other):
            return follows_calendar(other)
        case Chain(policies=policies):
            return all(map(follows_calendar, policies))
    return False


def _answer(placeholders: int, source: Source, note: str, situation: GroupSituation) -> Forecast:
    """A number from elsewhere: never below the floor and what servers are about to take, nor above the limit."""
    estimates = (
        Estimate(source, assured=placeholders, note=note),
        pending_estimate(situation.pending_spawns, situation.reserved),
        floor_estimate(situation.floor),
    )
    decisive = max(estimates, key=lambda each: each.assured)
    found = Forecast(decisive.assured, estimates, decided_by=decisive.source)
    if situation.most is not None and found.placeholders > situation.most:
        return replace(found, placeholders=situation.most, limited_to=situation.most)
    return found
