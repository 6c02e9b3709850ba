"""Names that Intel's GPU plugin, its scheduler extender (GAS) and Level Zero know: resources, annotations, labels."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

GPU_PREFIX: Final = "gpu.intel.com/"
MILLICORES: Final = f"{GPU_PREFIX}millicores"
MEMORY: Final = f"{GPU_PREFIX}memory.max"
TILES: Final = f"{GPU_PREFIX}tiles"

TIME_ANNOTATION: Final = "gas-ts"
CARDS_ANNOTATION: Final = "gas-container-cards"
TILES_ANNOTATION: Final = "gas-container-tiles"
ALLOW_ANNOTATION: Final = "gas-allow"
DENY_ANNOTATION: Final = "gas-deny"
SAME_GPU_ANNOTATION: Final = "gas-same-gpu"
XE_LINK_ANNOTATION: Final = "gas-allocate-xelink"
SINGLE_NUMA_ANNOTATION: Final = "gas-allocate-single-numa"


#: Label of GAS's pods in its own manifests.
GAS_LABEL: Final = "app=gas"

MASK_ENV: Final = "ZE_AFFINITY_MASK"
HIERARCHY_ENV: Final = "ZE_FLAT_DEVICE_HIERARCHY"


class GpuResource(StrEnum):
    """The kernel driver of a node's GPUs, which names the plugin's extended resource."""

    I915 = "i915"
    XE = "xe"

    @property
    def full_name(self) -> str:
        """The name in ``resources.limits``."""
        return f"{GPU_PREFIX}{self.value}"

    @property
    def monitoring_name(self) -> str:
        """The resource whose one device, ``all``, is every GPU of the node."""
        return f"{GPU_PREFIX}{self.value}_monitoring"


class CardPolicy(StrEnum):
    """Which of several cards that fit is taken."""

    #: The one with the lowest number.
    FIRST_FIT = "first-fit"
    #: The least used one.
    BALANCED = "balanced"
    #: The most used one.
    PACKED = "packed"


class Hierarchy(StrEnum):
    """How Level Zero numbers cards and their tiles (``ZE_FLAT_DEVICE_HIERARCHY``)."""

    #: Each tile is a device.
    FLAT = "FLAT"
    #: Each card is a device, its tiles are sub-devices.
    COMPOSITE = "COMPOSITE"
    #: Each tile is a device that knows its card.
    COMBINED = "COMBINED"


class CardScheduler(StrEnum):
    """Who chooses the cards."""

    #: GPU Aware Scheduling, an extender of kube-scheduler, runs in the cluster.
    GAS = "gas"
    #: The hub.
    NONE = "none"
    #: GAS if its pods are there, else the hub.
    AUTO = "auto"
