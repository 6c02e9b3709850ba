"""Which nodes servers and placeholders may use: by the labels of this project, taints, and constraints of a pod."""

from __future__ import annotations

from typing import Final

from dra_spawner import names
from dra_spawner.dra.model.taints import tolerates
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod

_NO_PLACE: Final = ("NoSchedule", "NoExecute")


def is_labelled(state: NodeState | None, label: str) -> bool:
    """Whether a node has one of this project's labels."""
    return state is not None and state.node.labels.get(label) in (names.TRUE, names.ORDERED, names.EMPTYING)


def is_drained(state: NodeState | None) -> bool:
    """Whether a person ordered that a node is drained, so that no new server goes there."""
    return state is not None and state.node.labels.get(names.DRAINING) == names.ORDERED


def is_ready_for_users(state: NodeState | None) -> bool:
    """Whether a node's label allows users' servers."""
    return state is not None and names.IMAGES_READY in state.node.labels


def is_open(state: NodeState, pod: Pod) -> bool:
    """Whether a pod may run on a node, apart from free capacity."""
    node = state.node
    if node.is_unschedulable or not node.is_ready:
        return False
    return allows(state, pod)


def allows(state: NodeState, pod: Pod) -> bool:
    """Whether a pod's constraints allow a node, apart from Kubernetes' taints of nodes with problems."""
    node = state.node
    return pod.selects_node(node.name, node.labels) and all(
        any(tolerates(toleration, taint) for toleration in pod.tolerations)
        for taint in node.taints
        if taint.effect in _NO_PLACE and not taint.key.startswith(names.NODE_PREFIX)
    )
