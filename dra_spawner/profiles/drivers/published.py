"""What a cluster publishes, as far as it says what a request can get: drivers of classes, devices of requests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.devices import Attribute, Device, DeviceDescription
from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.profiles.device_kinds import kinds_of
from dra_spawner.profiles.drivers.asked import AskedRequest
from dra_spawner.profiles.facts import ClusterFacts

_TYPE_IN_CEL = re.compile(r"""(?:\.type|\["type"\]|\['type'\])\s*==\s*(?:"([^"]+)"|'([^']+)')""")


class Published:
    """Answers about one `ClusterFacts`; remembers every verdict of a selector.

    Parameters
    ----------
    facts
        ``None`` where nothing of a cluster is known.
    """

    def __init__(self, facts: ClusterFacts | None) -> None:
        self.facts = facts if facts is not None else ClusterFacts()
        self._kinds = kinds_of(self.facts.slices or (), see_lists=self.facts.scheduler_rules.selectors_see_lists)
        self._drivers: dict[str, str] = {}
        self._candidates: dict[tuple[str, str, tuple[str, ...]], tuple[Device, ...]] = {}
        self._nodes: dict[str, tuple[JsonObject, ...]] = {}

    @cached_property
    def devices(self) -> tuple[Device, ...] | None:
        """One device of each kind, alike devices left out; ``None`` if it is not known what is published."""
        if self.facts.slices is None:
            return None
        kinds: dict[tuple[DeviceDescription, bool], Device] = {}
        for each in self.facts.slices:
            for device in each.devices:
                kinds.setdefault((device.description, bool(device.consumes_counters)), device)
        return tuple(kinds.values())

    def device_class(self, name: str) -> DeviceClass | None:
        """A DeviceClass; ``None`` if it is not known."""
        return self.facts.device_classes.get(name) if self.facts.device_classes is not None else None

    def driver_of_class(self, name: str) -> str:
        """The driver that a class's CEL names, else the one whose devices it selects; empty if that is not known."""
        if name not in self._drivers:
            self._drivers[name] = self._find_driver(name)
        return self._drivers[name]

    def _find_driver(self, name: str) -> str:
        device_class = self.device_class(name)
        if device_class is None:
            return ""
        named = set(device_class.named_drivers)
        if not named and device_class.selectors:
            named = {device.id.driver for device in self._selected(device_class.selectors)}
        return named.pop() if len(named) == 1 else ""

    def type_of(self, request: AskedRequest) -> str:
        """The one ``type`` of devices that the CEL of a request and of its class names; else empty."""
        device_class = self.device_class(request.device_class)
        selectors = device_class.selectors if device_class is not None else ()
        named = set(_texts(_TYPE_IN_CEL, (*selectors, *request.expressions)))
        return named.pop() if len(named) == 1 else ""

    def candidates(self, request: AskedRequest, driver: str) -> tuple[Device, ...] | None:
        """Kinds of devices of a driver that a request can get; ``None`` if it is not known what is published."""
        return self.candidates_of_class(request.device_class, driver, request.expressions)

    def candidates_of_class(
        self, name: str, driver: str, expressions: tuple[str, ...] = ()
    ) -> tuple[Device, ...] | None:
        """The same of a class, and of further CEL."""
        if self.devices is None:
            return None
        key = (driver, name, expressions)
        if key not in self._candidates:
            device_class = self.device_class(name)
            selectors = (*(device_class.selectors if device_class is not None else ()), *expressions)
            self._candidates[key] = tuple(each for each in self._selected(selectors) if each.id.driver == driver)
        return self._candidates[key]

    @staticmethod
    def types(devices: Iterable[Device]) -> set[str]:
        """The values of ``type`` that these devices publish in their driver's own domain."""
        attributes = (own_attribute(device, "type") for device in devices)
        return {str(each.value) for each in attributes if each is not None}

    def nodes_with(self, driver: str) -> tuple[JsonObject, ...] | None:
        """Nodes on which a driver publishes devices; ``None`` if that is not known."""
        if self.facts.slices is None or self.facts.nodes is None:
            return None
        if driver not in self._nodes:
            names = {each.node_name for each in self.facts.slices if each.pool_id.driver == driver and each.node_name}
            found = (node for node in self.facts.nodes if node.get("metadata", {}).get("name") in names)
            self._nodes[driver] = tuple(found)
        return self._nodes[driver]

    def _selected(self, selectors: Iterable[str | None]) -> tuple[Device, ...]:
        # A selector that fails selects nothing here; that it does fail is for another rule to say.
        return self._kinds.candidates(tuple(each for each in selectors if each is not None)).devices


def own_attribute(device: Device, name: str) -> Attribute | None:
    """An attribute in the driver's own domain, with which it may be published or not."""
    attributes = device.description.attributes
    return attributes.get(name) or attributes.get(f"{device.id.driver}/{name}")


def _texts(pattern: re.Pattern[str], expressions: Iterable[str | None]) -> list[str]:
    return [double or single for each in expressions if each for double, single in pattern.findall(each)]


#: Replaced as a whole, and read once in a call: threads share it.
_recent: Published | None = None


def published(facts: ClusterFacts | None) -> Published:
    """What is published by these facts; the last ones asked about are remembered."""
    global _recent
    recent = _recent
    if recent is None or facts is None or recent.facts is not facts:
        recent = _recent = Published(facts)
    return recent
