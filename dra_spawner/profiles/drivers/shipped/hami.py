"""HAMi: shares of NVIDIA GPUs that a library in the user's programs keeps to.

Source: the driver's ``cmd`` and ``api``, release 0.1.
"""

from __future__ import annotations

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers.asked import AskedClaim, AskedRequest
from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver
from dra_spawner.profiles.drivers.published import Published
from dra_spawner.profiles.drivers.shares import takes_a_part
from dra_spawner.profiles.drivers.vocabulary import (
    Enforcement,
    KnownClass,
    Presence,
    PublishedAttribute,
    PublishedCapacity,
    ShareEnforcement,
    ValueKind,
)

_SENTENCE = "A library keeps your programs, and all others, to their share of memory and computing time."
_VERSION = ValueKind.VERSION


def hami_share(driver: Driver, claim: AskedClaim, request: AskedRequest, cluster: Published) -> ShareEnforcement | None:
    """Preloaded into programs, the library limits what they allocate."""
    return ShareEnforcement(Enforcement.LIBRARY, _SENTENCE) if takes_a_part(driver, request, cluster) else None


HAMI_GPU = Driver(
    name="hami-core-gpu.project-hami.io",
    title="HAMi GPUs",
    prepared_for=PreparedFor.CLAIM,
    classes=(KnownClass("hami-core-gpu.project-hami.io", "hami-gpu"),),
    attributes=(
        PublishedAttribute("type", values=("hami-gpu",)),
        PublishedAttribute("uuid"),
        PublishedAttribute("minor", ValueKind.INT),
        PublishedAttribute("productName"),
        PublishedAttribute("brand"),
        PublishedAttribute("architecture"),
        PublishedAttribute("cudaComputeCapability", _VERSION),
        PublishedAttribute("driverVersion", _VERSION),
        PublishedAttribute("cudaDriverVersion", _VERSION),
        PublishedAttribute("pcieBusID"),
        PublishedAttribute(names.PCIE_ROOT, presence=Presence.OPTIONAL),
    ),
    capacities=(PublishedCapacity("cores"), PublishedCapacity("memory")),
    visible_devices=frozenset({"NVIDIA_VISIBLE_DEVICES", "CUDA_DISABLE_CONTROL"}),
    share=hami_share,
    rules=COMMON_RULES,
)
