"""``dra-spawner replay``: reads the input, replays, and prints the results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import TextIO

from dra_spawner.commands.cluster_files.documents import read_documents
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.limits import PROFILE_FILES
from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.commands.replaying.cluster_file import ClusterFile, parse_cluster
from dra_spawner.commands.replaying.html_report import ReportFacts, html_report
from dra_spawner.commands.replaying.replay_table import miss_lines, result_json, table
from dra_spawner.commands.replaying.report_data import KindReport, detailed_policies, kind_report
from dra_spawner.commands.replaying.trace_reader import LONGEST_GAP, TraceRows, read_trace
from dra_spawner.common.json_types import JsonObject
from dra_spawner.scale_ahead.calendars.calendar_file import read_file
from dra_spawner.scale_ahead.calendars.ical_events import CalendarReading, CalendarUnreadable
from dra_spawner.scale_ahead.calendars.ical_process import read_in_process
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, datetime_of
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.classes import class_launches, class_occurrences
from dra_spawner.scale_ahead.replay.equal_hit import smallest_buffer
from dra_spawner.scale_ahead.replay.policy_names import NamedPolicy, parse_policy
from dra_spawner.scale_ahead.replay.replay import Scenario
from dra_spawner.scale_ahead.replay.replay import replay as replay_policy
from dra_spawner.scale_ahead.replay.results import ReplayResult
from dra_spawner.scale_ahead.replay.traces import Trace
from dra_spawner.scale_ahead.reports.printable import printable

_SKIPPED_SHOWN = 10


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of the command line."""

    trace: str
    """Path of the CSV file."""
    cluster: str
    """Path of the description of the cluster."""
    policies: tuple[str, ...] = ()
    as_json: bool = False
    seed: int = 1
    skip_bad: bool = False
    longest_gap: timedelta = LONGEST_GAP
    learn_days: int = 0
    """First days, on which policies only learn."""
    calendars: tuple[str, ...] = ()
    """Paths of iCal files."""
    without_classes: bool = False
    """Whether the calendar does not announce the synthetic classes."""
    report: str = ""
    """Path of the HTML page to write; empty for none."""
    defaults: DemandSettings = field(default_factory=DemandSettings)


def run_replay(options: ReplayOptions, output: TextIO, messages: TextIO) -> int:
    """Replay the trace with each policy, print, and write the report.

    Returns
    -------
    int
        0, or 2 if the input cannot be read, or the report cannot be written.
    """
    progress = Progress(messages)
    try:
        _check_report(options.report)
        progress.show(f"reading {options.cluster}")
        cluster = _cluster(options.cluster)
        settings = replace(options.defaults, zone=cluster.zone)
        policies = _policies(options.policies, settings)
        progress.show(f"reading {options.trace}")
        rows = read_trace(options.trace, cluster.group_of, skip_bad=options.skip_bad, longest_gap=options.longest_gap)
        events, problems = _events(options, cluster, rows)
        if options.learn_days * MINUTES_A_DAY >= max(len(each.launches) for each in rows.traces.values()):
            raise InputError(options.trace, 0, "", f"must be longer than the {options.learn_days} days for learning")
        _check_classes(options, cluster, rows)
    except (InputError, ValueError) as error:
        progress.clear()
        messages.write(f"dra-spawner replay: {error}\n")
        return 2
    finally:
        progress.clear()
    _report_skipped(rows, messages)
    for problem in problems:
        messages.write(f"dra-spawner replay: {problem}\n")
    answers: list[JsonObject] = []
    reports: list[KindReport] = []
    for number, kind in enumerate(cluster.kinds):
        scenario = _scenario(options, cluster, kind, rows.traces[kind.name], events)
        results = tuple(_results(scenario, policies, options, progress))
        progress.clear()
        profile = kind.profiles[0] if kind.profiles else ""
        if options.as_json:
            found = [result_json(each, profile) for each in results]
            answers.append({"nodes": kind.name, "days": results[0].days, "policies": found})
        else:
            output.write(("\n" if number else "") + _text(kind, scenario, results, profile))
        if options.report:
            output.flush()
            reports.append(_kind_report(scenario, profile, policies, results, progress))
            progress.clear()
    if options.as_json:
        output.write(json.dumps({"seed": options.seed, "kinds": answers}, ensure_ascii=False) + "\n")
    if not options.report:
        return 0
    notes = (*(f"skipped: {each}" for each in rows.skipped), *problems)
    return _write_report(options, cluster, reports, notes, messages)


def _check_report(file: str) -> None:
    """Raise an error if the report cannot be written, before the replays begin."""
    if not file:
        return
    path = Path(file)
    if path.is_dir():
        raise InputError(file, 0, "", "is a directory; --report needs the name of a file")
    if not path.absolute().parent.is_dir():
        raise InputError(file, 0, "", "cannot be written: its directory does not exist")


def _kind_report(
    scenario: Scenario,
    profile: str,
    policies: Sequence[NamedPolicy],
    results: Sequence[ReplayResult],
    progress: Progress,
) -> KindReport:
    """The report's data of a kind of node, with a progress bar for its replays."""

    def report(name: str, done: float) -> None:
        progress.show(f"report: {scenario.kind.name}, {name}: {_bar(done)}")

    return kind_report(scenario, profile, policies, results, report)


def _write_report(
    options: ReplayOptions, cluster: ClusterFile, kinds: Sequence[KindReport], notes: Sequence[str], messages: TextIO
) -> int:
    shown = notes[:_SKIPPED_SHOWN]
    more = (f"and {len(notes) - len(shown):,} more",) if len(notes) > len(shown) else ()
    facts = ReportFacts(
        trace=printable(Path(options.trace).name),
        cluster=printable(Path(options.cluster).name),
        seed=options.seed,
        learn_days=options.learn_days,
        zone=cluster.zone,
        notes=tuple(map(printable, (*shown, *more))),
    )
    try:
        Path(options.report).write_text(html_report(kinds, facts), "utf-8", "replace")
    except OSError as error:
        messages.write(
            f"dra-spawner replay: {InputError(options.report, 0, '', f'cannot be written: {error.strerror}')}\n"
        )
        return 2
    return 0


def _cluster(file: str) -> ClusterFile:
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(file, 0, "", f"cannot be read: {problem}") from None
    documents = tuple(read_documents(file, text, PROFILE_FILES))
    if len(documents) != 1:
        raise InputError(file, 0, "", f"has {len(documents)} documents; it must have one")
    return parse_cluster(documents[0])


def _policies(texts: Sequence[str], settings: DemandSettings) -> tuple[NamedPolicy, ...]:
    found = tuple(parse_policy(each, settings) for each in texts)
    has_forecast = False
    for each in found:
        has_forecast |= each.policy is not None and each.uses_calendar
        if each.policy is None and not has_forecast:
            raise ValueError(f"{each.name} needs a policy before it, like forecast: it has the hit rate of that policy")
    return found


def _events(
    options: ReplayOptions, cluster: ClusterFile, rows: TraceRows
) -> tuple[tuple[Occurrence, ...], tuple[str, ...]]:
    """Occurrences of the iCal files within the trace, and problems of single events."""
    occurrences: list[Occurrence] = []
    problems: list[str] = []
    begin = min(each.begin for each in rows.traces.values())
    end = max(each.end for each in rows.traces.values())
    known = {profile for kind in cluster.kinds for profile in kind.profiles}
    for file in options.calendars:
        try:
            found = asyncio.run(_calendar(file, datetime_of(begin), datetime_of(end), cluster.zone))
        except CalendarUnreadable as error:
            raise InputError(file, 0, "", str(error)) from None
        except OSError as error:
            raise InputError(file, 0, "", f"cannot be read: {error.strerror or error}") from None
        occurrences += found.occurrences
        problems += (f"{file}: {each}" for each in found.problems)
        unknown = {each.profile for each in found.occurrences} - known if known else ()
        problems += (f"{file}: no node has profile {each!r}; its events are left out" for each in sorted(unknown))
    return tuple(occurrences), tuple(problems)


async def _calendar(file: str, begins: datetime, ends: datetime, zone: tzinfo) -> CalendarReading:
    return await read_in_process(await read_file(file), begins, ends, source=file, zone=zone)


def _check_classes(options: ReplayOptions, cluster: ClusterFile, rows: TraceRows) -> None:
    has_lengths = any(each.lengths is not None for each in rows.traces.values())
    if cluster.classes and has_lengths and cluster.durations is None:
        problem = "is missing: the trace has durations of servers, so the servers of classes need durations, too"
        raise InputError(options.cluster, 0, "servers", problem)


def _scenario(
    options: ReplayOptions, cluster: ClusterFile, kind: NodeKind, trace: Trace, events: tuple[Occurrence, ...]
) -> Scenario:
    classes = tuple(each for each in cluster.classes if each.profile in kind.profiles or not kind.profiles)
    entries = tuple(each for each in (*cluster.calendar, *events) if each.profile in kind.profiles or not kind.profiles)
    if classes:
        more = class_launches(classes, trace.begin, trace.end, options.seed)
        if trace.lengths is not None and cluster.durations is not None:
            more = more.with_lengths(cluster.durations, options.seed)
        trace = trace.with_more(more)
        if not options.without_classes:
            entries += class_occurrences(classes, trace.begin, trace.end)
    if trace.lengths is None and cluster.durations is not None:
        trace = trace.with_lengths(cluster.durations, options.seed)
    judged_from = trace.begin + options.learn_days * MINUTES_A_DAY
    return Scenario(trace, kind, entries, cluster.floor, options.seed, judged_from)


def _results(
    scenario: Scenario, policies: Sequence[NamedPolicy], options: ReplayOptions, progress: Progress
) -> Iterator[ReplayResult]:
    last: ReplayResult | None = None
    in_detail = detailed_policies(policies) if options.report else frozenset()
    for index, each in enumerate(policies):
        occurrences = scenario.occurrences if each.uses_calendar else ()
        shown = replace(scenario, occurrences=occurrences, has_timeline=index in in_detail)
        total = len(scenario.trace.launches)

        def report(done: int, name: str = each.name, total: int = total) -> None:
            progress.show(f"{scenario.kind.name}, {name}: {_bar(done / total)}")

        report(0)
        if each.policy is None:
            hit_rate = last.hit_rate if last is not None else options.defaults.hit_rate
            _, result = smallest_buffer(shown, hit_rate)
        else:
            result = replay_policy(
                shown, each.policy, each.settings, name=each.name, as_z2jh=each.as_z2jh, progress=report
            )
        if each.uses_calendar:
            last = result
        yield result


def _bar(done: float) -> str:
    width = 20
    full = round(done * width)
    return f"[{'#' * full}{' ' * (width - full)}] {done:.0%}"


def _text(kind: NodeKind, scenario: Scenario, results: Sequence[ReplayResult], profile: str) -> str:
    days = results[0].days
    known = "" if scenario.trace.lengths is not None else "; durations of servers are unknown, so no server ends"
    parts = [f"{kind.name}: {results[0].launches:,} launches in {days:,.1f} days{known}\n", table(results)]
    for each in results:
        lines = tuple(miss_lines(each, profile))
        if lines and each.policy.startswith("forecast"):
            parts.append(f"\nlargest misses of {each.policy}:\n")
            parts += (f"  {line}\n" for line in lines)
    return "".join(parts)


def _report_skipped(rows: TraceRows, messages: TextIO) -> None:
    for each in rows.skipped[:_SKIPPED_SHOWN]:
        messages.write(f"dra-spawner replay: skipped: {each}\n")
    more = len(rows.skipped) - _SKIPPED_SHOWN
    if more > 0:
        messages.write(f"dra-spawner replay: and {more:,} more\n")
