"""Which optional parts of device allocation are on, and which peculiarities of kube-scheduler are reproduced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ALL_FEATURES", "QUIRKS_1_36", "QUIRKS_OFF", "SCHEDULER_1_36", "Features", "Quirks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Optional parts of the allocator, as ``structured.Features``; most follow a feature gate of the scheduler."""

    admin_access: bool = True
    """DRAAdminAccess."""
    consumable_capacity: bool = True
    """DRAConsumableCapacity: shares of a device."""
    device_binding_and_status: bool = True
    """DRADeviceBindingConditions together with DRAResourceClaimDeviceStatus."""
    device_taints: bool = True
    """DRADeviceTaints."""
    list_type_attributes: bool = False
    """DRAListTypeAttributes; kube-scheduler 1.36.3 never sets it, even with the gate on."""
    partitionable_devices: bool = True
    """DRAPartitionableDevices: shared counters, and node selection per device."""
    prioritized_list: bool = True
    """DRAPrioritizedList: firstAvailable."""


SCHEDULER_1_36: Final = Features()
"""What a kube-scheduler 1.36.3 with default gates runs ("sched-1.36")."""

ALL_FEATURES: Final = Features(list_type_attributes=True)
"""Everything the 1.36.3 allocator can do ("all-on"); no scheduler of that release reaches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """Behaviour of the 1.36.3 allocator that the API does not promise. On: decide as that release does.

    Off: what the API promises (or what 1.37 does, where it says so), for "is this a defect of the scheduler?".
    """

    distinct_remembers_last_device: bool = True
    """distinctAttribute remembers one value per request: A, B, A passes within one request, and backtracking
    forgets the whole request."""
    match_stays_narrowed: bool = True
    """matchAttribute on lists keeps the intersection that a candidate narrowed even after the candidate is given up."""
    counters_by_pool_name: bool = True
    """Counters are looked up by pool name without driver: two drivers with equal pool names share what is left."""
    duplicate_claim_configs: bool = True
    """A claim's configuration is listed once for every request it names. Fixed in 1.37."""
    config_requests_kept: bool = True
    """A claim's configuration keeps its list of requests even where it names all of them. Cleared in 1.37."""
    counter_slices_relevant_everywhere: bool = True
    """Slices with shared counters concern every node, so an incomplete pool of one node stops allocationMode All
    on all others. Fixed in 1.37."""
    uncounted_shares_pay_again: bool = True
    """A shared device without capacity pays its counters again for every later share."""
    capacity_in_64_bits: bool = True
    """Where a capacity has steps, sizes are counted in 64 bits and nothing reports an overflow: a request of ``10e18``
    consumes nothing, and one of ``9223372036854775808`` a negative amount. Negative sizes are accepted anyway."""


QUIRKS_1_36: Final = Quirks()
"""As kube-scheduler 1.36.3 decides."""

QUIRKS_OFF: Final = Quirks(
    distinct_remembers_last_device=False,
    match_stays_narrowed=False,
    counters_by_pool_name=False,
    duplicate_claim_configs=False,
    config_requests_kept=False,
    counter_slices_relevant_everywhere=False,
    uncounted_shares_pay_again=False,
    capacity_in_64_bits=False,
)
"""As the API promises."""
