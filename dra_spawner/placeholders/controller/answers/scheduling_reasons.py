"""Why a placeholder is on its node, as far as the present state shows it."""

from __future__ import annotations

from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.cluster.allowed_nodes import allows, is_labelled, is_ready_for_users
from dra_spawner.placeholders.planner.cluster.view import View, wants_devices
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod

#: Limit of nodes for the check whether a placeholder could run on another one.
_MAX_NODES: Final = 500


def explain_scheduling(view: View, pod: Pod) -> str:
    """The scheduler's grounds for a placeholder's node that hold now; empty without a node.

    The manifest has the placeholder's preferences (`planner.placeholder_objects`). The scheduler reports no reason, and
    the node may have changed since.
    """
    state = view.snapshot.nodes.get(pod.node_name)
    if not pod.node_name:
        return ""
    if state is None:
        return "the node is no longer there"
    if _is_only_one(view, state, pod):
        return "it may run on no other node"
    grounds = _grounds(view, state, pod)
    if not grounds:
        return "chosen by the scheduler; the node now has nothing that placeholders prefer"
    return f"chosen by the scheduler: {', '.join(grounds)}"


def _grounds(view: View, state: NodeState, pod: Pod) -> list[str]:
    """The placeholder's preferences that the node meets, the heaviest first."""
    name = pod.node_name
    users = len(view.users_of_node.get(name, ()))
    ready = ["ready for users"] if is_ready_for_users(state) else []
    attracts = ["the newest node, which attracts placeholders"] if is_labelled(state, names.ATTRACT) else []
    if wants_devices(pod):
        there = [f"{users} user's server there" if users == 1 else f"{users} users' servers there"] if users else []
        return ready + there + attracts
    return attracts + ([] if users else ["no user there"])


def _is_only_one(view: View, state: NodeState, pod: Pod) -> bool:
    nodes = view.snapshot.nodes
    return len(nodes) <= _MAX_NODES and not any(each is not state and allows(each, pod) for each in nodes.values())
