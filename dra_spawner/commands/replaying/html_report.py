"""The report of ``dra-spawner replay`` as one page without scripts and external files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final

from tornado.template import Loader

from dra_spawner import __version__
from dra_spawner.commands.replaying.replay_table import HEADINGS, cells
from dra_spawner.commands.replaying.report_data import KindReport, PolicyReport
from dra_spawner.scale_ahead.demand.minutes import datetime_of
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.frontier import idle_at_hit_rate
from dra_spawner.scale_ahead.replay.results import ReplayResult
from dra_spawner.scale_ahead.reports.fragments import miss_table
from dra_spawner.scale_ahead.reports.miss_rows import miss_row
from dra_spawner.scale_ahead.reports.plots import PolicyPoint, frontier_svg, timeline_svg
from dra_spawner.scale_ahead.reports.printable import printable
from dra_spawner.scale_ahead.reports.timeline import DayOfTimeline, Timeline, steps, worst_day

_TEMPLATES: Final = Loader(str(Path(__file__).parent / "templates"))


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """Origin of the figures."""

    trace: str
    """Name of the trace's file."""

    cluster: str
    """Name of the description's file."""
    seed: int
    learn_days: int
    zone: tzinfo = UTC
    """Time zone of the page."""

    notes: tuple[str, ...] = ()
    """Messages about the input, for example on skipped rows."""


def html_report(kinds: Sequence[KindReport], facts: ReportFacts) -> str:
    """The page, which is the same for the same input and seed."""
    sections = [_section(each, facts) for each in kinds]
    page = _TEMPLATES.load("report.html").generate(sections=sections, facts=facts, version=__version__, zone=facts.zone)
    return page.decode()


def _section(kind: KindReport, facts: ReportFacts) -> Mapping[str, Any]:
    """Values of the template for a kind of node."""
    points = [PolicyPoint(each.policy, each.idle_hours_a_day, each.hit_rate) for each in kind.results]
    fixed = [PolicyPoint(str(each), found.idle_hours_a_day, found.hit_rate) for each, found in kind.frontier.items()]
    first = kind.results[0]
    scenario = kind.scenario
    begin = scenario.judged_from if scenario.judged_from is not None else scenario.trace.begin
    return {
        "name": printable(scenario.kind.name),
        "launches": first.launches,
        "days": first.days,
        "begin": datetime_of(begin).astimezone(facts.zone),
        "end": datetime_of(scenario.trace.end).astimezone(facts.zone),
        "verdicts": [_verdict(each.result, kind.frontier) for each in kind.in_detail],
        "headings": HEADINGS,
        "rows": [cells(each) for each in kind.results],
        "frontier": frontier_svg(points, fixed) if first.launches else "",
        "policies": [_policy(each, kind.profile, facts.zone) for each in kind.in_detail],
        "facts": [*_kind_facts(scenario.kind), *_scenario_facts(kind)],
        "settings_of": [each.name for each in kind.policies if each.uses_calendar],
        "settings": list(_settings([each.settings for each in kind.policies if each.uses_calendar])),
    }


def _policy(report: PolicyReport, profile: str, zone: tzinfo) -> Mapping[str, Any]:
    """Values of the template for a policy in detail."""
    result, timeline = report.result, report.result.timeline
    assert timeline is not None
    day = worst_day(timeline, zone)
    rows = []
    for miss in result.largest_misses:
        outcome = ""
        if report.with_entries is not None:
            still = report.with_entries.missed_within(miss.begins, miss.ends)
            outcome = f"Replayed with these entries: {still:,} of {miss.launches:,} wait."
        rows.append(miss_row(miss, profile, zone, outcome=outcome))
    return {
        "name": result.policy,
        "timeline": _timeline(timeline, zone, "All days"),
        "step": _span(steps(timeline).length),
        "day": day,
        "day_timeline": _day(timeline, day, result, zone),
        "day_step": _span(steps(timeline, day.begin, day.end).length) if day is not None else "",
        "misses": miss_table(rows) if rows else "",
        "uses_calendar": report.policy.uses_calendar,
    }


def _timeline(timeline: Timeline, zone: tzinfo, label: str) -> str:
    return timeline_svg(steps(timeline), zone, label=label) if timeline.launches else ""


def _day(timeline: Timeline, day: DayOfTimeline | None, result: ReplayResult, zone: tzinfo) -> str:
    if day is None:
        return ""
    marks = [
        (max(each.begins, day.begin), min(each.ends, day.end))
        for each in result.largest_misses
        if each.begins < day.end and each.ends > day.begin
    ]
    found = steps(timeline, day.begin, day.end)
    return timeline_svg(found, zone, label=f"{day.day:%A %Y-%m-%d}", marks=marks)


def _verdict(result: ReplayResult, frontier: Mapping[int, ReplayResult]) -> str:
    """Comparison of a policy with fixed numbers, in sentences."""
    if not result.launches:
        return "There were no launches, so nothing can be compared."
    sentence = (
        f"{result.policy}: {result.hit_rate:.2%} of the launches find a warm placeholder, and"
        f" {result.idle_hours_a_day:,.1f} placeholder-hours a day are idle."
    )
    fixed = idle_at_hit_rate(frontier, result.hit_rate)
    if fixed is None:
        return f"{sentence} No fixed number of the curve has this hit rate."
    if not fixed:
        return sentence
    change = result.idle_hours_a_day / fixed - 1.0
    word = "less" if change < 0 else "more"
    return (
        f"{sentence} Fixed numbers with the same hit rate have {fixed:,.1f}; this policy has {abs(change):.0%} {word}."
    )


def _kind_facts(kind: NodeKind) -> Iterator[tuple[str, str]]:
    leads = ", ".join(f"{each / timedelta(minutes=1):g}" for each in kind.lead_times)
    yield "profiles", ", ".join(map(printable, kind.profiles)) or "all"
    yield "servers on a node", f"{kind.slots}"
    yield "lead time", f"{leads} min, and {kind.image_time / timedelta(minutes=1):g} min for images"
    yield "limit of nodes", "unlimited" if kind.max_nodes is None else f"{kind.max_nodes:,}"
    starts = kind.starts_per_minute
    yield "limit of node starts a minute", "unlimited" if starts is None else f"{starts:g}"
    yield "an empty node is removed after", f"{kind.unneeded / timedelta(minutes=1):g} min"
    if kind.price:
        yield "price of a node for an hour", f"{kind.price:g}"


def _scenario_facts(kind: KindReport) -> Iterator[tuple[str, str]]:
    scenario = kind.scenario
    yield "calendar entries", f"{len(scenario.occurrences):,}"
    yield "floor", f"{scenario.floor:,} placeholders"
    known = scenario.trace.lengths is not None
    yield "durations of servers", "known or drawn at random" if known else "unknown, so no server ends"


def _settings(found: Sequence[DemandSettings]) -> Iterator[tuple[str, list[str]]]:
    """Each setting of forecasts, with its value in each policy."""
    if found:
        for each in fields(DemandSettings):
            yield each.name, [_value(getattr(settings, each.name)) for settings in found]


def _value(value: object) -> str:
    match value:
        case timedelta():
            return f"{value / timedelta(minutes=1):g} min"
        case frozenset():
            return ", ".join(sorted(map(str, value))) or "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def _span(minutes: int) -> str:
    """A duration in its largest whole unit."""
    for length, unit in ((1440, "day"), (60, "hour"), (1, "minute")):
        if minutes >= length and minutes % length == 0:
            number = minutes // length
            return f"one {unit}" if number == 1 else f"{number} {unit}s"
    return "0 minutes"
