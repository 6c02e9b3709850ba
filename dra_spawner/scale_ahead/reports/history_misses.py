"""The largest misses of a week in the service's own history, computed like those of a replay."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch, MinuteCount, NodeLeadTime, WaitCause
from dra_spawner.scale_ahead.demand.demand_record import DemandRecord
from dra_spawner.scale_ahead.demand.forecast import GroupSituation, forecast
from dra_spawner.scale_ahead.demand.lead_times import lead_time_quantile
from dra_spawner.scale_ahead.demand.minutes import (
    MINUTES_A_DAY,
    MINUTES_A_WEEK,
    datetime_of,
    minute_of,
    whole_minutes,
)
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.scale_ahead.reports.misses import LargestMisses, Miss, MissCause
from dra_spawner.scale_ahead.reports.timeline import Timeline

REPORTED: Final = timedelta(days=7)
"""Duration of the time that a report covers."""
#: A launch without a recorded cause has waited if it took longer. The replay counts in minutes, too.
_SOON: Final = timedelta(minutes=1)
#: Lead time if none is recorded.
_USUAL_LEAD: Final = timedelta(minutes=10)
_LEAD_TIMES: Final = timedelta(days=30)
_LAST_LEADS: Final = 50
_SHORTEST_LEAD: Final = timedelta(minutes=5)
_LARGEST: Final = 10
#: Minutes between two forecasts; a forecast each minute would take five times as long.
_BETWEEN: Final = 5
_CAUSES: Final = {
    WaitCause.NODE: "waited for a node",
    WaitCause.PREEMPTION: "waited until placeholders were preempted",
    WaitCause.OTHER: "waited for something else",
}


@dataclass(frozen=True, slots=True)
class HistoryMiss:
    """Consecutive launches of a profile that waited."""

    profile: str
    miss: Miss
    waited_for: str
    """The most frequent recorded cause; empty without one."""


@dataclass(frozen=True, slots=True)
class MissReport:
    """Figures of the last days, from the history."""

    begin: datetime
    end: datetime
    launches: int
    hits: int
    """Launches that found a warm placeholder."""
    waited: int
    misses: tuple[HistoryMiss, ...]
    """The ten largest, of all profiles."""
    timeline: Timeline
    """Timeline of all profiles together."""


@dataclass(slots=True)
class _ProfileLaunches:
    """Launches of a profile by the minute."""

    launches: Counter[int] = field(default_factory=Counter)
    missed: Counter[int] = field(default_factory=Counter)
    causes: dict[int, Counter[WaitCause | None]] = field(default_factory=dict)
    waited_for: dict[int, Counter[str]] = field(default_factory=dict)
    """Recorded causes of waits, by minute."""


def read_miss_report(database: HistoryDatabase, now: datetime, settings: DemandSettings | None = None) -> MissReport:
    """The report from the history; blocks while it is read.

    Parameters
    ----------
    settings
        Settings of the forecasts that compute the expected launches.

    Raises
    ------
    sqlalchemy.exc.SQLAlchemyError
        If the database cannot be reached.
    """
    settings = settings or DemandSettings()
    begin = now - REPORTED
    learned_from = begin - timedelta(weeks=settings.weeks)
    return miss_report(
        database.launches(begin, now),
        database.arrivals(learned_from, now),
        database.departures(learned_from, now),
        database.lead_times(None, now - _LEAD_TIMES, now),
        now,
        settings,
    )


def miss_report(
    launches: Iterable[Launch],
    arrivals: Iterable[MinuteCount],
    departures: Iterable[MinuteCount],
    lead_times: Iterable[NodeLeadTime],
    now: datetime,
    settings: DemandSettings,
) -> MissReport:
    """The misses of the last week.

    Parameters
    ----------
    launches
        Launches of the last week, the oldest first.
    arrivals, departures
        Counts of this week, and of the weeks before it from which forecasts learn.
    lead_times
        Lead times of nodes, the oldest first.
    """
    first, end = minute_of(now - REPORTED), minute_of(now) + 1
    timeline = Timeline(first, _zeros(end - first), _zeros(end - first))
    profiles: dict[str, _ProfileLaunches] = {}
    total = hits = 0
    for launch in launches:
        minute = minute_of(launch.asked)
        if not first <= minute < end or not launch.is_demand:
            continue
        total += 1
        hits += bool(launch.warm)
        timeline.launches[minute - first] += 1
        of_profile = profiles.setdefault(launch.profile, _ProfileLaunches())
        of_profile.launches[minute] += 1
        if has_waited(launch, now):
            timeline.missed[minute - first] += 1
            of_profile.missed[minute] += 1
            of_profile.waited_for.setdefault(minute, Counter())[_waited_for(launch)] += 1
            of_profile.causes.setdefault(minute, Counter())[launch.cause] += 1
    lead = _lead(lead_times)
    # Forecasts take time, so they are computed only for profiles with one of the largest misses.
    largest = _largest(
        (profile, miss) for profile, each in profiles.items() for miss in _misses(each, first, end, lead, {})
    )
    came, left = _by_profile(arrivals), _by_profile(departures)
    found: list[tuple[str, Miss]] = []
    for profile in sorted({profile for profile, _ in largest}):
        of_profile = profiles[profile]
        expected = _expected(came.get(profile, {}), left.get(profile, {}), first, end, lead, settings)
        found += ((profile, miss) for miss in _misses(of_profile, first, end, lead, expected))
    misses = tuple(
        HistoryMiss(profile, _caused(profiles[profile], miss), _mostly(profiles[profile], miss))
        for profile, miss in _largest(found)
    )
    return MissReport(datetime_of(first), now, total, hits, sum(timeline.missed), misses, timeline)


def has_waited(launch: Launch, now: datetime) -> bool:
    """Whether a launch has waited: by its recorded cause, or without one for more than a minute."""
    if launch.cause is not None:
        return launch.cause is not WaitCause.NONE
    return (launch.bound or launch.running or launch.ended or now) - launch.asked > _SOON


def _misses(
    profile: _ProfileLaunches, first: int, end: int, lead: timedelta, expected: Mapping[int, float]
) -> tuple[Miss, ...]:
    """The largest misses of a profile.

    Parameters
    ----------
    expected
        Expected launches by minute.
    """
    found = LargestMisses(apart=lead // timedelta(minutes=1))
    for minute in range(first, end):
        found.minute(minute, profile.missed[minute], profile.launches[minute], expected.get(minute, 0.0))
    found.close()
    return found.largest()


def _expected(
    arrivals: Mapping[int, int],
    departures: Mapping[int, int],
    first: int,
    end: int,
    lead: timedelta,
    settings: DemandSettings,
) -> dict[int, float]:
    """Launches in each minute from `first` on, as a forecast would have expected them one lead time before."""
    begin = first - settings.weeks * MINUTES_A_WEEK
    record = DemandRecord(begin, settings)
    situation = GroupSituation(lead)
    found: dict[int, float] = {}
    rate, earlier = 0.0, whole_minutes(lead)
    # The first forecast sets the memory of rates; the forecasts of the day before the report set the day's level.
    forecast(record, situation, begin)
    for minute in range(begin, end):
        if minute >= first - MINUTES_A_DAY and minute % _BETWEEN == 0:
            answer = forecast(record, situation, minute)
            rate = answer.expected / max(answer.lead, 1)
        if minute >= first - earlier:
            found[minute + earlier] = rate
        record.observe(minute, arrivals.get(minute, 0), departures.get(minute, 0))
    return found


def _lead(lead_times: Iterable[NodeLeadTime]) -> timedelta:
    """The lead time of the report: from the order of a node until it was open to users."""
    seen = [each.images - (each.asked or each.created) for each in lead_times if each.images is not None]
    found = lead_time_quantile(seen[-_LAST_LEADS:]) or _USUAL_LEAD
    return max(found, _SHORTEST_LEAD)


def _largest(misses: Iterable[tuple[str, Miss]]) -> list[tuple[str, Miss]]:
    return sorted(misses, key=lambda each: (-each[1].misses, each[1].begins, each[0]))[:_LARGEST]


def _by_profile(counts: Iterable[MinuteCount]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for each in counts:
        minutes, minute = found.setdefault(each.profile, {}), minute_of(each.minute)
        minutes[minute] = minutes.get(minute, 0) + each.count
    return found


def _waited_for(launch: Launch) -> str:
    return launch.reason or (_CAUSES.get(launch.cause, "") if launch.cause is not None else "")


def _caused(profile: _ProfileLaunches, miss: Miss) -> Miss:
    """A miss with its cause: for most of its launches no node came, although they waited."""
    causes: Counter[WaitCause | None] = Counter()
    for minute in range(miss.begins, miss.ends):
        causes.update(profile.causes.get(minute, {}))
    return replace(miss, cause=MissCause.NO_NODE_CAME) if 2 * causes[WaitCause.OTHER] > causes.total() else miss


def _mostly(profile: _ProfileLaunches, miss: Miss) -> str:
    causes: Counter[str] = Counter()
    for minute in range(miss.begins, miss.ends):
        causes.update(profile.waited_for.get(minute, {}))
    return max(_known(causes), default=(0, ""))[1]


def _known(causes: Mapping[str, int]) -> Iterator[tuple[int, str]]:
    yield from ((count, text) for text, count in causes.items() if text)


def _zeros(length: int) -> array[int]:
    return array("L", bytes(length * array("L").itemsize))
