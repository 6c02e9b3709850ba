"""What an allocation consists of: devices, configuration and the nodes from which they can be used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dra_spawner.dra.allocation.requests import PreparedAlternative, PreparedClaim
from dra_spawner.dra.errors import AllocationError, FatalReason
from dra_spawner.dra.features import Quirks
from dra_spawner.dra.model.claims import AllocatedDevice, DeviceConfiguration, ResourceClaim, Toleration
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.dra.model.node_selector import (
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    add_missing,
    node_name_selector,
)
from dra_spawner.dra.model.pools import Candidate
from dra_spawner.dra.quantity import Quantity
from dra_spawner.dra.scheduler_rules import SchedulerRules

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """A device, or a share of one, given to a request (``status.allocation.devices.results``)."""

    request: str
    """``request`` or ``request/alternative``."""
    id: DeviceId
    admin_access: bool = False
    is_share: bool = False
    """Whether it is a share of a device that others may use, too; such a result gets a share id."""
    consumed_capacity: Mapping[str, Quantity] | None = None
    """What the share consumes, by capacity name; None if the device has no capacity or is not shared."""
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()

    def to_json(self, share_id: str | None) -> dict[str, object]:
        """The API's JSON object; ``share_id`` is left out unless this is a share."""
        obj: dict[str, object] = {
            "request": self.request,
            "driver": self.id.driver,
            "pool": self.id.pool,
            "device": self.id.device,
        }
        if self.admin_access:
            obj["adminAccess"] = True
        if self.tolerations:
            obj["tolerations"] = [toleration.to_json() for toleration in self.tolerations]
        if self.binding_conditions:
            obj["bindingConditions"] = list(self.binding_conditions)
        if self.binding_failure_conditions:
            obj["bindingFailureConditions"] = list(self.binding_failure_conditions)
        if self.is_share:
            obj["shareID"] = share_id
        if self.consumed_capacity:
            obj["consumedCapacity"] = {name: str(amount) for name, amount in self.consumed_capacity.items()}
        return obj

    def as_allocated(self, share_id: str | None = None) -> AllocatedDevice:
        """The same as it is found in an allocated claim; ``share_id`` is for shares only."""
        return AllocatedDevice(
            id=self.id,
            request=self.request,
            admin_access=self.admin_access,
            share_id=(share_id or "") if self.is_share else None,
            consumed_capacity=self.consumed_capacity,
        )


@dataclass(frozen=True, slots=True)
class AllocationConfiguration:
    """Configuration for a driver and where it comes from (``status.allocation.devices.config``)."""

    source: str
    """FromClass or FromClaim."""
    configuration: DeviceConfiguration

    def to_json(self) -> dict[str, object]:
        obj: dict[str, object] = {"source": self.source}
        if self.configuration.requests:
            obj["requests"] = list(self.configuration.requests)
        return obj | dict(self.configuration.content)


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one claim gets (``status.allocation``)."""

    results: tuple[DeviceResult, ...]
    config: tuple[AllocationConfiguration, ...] = ()
    node_selector: NodeSelector | None = None
    """Nodes from which the devices can be used; None means all."""

    def to_json(self, share_ids: Callable[[], str]) -> dict[str, object]:
        """The API's JSON object.

        Parameters
        ----------
        share_ids
            Makes a new lower-case UUID at every call; called once for each share.
        """
        devices: dict[str, object] = {}
        if self.results:
            devices["results"] = [result.to_json(share_ids() if result.is_share else None) for result in self.results]
        if self.config:
            devices["config"] = [item.to_json() for item in self.config]
        obj: dict[str, object] = {"devices": devices}
        if self.node_selector is not None:
            obj["nodeSelector"] = self.node_selector.to_json()
        return obj


@dataclass(frozen=True, slots=True, eq=False)
class ChosenDevice:
    """A device the search settled on."""

    alternative: PreparedAlternative
    candidate: Candidate
    consumed: tuple[tuple[str, Quantity], ...] | None
    """What the share consumes; None if the whole device is taken."""


def make_allocation(
    claim: PreparedClaim,
    chosen: Sequence[ChosenDevice],
    alternatives: Sequence[PreparedAlternative],
    node_name: str,
    rules: SchedulerRules,
) -> Allocation:
    """Allocation of one claim.

    Parameters
    ----------
    chosen
        The devices, in the order in which they were taken.
    alternatives
        For each request, what was chosen of it.

    Raises
    ------
    AllocationError
        When the node selector of a device has more than one term.
    """
    return Allocation(
        results=tuple(_make_result(item, rules) for item in chosen),
        config=tuple(
            [
                item if rules.quirks.config_requests_kept else _without_all_requests(item, alternatives)
                for item in (*_class_config(alternatives), *_claim_config(claim.claim, alternatives, rules.quirks))
            ]
        ),
        node_selector=_make_node_selector(claim.claim, [item.candidate for item in chosen], node_name),
    )


def move_allocation(
    known: Allocation, claim: ResourceClaim, candidates: Sequence[Candidate], node_name: str
) -> Allocation:
    """What a claim gets on a node that is like the one of a known allocation: other devices, and else the same.

    Raises
    ------
    AllocationError
        See `make_allocation`.
    """
    return Allocation(
        tuple([_move_result(old, item.device.id) for old, item in zip(known.results, candidates, strict=True)]),
        known.config,
        _make_node_selector(claim, candidates, node_name),
    )


def _move_result(known: DeviceResult, device: DeviceId) -> DeviceResult:
    return DeviceResult(
        known.request,
        device,
        known.admin_access,
        known.is_share,
        known.consumed_capacity,
        known.tolerations,
        known.binding_conditions,
        known.binding_failure_conditions,
    )


def _make_result(chosen: ChosenDevice, rules: SchedulerRules) -> DeviceResult:
    device = chosen.candidate.device
    binding = rules.features.device_binding_and_status
    return DeviceResult(
        request=chosen.alternative.full_name,
        id=device.id,
        admin_access=chosen.alternative.is_admin,
        is_share=chosen.consumed is not None,
        consumed_capacity=dict(chosen.consumed) if chosen.consumed else None,
        tolerations=chosen.alternative.wanted.tolerations,
        binding_conditions=device.binding_conditions if binding else (),
        binding_failure_conditions=device.binding_failure_conditions if binding else (),
    )


def _class_config(alternatives: Iterable[PreparedAlternative]) -> list[AllocationConfiguration]:
    """The configuration of each class once, in the order in which requests name them, for all requests that do."""
    requests_by_class: dict[str, list[str]] = {}
    classes = {}
    for alternative in alternatives:
        classes[alternative.device_class.name] = alternative.device_class
        requests_by_class.setdefault(alternative.device_class.name, []).append(alternative.full_name)
    return [
        AllocationConfiguration(FROM_CLASS, DeviceConfiguration(tuple(requests), item.content))
        for name, requests in requests_by_class.items()
        for item in classes[name].config
    ]


def _claim_config(
    claim: ResourceClaim, alternatives: Sequence[PreparedAlternative], quirks: Quirks
) -> list[AllocationConfiguration]:
    """The claim's configuration: what is for no chosen request is left out; see :class:`Quirks` for repetitions."""
    config = []
    for item in claim.config:
        if not item.requests:
            config.append(AllocationConfiguration(FROM_CLAIM, item))
            continue
        named = [
            alternative.request_name in item.requests or alternative.full_name in item.requests
            for alternative in alternatives
        ]
        if not any(named):
            continue
        times = named.count(True) if quirks.duplicate_claim_configs else 1
        config.extend([AllocationConfiguration(FROM_CLAIM, item)] * times)
    return config


def _without_all_requests(
    item: AllocationConfiguration, alternatives: Sequence[PreparedAlternative]
) -> AllocationConfiguration:
    """The configuration without its list of requests, where it names all of them: an empty list means all."""
    requests = item.configuration.requests
    if not all(each.request_name in requests or each.full_name in requests for each in alternatives):
        return item
    return AllocationConfiguration(item.source, DeviceConfiguration((), item.configuration.content))


def _make_node_selector(claim: ResourceClaim, candidates: Iterable[Candidate], node_name: str) -> NodeSelector | None:
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for candidate in candidates:
        source = candidate.device if candidate.slice.per_device_node_selection else candidate.slice
        if source.node_name is not None or candidate.device.binds_to_node:
            return node_name_selector(node_name)
        terms = source.node_selector.terms if source.node_selector is not None else ()
        if len(terms) > 1:
            raise AllocationError(
                FatalReason.NODE_SELECTOR,
                f"claim {claim}: the node selector of device {candidate.device.id} has {len(terms)} terms, not one",
            )
        for term in terms:
            add_missing(fields, term.match_fields)
            add_missing(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))
