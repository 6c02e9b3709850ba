"""What placeholders count for limits: by the devices that their claims hold, or by what they ask for; and the totals.

A placeholder that is wanted, and one whose claims have no devices yet, counts by its requests: the most that it may
get, of all alternatives and of all devices. So it does not count more once it has its devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dra_spawner import names
from dra_spawner.dra.allocation.requests import MAX_DEVICES_PER_CLAIM, PreparedAlternative, prepare_claims
from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.errors import AllocationError
from dra_spawner.dra.model.claims import AllocationMode, RequestAlternative, ResourceClaim
from dra_spawner.dra.model.consumable_capacity import Share, share_of
from dra_spawner.dra.model.devices import Device, DeviceDescription, DeviceId, PoolId
from dra_spawner.dra.quantity import Quantity
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.limits import Limit, counted
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.claim_requirements import leftover_claim
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.extended_resources import classes_by_resource, extended_resource_claim
from dra_spawner.simulator.model.pods import Pod

__all__ = ["OWN", "LimitTotal", "LimitUsage", "Usage", "claim_of_extended_resources"]

_NAMESPACE: Final = "default"
#: Verdicts of selectors after which they are forgotten; about a hundred bytes each.
_MAX_VERDICTS: Final = 200_000
_NOTHING: Final[Mapping[str, int]] = {}


#: This service's hub.
OWN: Final = ""
#: Names of the bounds that are not about capacities.
_PLACEHOLDERS: Final = "*"
_DEVICES: Final = ""
_MOST_HUBS_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Usage:
    """What one placeholder counts for one limit.

    Attributes
    ----------
    held
        Devices of its claims.
    asked
        The most devices that it still gets.
    capacity
        What it holds, or gets at most, of each limited capacity, in nano-units.
    """

    held: frozenset[DeviceId] = frozenset()
    asked: int = 0
    capacity: Mapping[str, int] = field(default_factory=dict)

    def plus(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(self.held | other.held, self.asked + other.asked, _summed(self.capacity, other.capacity))


class LimitUsage:
    """Counts placeholders of one view.

    What depends on devices and classes alone is kept in the index, until one of them changes.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._classes = view.snapshot.classes
        self._memo = view.index.of_devices
        self._rules = view.snapshot.rules
        self._memo.classes_are(self._classes)
        key = ("selectors", self._rules)
        if self._memo.of(key, self._new_selectors).kept > _MAX_VERDICTS:
            self._memo.forget(key)
        self._selectors = self._memo.of(key, self._new_selectors)

    def _new_selectors(self) -> SelectorCache:
        return SelectorCache(list_attributes=self._rules.selectors_see_lists)

    def of_shape(self, limit: Limit, shape: Shape) -> Usage:
        """What a new placeholder of a shape counts."""
        if not limit.counts_devices or not shape.wants_devices:
            return Usage()

        def compute() -> Usage:
            pod, claims = simulated_placeholder(shape, _NAMESPACE)
            every = (*(each.claim for each in claims), claim_of_extended_resources(pod, self._view))
            return _sum(self._asked(limit, claim) for claim in every)

        key = ("shape", self._rules, limit.device_class, limit.selector, tuple(limit.capacity), shape.id)
        return self._memo.of(key, compute)

    def of_placeholder(self, limit: Limit, pod: Pod, shape: Shape | None) -> Usage:
        """What a placeholder counts. A claim that a user's server names counts no longer.

        Parameters
        ----------
        shape
            Of the placeholder; None if it is outdated, or of another hub.
        """
        if not limit.counts_devices:
            return Usage()
        if shape is not None and not pod.node_name:
            return self.of_shape(limit, shape)
        return _sum(self._of_claim(limit, claim) for claim in self._claims(pod))

    def _claims(self, pod: Pod) -> list[ResourceClaim]:
        """A placeholder's own claims, and the one for its extended resources.

        The services of all hubs must find the same, so servers of all namespaces matter.
        """
        view, found = self._view, list[ResourceClaim]()
        for reference in pod.claims:
            key = ObjectKey(pod.namespace, reference.claim or "")
            tracked = view.snapshot.claims.get(key)
            if tracked is not None and not any(_is_server(each) for each in view.pods_naming(key)):
                found.append(tracked.claim)
        leftover = leftover_claim(pod, view.snapshot.state)
        if leftover is not None:
            found.append(leftover.claim)
        elif not pod.node_name:
            found.append(claim_of_extended_resources(pod, view))
        return found

    def _of_claim(self, limit: Limit, claim: ResourceClaim) -> Usage:
        return self._held(limit, claim) if claim.is_allocated else self._asked(limit, claim)

    def _held(self, limit: Limit, claim: ResourceClaim) -> Usage:
        classes = {name: each.device_class_name for name, each in _alternatives(claim)}
        found: set[DeviceId] = set()
        capacity: dict[str, int] = {}
        for result in claim.status.devices or ():
            if result.admin_access or (limit.device_class and classes.get(result.request) != limit.device_class):
                continue
            device = self._device(result.id)
            # A device that is not published any more is held all the same.
            if device is not None and not self._selects(limit, device.description):
                continue
            found.add(result.id)
            for name in limit.capacity:
                if result.share_id is not None:
                    amount = (result.consumed_capacity or {}).get(name)
                else:
                    whole = device.description.capacity.get(name) if device is not None else None
                    amount = whole.value if whole is not None else None
                if amount is not None:
                    capacity[name] = capacity.get(name, 0) + max(amount.nano, 0)
        return Usage(frozenset(found), 0, capacity)

    def _asked(self, limit: Limit, claim: ResourceClaim) -> Usage:
        """The most that a claim without devices may get; of each request that is one of its alternatives."""
        prepared = self._prepared(claim)
        total = Usage()
        for position, request in enumerate(claim.requests):
            each = [
                self._asked_of(limit, wanted, prepared[position][place] if prepared is not None else None)
                for place, wanted in enumerate(request.alternatives)
            ]
            names = {name for usage in each for name in usage.capacity}
            total = total.plus(
                Usage(
                    asked=max((usage.asked for usage in each), default=0),
                    capacity={name: max(usage.capacity.get(name, 0) for usage in each) for name in names},
                )
            )
        return total

    def _prepared(self, claim: ResourceClaim) -> tuple[tuple[PreparedAlternative, ...], ...] | None:
        """The requests with their selectors; None if the claim can be allocated nowhere, as without its class."""
        try:
            (prepared,) = prepare_claims((claim,), self._classes, self._rules, self._selectors)
        except AllocationError:
            return None
        return prepared.requests

    def _asked_of(self, limit: Limit, wanted: RequestAlternative, prepared: PreparedAlternative | None) -> Usage:
        if wanted.admin_access or (limit.device_class and wanted.device_class_name != limit.device_class):
            return Usage()
        count = MAX_DEVICES_PER_CLAIM if wanted.allocation_mode == AllocationMode.ALL else wanted.count
        possible = [each for each in self._descriptions() if prepared is not None and _may_select(prepared, each)]
        counting = [each for each in possible if self._selects(limit, each)]
        # Without any device that it may get, as before the first node, nothing is known.
        if possible and not counting:
            return Usage()
        asked = wanted.capacity_requests or {}
        capacity = {}
        for name in limit.capacity:
            amounts = [amount for each in counting if (amount := _amount(each, wanted, name, self._rules)) is not None]
            requested = asked[name].nano if name in asked else 0
            capacity[name] = count * max(amounts, default=requested)
        return Usage(asked=count, capacity=capacity)

    def _selects(self, limit: Limit, description: DeviceDescription) -> bool:
        """Whether a limit's selector selects a device; one that fails on the device does not."""
        return not limit.selector or self._selectors.verdict(limit.selector, description) is True

    def _descriptions(self) -> tuple[DeviceDescription, ...]:
        """Each kind of device that is published."""

        def compute() -> tuple[DeviceDescription, ...]:
            slices = self._view.snapshot.slices.values()
            return tuple(dict.fromkeys(device.description for item in slices for device in item.devices))

        return self._memo.of("descriptions", compute)

    def _device(self, device: DeviceId) -> Device | None:
        """A published device; the newest generation of its pool counts."""
        return self._memo.of(device, lambda: self._devices(PoolId(device.driver, device.pool)).get(device))

    def _devices(self, pool: PoolId) -> Mapping[DeviceId, Device]:
        """Published devices of a pool."""

        def compute() -> dict[DeviceId, Device]:
            slices = sorted(self._view.index.slices_of_pool.get(pool, ()), key=lambda each: each.generation)
            return {each.id: each for item in slices for each in item.devices}

        return self._memo.of(pool, compute)


class _HubUsage:
    """The sum of what one hub's placeholders count."""

    def __init__(self) -> None:
        self.placeholders = 0
        self.asked = 0
        self.held: Counter[DeviceId] = Counter()
        self.capacity: Counter[str] = Counter()

    def add(self, usage: Usage, sign: int) -> None:
        self.placeholders += sign
        self.asked += sign * usage.asked
        for device in usage.held:
            self.held[device] += sign
        self.held += Counter()  # without zeros
        for name, amount in usage.capacity.items():
            self.capacity[name] += sign * amount

    def amount(self, bound: str) -> int:
        """What counts for a bound; of capacities in nano-units."""
        if bound == _PLACEHOLDERS:
            return self.placeholders
        return len(self.held) + self.asked if bound == _DEVICES else self.capacity[bound]


class LimitTotal:
    """What counts for one limit, of this hub and of others.

    Attributes
    ----------
    limit
        The limit for which it counts.
    """

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._all = _HubUsage()
        self._hubs: dict[str, _HubUsage] = {}

    def add(self, usage: Usage, hub: str = OWN) -> None:
        """Count a placeholder."""
        self._all.add(usage, 1)
        self._hubs.setdefault(hub, _HubUsage()).add(usage, 1)

    def remove(self, usage: Usage, hub: str = OWN) -> None:
        """Count a placeholder no longer."""
        self._all.add(usage, -1)
        self._hubs[hub].add(usage, -1)

    def counts(self, usage: Usage) -> bool:
        """Whether a placeholder counts for any bound."""
        return any(_adds(usage, bound) for bound in self._bounds())

    def is_exceeded(self) -> bool:
        """Whether more counts than is allowed."""
        return bool(self._exceeded(Usage(), 0))

    def exhausted_bound(self, usage: Usage) -> str | None:
        """A bound that one more placeholder would exceed; None if it fits.

        A placeholder that counts nothing always fits.
        """
        return next((bound for bound in self._exceeded(usage, 1) if _adds(usage, bound)), None)

    def bound_helped_by(self, usage: Usage) -> str | None:
        """An exceeded bound for which a placeholder counts; None if there is none."""
        return next((bound for bound in self._exceeded(Usage(), 0) if _adds(usage, bound)), None)

    def hubs_before(self, own: str) -> int:
        """How many other hubs have less than this one, or as much and an earlier name.

        Parameters
        ----------
        own
            Name of this hub.
        """
        bound = next(iter(self._bounds()))
        mine = self._hubs[OWN].amount(bound) if OWN in self._hubs else 0
        others = ((each.amount(bound), hub) for hub, each in self._hubs.items() if hub != OWN and each.placeholders)
        return sum(each < (mine, own) for each in others)

    def because(self, bound: str) -> str:
        """What denies a placeholder for a bound, after "allowed": the limit, and what other hubs have of it."""
        others = {hub: amount for hub, each in self._hubs.items() if hub != OWN and (amount := each.amount(bound)) > 0}
        if not others:
            return f"by the {self.limit}"
        most_first = sorted(others.items(), key=lambda each: (-each[1], each[0]))
        named = [f"{hub}: {self._text(bound, amount)}" for hub, amount in most_first[:_MOST_HUBS_NAMED]]
        rest = len(others) - len(named)
        further = f" and {counted(rest, 'further hub')}" if rest else ""
        return f"by the {self.limit}; other hubs have {self._noun(bound)} ({', '.join(named)}{further})"

    def _noun(self, bound: str) -> str:
        if bound == _PLACEHOLDERS:
            return "placeholders"
        return "devices" if bound == _DEVICES else bound

    def _text(self, bound: str, amount: int) -> str:
        most = self.limit.capacity.get(bound)
        return str(amount) if most is None else str(Quantity(amount, most.format))

    def _bounds(self) -> Mapping[str, int]:
        """What is allowed, by bound."""
        limit = self.limit
        found = {_PLACEHOLDERS: limit.placeholders} if limit.placeholders is not None else {}
        if limit.devices is not None:
            found[_DEVICES] = limit.devices
        return found | {name: most.nano for name, most in limit.capacity.items()}

    def _exceeded(self, usage: Usage, more: int) -> list[str]:
        """Bounds that are exceeded, with `more` placeholders that count `usage`."""
        total = self._all
        further = {
            _PLACEHOLDERS: more,
            _DEVICES: sum(each not in total.held for each in usage.held) + usage.asked,
            **usage.capacity,
        }
        return [bound for bound, most in self._bounds().items() if total.amount(bound) + further.get(bound, 0) > most]


def _adds(usage: Usage, bound: str) -> bool:
    if bound == _PLACEHOLDERS:
        return True
    return bool(usage.held or usage.asked) if bound == _DEVICES else usage.capacity.get(bound, 0) > 0


def claim_of_extended_resources(pod: Pod, view: View) -> ResourceClaim:
    """The claim that kube-scheduler makes if devices provide the pod's extended resources; without requests if not."""
    classes = classes_by_resource(view.snapshot.classes.values())
    return extended_resource_claim(pod, [name for name in pod.requests if name in classes], classes)


def _is_server(pod: Pod) -> bool:
    return pod.labels.get(names.COMPONENT) == names.USER_SERVER and not pod.is_finished


def _may_select(prepared: PreparedAlternative, description: DeviceDescription) -> bool:
    return prepared.filter.verdict(description) is True


def _amount(description: DeviceDescription, wanted: RequestAlternative, name: str, rules: SchedulerRules) -> int | None:
    """What a request gets of a device's capacity, in nano-units; None if it cannot get the device."""
    share = share_of(description, wanted.capacity_requests, rules)
    if not isinstance(share, Share):
        return None
    if not description.allow_multiple_allocations:
        whole = description.capacity.get(name)
        return whole.value.nano if whole is not None else 0
    return max(next((amount.nano for each, amount in share.consumed if each == name), 0), 0)


def _alternatives(claim: ResourceClaim) -> Iterable[tuple[str, RequestAlternative]]:
    """What may be requested, by its name in results of an allocation."""
    for request in claim.requests:
        for each in request.alternatives:
            yield f"{request.name}/{each.name}" if request.first_available else request.name, each


def _sum(usages: Iterable[Usage]) -> Usage:
    total = Usage()
    for each in usages:
        total = total.plus(each)
    return total


def _summed(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    if not one or not other:
        return one or other or _NOTHING
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}
