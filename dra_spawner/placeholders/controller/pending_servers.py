"""Users' pending servers, and why they are pending."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.planner.planner_state import PlannerState
from dra_spawner.placeholders.planner.preemption import decide_preemptions
from dra_spawner.placeholders.planner.preemption_backoff import PendingRecord
from dra_spawner.placeholders.planner.round import PendingUser, Round
from dra_spawner.placeholders.planner.safeguards import hold_reason
from dra_spawner.placeholders.planner.view import View, age
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.pods import Pod

__all__ = ["PendingServer", "pending_servers"]


@dataclass(frozen=True, slots=True)
class PendingServer:
    """A user's server without a node.

    Attributes
    ----------
    cause
        Why it is pending, or what is done about it, as a sentence without a full stop.
    needs_node
        Whether only another node helps.
    is_known
        Whether it is known if it fits; false if a search was stopped or postponed, or a selector gets no verdict.
    """

    pod: Pod
    cause: str
    needs_node: bool
    is_known: bool = True


def pending_servers(controller: PlaceholderController) -> tuple[PendingServer, ...]:
    """The pending servers, in the order of the scheduler's queue.

    The leader answers from its last round. For newer servers, and on a standby, the decision is computed here.
    """
    view = controller.view()
    hold = hold_reason(view, controller.policy)
    told = {} if hold or not view.pending_users else _told(controller, view)
    found = []
    for pod in view.pending_users:
        known = told.get(ObjectKey.of(pod))
        # During a hold the pod's own problems are not known either.
        found.append(
            PendingServer(pod, known.reason, known.needs_node, known.unknown is None)
            if known
            else PendingServer(pod, hold, needs_node=False)
        )
    return tuple(found)


def _told(controller: PlaceholderController, view: View) -> dict[ObjectKey, PendingUser]:
    decided = controller.latest
    if decided is not None and not decided.on_hold:
        told = {each.pod: each for each in decided.pending}
        if all(ObjectKey.of(pod) in told for pod in view.pending_users):
            return told
    state = decided.planner_state if decided is not None else _state_by_age(view)
    round_ = Round(view, controller.policy, state)
    round_.decide((decide_preemptions,))
    return {each.pod: each for each in round_.pending}


def _state_by_age(view: View) -> PlannerState:
    """The state as a leader would have it; a pod that fits and has long been pending has a reason."""
    records = {pod.uid: PendingRecord(view.now - age(pod.created, view.now)) for pod in view.pending_users}
    return replace(PlannerState.fresh(view.now), pending_records=records)
