"""Which optional parts of device allocation are on, and which peculiarities of kube-scheduler are reproduced."""

from __future__ import annotations

from dataclasses import dataclass


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
    fractional_capacity_range: bool = False
    """DRAFractionalCapacityRange: steps of a capacity may be thousandths."""
    list_type_attributes: bool = False
    """DRAListTypeAttributes: constraints compare lists; kube-scheduler 1.36 never sets it, even with the gate on."""
    partitionable_devices: bool = True
    """DRAPartitionableDevices: shared counters, and node selection per device."""
    prioritized_list: bool = True
    """DRAPrioritizedList: firstAvailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """Behaviour of some releases' allocators that the API does not promise. On: decide as those releases do.

    All off: what the API promises, for "is this a defect of the scheduler?".
    """

    distinct_remembers_last_device: bool = False
    """distinctAttribute remembers one value per request: A, B, A passes within one request, and backtracking
    forgets the whole request; the first device passes whatever its value is."""
    match_stays_narrowed: bool = False
    """matchAttribute on lists keeps the intersection that a candidate narrowed even after the candidate is given up."""
    counters_by_pool_name: bool = False
    """Counters are looked up by pool name without driver: two drivers with equal pool names share what is left."""
    duplicate_claim_configs: bool = False
    """A claim's configuration is listed once for every request it names."""
    config_requests_kept: bool = False
    """A configuration keeps its list of requests even where it names all of them."""
    counter_slices_relevant_everywhere: bool = False
    """Slices with shared counters concern every node, so an incomplete pool of one node stops allocationMode All
    on all others."""
    uncounted_shares_pay_again: bool = False
    """A shared device without capacity pays its counters again for every later share."""
    capacity_in_64_bits: bool = False
    """Where a capacity has steps, sizes are counted in 64 bits and nothing reports an overflow: a request of ``10e18``
    consumes nothing, and one of ``9223372036854775808`` a negative amount. Negative sizes are accepted anyway. Off:
    such a size is an error of the claim."""
    high_bits_lost: bool = False
    """A number of a policy that needs more than 64 bits counts as 0, or as what the low bits say: a step of ``10E`` is
    a division by zero, which ends the attempt. A default of more than 18 digits is not recognised, and so refused
    where the policy does not allow it. Off: such a number is the largest of 64 bits."""
    rounded_sizes_are_binary: bool = False
    """A size rounded up to a step is printed in powers of two, not as the step is."""
    all_leaves_out_full_devices: bool = False
    """allocationMode All leaves out shared devices that are full now, instead of failing."""
    permutations_searched: bool = False
    """The devices of one request are searched in each order, not each set of them once: it takes longer, and a shared
    device can be taken twice by one request."""
    alternatives_mixed_up: bool = False
    """An alternative of firstAvailable with allocationMode All goes on with the first alternative after its first
    device, and of two such alternatives the first one's selectors count for both."""
    incomplete_pools_used: bool = False
    """Devices of incomplete pools are given, and a search that comes to an invalid pool ends with an error. Slices for
    other nodes do not count: a pool with some is incomplete."""
    pool_trouble_ends_attempt: bool = False
    """allocationMode All on a node that sees an incomplete or invalid pool ends the attempt on all nodes."""
    capacity_names_as_text: bool = False
    """``memory`` and ``<driver>/memory`` are different capacities."""
    negative_sizes_rounded: bool = False
    """A negative size is an error only if no policy makes it a positive one."""
    versions_as_text: bool = False
    """Constraints tell versions apart that differ in their build metadata alone."""
    odd_attributes_refused: bool = False
    """A constraint on an attribute of a kind that it does not compare refuses the device, and takes it if it is the
    first one, instead of ending the attempt."""
    shares_of_whole_devices_ignored: bool = False
    """A device of which shares are in use, and which is not shared any more, is given as a whole."""
    selectors_refuse_lists: bool = False
    """Without the gate DRAListTypeAttributes, a selector fails on each device with an attribute that is a list."""
    rules_without_selector: bool = False
    """A DeviceTaintRule without a selector taints all devices for the scheduler; off: it taints none."""
