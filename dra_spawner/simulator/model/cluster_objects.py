"""API objects decoded one by one: an invalid object becomes a `BrokenObject` and does not affect the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dra_spawner.dra.model.decoding import is_unicode
from dra_spawner.dra.model.objects import (
    Device,
    DeviceClass,
    DeviceDescription,
    DeviceId,
    DeviceTaintRule,
    ObjectError,
    PoolId,
    ResourceSlice,
)
from dra_spawner.simulator.model.claims import ClaimTemplate, ObjectKey, TrackedClaim
from dra_spawner.simulator.model.nodes import SchedulableNode
from dra_spawner.simulator.model.pods import Pod

ClusterObject = SchedulableNode | Pod | TrackedClaim | ClaimTemplate | DeviceClass | ResourceSlice | DeviceTaintRule


class Kind(StrEnum):
    """Kinds of objects that decide where pods run."""

    NODE = "Node"
    POD = "Pod"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_CLAIM_TEMPLATE = "ResourceClaimTemplate"
    DEVICE_CLASS = "DeviceClass"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_TAINT_RULE = "DeviceTaintRule"


class Knowledge(StrEnum):
    """What is known of the objects of a kind; only what is missing from a known kind is gone."""

    #: All objects are known, and their changes are followed.
    KNOWN = "known"
    #: They were not read yet, or their changes cannot be followed at present.
    UNKNOWN = "unknown"
    #: The cluster does not serve the kind, and never did.
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class BrokenObject:
    """An invalid object."""

    kind: Kind
    key: ObjectKey
    problem: str
    """Field and error."""
    node_name: str = ""
    """Node of a pod or slice, if it can be read."""
    pool_id: PoolId | None = None
    """Pool of a slice, if it can be read."""
    held: TrackedClaim | None = None
    """A claim without its spec, if its allocation is valid, so that its devices stay in use."""

    def __str__(self) -> str:
        return f"{self.kind} {self.key}: {self.problem}"


_DECODERS: Final[Mapping[str, Callable[[object], ClusterObject]]] = {
    Kind.NODE: SchedulableNode.from_json,
    Kind.POD: Pod.from_json,
    Kind.RESOURCE_CLAIM: TrackedClaim.from_json,
    Kind.RESOURCE_CLAIM_TEMPLATE: ClaimTemplate.from_json,
    Kind.DEVICE_CLASS: DeviceClass.from_json,
    Kind.RESOURCE_SLICE: ResourceSlice.from_json,
    Kind.DEVICE_TAINT_RULE: DeviceTaintRule.from_json,
}


def decode(obj: object, number: int = 0) -> ClusterObject | BrokenObject | None:
    """Decode an API object by its ``kind``; None for ignored kinds.

    Parameters
    ----------
    number
        Number of the object, for messages if it has no name.
    """
    kind = obj.get("kind") if isinstance(obj, Mapping) else None
    if not isinstance(kind, str) or kind not in _DECODERS:
        return None
    try:
        return _DECODERS[kind](obj)
    except ObjectError as error:
        return _broken(Kind(kind), obj, str(error), number)
    except Exception as error:
        problem = f"cannot be decoded ({type(error).__name__}: {str(error)[:200]})"
        return _broken(Kind(kind), obj, problem, number)


def decode_all(objects: Iterable[object]) -> list[ClusterObject | BrokenObject]:
    """Decode API objects by their ``kind``, without ignored kinds."""
    decoded = (decode(obj, number) for number, obj in enumerate(objects, start=1))
    return [item for item in decoded if item is not None]


def stand_in(broken: BrokenObject) -> ResourceSlice | None:
    """A slice that makes the pool of a broken slice invalid, so that no decision uses a part of the pool.

    None if pool or node cannot be read.
    """
    if broken.pool_id is None or not broken.node_name:
        return None
    what = DeviceId(*broken.pool_id, f"of slice {broken.key.name}, which is invalid,")
    device = Device(what, DeviceDescription(broken.pool_id.driver, {}, {}, allow_multiple_allocations=False))
    return ResourceSlice(
        broken.key.name,
        broken.pool_id,
        generation=_NEWEST,
        resource_slice_count=1,
        node_name=broken.node_name,
        devices=(device, device),
    )


_NEWEST: Final = 2**63 - 1
"""The newest generation a pool can have."""


def _broken(kind: Kind, obj: object, problem: str, number: int) -> BrokenObject:
    metadata, spec = _map(obj, "metadata"), _map(obj, "spec")
    name = _text(metadata, "name") or f"(object {number})"
    pool_id = None
    if kind is Kind.RESOURCE_SLICE:
        driver, pool = _text(spec, "driver"), _text(_map(spec, "pool"), "name")
        pool_id = PoolId(driver, pool) if driver and pool else None
    key = ObjectKey(_text(metadata, "namespace"), name)
    held = _held(obj) if kind is Kind.RESOURCE_CLAIM else None
    return BrokenObject(kind, key, problem, _text(spec, "nodeName"), pool_id, held)


def _held(obj: object) -> TrackedClaim | None:
    """An invalid claim without its spec, if it is allocated; None otherwise."""
    assert isinstance(obj, Mapping)
    try:
        tracked = TrackedClaim.from_json({name: value for name, value in obj.items() if name != "spec"})
    except Exception:
        return None
    return tracked if tracked.claim.is_allocated else None


def _map(obj: object, field: str) -> object:
    return obj.get(field) if isinstance(obj, Mapping) else None


def _text(obj: object, field: str) -> str:
    value = _map(obj, field)
    return value if isinstance(value, str) and is_unicode(value) else ""
