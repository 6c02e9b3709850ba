"""DeviceClasses and ResourceClaims (``resource.k8s.io/v1``), with the API's defaults applied."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Final

from dra_spawner.dra.model.decoding import Json, Reader, is_deeper_than
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.dra.model.node_selector import NodeSelector
from dra_spawner.dra.model.object_limits import check_sizes
from dra_spawner.dra.quantity import Quantity, QuantityFormat

_DRIVER_IN_CEL: Final = re.compile(r"""device\.driver\s*==\s*(?:"([^"]+)"|'([^']+)')""")

MAX_PARAMETER_LEVELS: Final = 100
"""Levels of opaque parameters that are kept. The API server admits 5,000, which no recursive function survives."""


class AllocationMode(StrEnum):
    """How many devices a request wants."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that a request puts up with."""

    key: str = ""
    """Empty: any key."""
    operator: str = "Equal"
    """Equal or Exists."""
    value: str = ""
    effect: str = ""
    """Empty: any effect."""
    toleration_seconds: int | None = None
    """How long a pod stays after a NoExecute taint; does not matter for allocation."""

    @classmethod
    def decode(cls, reader: Reader) -> Toleration:
        return cls(
            key=reader.text("key"),
            operator=reader.text("operator") or "Equal",
            value=reader.text("value"),
            effect=reader.text("effect"),
            toleration_seconds=reader.integer("tolerationSeconds") if reader.has("tolerationSeconds") else None,
        )

    def to_json(self) -> dict[str, object]:
        obj: dict[str, object] = {"key": self.key, "operator": self.operator, "value": self.value}
        obj |= {"effect": self.effect}
        obj = {name: value for name, value in obj.items() if value}
        if self.toleration_seconds is not None:
            obj["tolerationSeconds"] = self.toleration_seconds
        return obj


@dataclass(frozen=True, slots=True)
class DeviceConfiguration:
    """Configuration for a driver, which only the driver understands."""

    requests: tuple[str, ...]
    """Requests (``r`` or ``r/sub``) it is for; empty means all. Always empty in a class."""
    content: Json
    """The rest of the entry as it stands: ``{"opaque": {"driver": …, "parameters": …}}``; without parameters that are
    nested deeper than `MAX_PARAMETER_LEVELS`."""

    @classmethod
    def decode(cls, reader: Reader) -> DeviceConfiguration:
        content: Json = {}
        opaque = reader.child("opaque")
        if opaque is not None:
            driver = opaque.text("driver")
            deep = is_deeper_than(opaque.raw("parameters"), MAX_PARAMETER_LEVELS)
            content = {"opaque": {"driver": driver} if deep else reader.raw("opaque")}
        return cls(reader.texts("requests") or (), content)


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass: selectors and configuration that requests refer to by name."""

    name: str
    selectors: tuple[str | None, ...] = ()
    """CEL expressions; None is a kind of selector that this version of the API does not know."""
    config: tuple[DeviceConfiguration, ...] = ()
    extended_resource_name: str | None = None
    created: str = ""
    """``metadata.creationTimestamp``, RFC 3339 in UTC; decides between classes of one extended resource."""

    @property
    def named_drivers(self) -> frozenset[str]:
        """The drivers that its CEL names, as in ``device.driver == "gpu.example.com"``."""
        found = (match for each in self.selectors if each is not None for match in _DRIVER_IN_CEL.findall(each))
        return frozenset(double or single for double, single in found)

    @classmethod
    def from_json(cls, obj: object) -> DeviceClass:
        """Decode the API object; :class:`~dra_spawner.dra.model.decoding.ObjectError` names the first wrong field."""
        reader = Reader.root(obj, "DeviceClass")
        metadata = reader.required_child("metadata")
        name, created = metadata.required_text("name"), metadata.text("creationTimestamp")
        spec = reader.child("spec")
        if spec is None:
            return cls(name, created=created)
        check_sizes(spec, selectors=32, config=32)
        return cls(
            name=name,
            created=created,
            selectors=_decode_selectors(spec),
            config=tuple(DeviceConfiguration.decode(item) for item in spec.children("config")),
            extended_resource_name=spec.optional_text("extendedResourceName"),
        )


@dataclass(frozen=True, slots=True)
class RequestAlternative:
    """What ``exactly`` says, or one alternative of ``firstAvailable``."""

    name: str
    """Name of the alternative; of the request where it is ``exactly``."""
    device_class_name: str
    selectors: tuple[str | None, ...] = ()
    """CEL expressions; None is a kind of selector that this version of the API does not know."""
    allocation_mode: str = AllocationMode.EXACT_COUNT
    """One of :class:`AllocationMode`; others decode, and make allocation fail."""
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity_requests: Mapping[str, Quantity] | None = None
    """By capacity name; None when the request does not speak of capacity at all."""

    @classmethod
    def decode(cls, reader: Reader, name: str) -> RequestAlternative:
        check_sizes(reader, selectors=32, tolerations=16)
        mode = reader.text("allocationMode") or AllocationMode.EXACT_COUNT
        count = reader.integer("count", minimum=0)
        capacity = reader.child("capacity")
        return cls(
            name=name,
            device_class_name=intern(reader.text("deviceClassName")),
            selectors=_decode_selectors(reader),
            allocation_mode=mode,
            count=1 if mode == AllocationMode.EXACT_COUNT and count == 0 else count,
            admin_access=reader.boolean("adminAccess"),
            tolerations=tuple(Toleration.decode(item) for item in reader.children("tolerations")),
            capacity_requests=(capacity.quantity_map("requests") or {}) if capacity is not None else None,
        )


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    name: str
    exactly: RequestAlternative | None = None
    first_available: tuple[RequestAlternative, ...] = ()
    """In order of preference; when not empty it is what counts."""

    @property
    def alternatives(self) -> tuple[RequestAlternative, ...]:
        """What may satisfy the request, best first."""
        if self.first_available:
            return self.first_available
        return (self.exactly,) if self.exactly is not None else ()


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """A condition on the devices of several requests taken together."""

    requests: tuple[str, ...] = ()
    """Requests (``r`` or ``r/sub``) it is about; empty means all."""
    match_attribute: str | None = None
    """Fully qualified name; all devices must have the same value."""
    distinct_attribute: str | None = None
    """Fully qualified name; no two devices may have the same value."""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One entry of ``status.allocation.devices.results``."""

    id: DeviceId
    request: str = ""
    admin_access: bool = False
    share_id: str | None = None
    """Set for a share of a device that several claims may use."""
    consumed_capacity: Mapping[str, Quantity] | None = None
    """By capacity name; None when the field is absent (an empty one does not survive the API server)."""


@dataclass(frozen=True, slots=True)
class ConsumerReference:
    """One entry of ``status.reservedFor``."""

    resource: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ClaimStatus:
    """The devices and consumers of a claim."""

    devices: tuple[AllocatedDevice, ...] | None = None
    """Allocated devices; None while the claim is not allocated."""
    node_selector: NodeSelector | None = None
    """Nodes from which the allocated devices can be used; None means all."""
    reserved_for: tuple[ConsumerReference, ...] = ()
    has_network_data: bool = False
    """Whether a driver reports a network interface (``devices[].networkData``): it has been moved into a pod."""


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    name: str
    namespace: str = ""
    uid: str = ""
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    status: ClaimStatus = ClaimStatus()

    @classmethod
    def from_json(cls, obj: object) -> ResourceClaim:
        """Decode the API object; :class:`~dra_spawner.dra.model.decoding.ObjectError` names the first wrong field."""
        reader = Reader.root(obj, "ResourceClaim")
        metadata = reader.required_child("metadata")
        return cls.decode(
            metadata.required_text("name"),
            metadata.text("namespace"),
            reader.child("spec"),
            uid=metadata.text("uid"),
            status=reader.child("status"),
        )

    @classmethod
    def decode(
        cls, name: str, namespace: str, spec: Reader | None, *, uid: str = "", status: Reader | None = None
    ) -> ResourceClaim:
        """Claim with this ``spec``, which may also come from a ResourceClaimTemplate."""
        devices = spec.child("devices") if spec is not None else None
        if devices is not None:
            check_sizes(devices, requests=32, constraints=32, config=32)
        return cls(
            name=name,
            namespace=namespace,
            uid=uid,
            requests=tuple(map(_decode_request, devices.children("requests"))) if devices is not None else (),
            constraints=tuple(map(_decode_constraint, devices.children("constraints"))) if devices is not None else (),
            config=tuple(map(DeviceConfiguration.decode, devices.children("config"))) if devices is not None else (),
            status=_decode_status(status) if status is not None else ClaimStatus(),
        )

    @property
    def is_allocated(self) -> bool:
        return self.status.devices is not None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def _decode_selectors(reader: Reader) -> tuple[str | None, ...]:
    expressions: list[str | None] = []
    for selector in reader.children("selectors"):
        cel = selector.child("cel")
        expressions.append(intern(cel.text("expression")) if cel is not None else None)
    return tuple(expressions)


def _decode_request(reader: Reader) -> DeviceRequest:
    name = reader.required_text("name")
    # The API server takes 8; a profile with some more gets a finding of its own rule.
    check_sizes(reader, firstAvailable=32)
    exactly = reader.child("exactly")
    first_available = tuple(
        RequestAlternative.decode(item, item.required_text("name")) for item in reader.children("firstAvailable")
    )
    if exactly is None and not first_available:
        reader.fail("", "one of exactly and firstAvailable is required")
    return DeviceRequest(
        name=name,
        exactly=RequestAlternative.decode(exactly, name) if exactly is not None else None,
        first_available=first_available,
    )


def _decode_constraint(reader: Reader) -> DeviceConstraint:
    check_sizes(reader, requests=32)
    return DeviceConstraint(
        requests=reader.texts("requests") or (),
        match_attribute=reader.optional_text("matchAttribute"),
        distinct_attribute=reader.optional_text("distinctAttribute"),
    )


def _decode_status(reader: Reader) -> ClaimStatus:
    allocation = reader.child("allocation")
    devices = allocation.child("devices") if allocation is not None else None
    selector = allocation.child("nodeSelector") if allocation is not None else None
    check_sizes(reader, reservedFor=256)
    if devices is not None:
        check_sizes(devices, results=32)
    results = tuple(map(_decode_allocated_device, devices.children("results"))) if devices is not None else ()
    return ClaimStatus(
        devices=results if allocation is not None else None,
        node_selector=NodeSelector.decode(selector) if selector is not None else None,
        reserved_for=tuple(
            ConsumerReference(item.text("resource"), item.text("name"), item.text("uid"))
            for item in reader.children("reservedFor")
        ),
        has_network_data=any(item.has("networkData") for item in reader.children("devices")),
    )


def _decode_allocated_device(reader: Reader) -> AllocatedDevice:
    # Thousands of claims hold devices of the same names: each name is kept once, and compared by identity.
    driver, pool, device = [sys.intern(reader.required_text(key)) for key in ("driver", "pool", "device")]
    return AllocatedDevice(
        id=DeviceId(driver, pool, device),
        request=reader.text("request"),
        admin_access=bool(reader.boolean("adminAccess")),
        share_id=reader.optional_text("shareID"),
        consumed_capacity=_kept_once(reader.quantity_map("consumedCapacity")),
    )


def _kept_once(amounts: Mapping[str, Quantity] | None) -> Mapping[str, Quantity] | None:
    """The same amounts, in an object that claims with equal ones share."""
    return (
        _amounts(tuple([(name, item.nano, item.format, item.written) for name, item in amounts.items()]))
        if amounts
        else None
    )


@lru_cache(maxsize=4096)
def _amounts(items: tuple[tuple[str, int, QuantityFormat, str | None], ...]) -> Mapping[str, Quantity]:
    return MappingProxyType({name: Quantity(nano, form, text) for name, nano, form, text in items})
