"""Pods for which it is not known whether they fit: the search takes too long, or a selector gets no verdict."""

from __future__ import annotations

from enum import StrEnum

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.planner.cluster.search_ledger import SearchPostponed
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot, Undecided


class Unknown(StrEnum):
    """Why it is not known whether a pod fits."""

    #: The search for its devices took too long.
    STOPPED = "stopped"
    #: Searches for other pods used up the time; a later round decides.
    POSTPONED = "postponed"
    #: Its selectors cannot be evaluated, or its claims are invalid.
    NO_VERDICT = "no-verdict"


def why_unknown(pod: Pod, stopped: SearchStopped | Undecided) -> tuple[Unknown, str]:
    """Why it is not known whether a pod fits, with a message."""
    if isinstance(stopped, Undecided):
        reason = "it is not known whether it fits, and no placeholder is preempted for it: "
        return Unknown.NO_VERDICT, f"{reason if stopped.verdict.has_unknown_devices else ''}{stopped}"
    if isinstance(stopped, SearchPostponed):
        reason = "it is not known yet whether it fits: searches for other servers used up the time of this round"
        return Unknown.POSTPONED, reason
    names = ", ".join(each.claim or each.name for each in pod.claims) or "its extended resources"
    return Unknown.STOPPED, (
        f"it is not known whether it fits: the search for devices of {names} was stopped after {stopped.steps:,} steps,"
        f" and no placeholder is preempted for it; {stopped.reason}"
    )


def surely_fits(snapshot: Snapshot, pod: Pod, node: str) -> bool:
    """Whether a pod is known to fit on a node."""
    try:
        return snapshot.fits_on(pod, node, explain=False).fits
    except SearchStopped:
        return False
