"""By which rules the kube-scheduler of a release allocates devices.

Each release has its own allocator (``k8s.io/dynamic-resource-allocation``, package ``structured``). What differs is a
feature, which a gate may turn on or off, or a quirk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from dra_spawner.dra.features import Features, Quirks

Release: TypeAlias = tuple[int, int]
"""Major and minor number of a release of Kubernetes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRules:
    """The rules of one kube-scheduler, handed down with a snapshot.

    Attributes
    ----------
    release
        The release whose allocator is reproduced.
    features
        Optional parts that are on.
    quirks
        Peculiarities that are reproduced.
    is_exact
        Whether the cluster has this release. Otherwise its own is unknown here, and this is the nearest one.
    """

    release: Release
    features: Features
    quirks: Quirks
    is_exact: bool = True

    @property
    def selectors_see_lists(self) -> bool:
        """Whether selectors may look at attributes that are lists."""
        return self.features.list_type_attributes or not self.quirks.selectors_refuse_lists

    def without_quirks(self) -> SchedulerRules:
        """The rules that the API promises, for "is this a defect of the scheduler?"."""
        return replace(self, quirks=Quirks())


_QUIRKS_1_37: Final = Quirks(
    pool_trouble_ends_attempt=True,
    capacity_names_as_text=True,
    negative_sizes_rounded=True,
    high_bits_lost=True,
    versions_as_text=True,
    odd_attributes_refused=True,
    shares_of_whole_devices_ignored=True,
)
_QUIRKS_1_36: Final = replace(
    _QUIRKS_1_37,
    distinct_remembers_last_device=True,
    match_stays_narrowed=True,
    counters_by_pool_name=True,
    duplicate_claim_configs=True,
    config_requests_kept=True,
    counter_slices_relevant_everywhere=True,
    uncounted_shares_pay_again=True,
    capacity_in_64_bits=True,
    rounded_sizes_are_binary=True,
    all_leaves_out_full_devices=True,
    selectors_refuse_lists=True,
    rules_without_selector=True,
)
_QUIRKS_1_35: Final = replace(_QUIRKS_1_36, permutations_searched=True, alternatives_mixed_up=True)
_QUIRKS_1_34: Final = replace(_QUIRKS_1_35, incomplete_pools_used=True)

RULES: Final[Mapping[Release, SchedulerRules]] = {
    rules.release: rules
    for rules in (
        SchedulerRules(release=(1, 34), features=Features(), quirks=_QUIRKS_1_34),
        SchedulerRules(release=(1, 35), features=Features(), quirks=_QUIRKS_1_35),
        SchedulerRules(release=(1, 36), features=Features(), quirks=_QUIRKS_1_36),
        SchedulerRules(release=(1, 37), features=Features(), quirks=_QUIRKS_1_37),
        # Of the first beta: the release itself may still change.
        SchedulerRules(
            release=(1, 38), features=Features(fractional_capacity_range=True), quirks=Quirks(), is_exact=False
        ),
    )
}
"""Rules of each release that is known.

Up to 1.35 shares, counters, taints and binding conditions are off by default. They are on here, as an API server
without them stores no object that has any.
"""

DEFAULT_RULES: Final = RULES[max(release for release, rules in RULES.items() if rules.is_exact)]
"""Rules where nobody says which release a cluster has."""

#: The gates of kube-scheduler that decide, and the feature that each turns on or off.
_GATES: Final = {
    "DRAAdminAccess": "admin_access",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRADeviceTaints": "device_taints",
    "DRAFractionalCapacityRange": "fractional_capacity_range",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRAPrioritizedList": "prioritized_list",
}
_BINDING_GATES: Final = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
_LISTS: Final = "DRAListTypeAttributes"

GATES: Final = tuple(sorted((*_GATES, *_BINDING_GATES, _LISTS)))
"""Feature gates that change how devices are allocated."""


def rules_of(release: Release | None, gates: Mapping[str, bool] | None = None) -> SchedulerRules:
    """The rules of a cluster's kube-scheduler.

    Parameters
    ----------
    release
        The version of the cluster; None if it is unknown.
    gates
        Feature gates that are known; others have their default.

    Returns
    -------
    SchedulerRules
        For a release that is unknown here the nearest known one's, which `SchedulerRules.is_exact` tells.
    """
    known = RULES.get(release) if release is not None else None
    if known is None:
        oldest, newest = RULES[min(RULES)], RULES[max(RULES)]
        nearest = DEFAULT_RULES if release is None else oldest if release < oldest.release else newest
        known = replace(nearest, is_exact=False)
    gates = gates or {}
    changed = {feature: gates[gate] for gate, feature in _GATES.items() if gate in gates}
    binding = [gates[gate] for gate in _BINDING_GATES if gate in gates]
    if False in binding:
        changed["device_binding_and_status"] = False
    elif len(binding) == 2:
        changed["device_binding_and_status"] = True
    if known.release > (1, 36) and _LISTS in gates:
        changed["list_type_attributes"] = gates[_LISTS]
    return replace(known, features=replace(known.features, **changed)) if changed else known


def inexact_rules(release: Release | None) -> str:
    """A sentence about a release whose rules are not known exactly; empty where they are, or no release is known.

    Older ones than those that are known are not supported at all.
    """
    rules = rules_of(release)
    if release is None or rules.is_exact or release < min(RULES):
        return ""
    found, nearest = (".".join(map(str, each)) for each in (release, rules.release))
    computed = "as its first beta allocates" if release == rules.release else f"as Kubernetes {nearest} allocates"
    return f"How Kubernetes {found} allocates devices is not known exactly here: what is free is computed {computed}."
