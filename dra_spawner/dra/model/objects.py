"""The API objects the allocator works on, decoded from JSON: one door to all of them.

``X.from_json(obj)`` takes the JSON object of the API (version ``resource.k8s.io/v1``, core ``v1`` for nodes), applies
the API's defaults and raises :class:`ObjectError` with the field's path where the API server would refuse it, as far
as that matters here. Not everything it would refuse is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dra_spawner.dra.model.claims import (
    AllocatedDevice,
    AllocationMode,
    ClaimStatus,
    ConsumerReference,
    DeviceClass,
    DeviceConfiguration,
    DeviceConstraint,
    DeviceRequest,
    RequestAlternative,
    ResourceClaim,
    Toleration,
)
from dra_spawner.dra.model.decoding import Json, ObjectError, Reader
from dra_spawner.dra.model.devices import (
    Attribute,
    AttributeKind,
    CapacityPolicy,
    CapacityRange,
    CounterName,
    Device,
    DeviceCapacity,
    DeviceDescription,
    DeviceId,
    PoolId,
    ResourceSlice,
    Taint,
)
from dra_spawner.dra.model.node_selector import NodeSelector, NodeSelectorTerm, Requirement
from dra_spawner.dra.model.taint_rules import DeviceTaintRule

__all__ = [
    "AllocatedDevice",
    "AllocationMode",
    "Attribute",
    "AttributeKind",
    "CapacityPolicy",
    "CapacityRange",
    "ClaimStatus",
    "ConsumerReference",
    "CounterName",
    "Device",
    "DeviceCapacity",
    "DeviceClass",
    "DeviceConfiguration",
    "DeviceConstraint",
    "DeviceDescription",
    "DeviceId",
    "DeviceRequest",
    "DeviceTaintRule",
    "Json",
    "Node",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectError",
    "PoolId",
    "RequestAlternative",
    "Requirement",
    "ResourceClaim",
    "ResourceSlice",
    "Taint",
    "Toleration",
]


@dataclass(frozen=True, slots=True)
class Node:
    """What device allocation needs to know of a node."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, obj: object) -> Node:
        """Decode the API object; :class:`ObjectError` names the first wrong field."""
        metadata = Reader.root(obj, "Node").required_child("metadata")
        return cls(metadata.required_text("name"), MappingProxyType(metadata.text_map("labels")))
