"""What a report shows besides the table: fixed numbers, and what calendar entries would have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dra_spawner.replay.frontier import fixed_frontier
from dra_spawner.replay.policy_names import NamedPolicy
from dra_spawner.replay.replay import Scenario, replay
from dra_spawner.replay.results import ReplayResult
from dra_spawner.reports.timeline import Timeline

__all__ = ["KindReport", "PolicyReport", "gather", "of_interest"]

_MOST_OF_INTEREST: Final = 4
_FIXED: Final = "fixed:"


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """A policy that is shown in detail.

    Attributes
    ----------
    result
        With a timeline.
    with_entries
        The timeline with the calendar entries of the largest misses; None for a policy that reads no calendar, or
        without such misses.
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
        Of the calendar entries; empty if the kind names none.
    results
        Of all policies.
    in_detail
        The policies of interest.
    frontier
        Results of fixed numbers, by number.
    """

    scenario: Scenario
    profile: str
    policies: Sequence[NamedPolicy]
    results: Sequence[ReplayResult]
    in_detail: Sequence[PolicyReport]
    frontier: Mapping[int, ReplayResult]


def of_interest(policies: Sequence[NamedPolicy]) -> frozenset[int]:
    """Places of the policies that are shown in detail: those that read the calendar; without any, those that keep
    placeholders; without any, all.
    """
    # The results of `fixed:equal` are found by a search, and have no timeline.
    single = [place for place, each in enumerate(policies) if each.policy is not None]
    with_calendar = [place for place in single if policies[place].uses_calendar]
    with_placeholders = [place for place in single if policies[place].name != "none"]
    return frozenset((with_calendar or with_placeholders or single)[:_MOST_OF_INTEREST])


def gather(
    scenario: Scenario,
    profile: str,
    policies: Sequence[NamedPolicy],
    results: Sequence[ReplayResult],
    progress: Callable[[str, float], None],
) -> KindReport:
    """Replay what the report needs besides.

    Parameters
    ----------
    scenario
        With the calendar's entries.
    results
        Of the policies; those `of_interest` with a timeline.
    progress
        Told what is being replayed, and how much of it is done.
    """
    in_detail = []
    for place in sorted(of_interest(policies)):
        policy, result = policies[place], results[place]
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
    """Results of fixed numbers among those of all policies, by number."""
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
    """The timeline of a policy that had known the largest misses in advance."""
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
