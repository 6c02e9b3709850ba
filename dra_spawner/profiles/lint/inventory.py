"""What a cluster publishes, arranged so that many choices can be checked against it: alike devices are asked once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import count
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.allocation.allocator import AllocatedState, AllocationError, Allocator, DoesNotFit
from dra_spawner.dra.allocation.constraints import find_attribute
from dra_spawner.dra.budget import SearchBudget
from dra_spawner.dra.model.claims import DeviceClass, ResourceClaim
from dra_spawner.dra.model.consumable_capacity import Share, ShareError, ShareRefused, share_of
from dra_spawner.dra.model.devices import Attribute, Device, DeviceId
from dra_spawner.dra.model.node_selector import NodeSelectorError
from dra_spawner.dra.model.objects import Node, ObjectError
from dra_spawner.dra.model.pools import SliceIndex, gather_pools
from dra_spawner.dra.model.same_hardware import SameHardware, pairs_by_node
from dra_spawner.dra.quantity import Quantity
from dra_spawner.kubernetes_defects import FoundVersion
from dra_spawner.profiles.device_kinds import Candidates, kinds_of
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.simulator.devices.device_state import DeviceState, Verdicts
from dra_spawner.simulator.devices.search_limits import CommonBudget
from dra_spawner.versions import kubelet_version

#: Steps of the search on one kind of node; far more than any sound profile takes.
_MAX_STEPS: Final = 20_000
#: The same on all kinds of nodes, for one choice.
_MAX_STEPS_OF_ALL: Final = 100_000
#: Steps of a first look, on one node alone.
_FEW_STEPS: Final = 200


class Inventory:
    """Answers about one cluster; what was found out is kept for the next choice."""

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self.rules = facts.scheduler_rules
        self._slices = facts.tainted_slices
        self._kinds = kinds_of(self._slices, see_lists=self.rules.selectors_see_lists)
        self._shares: dict[tuple[Hashable, ...], Share | ShareRefused | ShareError] = {}
        self._node_devices: dict[str, Mapping[DeviceId, Device]] = {}
        self._values: dict[tuple[tuple[str, ...], str], Mapping[str, Mapping[Attribute, int]]] = {}
        self._limits = CommonBudget(lambda: SearchBudget(_MAX_STEPS_OF_ALL))

    @property
    def is_known(self) -> bool:
        """Whether the cluster's devices and their classes are known."""
        return self.facts.knows_devices

    def device_class(self, name: str) -> DeviceClass | None:
        return (self.facts.device_classes or {}).get(name)

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices of the newest generation of each pool."""
        return self._kinds.devices

    @cached_property
    def drivers(self) -> frozenset[str]:
        """Drivers that publish devices."""
        return frozenset(device.id.driver for device in self.devices)

    @cached_property
    def published(self) -> Mapping[str, frozenset[str]]:
        """For each driver, the attributes and capacities of its devices, as ``attributes/domain/name``."""
        names: dict[str, set[str]] = {}
        for driver, attributes, capacity in self._kinds.published:
            known = names.setdefault(driver, set())
            known.update([f"attributes/{_qualified(name, driver)}" for name in attributes])
            known.update([f"capacity/{_qualified(name, driver)}" for name in capacity])
        return {driver: frozenset(known) for driver, known in names.items()}

    @cached_property
    def all_published(self) -> frozenset[str]:
        """The same of all drivers together."""
        return frozenset().union(*self.published.values())

    @cached_property
    def same_hardware(self) -> Mapping[DeviceId, SameHardware]:
        """Devices that are the same hardware as others without shared counters: whole ones, or the first of equals."""
        return {pair.device.id: pair for pair in pairs_by_node(self._slices)}

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        nodes = []
        for node in self.facts.nodes or ():
            try:
                nodes.append(Node.from_json(node))
            except ObjectError:
                continue
        return tuple(nodes)

    @cached_property
    def kubelets(self) -> tuple[FoundVersion, ...]:
        """Versions of the nodes' kubelets, the oldest first."""
        found = {version for node in self.facts.nodes or () if (version := kubelet_version(node)) is not None}
        return tuple(sorted(found, key=lambda version: (version[0], version[1] or 0)))

    @cached_property
    def node_objects(self) -> Mapping[str, JsonObject]:
        """Nodes as the API has them, by name."""
        return {node["metadata"]["name"]: node for node in self.facts.nodes or ()}

    @cached_property
    def allocatable(self) -> frozenset[str]:
        """Resources that some node has to give, device plugins' among them."""
        amounts = ((node.get("status") or {}).get("allocatable") or {} for node in self.facts.nodes or ())
        return frozenset(name for each in amounts for name, amount in each.items() if str(amount) != "0")

    @cached_property
    def empty_cluster(self) -> DeviceState:
        """The cluster as if nothing were in use."""
        classes = (self.facts.device_classes or {}).values()
        state = DeviceState(self._slices, classes, self.nodes, rules=self.rules, max_steps=_MAX_STEPS)
        state.limit_searches(self._limits)
        return state

    def verdicts_when_empty(self, claims: Sequence[ResourceClaim]) -> Verdicts:
        """What claims would get on each node if nothing were in use, or why they would not fit.

        Raises
        ------
        AllocationError
            When they cannot be allocated whatever the nodes are.
        """
        self._limits.next_question()
        return self.empty_cluster.verdicts(claims, explain=True)

    @cached_property
    def _allocator(self) -> Allocator:
        classes = self.facts.device_classes or {}
        return Allocator(self._index, classes, AllocatedState(self.rules), self.rules, selectors=self._kinds.selectors)

    @cached_property
    def _index(self) -> SliceIndex:
        return SliceIndex(self._slices)

    @cached_property
    def _nodes_by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    def node_of(self, device: Device) -> str:
        """Node of a device that only one node can use; else empty."""
        return device.node_name or self._pool_nodes.get((device.id.driver, device.id.pool), "")

    @cached_property
    def _pool_nodes(self) -> Mapping[tuple[str, str], str]:
        return {item.pool_id: item.node_name for item in self._slices if item.node_name}

    def fits_at_once(self, node_name: str, claims: Sequence[ResourceClaim]) -> bool:
        """Whether the claims surely fit on a node if nothing is in use; false where that is not found out soon."""
        node = self._nodes_by_name.get(node_name)
        if node is None:
            return False
        steps = count()
        try:
            found = self._allocator.allocate(node, claims, explain=False, cancelled=lambda: next(steps) > _FEW_STEPS)
        except AllocationError:
            return False
        return not isinstance(found, DoesNotFit)

    def expressions(self, device_class: str, selectors: Iterable[str]) -> tuple[str, ...]:
        """Selectors in the order in which the scheduler asks them."""
        found = self.device_class(device_class)
        return (*(expression or "" for expression in (found.selectors if found is not None else ())), *selectors)

    def candidates(self, expressions: tuple[str, ...]) -> Candidates:
        """Devices that these selectors select, alike ones left out."""
        return self._kinds.candidates(expressions)

    def all_candidates(self, expressions: tuple[str, ...]) -> tuple[Device, ...]:
        """Every single device that these selectors select."""
        return self._kinds.all_candidates(expressions)

    def share(self, device: Device, requests: Mapping[str, Quantity] | None) -> Share | ShareRefused | ShareError:
        """What a request consumes of a device."""
        asked = tuple([(name, amount.format, str(amount)) for name, amount in (requests or {}).items()])
        key = (device.description, asked)
        known = self._shares.get(key)
        if known is None:
            known = self._shares[key] = share_of(device.description, requests, self.rules)
        return known

    @cached_property
    def devices_of_nodes(self) -> Mapping[str, tuple[Device, ...]]:
        """By the name of a node, the devices that it may use; of complete and sound pools only."""
        found = {node.name: tuple(self._devices_of_node(node.name).values()) for node in self.nodes}
        return {name: devices for name, devices in found.items() if devices}

    def is_usable(self, device: Device) -> bool:
        """Whether the one node that has a device may use it now: its pool is complete and sound."""
        return device.id in self._devices_of_node(self.node_of(device))

    def _devices_of_node(self, name: str) -> Mapping[DeviceId, Device]:
        known = self._node_devices.get(name)
        if known is None:
            known = {}
            node = self._nodes_by_name.get(name)
            if node is not None:
                with suppress(NodeSelectorError):
                    pools = gather_pools(self._index, node, self.rules)
                    known = {each.device.id: each.device for pool in pools for each in pool.candidates()}
            self._node_devices[name] = known
        return known

    def values(self, expressions: tuple[str, ...], attribute: str) -> Mapping[str, Mapping[Attribute, int]]:
        """For each node with such devices, how many of them have which value of an attribute.

        Parameters
        ----------
        attribute
            With its domain.
        """
        key = (expressions, attribute)
        known = self._values.get(key)
        if known is None:
            selects = self._kinds.selectors.filter(expressions)
            counted: dict[str, dict[Attribute, int]] = {}
            for name, devices in self.devices_of_nodes.items():
                for device in devices:
                    if selects.verdict(device.description) is True:
                        values = counted.setdefault(name, {})
                        value = find_attribute(device, attribute)
                        if value is not None:
                            values[value] = values.get(value, 0) + 1
            known = self._values[key] = counted
        return known


def _qualified(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"
