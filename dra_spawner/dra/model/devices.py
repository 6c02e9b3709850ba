"""Devices and the ResourceSlices that publish them (``resource.k8s.io/v1``)."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from dra_spawner.dra.model.decoding import Reader
from dra_spawner.dra.model.node_selector import NodeSelector
from dra_spawner.dra.model.object_limits import check_sizes
from dra_spawner.dra.quantity import Quantity


class PoolId(NamedTuple):
    """Identity of a resource pool."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """Identity of a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class CounterName(NamedTuple):
    """A counter of a pool: the counter set and the counter in it."""

    counter_set: str
    counter: str

    def __str__(self) -> str:
        return f"{self.counter_set}.{self.counter}"


class AttributeKind(StrEnum):
    """Type of an attribute's value; the text is the field of the API that holds it."""

    STRING = "string"
    INT = "int"
    BOOL = "bool"
    VERSION = "version"
    STRINGS = "strings"
    INTS = "ints"
    BOOLS = "bools"
    VERSIONS = "versions"
    UNKNOWN = ""  # no field that this version of the API knows


AttributeValue = str | int | bool | tuple[str, ...] | tuple[int, ...] | tuple[bool, ...] | None


class Attribute(NamedTuple):
    kind: AttributeKind
    value: AttributeValue

    def to_json(self) -> dict[str, object]:
        if self.kind is AttributeKind.UNKNOWN:
            return {}
        return {self.kind.value: list(self.value) if isinstance(self.value, tuple) else self.value}


@dataclass(frozen=True, slots=True)
class CapacityRange:
    """``requestPolicy.validRange``: what one share may consume, in steps from the minimum."""

    minimum: Quantity
    maximum: Quantity | None = None
    step: Quantity | None = None


@dataclass(frozen=True, slots=True)
class CapacityPolicy:
    """``requestPolicy``: what one share of a device may consume of one capacity (KEP-5075)."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRange | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """One capacity of a device."""

    value: Quantity
    policy: CapacityPolicy | None = None


#: Thousands of devices share their capacities and most of their attributes.
_MAX_SHARED: Final = 2_000
_NO_CAPACITY: Final[Mapping[str, DeviceCapacity]] = MappingProxyType({})
_ALWAYS_CONVERTIBLE: Final = (AttributeKind.STRING, AttributeKind.INT, AttributeKind.BOOL)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceDescription:
    """What selectors and capacity requests see of a device; equal for devices that look the same to them."""

    driver: str
    attributes: Mapping[str, Attribute]
    """By name as published: ``id`` or ``domain/id``."""
    capacity: Mapping[str, DeviceCapacity]
    """By name as published."""
    allow_multiple_allocations: bool
    """Whether the device is shared by consumable capacity; otherwise it is *dedicated* to one request."""
    key: tuple[object, ...] = field(init=False, repr=False)
    """The content in an order that does not depend on the maps'."""
    common_key: str = field(init=False, repr=False)
    """The same without attributes, except those that may make every selector fail: lists, versions, unknown kinds. An
    interned text, because many devices share it."""
    capacity_key: tuple[object, ...] = field(init=False, repr=False)
    """Capacity alone."""
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # The kind of an attribute tells 1, true and "1" apart; a policy's quantities are told apart by format, too,
        # because a default is printed as it was written.
        attributes = [_item(name, *self.attributes[name]) for name in sorted(self.attributes)]
        capacity = _kept_once(tuple((name, sys.intern(repr(self.capacity[name]))) for name in sorted(self.capacity)))
        key = (self.driver, self.allow_multiple_allocations, tuple(attributes), capacity)
        odd = tuple(item for item in attributes if item[1] not in _ALWAYS_CONVERTIBLE)
        object.__setattr__(self, "key", key)
        common = repr((self.driver, self.allow_multiple_allocations, odd, capacity))
        object.__setattr__(self, "common_key", sys.intern(common))
        object.__setattr__(self, "capacity_key", capacity)
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceDescription):
            return NotImplemented
        return self is other or (self._hash == other._hash and self.key == other.key)


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = ""
    """NoSchedule and NoExecute block allocation unless tolerated; None and effects of the future do not."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as published in a slice."""

    id: DeviceId
    description: DeviceDescription
    consumes_counters: tuple[tuple[CounterName, int], ...] = ()
    """Counters of the pool and how much of each is taken while the device is allocated, in nano-units."""
    counter_sets: tuple[str, ...] = ()
    """Counter sets the device names, also those of which it takes nothing."""
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    """Conditions the driver sets before a pod with the device may start; pools with such devices come last."""
    binding_failure_conditions: tuple[str, ...] = ()
    defect: str = ""
    """What the API server would have refused and kube-scheduler crashes on; such a device cannot be judged."""
    rules: tuple[Hashable, ...] | None = field(init=False, repr=False, compare=False)
    """All that decides about the device besides its description and a choice of nodes; None if nothing does."""

    def __post_init__(self) -> None:
        rules = (
            self.consumes_counters,
            self.counter_sets,
            tuple([(taint.key, taint.value, taint.effect) for taint in self.taints]),
            self.binds_to_node,
            self.binding_conditions,
            self.binding_failure_conditions,
            self.defect,
        )
        object.__setattr__(self, "rules", rules if any(rules) else None)

    @property
    def is_shared(self) -> bool:
        return self.description.allow_multiple_allocations


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Part of a resource pool: devices, or the counters that the pool's devices draw on."""

    name: str
    pool_id: PoolId
    generation: int = 0
    resource_slice_count: int = 0
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool | None = None
    """None and False differ for a scheduler whose partitionable devices are off: the field must be absent."""
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[tuple[str, Mapping[str, int]], ...] = ()
    """Counter sets: name, and counters by name in nano-units."""
    device_names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Names of its devices."""
    common_key: str = field(init=False, repr=False, compare=False)
    """The ``common_key`` of each of its devices; interned, because the slices of alike nodes share it."""
    device_rules: tuple[tuple[int, tuple[Hashable, ...]], ...] = field(init=False, repr=False, compare=False)
    """``rules`` of the devices that have any, by position."""

    def __post_init__(self) -> None:
        devices = self.devices
        object.__setattr__(self, "device_names", tuple([device.id.device for device in devices]))
        object.__setattr__(self, "common_key", sys.intern("\n".join([item.description.common_key for item in devices])))
        rules = tuple([(place, device.rules) for place, device in enumerate(devices) if device.rules is not None])
        object.__setattr__(self, "device_rules", rules)

    @classmethod
    def from_json(cls, obj: object) -> ResourceSlice:
        """Decode the API object.

        Raises
        ------
        ObjectError
            With the path of the first field that is wrong.
        """
        reader = Reader.root(obj, "ResourceSlice")
        name = reader.required_child("metadata").required_text("name")
        spec = reader.required_child("spec")
        check_sizes(spec, devices=128, sharedCounters=32)
        pool = spec.required_child("pool")
        pool_id = PoolId(sys.intern(spec.required_text("driver")), sys.intern(pool.required_text("name")))
        return cls(
            name=name,
            pool_id=pool_id,
            generation=pool.integer("generation"),
            resource_slice_count=pool.integer("resourceSliceCount"),
            node_name=spec.optional_text("nodeName"),
            node_selector=_decode_node_selector(spec),
            all_nodes=bool(spec.boolean("allNodes")),
            per_device_node_selection=spec.boolean("perDeviceNodeSelection"),
            devices=tuple(_decode_device(device, pool_id) for device in spec.children("devices")),
            shared_counters=tuple(
                (counters.required_text("name"), MappingProxyType(dict(_decode_counters(counters))))
                for counters in spec.children("sharedCounters")
            ),
        )


def _decode_node_selector(reader: Reader) -> NodeSelector | None:
    selector = reader.child("nodeSelector")
    return NodeSelector.decode(selector) if selector is not None else None


def _decode_counters(reader: Reader) -> list[tuple[str, int]]:
    check_sizes(reader, counters=32)
    return [(name, counter.quantity("value").nano) for name, counter in reader.entries("counters")]


def _decode_device(reader: Reader, pool_id: PoolId) -> Device:
    check_sizes(reader, attributes=48, capacity=32, taints=16, consumesCounters=32)
    check_sizes(reader, bindingConditions=4, bindingFailureConditions=4)
    capacity = _shared_capacities(reader)
    description = DeviceDescription(
        driver=pool_id.driver,
        attributes=MappingProxyType(
            {sys.intern(name): _decode_attribute(item) for name, item in reader.entries("attributes")}
        ),
        capacity=capacity,
        allow_multiple_allocations=bool(reader.boolean("allowMultipleAllocations")),
    )
    consumptions = reader.children("consumesCounters")
    return Device(
        id=DeviceId(pool_id.driver, pool_id.pool, sys.intern(reader.required_text("name"))),
        description=description,
        consumes_counters=tuple(
            (CounterName(consumption.required_text("counterSet"), name), value)
            for consumption in consumptions
            for name, value in _decode_counters(consumption)
        ),
        counter_sets=tuple(consumption.required_text("counterSet") for consumption in consumptions),
        node_name=reader.optional_text("nodeName"),
        node_selector=_decode_node_selector(reader),
        all_nodes=bool(reader.boolean("allNodes")),
        taints=tuple(_decode_taint(taint) for taint in reader.children("taints")),
        binds_to_node=bool(reader.boolean("bindsToNode")),
        binding_conditions=reader.texts("bindingConditions") or (),
        binding_failure_conditions=reader.texts("bindingFailureConditions") or (),
        defect=_find_defect(capacity),
    )


def _find_defect(capacity: Mapping[str, DeviceCapacity]) -> str:
    for name, item in capacity.items():
        valid_range = item.policy.valid_range if item.policy is not None else None
        if valid_range is not None and valid_range.step is not None and not valid_range.step:
            return f"capacity[{name}].requestPolicy.validRange.step: must not be 0"
    return ""


def _decode_taint(reader: Reader) -> Taint:
    return Taint(reader.text("key"), reader.text("value"), reader.text("effect"))


def _shared_capacities(reader: Reader) -> Mapping[str, DeviceCapacity]:
    """Capacities of a device, in an object that devices with equal ones share."""
    raw: Any = reader.raw("capacity")
    try:
        return _capacities(marshal.dumps(raw, 2)) if raw else _NO_CAPACITY
    except ValueError:
        # Decoded again, as the error names the place of the device.
        return _decode_capacities(reader)


@lru_cache(_MAX_SHARED)
def _capacities(raw: bytes) -> Mapping[str, DeviceCapacity]:
    # Marshal's version without references is equal for equal values, and tells 1, 1.0 and true apart.
    capacity = marshal.loads(raw)  # noqa: S302 - the only caller made these bytes
    return _decode_capacities(Reader.root({"capacity": capacity}, "device"))


def _decode_capacities(reader: Reader) -> Mapping[str, DeviceCapacity]:
    return MappingProxyType({name: _decode_capacity(item) for name, item in reader.entries("capacity")})


def _decode_capacity(reader: Reader) -> DeviceCapacity:
    policy = reader.child("requestPolicy")
    if policy is None:
        return DeviceCapacity(reader.quantity("value"))
    check_sizes(policy, validValues=10)
    valid_range = policy.child("validRange")
    if valid_range is not None and not valid_range.has("min"):
        valid_range.fail("min", "is required")
    return DeviceCapacity(
        reader.quantity("value"),
        CapacityPolicy(
            default=policy.optional_quantity("default"),
            valid_values=policy.quantities("validValues") or (),
            valid_range=CapacityRange(
                valid_range.quantity("min"), valid_range.optional_quantity("max"), valid_range.optional_quantity("step")
            )
            if valid_range is not None
            else None,
        ),
    )


_KINDS: Final = tuple(kind for kind in AttributeKind if kind is not AttributeKind.UNKNOWN)


def _decode_attribute(reader: Reader) -> Attribute:
    return _attribute(*_kind_and_value(reader))


@lru_cache(_MAX_SHARED)
def _attribute(kind: AttributeKind, value: AttributeValue) -> Attribute:
    return Attribute(kind, value)


@lru_cache(_MAX_SHARED)
def _kept_once(capacity_key: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return capacity_key


@lru_cache(_MAX_SHARED)
def _item(name: str, kind: AttributeKind, value: AttributeValue) -> tuple[str, AttributeKind, AttributeValue]:
    return name, kind, value


def _kind_and_value(reader: Reader) -> tuple[AttributeKind, AttributeValue]:
    # An empty list does not survive the API server: the attribute is then of no known kind.
    kinds = [kind for kind in _KINDS if reader.has(kind) and reader.raw(kind) != []]
    if len(kinds) > 1:
        reader.fail(kinds[1], f"an attribute has one value, and {kinds[0]} is set, too")
    match kinds:
        case [AttributeKind.STRING | AttributeKind.VERSION as kind]:
            return kind, reader.text(kind)
        case [AttributeKind.INT as kind]:
            return kind, reader.integer(kind)
        case [AttributeKind.BOOL as kind]:
            return kind, bool(reader.boolean(kind))
        case [AttributeKind.STRINGS | AttributeKind.VERSIONS as kind]:
            return kind, reader.texts(kind) or ()
        case [AttributeKind.INTS as kind]:
            return kind, reader.integers(kind)
        case [AttributeKind.BOOLS as kind]:
            return kind, reader.booleans(kind)
        case _:
            return AttributeKind.UNKNOWN, None
