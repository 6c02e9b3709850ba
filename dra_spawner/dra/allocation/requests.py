"""Claims made ready for the search: classes looked up, selectors joined, what cannot be allocated anywhere refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dra_spawner.dra.allocation.constraints import make_constraint
from dra_spawner.dra.allocation.selectors import DeviceFilter, SelectorCache, SelectorFailure
from dra_spawner.dra.errors import AllocationError, FatalReason
from dra_spawner.dra.features import Features
from dra_spawner.dra.model.claims import AllocationMode, DeviceClass, DeviceRequest, RequestAlternative, ResourceClaim
from dra_spawner.dra.model.consumable_capacity import Share, ShareError, ShareRefused, share_of
from dra_spawner.dra.model.devices import DeviceDescription
from dra_spawner.dra.scheduler_rules import SchedulerRules

MAX_DEVICES_PER_CLAIM: Final = 32
"""``AllocationResultsMaxSize``: what one claim's allocation can hold."""


@dataclass(slots=True, eq=False)
class PreparedAlternative:
    """What ``exactly`` says, or one alternative of ``firstAvailable``, ready to be matched against devices."""

    claim: ResourceClaim
    claim_index: int
    request_index: int
    request_name: str
    alternative_name: str
    """Empty where the request is ``exactly``."""
    wanted: RequestAlternative
    device_class: DeviceClass
    filter: DeviceFilter
    is_admin: bool
    takes_all: bool
    rules: SchedulerRules
    _shares: dict[DeviceDescription, Share | ShareRefused | ShareError] = field(default_factory=dict)
    _shares_by_capacity: dict[tuple[object, ...], Share | ShareRefused | ShareError] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """Name in results: ``request`` or ``request/alternative``."""
        return f"{self.request_name}/{self.alternative_name}" if self.alternative_name else self.request_name

    def __str__(self) -> str:
        return f"claim {self.claim}, request {self.full_name}"

    def selects(self, description: DeviceDescription) -> bool:
        """Whether the selectors of class and request select the device.

        Raises
        ------
        AllocationError
            When one that had to be asked does not compile, or fails on this device.
        """
        verdict = self.filter.verdict(description)
        if isinstance(verdict, SelectorFailure):
            raise AllocationError(verdict.reason, f"{self.selector_name(verdict.position)}: {verdict.message}")
        return verdict

    def selector_name(self, position: int) -> str:
        """Where the selector at this position of the filter stands, in kube-scheduler's words."""
        of_class = len(self.device_class.selectors)
        if position < of_class:
            return f"class {self.device_class.name}: selector #{position}"
        return f"claim {self.claim}: selector #{position - of_class}"

    def selector_place(self, position: int) -> str:
        """The same, for people, and without the names of the claim and its request."""
        if position < len(self.device_class.selectors):
            return f"class {self.device_class.name}"
        return "the request's selectors"

    def share(self, description: DeviceDescription) -> Share | ShareRefused | ShareError:
        """What the request would consume of a device."""
        share = self._shares.get(description)
        if share is None:
            share = self._shares_by_capacity.get(description.capacity_key)
            if share is None:
                share = share_of(description, self.wanted.capacity_requests, self.rules)
                self._shares_by_capacity[description.capacity_key] = share
            self._shares[description] = share
        return share


@dataclass(frozen=True, slots=True, eq=False)
class PreparedClaim:
    """A claim, ready for the search.

    Attributes
    ----------
    requests
        Alternatives by request.
    problem
        Why the claim cannot be allocated on any node. ``requests`` then ends before the cause, which counts only where
        the search gets that far.
    """

    claim: ResourceClaim
    requests: tuple[tuple[PreparedAlternative, ...], ...]
    problem: tuple[FatalReason, str] | None = None

    def is_prioritized(self, request_index: int) -> bool:
        """Whether the request is ``firstAvailable``."""
        return bool(self.claim.requests[request_index].first_available)


def prepare_claims(
    claims: Iterable[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    rules: SchedulerRules,
    selectors: SelectorCache,
) -> tuple[PreparedClaim, ...]:
    """Everything about the claims that does not depend on the node.

    Raises
    ------
    AllocationError
        When a claim cannot be allocated on any node: unknown class, disabled feature, unknown kind of constraint …
    """
    prepared = prepare_in_order(claims, classes, rules, selectors)
    if prepared and prepared[-1].problem is not None:
        raise AllocationError(*prepared[-1].problem)
    return prepared


def prepare_in_order(
    claims: Iterable[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    rules: SchedulerRules,
    selectors: SelectorCache,
) -> tuple[PreparedClaim, ...]:
    """Like `prepare_claims`, for a search that meets what is wrong in kube-scheduler's order.

    kube-scheduler reads one request after the other, and looks at the pools where one wants all devices. Where an
    unusable pool ends the attempt on one node alone, it hides what is wrong behind that request: the last claim then
    has a ``problem``, and nothing is raised.
    """
    prepared: list[PreparedClaim] = []
    may_hide = False
    for claim_index, claim in enumerate(claims):
        requests: list[list[PreparedAlternative]] = []
        problem = None
        try:
            for request_index, request in enumerate(claim.requests):
                requests.append([])
                _check_features(claim, request, rules.features)
                for wanted in request.alternatives:
                    each = _prepare(claim, claim_index, request_index, wanted, classes, rules, selectors)
                    requests[-1].append(each)
                    may_hide = may_hide or (each.takes_all and not rules.quirks.pool_trouble_ends_attempt)
            for position, constraint in enumerate(claim.constraints):
                if make_constraint(constraint, rules) is None:
                    raise AllocationError(
                        FatalReason.CLAIM, f"claim {claim}, constraint {position}: names no attribute"
                    )
        except AllocationError as error:
            if not may_hide:
                raise
            problem = error.reason, str(error)
        prepared.append(PreparedClaim(claim, tuple(map(tuple, requests)), problem))
        if problem is not None:
            break
    return tuple(prepared)


def _check_features(claim: ResourceClaim, request: DeviceRequest, features: Features) -> None:
    if request.first_available and not features.prioritized_list:
        raise AllocationError(
            FatalReason.FEATURE_DISABLED, f"claim {claim}, request {request.name}: firstAvailable is disabled"
        )
    if features.consumable_capacity:
        return
    wanted = (request.exactly, *request.first_available)
    if any(item is not None and item.capacity_requests is not None for item in wanted):
        raise AllocationError(
            FatalReason.FEATURE_DISABLED, f"claim {claim}, request {request.name}: capacity requests are disabled"
        )


def _prepare(
    claim: ResourceClaim,
    claim_index: int,
    request_index: int,
    wanted: RequestAlternative,
    classes: Mapping[str, DeviceClass],
    rules: SchedulerRules,
    selectors: SelectorCache,
) -> PreparedAlternative:
    request = claim.requests[request_index]
    where = f"claim {claim}, request {wanted.name}"
    if None in wanted.selectors:
        raise AllocationError(FatalReason.CLAIM, f"{where}: a selector is of an unknown kind")
    if wanted.admin_access is not None and not rules.features.admin_access:
        raise AllocationError(FatalReason.FEATURE_DISABLED, f"{where}: admin access is disabled")
    if not wanted.device_class_name:
        raise AllocationError(FatalReason.CLAIM, f"{where}: names no device class")
    device_class = classes.get(wanted.device_class_name)
    if device_class is None:
        raise AllocationError(
            FatalReason.CLASS_NOT_FOUND, f"{where}: device class {wanted.device_class_name} does not exist"
        )
    if wanted.allocation_mode not in (AllocationMode.EXACT_COUNT, AllocationMode.ALL):
        raise AllocationError(FatalReason.CLAIM, f"{where}: unknown allocation mode {wanted.allocation_mode!r}")
    # A class selector of an unknown kind cannot be asked; as an empty expression it fails on the first device.
    expressions = tuple(expression or "" for expression in (*device_class.selectors, *wanted.selectors))
    return PreparedAlternative(
        claim=claim,
        claim_index=claim_index,
        request_index=request_index,
        request_name=request.name,
        alternative_name=wanted.name if request.first_available else "",
        wanted=wanted,
        device_class=device_class,
        filter=selectors.filter(expressions),
        is_admin=bool(wanted.admin_access) and not request.first_available,
        takes_all=wanted.allocation_mode == AllocationMode.ALL,
        rules=rules,
    )
