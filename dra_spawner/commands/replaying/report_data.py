"""Data of a report besides the table: results of fixed numbers, and the effect of calendar entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dra_spawner.scale_ahead.replay.frontier import fixed_frontier
from dra_spawner.scale_ahead.replay.policy_names import NamedPolicy
from dra_spawner.scale_ahead.replay.replay import Scenario, replay
from dra_spawner.scale_ahead.replay.results import ReplayResult
from dra_spawner.scale_ahead.reports.timeline import Timeline

_MAX_DETAILED: Final = 4
_FIXED: Final = "fixed:"


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """A policy that is shown in detail.

    Attributes
    ----------
    result
        Result with a timeline.
    with_entries
        The timeline with the calendar entries of the largest misses; None for a policy that uses no calendar, or
        without misses that entries prevent.
    """

    policy: NamedPolicy
    result: ReplayResult
    with_entries: Timeline | None = None


@dataclass(frozen=True, slots=True)
class KindReport:
    """One kind of node.

    Attributes
    ----------
    profile
        Profile of the calendar entries; empty if the kind lists none.
    results
        Results of all policies.
    in_detail
        The policies that are shown in detail.
    frontier
        Results of fixed numbers, by number.
    """

    scenario: Scenario
    profile: str
    policies: Sequence[NamedPolicy]
    results: Sequence[ReplayResult]
    in_detail: Sequence[PolicyReport]
    frontier: Mapping[int, ReplayResult]


def detailed_policies(policies: Sequence[NamedPolicy]) -> frozenset[int]:
    """Indices of the policies that are shown in detail: those that use the calendar; without these, those with
    placeholders; without these, all.
    """
    # The results of `fixed:equal` are found by a search, and have no timeline.
    single = [index for index, each in enumerate(policies) if each.policy is not None]
    with_calendar = [index for index in single if policies[index].uses_calendar]
    with_placeholders = [index for index in single if policies[index].name != "none"]
    return frozenset((with_calendar or with_placeholders or single)[:_MAX_DETAILED])


def kind_report(
    scenario: Scenario,
    profile: str,
    policies: Sequence[NamedPolicy],
    results: Sequence[ReplayResult],
    progress: Callable[[str, float], None],
) -> KindReport:
    """Replay the further data of a report.

    Parameters
    ----------
    scenario
        Scenario with the calendar's entries.
    results
        Results of the policies; those of `detailed_policies` have a timeline.
    progress
        Called with the name of a replay, and with the share of it that is done.
    """
    in_detail = []
    for index in sorted(detailed_policies(policies)):
        policy, result = policies[index], results[index]
        entries = _with_entries(scenario, profile, policy, result, progress)
        in_detail.append(PolicyReport(policy, result, entries))
    frontier = fixed_frontier(
        scenario,
        [each.hit_rate for each in results],
        known=_fixed(results),
        progress=lambda number, done: progress(f"fixed:{number} for the curve", done),
    )
    return KindReport(scenario, profile, policies, results, in_detail, frontier)


def _fixed(results: Sequence[ReplayResult]) -> dict[int, ReplayResult]:
    """The results of fixed numbers, by number."""
    return {
        int(each.policy.removeprefix(_FIXED)): replace(each, timeline=None)
        for each in results
        if each.policy.startswith(_FIXED)
    }


def _with_entries(
    scenario: Scenario,
    profile: str,
    policy: NamedPolicy,
    result: ReplayResult,
    progress: Callable[[str, float], None],
) -> Timeline | None:
    """The timeline of a policy with calendar entries of the largest misses."""
    entries = tuple(each.calendar_entry(profile) for each in result.largest_misses if each.is_preventable)
    if policy.policy is None or not policy.uses_calendar or not entries:
        return None
    announced = replace(scenario, occurrences=(*scenario.occurrences, *entries), has_timeline=True)
    minutes = max(len(scenario.trace.launches), 1)
    return replay(
        announced,
        policy.policy,
        policy.settings,
        name=policy.name,
        as_z2jh=policy.as_z2jh,
        progress=lambda done: progress(f"{policy.name} with the entries", done / minutes),
    ).timeline
