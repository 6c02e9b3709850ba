"""Replay of a trace with one policy, minute by minute, in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import repeat
from typing import Final

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.forecast import GroupSituation
from dra_spawner.scale_ahead.demand.group_demand import GroupDemand
from dra_spawner.scale_ahead.demand.lead_times import SeenLeadTimes
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, whole_minutes
from dra_spawner.scale_ahead.demand.near_entries import NearEntries
from dra_spawner.scale_ahead.demand.policies import DemandPolicy
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.node_pool import NodePool
from dra_spawner.scale_ahead.replay.results import ReplayResult
from dra_spawner.scale_ahead.replay.traces import Trace
from dra_spawner.scale_ahead.reports.misses import LargestMisses
from dra_spawner.scale_ahead.reports.timeline import Timeline

_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class Scenario:
    """Trace, nodes and calendar for the replay of a policy."""

    trace: Trace
    kind: NodeKind
    occurrences: tuple[Occurrence, ...] = ()
    """Calendar entries, sorted by their begin."""
    floor: int = 0
    seed: int = 1
    judged_from: int | None = None
    """The first minute that counts; before it the policy only learns. None: all minutes count."""

    has_timeline: bool = False
    """Whether the result has a timeline."""


def replay(
    scenario: Scenario,
    policy: DemandPolicy,
    settings: DemandSettings | None = None,
    *,
    name: str = "",
    as_z2jh: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ReplayResult:
    """The result that a policy would have had.

    In each minute nodes become usable, servers end, launches get warm placeholders, and the policy sets their target.
    A placeholder in a free slot of a node with the image is warm at once.

    Parameters
    ----------
    settings
        Settings of forecasts.
    as_z2jh
        Placeholders like those of zero-to-jupyterhub (see `NodePool`).
    progress
        Called once for each day of the trace, with the number of replayed minutes.
    """
    settings = settings or DemandSettings()
    trace, kind = scenario.trace, scenario.kind
    leads = SeenLeadTimes(max(kind.lead_times) + kind.image_time)

    def on_lead(minutes: int) -> None:
        leads.add(timedelta(minutes=minutes))

    pool = NodePool(kind, scenario.seed, on_lead, as_z2jh=as_z2jh)
    demand = GroupDemand(trace.begin, settings, policy)
    calendar = NearEntries(scenario.occurrences)
    judged_from = trace.begin if scenario.judged_from is None else scenario.judged_from
    tally = _Tally(judged_from, LargestMisses(max(leads.quantile // timedelta(minutes=1), 5)))
    timeline = Timeline(judged_from) if scenario.has_timeline else None
    lengths = repeat(_NEVER) if trace.lengths is None else iter(trace.lengths)
    target = 0
    # Forecasts of one lead time before, when nodes could still be ordered.
    expected = deque([0.0], whole_minutes(leads.quantile) + 1)
    for minute, launches in trace.minutes():
        is_judged = minute >= judged_from and not trace.is_gap(minute)
        pool.begin(minute, tally.on_wait)
        warm = min(pool.free, target)
        missed = _launch(pool, minute, launches, lengths, tally, is_hit=target > 0)
        situation = GroupSituation(
            lead=leads.quantile,
            present=pool.running,
            floor=scenario.floor,
            occurrences=calendar.near(minute),
            slots_per_node=kind.slots,
            free_slots=None if pool.waiting else pool.free_beside_servers,
            node_starts_per_minute=kind.starts_per_minute,
        )
        hits = launches - missed if target else 0
        answer = demand.step(minute, launches, pool.departed, situation, served=(hits, launches - hits))
        if is_judged:
            tally.launches += launches
            tally.idle += min(pool.free, target)
            tally.node_minutes += pool.nodes
            tally.misses.minute(minute, missed, launches, expected[0], target)
        if timeline is not None and minute >= judged_from:
            timeline.launches.append(launches)
            timeline.missed.append(missed)
            timeline.target.append(target)
            timeline.warm.append(warm)
            timeline.nodes.append(pool.nodes)
        target = answer.placeholders if answer is not None else scenario.floor
        expected.append(answer.expected / answer.lead if answer is not None and answer.lead else 0.0)
        before = pool.starts
        pool.order(minute, target)
        if is_judged:
            tally.starts += pool.starts - before
            tally.misses.limits(is_at_limit=pool.is_at_limit, is_throttled=pool.is_throttled)
        if progress is not None and (minute - trace.begin) % MINUTES_A_DAY == 0:
            progress(minute - trace.begin)
    return tally.result(name or policy.name, trace.recorded(judged_from) / MINUTES_A_DAY, kind.price, timeline)


def _launch(pool: NodePool, minute: int, launches: int, lengths: Iterator[int], tally: _Tally, *, is_hit: bool) -> int:
    """Start servers; returns the number of those that wait.

    Parameters
    ----------
    is_hit
        Whether a free slot has a placeholder.
    """
    missed = 0
    for _ in range(launches):
        wait = pool.launch(minute, next(lengths))
        if wait == 0:
            tally.served(minute, is_hit=is_hit)
            continue
        missed += 1
        if wait is not None:
            tally.on_wait(minute, wait)
    return missed


class _Tally:
    """Figures of the judged time."""

    def __init__(self, judged_from: int, misses: LargestMisses) -> None:
        self._judged_from = judged_from
        self.misses = misses
        self.launches = self.hits = self.free = self.starts = self.node_minutes = self.idle = 0
        self.waits: dict[int, int] = {}

    def on_wait(self, since: int, minutes: int) -> None:
        if since >= self._judged_from:
            self.waits[minutes] = self.waits.get(minutes, 0) + 1

    def served(self, minute: int, *, is_hit: bool) -> None:
        if minute < self._judged_from:
            return
        if is_hit:
            self.hits += 1
        else:
            self.free += 1

    def result(self, policy: str, days: float, price: float, timeline: Timeline | None) -> ReplayResult:
        self.misses.close()
        waits = dict(sorted(self.waits.items()))
        # The wait of servers that still wait at the end of the trace is unknown: it counts as the longest.
        still = self.launches - self.hits - self.free - sum(waits.values())
        if still > 0:
            longest = max(waits, default=0) + 1
            waits[longest] = still
        waits[0] = waits.get(0, 0) + self.hits + self.free
        return ReplayResult(
            policy=policy,
            days=days,
            launches=self.launches,
            hits=self.hits,
            free=self.free,
            idle_hours=self.idle / 60,
            node_hours=self.node_minutes / 60,
            node_starts=self.starts,
            price=self.node_minutes / 60 * price,
            waits=waits,
            largest_misses=self.misses.largest(),
            timeline=timeline,
        )
