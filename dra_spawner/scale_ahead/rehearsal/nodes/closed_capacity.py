"""What servers of a rehearsal lack because somebody has closed nodes or devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from dra_spawner import names
from dra_spawner.common.counted_text import listed
from dra_spawner.common.json_types import JsonObject
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_drained
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.node_templates import lasting_taints

_MAX_NAMED: Final = 3
_TOLERATES_ALL: Final = {"operator": "Exists"}


@dataclass(frozen=True, slots=True)
class ClosedCapacity:
    """What is closed, and how many servers it would run.

    Attributes
    ----------
    drained, cordoned
        Names of nodes; a drained one is no cordoned one.
    on_closed_devices
        Servers that would get devices with taints.
    """

    servers: int = 0
    drained: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    on_closed_devices: int = 0

    def clause(self) -> str:
        """What is closed, for an administrator."""
        parts = [
            f"{listed(nodes, _MAX_NAMED)} {'is' if len(nodes) == 1 else 'are'} {how}"
            for nodes, how in ((self.drained, "drained by order"), (self.cordoned, "cordoned"))
            if nodes
        ]
        return " and ".join([*parts, *(["devices are closed by taints"] if self.on_closed_devices else [])])

    def remedy(self) -> str:
        """How that ends, for an administrator."""
        parts = [f"dra-spawner drain {each} --end" for each in self.drained[:1]]
        parts += [f"kubectl uncordon {each}" for each in self.cordoned[:1]]
        parts += ["remove the taints of the devices"] if self.on_closed_devices else []
        return ", ".join(parts)

    def plain(self, back_at: Mapping[str, datetime]) -> str:
        """What is closed, for everybody, as a clause.

        Parameters
        ----------
        back_at
            Ends of orders to drain.
        """
        if not (self.drained or self.cordoned):
            return "devices that they need are taken out of use"
        ends = [back_at[each] for each in self.drained if each in back_at]
        is_known = len(ends) == len(self.drained) + len(self.cordoned)
        until = f" until {max(ends):%Y-%m-%d %H:%M %Z}" if is_known else ""
        return f"machines that could run them are taken out of use by an administrator{until}"


def is_closed(state: NodeState) -> bool:
    """Whether a person has closed a node."""
    return is_drained(state) or state.node.is_unschedulable


def opened(node: SchedulableNode) -> SchedulableNode:
    """A closed node as it is when it is back in use."""
    return replace(undrained(node), is_unschedulable=False, is_ready=True, taints=lasting_taints(node))


def undrained(node: SchedulableNode) -> SchedulableNode:
    """The node without an order to drain it."""
    return replace(node, labels={key: value for key, value in node.labels.items() if key != names.DRAINING})


def tolerating_all(shape: Shape) -> Shape:
    """The shape with claims that get closed devices, too."""
    return replace(shape, claims={entry: _tolerating(spec) for entry, spec in shape.claims.items()})


def _tolerating(spec: JsonObject) -> JsonObject:
    devices = spec.get("devices") or {}
    return {**spec, "devices": {**devices, "requests": [_open(each) for each in devices.get("requests") or ()]}}


def _open(request: JsonObject) -> JsonObject:
    found = dict(request)
    if request.get("exactly"):
        found["exactly"] = {**request["exactly"], "tolerations": [_TOLERATES_ALL]}
    if request.get("firstAvailable"):
        found["firstAvailable"] = [{**each, "tolerations": [_TOLERATES_ALL]} for each in request["firstAvailable"]]
    return found


def drained_until_then(view: View, back_at: Mapping[str, datetime], begins: datetime) -> tuple[str, ...]:
    """Drained nodes that are back in use when users come."""
    return tuple(each for each in view.drained_nodes() if each in back_at and back_at[each] <= begins)
