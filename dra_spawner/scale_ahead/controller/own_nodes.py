"""Whether servers of a profile group have their nodes for themselves, so that free slots there are theirs, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.simulator.model.pods import Pod

_OF_HUBS: Final = (names.USER_SERVER, names.PLACEHOLDER)


def has_own_nodes(view: View, shape: str, nodes: Mapping[str, int], slots: int | None) -> bool:
    """Whether a shape's servers and placeholders are alone on their nodes, which have no more slots than is known.

    Pods without devices that are not a hub's, such as those of DaemonSets, are on new nodes, too, and change nothing.

    Parameters
    ----------
    nodes
        Number of its servers and placeholders by node.
    slots
        Servers that fit a new node; None if it is not known.
    """
    if slots is None or max(nodes.values(), default=0) > slots:
        return False
    states = [state for name in nodes if (state := view.snapshot.nodes.get(name)) is not None]
    return not any(_takes_slots(pod, shape) for state in states for pod in state.pods)


def _takes_slots(pod: Pod, shape: str) -> bool:
    is_other = pod.labels.get(names.SHAPE) != shape
    return is_other and (bool(pod.claims) or pod.labels.get(names.COMPONENT) in _OF_HUBS)
