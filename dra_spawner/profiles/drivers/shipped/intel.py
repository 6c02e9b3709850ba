"""Intel's devices under DRA: GPUs, Gaudi accelerators, QAT.

GPUs of the device-plugin age are in `intel_gas`. Source: the drivers' ``cmd/kubelet-*-plugin`` and ``deployments``,
release 0.11. None of them reads parameters.
"""

from __future__ import annotations

from collections.abc import Iterator

from dra_spawner import names
from dra_spawner.dra.cel.errors import CelCompileError
from dra_spawner.dra.cel.syntax.references import Collection, referenced_attributes
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers.asked import AskedClaim, AskedRequest
from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver, RuleInput
from dra_spawner.profiles.drivers.driver_rules import MEMORY_AS_ZERO, MISSING_CAPABILITY
from dra_spawner.profiles.drivers.pod_settings import has_capability
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
from dra_spawner.profiles.findings import Finding

_STANDARD = (
    PublishedAttribute(names.PCIE_ROOT),
    PublishedAttribute(names.PCI_BUS_ID, presence=Presence.NEWER),
)
_VF_SENTENCE = "This is a virtual function of the GPU, separated in hardware: its memory is yours alone."
_PART_SENTENCE = "The share is not enforced: other users of this GPU can use more than theirs."


def gpu_share(driver: Driver, claim: AskedClaim, request: AskedRequest, cluster: Published) -> ShareEnforcement | None:
    """Virtual functions are cut in hardware; the driver knows no other parts of a GPU."""
    if _only_type(driver, request, cluster) == "vf":
        return ShareEnforcement(Enforcement.HARDWARE, _VF_SENTENCE)
    if cluster.devices is not None and takes_a_part(driver, request, cluster):
        return ShareEnforcement(Enforcement.NONE, _PART_SENTENCE)
    return None


def _only_type(driver: Driver, request: AskedRequest, cluster: Published) -> str:
    found = cluster.types(cluster.candidates(request, driver.name) or ())
    return found.pop() if len(found) == 1 else driver.device_type(request, cluster)


def memory_is_published(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """A minimum of memory means something only where devices say how much they have."""
    cluster = situation.published
    for claim in situation.claims:
        for request in driver.requests(claim, cluster):
            if not _asks_for_memory(request):
                continue
            devices = cluster.candidates_of_class(request.device_class, driver.name) or ()
            silent = [each for each in devices if "memory" in each.description.capacity]
            silent = [each for each in silent if not each.description.capacity["memory"].value.nano]
            if silent:
                message = (
                    "Some of these GPUs publish memory as 0, which they do until the driver runs privileged or "
                    "xpumd tells it how much there is; they are never taken."
                )
                yield situation.finding(MEMORY_AS_ZERO, request.path, message)


def _asks_for_memory(request: AskedRequest) -> bool:
    if "min_memory" in request.words or any(name == "memory" for name, _ in request.capacity):
        return True
    for expression in request.expressions:
        try:
            references = referenced_attributes(expression)
        except CelCompileError:
            continue
        if any(each.collection is Collection.CAPACITY and each.name == "memory" for each in references):
            return True
    return False


def qat_may_lock_memory(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """Programs on a QAT device pin memory."""
    asked = [request for claim in situation.claims for request in driver.requests(claim, situation.published)]
    if asked and not has_capability(situation.choice.settings, "IPC_LOCK"):
        message = "Programs that use QAT need the capability IPC_LOCK: container_security_context.capabilities.add."
        yield situation.finding(MISSING_CAPABILITY, asked[0].path, message)


INTEL_GPU = Driver(
    name="gpu.intel.com",
    title="Intel GPUs",
    prepared_for=PreparedFor.CLAIM,
    # The same devices; the class's name decides which kernel driver they are bound to.
    classes=(KnownClass("gpu.intel.com"), KnownClass("gpu-vfio.intel.com")),
    attributes=(
        PublishedAttribute("model"),
        PublishedAttribute("family"),
        PublishedAttribute("driver", values=("i915", "xe", "vfio-pci", "xe-vfio-pci", "")),
        PublishedAttribute("sriov", ValueKind.BOOL),
        PublishedAttribute("type", values=("gpu", "vf")),
        PublishedAttribute("pciId"),
        PublishedAttribute("health", presence=Presence.NEWER, values=("Healthy", "Unhealthy", "Unknown")),
        PublishedAttribute("pciAddress"),
        PublishedAttribute("pciRoot"),
        *_STANDARD,
    ),
    capacities=(PublishedCapacity("memory"), PublishedCapacity("millicores")),
    share=gpu_share,
    rules=(*COMMON_RULES, memory_is_published),
)
INTEL_GAUDI = Driver(
    name="gaudi.intel.com",
    title="Intel Gaudi accelerators",
    prepared_for=PreparedFor.CLAIM,
    classes=(KnownClass("gaudi.intel.com"),),
    attributes=(
        PublishedAttribute("model", values=("Gaudi", "Gaudi2", "Gaudi3")),
        PublishedAttribute("serial"),
        PublishedAttribute("healthy", ValueKind.BOOL),
        *_STANDARD,
    ),
    visible_devices=frozenset({"HABANA_VISIBLE_DEVICES"}),
    rules=COMMON_RULES,
)
INTEL_QAT = Driver(
    name="qat.intel.com",
    title="Intel QAT",
    prepared_for=PreparedFor.CLAIM,
    classes=(KnownClass("qat.intel.com"),),
    attributes=(PublishedAttribute("services"),),
    rules=(*COMMON_RULES, qat_may_lock_memory),
)
