"""NVIDIA GPUs: whole, MIG (static and dynamic), time-slicing, MPS, consumable shares, passthrough.

Source: the driver's ``api/nvidia.com/resource/v1beta1`` and ``cmd/gpu-kubelet-plugin``, release 0.4 and the main branch
of August 2026.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver
from dra_spawner.profiles.drivers.nvidia_rules import NVIDIA_RULES, nvidia_share
from dra_spawner.profiles.drivers.parameters import FLAG, Field, Fields, Mapped, least_quantity
from dra_spawner.profiles.drivers.vocabulary import (
    KnownClass,
    ParameterKind,
    Presence,
    PublishedAttribute,
    PublishedCapacity,
    ValueKind,
)
from dra_spawner.profiles.problems import Problem
from dra_spawner.profiles.rules import one_of, text, whole_number

API_VERSION = "resource.nvidia.com/v1beta1"

_GPU, _MIG, _VFIO = frozenset({"gpu"}), frozenset({"mig"}), frozenset({"vfio"})
_INTERVAL = one_of("Default, Short, Medium or Long", "Default", "Short", "Medium", "Long")
_STRATEGY = one_of("TimeSlicing or MPS", "TimeSlicing", "MPS")
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


_SHARING = Fields(
    {
        "strategy": Field(_STRATEGY, required=True),
        # An empty one makes the driver fail: there is no default within it.
        "timeSlicingConfig": Fields({"interval": Field(_INTERVAL, required=True)}),
        "mpsConfig": _MPS,
    },
    check=_strategy_has_its_own_settings,
)
_MIG_SHARING = Fields(
    {"strategy": Field(_STRATEGY, required=True), "mpsConfig": _MPS}, check=_strategy_has_its_own_settings
)
_IOMMU = Fields(
    {
        "backendPolicy": one_of("LegacyOnly or PreferIommuFD", "LegacyOnly", "PreferIommuFD"),
        "enableAPIDevice": FLAG,
    }
)


def _attribute(
    name: str,
    kind: ValueKind = ValueKind.STRING,
    presence: Presence = Presence.ALWAYS,
    types: frozenset[str] = frozenset(),
    values: tuple[str, ...] = (),
) -> PublishedAttribute:
    return PublishedAttribute(name, kind, presence, types, values)


NVIDIA_GPU = Driver(
    name="gpu.nvidia.com",
    title="NVIDIA GPUs",
    classes=(
        KnownClass("gpu.nvidia.com", "gpu"),
        KnownClass("mig.nvidia.com", "mig"),
        KnownClass("vfio.gpu.nvidia.com", "vfio"),
    ),
    attributes=(
        _attribute("type", values=("gpu", "mig", "vfio")),
        _attribute("uuid", presence=Presence.OPTIONAL),  # a MIG device that is not cut yet has none
        _attribute("productName"),
        _attribute("brand", types=_GPU | _MIG),
        _attribute("architecture", types=_GPU | _MIG),
        _attribute("cudaComputeCapability", ValueKind.VERSION, types=_GPU | _MIG),
        _attribute("driverVersion", ValueKind.VERSION, types=_GPU | _MIG),
        _attribute("cudaDriverVersion", ValueKind.VERSION, types=_GPU | _MIG),
        _attribute("addressingMode", presence=Presence.OPTIONAL, types=_GPU, values=("HMM", "ATS", "None")),
        _attribute("resource.kubernetes.io/pciBusID"),
        _attribute("resource.kubernetes.io/pcieRoot"),
        _attribute("resource.kubernetes.io/numaNode", ValueKind.INT, Presence.NEWER, _GPU),
        _attribute("gpuModuleID", ValueKind.INT, Presence.OPTIONAL),
        *(_attribute(f"partition{size}", ValueKind.INT, Presence.OPTIONAL) for size in (1, 2, 4, 8)),
        _attribute("parentUUID", types=_MIG),
        _attribute("profile", types=_MIG),
        _attribute("deviceID", types=_VFIO),
        _attribute("vendorID", types=_VFIO),
        _attribute("iommuFDEnabled", ValueKind.BOOL, types=_VFIO),
        _attribute("numaNode", ValueKind.INT, types=_VFIO),
        _attribute("index", ValueKind.INT, Presence.DROPPED),
        _attribute("minor", ValueKind.INT, Presence.DROPPED),
    ),
    capacities=(
        PublishedCapacity("memory", Presence.OPTIONAL, _GPU | _MIG),  # parts with unified memory have none
        PublishedCapacity("shares", Presence.OPTIONAL, _GPU | _MIG),
        *(
            PublishedCapacity(name, Presence.OPTIONAL, _GPU | _MIG)  # a whole GPU has them with dynamic MIG
            for name in ("multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines")
        ),
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
