"""Free slots on nodes that servers of a profile group have for themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_labelled, is_open, is_ready_for_users
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod

_OF_HUBS: Final = (names.USER_SERVER, names.PLACEHOLDER)


def free_slots(
    view: View, shape: str, nodes: Mapping[str, int], servers: Iterable[Pod], slots: int | None
) -> int | None:
    """Slots that a shape's servers leave free on their nodes; None if others take some.

    Slots with placeholders are among them. The shape's servers and placeholders must be alone on their nodes, which
    have no more slots than is known. Pods without devices that are not a hub's, such as pods of DaemonSets, are on new
    nodes, too, and change nothing. A node on which no new server may start has no free slots, and neither has one with
    closed or doubtful devices.

    Parameters
    ----------
    nodes
        Number of its servers and placeholders by node.
    servers
        Of the shape; servers without a node are left out.
    slots
        Servers that fit a new node; None if it is not known.
    """
    if slots is None or max(nodes.values(), default=0) > slots:
        return None
    states = [state for name in nodes if (state := view.snapshot.nodes.get(name)) is not None]
    if any(_takes_slots(pod, shape) for state in states for pod in state.pods):
        return None
    on_node: dict[str, list[Pod]] = {}
    for pod in servers:
        if pod.node_name:
            on_node.setdefault(pod.node_name, []).append(pod)
    return sum(
        slots - len(pods)
        for name, pods in on_node.items()
        if (state := view.snapshot.nodes.get(name)) is not None and _takes_more(view, state, pods[0])
    )


def _takes_slots(pod: Pod, shape: str) -> bool:
    is_other = pod.labels.get(names.SHAPE) != shape
    return is_other and (bool(pod.claims) or pod.labels.get(names.COMPONENT) in _OF_HUBS)


def _takes_more(view: View, state: NodeState, server: Pod) -> bool:
    """Whether further servers like one that runs there may start on a node, and get sound devices."""
    name, tainted = state.node.name, view.index.tainted_slices
    if not is_open(state, server) or not is_ready_for_users(state) or is_labelled(state, names.DRAINING):
        return False
    is_closed = bool(tainted) and any(each.name in tainted for each in view.index.slices_of_node.get(name, ()))
    return not is_closed and not view.doubts_of(name)
