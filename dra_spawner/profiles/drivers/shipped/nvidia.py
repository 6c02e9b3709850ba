"""NVIDIA GPUs: whole, MIG (static and dynamic), time-slicing, MPS, consumable shares, passthrough.

Source: the driver's ``api/nvidia.com/resource/v1beta1`` and ``cmd/gpu-kubelet-plugin``, release 0.4 and the main branch
of August 2026.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver
from dra_spawner.profiles.drivers.parameters import FLAG, Field, Fields, Mapped, least_quantity
from dra_spawner.profiles.drivers.shipped.nvidia_rules import NVIDIA_RULES, nvidia_share
from dra_spawner.profiles.drivers.vocabulary import (
    KnownClass,
    ParameterKind,
    Presence,
    PublishedAttribute,
    PublishedCapacity,
    ValueKind,
)
from dra_spawner.profiles.syntax.problems import Problem
from dra_spawner.profiles.syntax.rules import one_of, text, whole_number

API_VERSION = "resource.nvidia.com/v1beta1"

_GPU, _MIG, _VFIO = frozenset({"gpu"}), frozenset({"mig"}), frozenset({"vfio"})
_INTERVAL = one_of("Default, Short, Medium or Long", "Default", "Short", "Medium", "Long")
_STRATEGY = one_of("TimeSlicing or MPS", "TimeSlicing", "MPS")
_MODES = ("HMM", "ATS", "None")
_LIMIT = least_quantity("1Mi")
_DEVICE = text("a device's index or UUID", r"[0-9]+|(?:GPU|MIG)-[-0-9a-fA-F]+", 64)

_MPS = Fields(
    {
        "defaultActiveThreadPercentage": whole_number("a whole number from 0 to 100", 0, 100),
        "defaultPinnedDeviceMemoryLimit": _LIMIT,
        "defaultPerDevicePinnedMemoryLimit": Mapped(_DEVICE, _LIMIT),
        "multiUser": FLAG,
    }
)


def _strategy_has_its_own_settings(sharing: Mapping[str, object], path: str) -> Iterator[Problem]:
    strategy = sharing.get("strategy")
    for key, owner in (("timeSlicingConfig", "TimeSlicing"), ("mpsConfig", "MPS")):
        if sharing.get(key) is not None and strategy in ("TimeSlicing", "MPS") and strategy != owner:
            yield Problem(f"{path}.{key}", key, f"no {key} beside strategy {strategy}")


def _has_an_interval(config: Mapping[str, object], path: str) -> Iterator[Problem]:
    """There is no default: without one the driver's webhook panics, and so does its plugin on the node."""
    if config.get("interval") is None:
        allowed = "Default, Short, Medium or Long; without one the driver's plugin ends, and no server there gets a GPU"
        yield Problem(f"{path}.interval", "", allowed)


_SHARING = Fields(
    {
        "strategy": Field(_STRATEGY, required=True),
        "timeSlicingConfig": Fields({"interval": _INTERVAL}, check=_has_an_interval),
        "mpsConfig": _MPS,
    },
    check=_strategy_has_its_own_settings,
)
# Beside TimeSlicing, which does nothing on MIG devices, the driver ignores mpsConfig.
_MIG_SHARING = Fields({"strategy": Field(_STRATEGY, required=True), "mpsConfig": _MPS})
_IOMMU = Fields(
    {
        "backendPolicy": one_of("LegacyOnly or PreferIommuFD", "LegacyOnly", "PreferIommuFD"),
        "enableAPIDevice": FLAG,
    }
)


NVIDIA_GPU = Driver(
    name="gpu.nvidia.com",
    title="NVIDIA GPUs",
    prepared_for=PreparedFor.CLAIM,
    classes=(
        KnownClass("gpu.nvidia.com", "gpu"),
        KnownClass("mig.nvidia.com", "mig"),
        KnownClass("vfio.gpu.nvidia.com", "vfio"),
    ),
    attributes=(
        PublishedAttribute("type", values=("gpu", "mig", "vfio")),
        PublishedAttribute("uuid", presence=Presence.OPTIONAL),  # a MIG device that is not cut yet has none
        PublishedAttribute("productName"),
        PublishedAttribute("brand", types=_GPU | _MIG),
        PublishedAttribute("architecture", types=_GPU | _MIG),
        PublishedAttribute("cudaComputeCapability", ValueKind.VERSION, types=_GPU | _MIG),
        PublishedAttribute("driverVersion", ValueKind.VERSION, types=_GPU | _MIG),
        PublishedAttribute("cudaDriverVersion", ValueKind.VERSION, types=_GPU | _MIG),
        PublishedAttribute("addressingMode", presence=Presence.OPTIONAL, types=_GPU | _MIG, values=_MODES),
        PublishedAttribute(names.PCI_BUS_ID),
        PublishedAttribute(names.PCIE_ROOT),
        PublishedAttribute(names.NUMA_NODE, ValueKind.INT, Presence.NEWER),  # none where the machine has no NUMA node
        PublishedAttribute("gpuModuleID", ValueKind.INT, Presence.OPTIONAL),
        *(PublishedAttribute(f"partition{size}", ValueKind.INT, Presence.OPTIONAL) for size in (1, 2, 4, 8)),
        PublishedAttribute("parentUUID", types=_MIG),
        PublishedAttribute("profile", types=_MIG),
        PublishedAttribute("deviceID", types=_VFIO),
        PublishedAttribute("vendorID", types=_VFIO),
        PublishedAttribute("iommuFDEnabled", ValueKind.BOOL, types=_VFIO),
        # Release 0.4; later ones have the standard name.
        PublishedAttribute("numa", ValueKind.INT, Presence.OPTIONAL, types=_VFIO),
        PublishedAttribute("index", ValueKind.INT, Presence.DROPPED),
        PublishedAttribute("minor", ValueKind.INT, Presence.DROPPED),
    ),
    capacities=(
        PublishedCapacity("memory", Presence.OPTIONAL, _GPU | _MIG),  # parts with unified memory have none
        PublishedCapacity("shares", Presence.OPTIONAL, _GPU | _MIG),
        *(
            PublishedCapacity(name, Presence.OPTIONAL, _GPU | _MIG)  # a whole GPU has them with dynamic MIG
            for name in ("multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines")
        ),
        *(PublishedCapacity(f"memorySlice{number}", Presence.OPTIONAL, _MIG) for number in range(8)),  # cut beforehand
        PublishedCapacity("addressableMemory", types=_VFIO),
    ),
    parameter_kinds=(
        ParameterKind("GpuConfig", API_VERSION, Fields({"sharing": _SHARING}), _GPU),
        ParameterKind("MigDeviceConfig", API_VERSION, Fields({"sharing": _MIG_SHARING}), _MIG),
        ParameterKind("VfioDeviceConfig", API_VERSION, Fields({"iommu": _IOMMU}), _VFIO),
    ),
    node_tolerations=({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
    visible_devices=frozenset({"NVIDIA_VISIBLE_DEVICES"}),
    equal_sharers=True,
    share=nvidia_share,
    rules=(*COMMON_RULES, *NVIDIA_RULES),
)
