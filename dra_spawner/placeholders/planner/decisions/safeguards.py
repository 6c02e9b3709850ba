"""Safeguards: when nothing is decided, or nothing is evicted, and why."""

from __future__ import annotations

from dataclasses import dataclass

from dra_spawner.placeholders.planner.actions import Hold
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.cluster_objects import Kind, Knowledge


@dataclass(frozen=True, slots=True)
class Safeguard:
    """Why evictions, or all decisions, are on hold.

    Attributes
    ----------
    rule
        The rule that denies evictions.
    reason
        A sentence without its full stop.
    holds_everything
        Whether nothing is decided, not even for users.
    """

    rule: Hold
    reason: str
    holds_everything: bool = False


def hold_reason(view: View, policy: Policy) -> str:
    """Why nothing may be decided at present; empty if decisions may be made."""
    safeguard = _total_hold(view, policy)
    return safeguard.reason if safeguard is not None else ""


def safeguard_of(view: View, policy: Policy) -> Safeguard | None:
    """The safeguard that denies evictions at present; None if they may happen."""
    if (hold := _total_hold(view, policy)) is not None:
        return hold
    if view.unknown:
        kinds = ", ".join(view.unknown)
        return Safeguard(Hold.STALE, f"no placeholder is evicted while changes of kind {kinds} cannot be followed")
    if count := len(view.pending_users):
        servers = "a user's server is" if count == 1 else f"{count} users' servers are"
        return Safeguard(Hold.USERS_PENDING, f"no placeholder is evicted while {servers} pending")
    pending = sum(1 for each in view.placeholders.values() if each.is_pending)
    if pending > policy.budget.max_pending:
        placeholders = "one is" if pending == 1 else f"{pending} are"
        return Safeguard(Hold.PENDING, f"no placeholder is evicted while {placeholders} pending")
    if count := len(view.terminating_soon):
        placeholders = "one is" if count == 1 else f"{count} are"
        return Safeguard(Hold.TERMINATING, f"no placeholder is evicted while {placeholders} terminating")
    return None


def _total_hold(view: View, policy: Policy) -> Safeguard | None:
    if policy.observing_because:
        return Safeguard(Hold.OBSERVING, f"nothing is decided: {policy.observing_because}", holds_everything=True)
    if view.problem:
        return Safeguard(Hold.API, f"nothing is decided: {view.problem}", holds_everything=True)
    if view.stale > policy.stale_after:
        seconds = int(view.stale.total_seconds())
        reason = f"nothing is decided: the view of the cluster is {seconds} seconds old"
        return Safeguard(Hold.STALE, reason, holds_everything=True)
    if any(view.knowledge_of(kind) is Knowledge.ABSENT for kind in Kind):
        # This process began while a replica of the control plane without devices answered.
        count = sum(1 for each in view.placeholders.values() if each.claims)
        if count:
            reason = f"nothing is decided: the cluster serves no devices, although {count} placeholders have claims"
            return Safeguard(Hold.STALE, reason, holds_everything=True)
    return None
