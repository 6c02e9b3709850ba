"""Shapes of claims: their requests without names. Claims of one shape share every verdict."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from dra_spawner.dra.allocation.requests import PreparedClaim, prepare_claims, prepare_in_order
from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.errors import AllocationError
from dra_spawner.dra.model.claims import ClaimStatus, DeviceClass, DeviceRequest, RequestAlternative, ResourceClaim
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.simulator.devices.caching import Cache, CacheSizes

MAX_SELECTOR_VERDICTS: Final = 1_000_000
"""Maximum of cached verdicts of selectors, about a hundred bytes each."""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimShape:
    """Claims to allocate together, without their names.

    Attributes
    ----------
    id
        A number that no other shape ever has.
    prepared
        The claims, named "0", "1" and so on.
    attributes
        Attributes of devices that can change a verdict: ``domain/name``, ``domain/`` for all of a domain, or ``name``
        as published; None for all attributes.
    """

    id: int
    prepared: tuple[PreparedClaim, ...]
    attributes: frozenset[str] | None


class ClaimShapes:
    """Recognises shapes; must be cleared when a device class changes."""

    def __init__(self, rules: SchedulerRules, sizes: CacheSizes) -> None:
        self._rules = rules
        self._selectors = SelectorCache(list_attributes=rules.selectors_see_lists)
        self._shapes: Cache[tuple[Hashable, ...], ClaimShape] = Cache(sizes.shapes)
        self._keys: Cache[int, tuple[ResourceClaim, Hashable]] = Cache(sizes.claim_keys)
        self._ids = count()

    def shape(self, claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass]) -> ClaimShape:
        """The shape of claims to allocate together, in this order.

        Raises
        ------
        AllocationError
            When they cannot be allocated on any node.
        """
        if self._selectors.kept >= MAX_SELECTOR_VERDICTS:
            self._shapes.clear()
            self._selectors = SelectorCache(list_attributes=self._rules.selectors_see_lists)
        key = tuple([self._key(claim) for claim in claims])
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes.keep(key, self._make(claims, classes))
        return shape

    def clear(self) -> None:
        """Forget all shapes, as device classes have changed."""
        self._shapes.clear()

    def _key(self, claim: ResourceClaim) -> Hashable:
        known = self._keys.get(id(claim))
        if known is not None:
            return known[1]
        # The reference to the claim keeps its id from being reused.
        return self._keys.keep(id(claim), (claim, _claim_key(claim)))[1]

    def _make(self, claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass]) -> ClaimShape:
        nameless = [
            replace(claim, name=str(index), namespace="", uid="", status=ClaimStatus())
            for index, claim in enumerate(claims)
        ]
        try:
            prepared = prepare_in_order(nameless, classes, self._rules, self._selectors)
        except AllocationError:
            # Again, for the message to have the claim's own name.
            prepare_claims(claims, classes, self._rules, self._selectors)
            raise
        return ClaimShape(next(self._ids), prepared, _attributes(prepared))


def _attributes(claims: Sequence[PreparedClaim]) -> frozenset[str] | None:
    attributes: set[str] = set()
    for claim in claims:
        for constraint in claim.claim.constraints:
            attributes.update(name for name in (constraint.match_attribute, constraint.distinct_attribute) if name)
        for alternatives in claim.requests:
            for alternative in alternatives:
                if alternative.filter.attributes is None:
                    return None
                attributes |= alternative.filter.attributes
    return frozenset(attributes)


def _claim_key(claim: ResourceClaim) -> Hashable:
    return (
        tuple([_request_key(request) for request in claim.requests]),
        claim.constraints,
        tuple([(item.requests, repr(item.content)) for item in claim.config]) if claim.config else (),
    )


def _request_key(request: DeviceRequest) -> Hashable:
    return (
        request.name,
        _alternative_key(request.exactly) if request.exactly is not None else None,
        tuple([_alternative_key(item) for item in request.first_available]),
    )


def _alternative_key(wanted: RequestAlternative) -> Hashable:
    capacity = wanted.capacity_requests
    return (
        wanted.name,
        wanted.device_class_name,
        wanted.selectors,
        wanted.allocation_mode,
        wanted.count,
        wanted.admin_access,
        wanted.tolerations,
        # The text and the format, because amounts are printed as they were written.
        None if capacity is None else tuple([(name, str(item), item.format) for name, item in capacity.items()]),
    )
