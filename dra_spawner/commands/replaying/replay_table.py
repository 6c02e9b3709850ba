"""Results as text, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.scale_ahead.demand.minutes import datetime_of
from dra_spawner.scale_ahead.replay.results import ReplayResult
from dra_spawner.scale_ahead.reports.miss_rows import entry_line, miss_json

HEADINGS: Final = (
    "policy",
    "hits",
    "waited",
    "p95 min",
    "p99 min",
    "idle h/day",
    "node-h/day",
    "starts/day",
    "price/day",
)


def table(results: Sequence[ReplayResult]) -> str:
    """A table with a line for each policy."""
    rows = [HEADINGS, *(cells(each) for each in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = []
    for row in rows:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join((row[0].ljust(widths[0]), *numbers)).rstrip())
    return "\n".join(lines) + "\n"


def miss_lines(result: ReplayResult, profile: str) -> Iterator[str]:
    """The largest misses, each with its reason and the calendar entry that would have prevented it."""
    for miss in result.largest_misses:
        yield f"{datetime_of(miss.begins):%Y-%m-%d %H:%M} UTC: {miss.reason}"
        if miss.is_preventable:
            yield f"    {entry_line(miss.calendar_entry(profile))}"


def result_json(result: ReplayResult, profile: str) -> JsonObject:
    """All figures of a policy."""
    return {
        "policy": result.policy,
        "launches": result.launches,
        "hits": result.hits,
        "hitRate": result.hit_rate,
        "idlePlaceholderHours": result.idle_hours,
        "nodeHours": result.node_hours,
        "nodeStarts": result.node_starts,
        "price": result.price,
        "waitMinutes": {str(minutes): count for minutes, count in result.waits.items()},
        "largestMisses": [miss_json(each, profile) for each in result.largest_misses],
    }


def cells(result: ReplayResult) -> tuple[str, ...]:
    """The figures of a policy, below `HEADINGS`."""
    days = result.days or 1.0
    return (
        result.policy,
        f"{result.hit_rate:.2%}",
        f"{result.share_waiting():.2%}",
        str(result.wait_quantile(0.95)),
        str(result.wait_quantile(0.99)),
        f"{result.idle_hours_a_day:,.1f}",
        f"{result.node_hours_a_day:,.1f}",
        f"{result.node_starts / days:,.1f}",
        f"{result.price / days:,.2f}" if result.price else "-",
    )
