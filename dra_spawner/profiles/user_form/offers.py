"""Offers of a cluster's devices: the sizes of shares of a capacity, and the reserved amount of a request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.model.consumable_capacity import consumed_by_request, violates_policy
from dra_spawner.dra.model.devices import DeviceCapacity, DeviceDescription, PoolId
from dra_spawner.dra.quantity import Quantity
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, SchedulerRules
from dra_spawner.profiles.compiler.claims import DeviceRequest
from dra_spawner.profiles.facts import ClusterFacts

#: Sizes of a device are listed one by one up to here; beyond, only the regular ones are looked at.
_LISTED_SIZES = 64


@dataclass(frozen=True, slots=True)
class Offer:
    """One capacity of a device, as far as the size of a share goes.

    Attributes
    ----------
    capacity
        All there is of it, and the device's ``requestPolicy``.
    is_shareable
        Whether the device can be shared (``allowMultipleAllocations``); of any other, a request takes everything.
    rules
        The rules of the cluster's kube-scheduler.
    """

    capacity: DeviceCapacity
    is_shareable: bool
    rules: SchedulerRules = DEFAULT_RULES

    def reserved(self, wanted: Quantity) -> Quantity | None:
        """What a request of this size takes of the device, were it idle; None if it cannot have it.

        0 < size <= what is taken <= what there is: kube-scheduler up to 1.36 counts in 64 bits, and may take less.
        """
        value, policy = self.capacity.value, self.capacity.policy
        if not self.is_shareable:
            return value if 0 < wanted.nano <= value.nano else None
        amount = consumed_by_request(self.capacity, wanted, self.rules)
        if amount is None or not 0 < wanted.nano <= amount.nano <= value.nano:
            return None
        if policy is not None and violates_policy(amount, policy, self.rules) is not False:
            return None
        return Quantity(amount.nano, value.format)

    @property
    def smallest(self) -> Quantity | None:
        """The smallest share; None if there is no limit."""
        policy = self.capacity.policy
        if not self.is_shareable:
            return self.capacity.value
        if policy is not None and (policy.valid_range is not None or policy.valid_values):
            return self.reserved(Quantity(1))
        return None

    @property
    def largest(self) -> Quantity:
        """The largest share."""
        value, policy = self.capacity.value, self.capacity.policy
        if not self.is_shareable or policy is None:
            return value
        if policy.valid_values:
            return max((each for each in policy.valid_values if each <= value), default=value)
        limits = policy.valid_range
        if limits is None:
            return value
        most = value if limits.maximum is None else min(limits.maximum, value)
        if limits.step is not None and limits.step.nano > 0 and most >= limits.minimum:
            most = Quantity(most.nano - (most.nano - limits.minimum.nano) % limits.step.nano)
        return Quantity(most.nano, value.format)

    def listed(self) -> list[Quantity] | None:
        """Every possible size; None if they are too many to list."""
        policy = self.capacity.policy
        if not self.is_shareable:
            return [self.capacity.value]
        if policy is None:
            return None
        if policy.valid_values:
            return [each for each in policy.valid_values if each <= self.capacity.value]
        limits, smallest = policy.valid_range, self.smallest
        if limits is None or limits.step is None or limits.step.nano <= 0 or smallest is None:
            return None
        count = (self.largest.nano - smallest.nano) // limits.step.nano + 1
        if count > _LISTED_SIZES:
            return None
        return [Quantity(smallest.nano + index * limits.step.nano) for index in range(count)]


class DeviceCatalog:
    """The offers of a cluster's devices for a request, cached, as the facts do not change.

    Parameters
    ----------
    facts
        What is known; without slices or classes nothing is offered.
    """

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self._selectors = SelectorCache(list_attributes=facts.scheduler_rules.selectors_see_lists)
        self._descriptions: tuple[DeviceDescription, ...] | None = None
        self._offers: dict[tuple[str, tuple[str, ...], str], tuple[Offer, ...]] = {}

    @property
    def is_known(self) -> bool:
        """Whether the cluster's devices and their classes are known."""
        return self.facts.knows_devices

    def offers(self, request: DeviceRequest, capacity: str) -> tuple[Offer, ...]:
        """What devices that a request may get have of a capacity, each kind once; whether they are free plays no part.

        A device for which a selector fails is left out: the check of the profiles tells about it.
        """
        device_class = (self.facts.device_classes or {}).get(request.device_class)
        if device_class is None or None in device_class.selectors:
            return ()
        selectors = (*(each for each in device_class.selectors if each is not None), *request.expressions)
        key = (request.device_class, selectors, capacity)
        if key not in self._offers:
            self._offers[key] = self._find(selectors, capacity)
        return self._offers[key]

    def _find(self, selectors: tuple[str, ...], capacity: str) -> tuple[Offer, ...]:
        selected, found = self._selectors.filter(selectors), dict[tuple[str, bool], Offer]()
        for description in self._known_descriptions():
            held = description.capacity.get(capacity)
            if held is None:
                continue
            key = (repr(held), description.allow_multiple_allocations)
            if key not in found and selected.verdict(description) is True:
                found[key] = Offer(held, description.allow_multiple_allocations, self.facts.scheduler_rules)
        return tuple(found.values())

    def _known_descriptions(self) -> tuple[DeviceDescription, ...]:
        """Descriptions of sound devices in the newest generations of pools; none whose parts are published, too."""
        if self._descriptions is None:
            slices = self.facts.slices or ()
            newest: dict[PoolId, int] = {}
            for each in slices:
                newest[each.pool_id] = max(each.generation, newest.get(each.pool_id, each.generation))
            from dra_spawner.dra.model.same_hardware import pairs_by_node  # few forms make sizes of devices

            divided = {pair.device.id for pair in pairs_by_node(slices) if pair.is_part}
            self._descriptions = tuple(
                dict.fromkeys(
                    device.description
                    for each in slices
                    if each.generation == newest[each.pool_id]
                    for device in each.devices
                    if not device.defect and device.id not in divided
                )
            )
        return self._descriptions


def reserved_amounts(offers: Iterable[Offer], wanted: Quantity) -> tuple[Quantity, Quantity] | None:
    """The least and the most that a request of this size reserves, depending on the device; None if none gives it."""
    amounts = [amount for offer in offers if (amount := offer.reserved(wanted)) is not None]
    return (min(amounts), max(amounts)) if amounts else None
