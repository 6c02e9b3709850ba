"""What placeholders count for limits: by the devices that their claims hold, or by what they ask for; and the totals.

A placeholder that is wanted, and one whose claims have no devices yet, counts by its requests: the most that it may
get, of all alternatives and of all devices. So it does not count more once it has its devices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final

from dra_spawner.common.counted_text import counted
from dra_spawner.dra.allocation.requests import PreparedAlternative, prepare_claims
from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.errors import AllocationError
from dra_spawner.dra.model.claims import RequestAlternative, ResourceClaim
from dra_spawner.dra.model.consumable_capacity import Share, share_of
from dra_spawner.dra.model.devices import Device, DeviceDescription, DeviceId, PoolId
from dra_spawner.dra.quantity import Quantity
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.placeholders.planner.cluster.pod_kinds import is_server
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.hypothetical_pods import (
    claim_of_extended_resources,
    simulated_placeholder,
)
from dra_spawner.placeholders.planner.targets.limits import DEVICES, PLACEHOLDERS, Limit, device_count
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.claim_requirements import leftover_claim
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod

#: This service's hub.
OWN: Final = ""
_NAMESPACE: Final = "default"
#: Verdicts of selectors after which they are forgotten; about a hundred bytes each.
_MAX_VERDICTS: Final = 200_000
_MOST_HUBS_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Usage:
    """What one placeholder counts for one limit.

    Attributes
    ----------
    held
        Devices of its claims.
    amounts
        Devices that it still gets at most, and what it holds or gets at most of each limited capacity, by bound.
    """

    held: frozenset[DeviceId] = frozenset()
    amounts: Counter[str] = field(default_factory=Counter)

    def of(self, bound: str) -> int:
        """Amount for a bound."""
        if bound == PLACEHOLDERS:
            return 1
        return self.amounts[bound] + (len(self.held) if bound == DEVICES else 0)


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
            return self._of_claims(
                limit, [*(each.claim for each in claims), claim_of_extended_resources(pod, self._classes)]
            )

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
        return self._of_claims(limit, self._claims(pod))

    def _claims(self, pod: Pod) -> list[ResourceClaim]:
        """A placeholder's own claims, and the one for its extended resources.

        The services of all hubs must find the same, so servers of all namespaces matter.
        """
        view, found = self._view, list[ResourceClaim]()
        for reference in pod.claims:
            key = ObjectKey(pod.namespace, reference.claim or "")
            tracked = view.snapshot.claims.get(key)
            if tracked is not None and not any(is_server(each) for each in view.pods_naming(key)):
                found.append(tracked.claim)
        leftover = leftover_claim(pod, view.snapshot.state)
        if leftover is not None:
            found.append(leftover.claim)
        elif not pod.node_name:
            found.append(claim_of_extended_resources(pod, self._classes))
        return found

    def _of_claims(self, limit: Limit, claims: Iterable[ResourceClaim]) -> Usage:
        held: set[DeviceId] = set()
        amounts = Counter[str]()
        for claim in claims:
            if not claim.is_allocated:
                amounts += self._asked(limit, claim)
                continue
            classes = {name: each.device_class_name for name, each in _alternatives(claim)}
            for result in claim.status.devices or ():
                if result.admin_access or (limit.device_class and classes.get(result.request) != limit.device_class):
                    continue
                device = self._device(result.id)
                # A device that is not published any more is held all the same.
                if device is not None and not self._selects(limit, device.description):
                    continue
                held.add(result.id)
                for name in limit.capacity:
                    if result.share_id is not None:
                        amount = (result.consumed_capacity or {}).get(name)
                    else:
                        whole = device.description.capacity.get(name) if device is not None else None
                        amount = whole.value if whole is not None else None
                    amounts[name] += max(amount.nano, 0) if amount is not None else 0
        return Usage(frozenset(held), amounts)

    def _asked(self, limit: Limit, claim: ResourceClaim) -> Counter[str]:
        """The most that a claim without devices may get; of each request that is one of its alternatives."""
        prepared = self._prepared(claim)
        total = Counter[str]()
        for position, request in enumerate(claim.requests):
            each = [
                self._asked_of(limit, wanted, prepared[position][place] if prepared is not None else None)
                for place, wanted in enumerate(request.alternatives)
            ]
            total += reduce(or_, each, Counter())  # the most of each
        return total

    def _prepared(self, claim: ResourceClaim) -> tuple[tuple[PreparedAlternative, ...], ...] | None:
        """The requests with their selectors; None if the claim can be allocated nowhere, as without its class."""
        try:
            (prepared,) = prepare_claims((claim,), self._classes, self._rules, self._selectors)
        except AllocationError:
            return None
        return prepared.requests

    def _asked_of(self, limit: Limit, wanted: RequestAlternative, prepared: PreparedAlternative | None) -> Counter[str]:
        if wanted.admin_access or (limit.device_class and wanted.device_class_name != limit.device_class):
            return Counter()
        count, possible = device_count(wanted), list[DeviceDescription]()
        if prepared is not None:
            possible = [each for each in self._descriptions() if prepared.filter.verdict(each) is True]
        counting = [each for each in possible if self._selects(limit, each)]
        # Without any device that it may get, as before the first node, nothing is known.
        if possible and not counting:
            return Counter()
        asked = wanted.capacity_requests or {}
        found = Counter({DEVICES: count})
        for name in limit.capacity:
            amounts = [amount for each in counting if (amount := _amount(each, wanted, name, self._rules)) is not None]
            requested = asked[name].nano if name in asked else 0
            found[name] = count * max(amounts, default=requested)
        return found

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


class _Sum:
    """The sum of what placeholders count; a device that several of them hold counts once."""

    def __init__(self) -> None:
        self._held = Counter[DeviceId]()
        self._amounts = Counter[str]()

    def add(self, usage: Usage, sign: int) -> None:
        self._amounts[PLACEHOLDERS] += sign
        for bound, amount in usage.amounts.items():
            self._amounts[bound] += sign * amount
        for device in usage.held:
            self._held[device] += sign
            if not self._held[device]:
                del self._held[device]

    def of(self, bound: str) -> int:
        """Amount for a bound."""
        return self._amounts[bound] + (len(self._held) if bound == DEVICES else 0)


class LimitTotal:
    """What counts for one limit, of this hub and of others.

    Attributes
    ----------
    limit
        The limit for which it counts.
    """

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._bounds = limit.bounds
        self._all = _Sum()
        self._hubs: defaultdict[str, _Sum] = defaultdict(_Sum)

    def add(self, usage: Usage, hub: str = OWN, sign: int = 1) -> None:
        """Count a placeholder; no longer, if `sign` is -1."""
        self._all.add(usage, sign)
        self._hubs[hub].add(usage, sign)

    def counts(self, usage: Usage) -> bool:
        """Whether a placeholder counts for any bound."""
        return any(usage.of(bound) > 0 for bound in self._bounds)

    def is_exceeded(self) -> bool:
        """Whether more counts than is allowed."""
        return any(self._all.of(bound) > most for bound, most in self._bounds.items())

    def exceeded_bound(self, usage: Usage, *, with_it: bool) -> str | None:
        """A bound for which a placeholder counts, and that is exceeded; None if there is none.

        Parameters
        ----------
        with_it
            Whether the placeholder is a new one, without devices, that is not counted yet.
        """
        for bound, most in self._bounds.items():
            amount = usage.of(bound)
            if amount > 0 and self._all.of(bound) + with_it * amount > most:
                return bound
        return None

    def hubs_before(self, own: str) -> int:
        """How many other hubs have less than this one, or as much and an earlier name.

        Parameters
        ----------
        own
            Name of this hub.
        """
        bound = next(iter(self._bounds))
        mine = self._hubs[OWN].of(bound)
        others = ((each.of(bound), hub) for hub, each in self._hubs.items() if hub != OWN and each.of(PLACEHOLDERS))
        return sum(each < (mine, own) for each in others)

    def because(self, bound: str) -> str:
        """What denies a placeholder for a bound, after "allowed": the limit, and what other hubs have of it."""
        others = {hub: amount for hub, each in self._hubs.items() if hub != OWN and (amount := each.of(bound)) > 0}
        if not others:
            return f"by the {self.limit}"
        most_first = sorted(others.items(), key=lambda each: (-each[1], each[0]))
        most = self.limit.capacity.get(bound)
        named = [
            f"{hub}: {amount if most is None else Quantity(amount, most.format)}"
            for hub, amount in most_first[:_MOST_HUBS_NAMED]
        ]
        rest = len(others) - len(named)
        further = f" and {counted(rest, 'further hub')}" if rest else ""
        noun = {PLACEHOLDERS: "placeholders", DEVICES: "devices"}.get(bound, bound)
        return f"by the {self.limit}; other hubs have {noun} ({', '.join(named)}{further})"


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
