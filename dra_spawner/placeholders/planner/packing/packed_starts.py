"""Servers of one shape in a trial, each with the node and the devices that a packing service gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from dra_spawner.dra.preferences import Preferences
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.packing.packed_nodes import PackedNodes, packed_nodes
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.pods import Pod


class PackedStarts:
    """See the module.

    Parameters
    ----------
    view
        Its snapshot is changed.
    name
        Of the simulated pod, and of its claim templates in the snapshot.
    packs_devices
        The service's setting `pack_devices`.
    """

    def __init__(self, view: View, shape: Shape, namespace: str, name: str, *, packs_devices: bool) -> None:
        self._view = view
        self._shape = shape
        self._namespace = namespace
        self._name = name
        self._policy = Policy(packs_devices=packs_devices)
        self._pod, self._templates = simulated_user(shape, namespace, name)
        self._busyness = NodesBusyness(view)

    @property
    def are_packed(self) -> bool:
        """Whether the service chooses devices for this shape."""
        return self._packed() is not None

    def in_order(self, nodes: Iterable[str]) -> list[str]:
        """Nodes in the order in which the next server tries them."""
        packed = self._packed()
        if packed is None:
            return list(nodes)
        return sorted(nodes, key=lambda name: (packed.order(name), self._busyness.of(name).order, name), reverse=True)

    def prepare(self, node: str) -> None:
        """Let the next server on a node ask for its devices first."""
        packed = self._packed()
        if packed is not None:
            self._put(packed.preferences(node).of_claims)

    def reset(self) -> None:
        """Let the next server ask for what its profile asks for."""
        self._put({})

    def place(self, pod: Pod) -> str:
        """Place a server on its best node; returns the node, or nothing where none fits."""
        self.reset()
        node = self._view.snapshot.first_fitting(pod, self.in_order)
        if node:
            self.prepare(node)
            self._view.snapshot.schedule(pod, node)
            self.reset()
        return node

    def _packed(self) -> PackedNodes | None:
        """What nodes lose now; devices that have not changed are not looked at again."""
        return packed_nodes(self._view, self._policy, self._shape, self._pod)

    def _put(self, preferences: Mapping[str, Preferences] = MappingProxyType({})) -> None:
        templates = self._templates
        if preferences:
            _, templates = simulated_user(self._shape, self._namespace, self._name, preferences)
        for template in templates:
            self._view.snapshot.put(template)
