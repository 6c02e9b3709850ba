"""AMD GPUs: whole, cut by their own partitioning, and cut on demand.

Source: the driver's ``api`` and ``docs/driver-attributes.md``. Its attributes changed in April 2026: partitions were
known by the parent's address before, and by the standard ``pciBusID`` since.
"""

from __future__ import annotations

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers.asked import AskedClaim, AskedRequest
from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver
from dra_spawner.profiles.drivers.parameters import Fields
from dra_spawner.profiles.drivers.published import Published
from dra_spawner.profiles.drivers.vocabulary import (
    Enforcement,
    KnownClass,
    ParameterKind,
    Presence,
    PublishedAttribute,
    PublishedCapacity,
    ShareEnforcement,
    ValueKind,
)

_API_VERSION = "gpu.resource.amd.com/v1alpha1"
_PARTITION = "amdgpu-partition"
_SENTENCE = "This part of the GPU is cut out in hardware: its memory and computing units are yours alone."
_INT, _OPTIONAL, _NEWER, _DROPPED = ValueKind.INT, Presence.OPTIONAL, Presence.NEWER, Presence.DROPPED


def amd_share(driver: Driver, claim: AskedClaim, request: AskedRequest, cluster: Published) -> ShareEnforcement | None:
    """Partitions are cut in hardware."""
    types = cluster.types(cluster.candidates(request, driver.name) or ()) or {driver.device_type(request, cluster)}
    if types == {_PARTITION} or any(name == "partitions" for name, _ in request.capacity):
        return ShareEnforcement(Enforcement.HARDWARE, _SENTENCE)
    return None


AMD_GPU = Driver(
    name="gpu.amd.com",
    title="AMD GPUs",
    prepared_for=PreparedFor.CLAIM,
    classes=(KnownClass("gpu.amd.com"),),
    attributes=(
        PublishedAttribute("type", values=("amdgpu", _PARTITION, "vfio")),
        PublishedAttribute("deviceID"),
        PublishedAttribute("productName"),
        PublishedAttribute("driverVersion", ValueKind.VERSION),
        PublishedAttribute("partitionProfile", presence=_OPTIONAL),
        PublishedAttribute("numaNode", _INT),
        PublishedAttribute(names.PCIE_ROOT, presence=_OPTIONAL),
        PublishedAttribute(names.PCI_BUS_ID, presence=_NEWER),
        PublishedAttribute("computePartition", presence=_NEWER),
        PublishedAttribute("memoryPartition", presence=_NEWER),
        PublishedAttribute("gpuIndex", _INT, _NEWER),
        PublishedAttribute("isVF", ValueKind.BOOL, _NEWER, frozenset({"vfio"})),
        PublishedAttribute("iommuGroup", presence=_NEWER, types=frozenset({"vfio"})),
        PublishedAttribute("pciAddr", presence=_DROPPED),
        PublishedAttribute("cardIndex", _INT, _DROPPED),
        PublishedAttribute("renderIndex", _INT, _DROPPED),
        PublishedAttribute("family", presence=_DROPPED),
        PublishedAttribute("driverSrcVersion", presence=_DROPPED),
        PublishedAttribute("parentPciAddr", presence=_DROPPED),
        PublishedAttribute("parentDeviceID", presence=_DROPPED),
    ),
    capacities=(
        PublishedCapacity("memory"),
        PublishedCapacity("computeUnits"),
        PublishedCapacity("simdUnits"),
        PublishedCapacity("partitions", _NEWER),
    ),
    parameter_kinds=(
        ParameterKind("GpuConfig", _API_VERSION, Fields({})),
        ParameterKind("VfioDeviceConfig", _API_VERSION, Fields({}, open=True), frozenset({"vfio"})),
    ),
    visible_devices=frozenset({"AMD_VISIBLE_DEVICES"}),
    share=amd_share,
    rules=COMMON_RULES,
)
