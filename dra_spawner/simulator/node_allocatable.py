"""Devices that are part of the node's own CPU or memory (KEP-5517, gate DRANodeAllocatableResources, off by default).

A device says how much of ``cpu``, ``memory``, ``ephemeral-storage`` or ``hugepages-*`` it stands for; a pod that gets
it needs that much of the node besides what its containers request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from dra_spawner.dra.devices import NodeAllocatableMapping
from dra_spawner.dra.objects import AllocatedDevice, Device
from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity
from dra_spawner.dra.results import DeviceResult
from dra_spawner.simulator.node_fit import Filter, FitCode, NodeVerdict
from dra_spawner.simulator.nodes import NodeState
from dra_spawner.simulator.pods import Pod
from dra_spawner.simulator.resources import Amounts, to_amounts

__all__ = ["FindDevice", "check_room", "is_mapped", "needs_of_devices"]

FindDevice = Callable[[str, str], Device | None]
"""Device by pool and name; as in kube-scheduler, the driver does not matter."""

_MAPPED: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"


def is_mapped(results: Iterable[DeviceResult | AllocatedDevice], find: FindDevice) -> bool:
    """Whether any of these devices stands for resources of the node."""
    for result in results:
        device = find(result.id.pool, result.id.device)
        if device is not None and device.node_allocatable_mappings:
            return True
    return False


def needs_of_devices(
    pod: Pod, allocations: Sequence[tuple[str, str, Sequence[DeviceResult]]], find: FindDevice
) -> dict[str, Quantity] | NodeVerdict:
    """What a pod needs of the node for the devices it is about to get.

    Parameters
    ----------
    allocations
        Entry of the pod's ``resourceClaims`` (empty for its extended resources), claim's name and devices.

    Returns
    -------
    dict or NodeVerdict
        Amounts by resource; or why there is no answer.
    """
    used = {name for container in pod.containers for name in container.claims}
    total: dict[str, Quantity] = {}
    for entry, claim_name, results in allocations:
        if not is_mapped(results, find):
            continue
        amounts: dict[str, Quantity] = {}
        for result in results:
            problem = _add_device(amounts, result, find)
            if problem:
                return _verdict(FitCode.ERROR, f"claim {pod.namespace}/{claim_name}, {problem}")
        if amounts and entry not in used:
            return _verdict(
                FitCode.UNRESOLVABLE,
                f"claim {claim_name}: node-allocatable resource claim not referenced by any container within the pod",
            )
        for name, amount in amounts.items():
            total[name] = total[name] + amount if name in total else amount
    if total and pod.has_pod_level_requests:
        reason = "node(s) about which this program cannot decide: devices beside requests of the pod as a whole"
        return NodeVerdict(FitCode.UNDECIDABLE, Filter.NOT_MODELLED, (reason,))
    return total


def check_room(pod: Pod, needs: Mapping[str, Quantity], state: NodeState) -> NodeVerdict | Amounts:
    """The pod's requests with those of its devices; or a verdict if the node has no room for them."""
    more = to_amounts(needs)
    total = {name: pod.requests.get(name, 0) + more.get(name, 0) for name in {*pod.requests, *more}}
    reasons, code = [], FitCode.UNSCHEDULABLE
    for name in sorted(total):
        allocatable = state.node.allocatable.get(name, 0)
        judged = name in _MAPPED or name.startswith(_HUGE_PAGES)
        if judged and 0 < total[name] > allocatable - state.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            if total[name] > allocatable:
                code = FitCode.UNRESOLVABLE
    return NodeVerdict(code, Filter.DYNAMIC_RESOURCES, tuple(reasons)) if reasons else total


def _add_device(amounts: dict[str, Quantity], result: DeviceResult, find: FindDevice) -> str:
    """Add what a device stands for; returns what is wrong with it, if anything."""
    device = find(result.id.pool, result.id.device)
    if device is None:
        return f"device {result.id.device}: not found in pool {result.id.pool}"
    for name, mapping in device.node_allocatable_mappings.items():
        if mapping.capacity_key and result.consumed_capacity is None:
            return f"device {result.id.device}: capacity {mapping.capacity_key} is not consumed, but stands for {name}"
        amount = _amount(mapping, result)
        if amount is not None:
            amounts[name] = amounts[name] + amount if name in amounts else amount
    return ""


def _amount(mapping: NodeAllocatableMapping, result: DeviceResult) -> Quantity | None:
    if not mapping.capacity_key:
        return mapping.multiplier
    consumed = (result.consumed_capacity or {}).get(mapping.capacity_key)
    if consumed is None:
        return None
    # Finer than a nano-unit rounds up, as quantities do.
    return Quantity(-(-consumed.nano * mapping.multiplier.nano // NANO_PER_UNIT), consumed.format)


def _verdict(code: FitCode, reason: str) -> NodeVerdict:
    return NodeVerdict(code, Filter.DYNAMIC_RESOURCES, (reason,))
