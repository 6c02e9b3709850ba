"""What a cluster publishes, arranged so that many choices can be checked against it: alike devices are asked once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final

from dra_spawner.dra.claims import DeviceClass
from dra_spawner.dra.constraints import find_attribute
from dra_spawner.dra.devices import Attribute, Device, DeviceDescription, PoolId, ResourceSlice
from dra_spawner.dra.features import QUIRKS_1_36, SCHEDULER_1_36
from dra_spawner.dra.node_selector import NodeSelectorError
from dra_spawner.dra.objects import Node, ObjectError
from dra_spawner.dra.pools import SliceIndex, gather_pools
from dra_spawner.dra.selectors import SelectorCache, SelectorFailure
from dra_spawner.dra.visibility import Visibility
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.simulator.device_state import DeviceState

__all__ = ["Candidates", "Inventory"]

#: Steps of the search on one kind of node; far more than any sound profile takes.
_MAX_STEPS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Candidates:
    """Devices that a request could get, one for each kind.

    Attributes
    ----------
    devices
        Selected by the class's and the request's selectors; alike ones left out.
    failures
        Devices on which a selector fails, with what it said.
    """

    devices: tuple[Device, ...] = ()
    failures: tuple[tuple[Device, SelectorFailure], ...] = ()


class Inventory:
    """Answers about one cluster; what was found out is kept for the next choice.

    Parameters
    ----------
    facts
        What is known of the cluster.
    """

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self._selectors = SelectorCache(list_attributes=SCHEDULER_1_36.list_type_attributes)
        self._kinds: dict[frozenset[str] | None, tuple[Device, ...]] = {}
        self._candidates: dict[tuple[str, ...], Candidates] = {}
        self._values: dict[tuple[tuple[str, ...], str], Mapping[str, Mapping[Attribute, int]]] = {}

    @property
    def is_known(self) -> bool:
        """Whether it is known what is published."""
        return self.facts.slices is not None and self.facts.device_classes is not None

    def device_class(self, name: str) -> DeviceClass | None:
        return (self.facts.device_classes or {}).get(name)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """All devices of the newest generation of each pool."""
        newest: dict[PoolId, int] = {}
        slices: Iterable[ResourceSlice] = self.facts.slices or ()
        for item in slices:
            newest[item.pool_id] = max(item.generation, newest.get(item.pool_id, item.generation))
        current = (item for item in slices if item.generation == newest[item.pool_id])
        return tuple(chain.from_iterable(item.devices for item in current))

    @cached_property
    def drivers(self) -> frozenset[str]:
        """Drivers that publish devices."""
        return frozenset(device.id.driver for device in self.devices)

    @cached_property
    def published(self) -> Mapping[str, frozenset[str]]:
        """For each driver, the attributes and capacities of its devices, as ``attributes/domain/name``."""
        names: dict[str, set[str]] = {}
        for device in self.devices:
            known = names.setdefault(device.id.driver, set())
            known.update([f"attributes/{_qualified(name, device)}" for name in device.description.attributes])
            known.update([f"capacity/{_qualified(name, device)}" for name in device.description.capacity])
        return {driver: frozenset(known) for driver, known in names.items()}

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
    def empty_cluster(self) -> DeviceState:
        """The cluster as if nothing were in use."""
        classes = (self.facts.device_classes or {}).values()
        return DeviceState(self.facts.slices or (), classes, self.nodes, max_steps=_MAX_STEPS)

    def expressions(self, device_class: str, selectors: Iterable[str]) -> tuple[str, ...]:
        """Selectors in the order in which the scheduler asks them."""
        found = self.device_class(device_class)
        return (*(expression or "" for expression in (found.selectors if found is not None else ())), *selectors)

    def candidates(self, expressions: tuple[str, ...]) -> Candidates:
        """Devices that these selectors select."""
        known = self._candidates.get(expressions)
        if known is None:
            known = self._candidates[expressions] = self._find(expressions)
        return known

    def _find(self, expressions: tuple[str, ...]) -> Candidates:
        selects = self._selectors.filter(expressions)
        devices: list[Device] = []
        failures: list[tuple[Device, SelectorFailure]] = []
        for device in self._kinds_by(selects.attributes):
            verdict = selects.verdict(device.description)
            if isinstance(verdict, SelectorFailure):
                failures.append((device, verdict))
            elif verdict:
                devices.append(device)
        return Candidates(tuple(devices), tuple(failures))

    def _kinds_by(self, attributes: frozenset[str] | None) -> tuple[Device, ...]:
        """One device of each kind that selectors can tell apart which see these attributes only."""
        kinds = self._kinds.get(attributes)
        if kinds is None:
            visibility = Visibility(attributes)
            first: dict[Hashable, Device] = {}
            for device in self.devices:
                first.setdefault(visibility.seen(device.description), device)
            kinds = self._kinds[attributes] = tuple(first.values())
        return kinds

    def selects(self, expressions: tuple[str, ...], description: DeviceDescription) -> bool:
        """Whether all selectors select devices of this description; one that fails does not."""
        return self._selectors.filter(expressions).verdict(description) is True

    def all_candidates(self, expressions: tuple[str, ...]) -> tuple[Device, ...]:
        """Every single device that these selectors select."""
        return tuple(device for device in self.devices if self.selects(expressions, device.description))

    @cached_property
    def devices_of_nodes(self) -> Mapping[str, tuple[Device, ...]]:
        """By the name of a node, the devices that it may use; of complete and sound pools only."""
        index = SliceIndex(self.facts.slices or ())
        devices: dict[str, tuple[Device, ...]] = {}
        for node in self.nodes:
            try:
                pools = gather_pools(index, node, SCHEDULER_1_36, QUIRKS_1_36)
            except NodeSelectorError:
                continue
            found = tuple(candidate.device for pool in pools for candidate in pool.candidates())
            if found:
                devices[node.name] = found
        return devices

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
            selects = self._selectors.filter(expressions)
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


def _qualified(name: str, device: Device) -> str:
    return name if "/" in name else f"{device.id.driver}/{name}"
