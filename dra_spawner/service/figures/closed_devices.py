"""Devices that no new server gets: what is left of them is not free."""

from __future__ import annotations

from collections.abc import Callable

from dra_spawner import names
from dra_spawner.dra.model.objects import Device
from dra_spawner.dra.model.taint_rules import applied
from dra_spawner.dra.model.taints import blocking_taint
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_drained
from dra_spawner.simulator.snapshot import Snapshot


def closed_on(snapshot: Snapshot, name: str) -> Callable[[Device], str]:
    """Why no new server gets a device of a node.

    Returns
    -------
    Callable
        For a device ``drained``, the key of another taint, or ``node`` where the node is closed; empty for no reason.
    """
    state = snapshot.nodes[name]
    rules = applied(snapshot.state.devices.taint_rules, snapshot.rules.quirks)
    of_node = "node" if is_drained(state) or state.node.is_unschedulable or not state.node.is_ready else ""

    def closed(device: Device) -> str:
        taints = (*device.taints, *(each.taint for each in rules if each.selects(device.id)))
        if any(each.key == names.DRAINED_DEVICE for each in taints):
            return "drained"
        taint = blocking_taint(taints, ())
        return str(taint.key) if taint is not None else of_node

    return closed
