"""Servers that would start on a node if no person drained it: the wait has its own reason."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.node_conditions import without_drains
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.pods import Pod

#: Drained nodes that are tried.
_MAX_TRIED: Final = 10


def drained_node_for(view: View, pod: Pod) -> str:
    """A node that is drained by order, and on which a pod would fit, now or without the placeholders there.

    Empty if there is none as far as is tried.
    """
    anywhere = without_drains(pod)
    if anywhere is pod:
        return ""
    for name in view.drained_nodes()[:_MAX_TRIED]:
        with view.snapshot.trial(), suppress(SearchStopped):
            for each in view.placeholders_of_node.get(name, ()):
                view.snapshot.remove_pod(each.key)
            if view.snapshot.fits_on(anywhere, name, explain=False).fits:
                return name
    return ""


def drained_reason(node: str, policy: Policy) -> str:
    """Why a server does not start on a node where it would fit, as a clause."""
    because = f", {policy.drained[node]}" if node in policy.drained else " by order of an administrator"
    return f"it would fit on node {node}, which takes no new server: it is drained{because}"
