"""Users' pending servers, and why they are pending."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.availability_text import SENTENCES
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.amounts.preemption_backoff import PendingRecord
from dra_spawner.placeholders.planner.cluster.closed_nodes import closed_devices_of, closed_for
from dra_spawner.placeholders.planner.cluster.view import View, age
from dra_spawner.placeholders.planner.decisions.preemption import NO_CAPACITY, decide_preemptions
from dra_spawner.placeholders.planner.decisions.safeguards import hold_reason
from dra_spawner.placeholders.planner.round import PendingUser, Round
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.refusal_text import refusal_detail, waiting_sentence


@dataclass(frozen=True, slots=True)
class PendingServer:
    """A user's server without a node.

    Attributes
    ----------
    cause
        Why it is pending, or what is done about it, for administrators, as a sentence without a full stop.
    sentence
        The same for its user; empty if the user has nothing to know, or it is not known.
    needs_node
        Whether only another node helps.
    is_known
        Whether it is known if it fits; false if a search was stopped or postponed, or a selector gets no verdict.
    """

    pod: Pod
    cause: str
    needs_node: bool
    is_known: bool = True
    sentence: str = ""


def pending_servers(controller: PlaceholderController) -> tuple[PendingServer, ...]:
    """The pending servers, in the order of the scheduler's queue.

    The leader answers from its last round. For newer servers, and on a standby, the decision is computed here.
    """
    view = controller.view()
    hold = hold_reason(view, controller.policy)
    decided = {} if hold or not view.pending_users else _decided(controller, view)
    lacks: dict[str, tuple[str, str]] = {}
    found = []
    for pod in view.pending_users:
        known = decided.get(ObjectKey.of(pod))
        if known is None:
            # During a hold the pod's own problems are not known either.
            found.append(PendingServer(pod, hold, needs_node=False))
            continue
        cause, sentence = known.reason, ""
        if known.reason == NO_CAPACITY:
            shape = view.shape_of(pod) or str(ObjectKey.of(pod))
            if shape not in lacks:
                lacks[shape] = _lack(view, controller.policy, pod)
            cause, sentence = lacks[shape]
        elif known.has_preemption:
            sentence = SENTENCES[AvailabilityState.AFTER_PREEMPTION]
        elif known.needs_node and (closed := closed_for(view, controller.policy, pod)) is not None:
            sentence = closed.text.waiting
        found.append(PendingServer(pod, cause, known.needs_node, known.unknown is None, sentence))
    return tuple(found)


def _lack(view: View, policy: Policy, pod: Pod) -> tuple[str, str]:
    """What present nodes lack for a pod, for administrators and for its user."""
    try:
        fit = view.snapshot.fits(pod, explain=True)
    except SearchStopped:
        return NO_CAPACITY, ""
    refusals = tuple(each for each in fit.nodes.values() if not each.fits)
    closed = closed_for(view, policy, pod) or closed_devices_of(refusals, policy)
    if closed is not None:
        return f"{NO_CAPACITY}: {closed.reason}", closed.text.waiting
    return f"{NO_CAPACITY}: {refusal_detail(fit)}", waiting_sentence(refusals, has_nodes=bool(view.snapshot.nodes))


def _decided(controller: PlaceholderController, view: View) -> dict[ObjectKey, PendingUser]:
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
    """Pending records for a replica that does not lead, derived from the ages of pods."""
    records = {pod.uid: PendingRecord(view.now - age(pod.created, view.now)) for pod in view.pending_users}
    return replace(PlannerState.fresh(view.now), pending_records=records)
