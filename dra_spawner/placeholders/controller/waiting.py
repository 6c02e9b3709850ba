"""Users' servers that wait for a node, and why."""

from __future__ import annotations

from dataclasses import dataclass

from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderKeeper
from dra_spawner.placeholders.planner.busyness import NodesBusyness
from dra_spawner.placeholders.planner.preemption import Waiting, decide_yields
from dra_spawner.placeholders.planner.preemption_backoff import Waited
from dra_spawner.placeholders.planner.safeguards import frozen_because
from dra_spawner.placeholders.planner.view import View, age
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.pods import Pod

__all__ = ["WaitingServer", "waiting_servers"]


@dataclass(frozen=True, slots=True)
class WaitingServer:
    """A user's server without a node.

    Attributes
    ----------
    cause
        Why it waits, or what is done about it, as a sentence without its full stop.
    needs_node
        Whether nothing helps but another node.
    is_known
        Whether it is known if it fits anywhere; not where the search for its devices was stopped or has to wait.
    """

    pod: Pod
    cause: str
    needs_node: bool
    is_known: bool = True


def waiting_servers(keeper: PlaceholderKeeper) -> tuple[WaitingServer, ...]:
    """Each server that waits, in the order of the scheduler's queue.

    The leader says what it decided on last. Of servers that came since then, and where another replica leads, it is
    worked out what a leader would say.
    """
    view = keeper.view()
    frozen = frozen_because(view, keeper.policy)
    told = {} if frozen or not view.waiting_users else _told(keeper, view)
    found = []
    for pod in view.waiting_users:
        known = told.get(ObjectKey.of(pod))
        # While nothing is decided it is not known either what the pod itself lacks.
        found.append(
            WaitingServer(pod, known.reason, known.needs_node, known.unknown is None)
            if known
            else WaitingServer(pod, frozen, needs_node=False)
        )
    return tuple(found)


def _told(keeper: PlaceholderKeeper, view: View) -> dict[ObjectKey, Waiting]:
    decided = keeper.latest
    if decided is not None and not decided.frozen:
        told = {each.pod: each for each in decided.waiting}
        if all(ObjectKey.of(pod) in told for pod in view.waiting_users):
            return told
    before = decided.memory.waited if decided is not None else _as_by_age(view)
    _, waiting, _ = decide_yields(view, keeper.policy, NodesBusyness(view), before)
    return {each.pod: each for each in waiting}


def _as_by_age(view: View) -> dict[str, Waited]:
    """What a leader may remember of pods that wait; one that fits and has no node for long is left out for a reason."""
    return {pod.uid: Waited(view.now - age(pod.created, view.now)) for pod in view.waiting_users}
