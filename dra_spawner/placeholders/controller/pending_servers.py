"""Users' servers that wait for a node, and why."""

from __future__ import annotations

from dataclasses import dataclass

from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.planner.busyness import NodesBusyness
from dra_spawner.placeholders.planner.preemption import PendingUser, decide_preemptions
from dra_spawner.placeholders.planner.preemption_backoff import PendingRecord
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
        Why it waits, or what is done about it, as a sentence without its full stop.
    needs_node
        Whether nothing helps but another node.
    is_known
        Whether it is known if it fits anywhere; not where the search for its devices was stopped or has to wait, or
        where a selector cannot be evaluated here.
    """

    pod: Pod
    cause: str
    needs_node: bool
    is_known: bool = True


def pending_servers(controller: PlaceholderController) -> tuple[PendingServer, ...]:
    """Each server that waits, in the order of the scheduler's queue.

    The leader says what it decided on last. Of servers that came since then, and where another replica leads, it is
    worked out what a leader would say.
    """
    view = controller.view()
    hold = hold_reason(view, controller.policy)
    told = {} if hold or not view.pending_users else _told(controller, view)
    found = []
    for pod in view.pending_users:
        known = told.get(ObjectKey.of(pod))
        # While nothing is decided it is not known either what the pod itself lacks.
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
    before = decided.planner_state.pending_records if decided is not None else _as_by_age(view)
    _, pending, _ = decide_preemptions(view, controller.policy, NodesBusyness(view), before)
    return {each.pod: each for each in pending}


def _as_by_age(view: View) -> dict[str, PendingRecord]:
    """What a leader may remember of pods that wait; one that fits and has no node for long is left out for a reason."""
    return {pod.uid: PendingRecord(view.now - age(pod.created, view.now)) for pod in view.pending_users}
