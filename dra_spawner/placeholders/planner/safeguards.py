"""When nothing is decided, or nothing is tidied up, whatever should go or be elsewhere; and why."""

from __future__ import annotations

from dataclasses import dataclass

from dra_spawner.placeholders.planner.actions import Hold
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.view import View

__all__ = ["Safeguard", "frozen_because", "safeguard_of"]


@dataclass(frozen=True, slots=True)
class Safeguard:
    """What holds everything up.

    Attributes
    ----------
    rule
        By which no placeholder is evicted.
    reason
        A sentence without its full stop.
    is_frozen
        Whether nothing at all is decided, for users neither.
    """

    rule: Hold
    reason: str
    is_frozen: bool = False


def frozen_because(view: View, policy: Policy) -> str:
    """Why nothing may be decided at present; empty if all is well."""
    stop = _freeze(view, policy)
    return stop.reason if stop is not None else ""


def safeguard_of(view: View, policy: Policy) -> Safeguard | None:
    """Why no placeholder is evicted to tidy up at present; None if nothing stands against it."""
    if (freeze := _freeze(view, policy)) is not None:
        return freeze
    if count := len(view.pending_users):
        servers = "a user's server waits" if count == 1 else f"{count} users' servers wait"
        return Safeguard(Hold.USERS_WAIT, f"no placeholder is moved while {servers}")
    pending = sum(1 for each in view.placeholders.values() if each.is_pending)
    if pending > policy.budget.most_pending:
        placeholders = "a placeholder waits" if pending == 1 else f"{pending} placeholders wait"
        return Safeguard(Hold.PENDING, f"no placeholder is moved while {placeholders} for a node")
    if count := len(view.terminating_soon):
        placeholders = "one is" if count == 1 else f"{count} are"
        return Safeguard(Hold.TERMINATING, f"no placeholder is moved while {placeholders} on the way out")
    return None


def _freeze(view: View, policy: Policy) -> Safeguard | None:
    if view.problem:
        return Safeguard(Hold.API, f"nothing is decided: {view.problem}", is_frozen=True)
    if view.stale > policy.stale_after:
        seconds = int(view.stale.total_seconds())
        reason = f"nothing is decided: what is known of the cluster is {seconds} seconds old"
        return Safeguard(Hold.STALE, reason, is_frozen=True)
    return None
