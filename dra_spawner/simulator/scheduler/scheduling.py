"""One attempt to place a pod, as kube-scheduler 1.36 decides: from a view of the cluster to a decision.

Nothing is written or stored here; the caller executes a `ChosenNode`, or passes an `Unschedulable` to
`dra_spawner.simulator.scheduler.scheduler_preemption.resolve`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from dra_spawner.dra.allocation.allocator import (
    AllocatedState,
    Allocation,
    AllocationError,
    Allocator,
    DoesNotFit,
    FatalReason,
)
from dra_spawner.dra.allocation.allocator import NoFitKind as NoDevices
from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.budget import SearchBudget, SearchStopped
from dra_spawner.dra.model.extended_resources import ExtendedRequests, classes_by_resource, extended_requests
from dra_spawner.dra.model.node_selector import NodeSelectorError
from dra_spawner.dra.model.objects import DeviceClass, ResourceClaim
from dra_spawner.dra.model.pools import SliceIndex
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, SchedulerRules
from dra_spawner.simulator.model.extended_resources import EXTENDED_RESOURCE_CLAIM
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.node_fit import FITS, Filter, FilterVerdict, FitCode, NodeFit, eligible_nodes
from dra_spawner.simulator.scheduler.node_score import best_nodes

T = TypeVar("T")
Choose = Callable[[Sequence[T]], T]
"""Picks one of several equally good items; the scheduler does so at random."""

_MAX_ALTERNATIVES: Final = 8


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All objects that decide where a pod runs, at one moment."""

    nodes: Sequence[NodeState]
    slices: SliceIndex
    classes: Mapping[str, DeviceClass]
    allocated: AllocatedState
    nominated: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    """Pods with a nominated node, by node name."""
    selectors: SelectorCache | None = None
    """Cached verdicts of CEL selectors, shared by all attempts."""
    rules: SchedulerRules = DEFAULT_RULES


@dataclass(frozen=True, slots=True)
class SchedulingQuestion:
    """A pod to place, with its claims.

    Attributes
    ----------
    claims
        Its ResourceClaims, in the order of ``spec.resourceClaims``.
    problem
        Problem of its claims or volumes that rules out all nodes, in kube-scheduler's words; empty if there is none.
    problem_filter
        The filter that finds the problem.
    leftover
        A claim for its extended resources that an earlier attempt has left behind.
    """

    pod: Pod
    claims: tuple[ResourceClaim, ...] = ()
    problem: str = ""
    problem_filter: Filter = Filter.DYNAMIC_RESOURCES
    leftover: ResourceClaim | None = None


@dataclass(frozen=True, slots=True)
class ChosenNode:
    """The node for the pod, and the allocations of its claims there."""

    node_name: str
    allocations: tuple[tuple[ResourceClaim, Allocation], ...] = ()
    """Allocations of the claims that are not allocated yet."""
    extended: tuple[ExtendedRequests, Allocation] | None = None
    """The claim to create for the pod's extended resources, and its allocation; None if none is needed."""


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """The pod fits on no node at present.

    Attributes
    ----------
    verdicts
        Verdicts by node name, without nodes that were not evaluated.
    not_evaluated
        Why some nodes were not evaluated.
    general
        Reason that rules out all nodes at once; empty if there is none.
    unavailable
        Claims that are allocated for other nodes.
    leftover
        See `SchedulingQuestion`.
    """

    node_count: int
    verdicts: Mapping[str, FilterVerdict] = field(default_factory=dict)
    not_evaluated: str = ""
    general: str = ""
    filters: frozenset[Filter] = frozenset()
    unavailable: tuple[ResourceClaim, ...] = ()
    leftover: ResourceClaim | None = None

    @property
    def no_nodes(self) -> bool:
        return self.node_count == 0

    def message(self, attempts: str = "") -> str:
        """The message that kube-scheduler writes.

        Parameters
        ----------
        attempts
            Result of freeing capacity, as in `Resolution.message`.
        """
        if self.no_nodes:
            return "no nodes available to schedule pods"
        text = nodes_message(self.node_count, self.verdicts, self.not_evaluated, self.general)
        return f"{text} {attempts}" if attempts else text


@dataclass(frozen=True, slots=True)
class Failure:
    """The attempt failed without a verdict on the nodes; kube-scheduler retries it later."""

    message: str


Decision = ChosenNode | Unschedulable | Failure


def nodes_message(
    node_count: int, verdicts: Mapping[str, FilterVerdict], not_evaluated: str = "", general: str = ""
) -> str:
    """kube-scheduler's summary of verdicts: ``0/4 nodes are available: 2 Insufficient cpu, 2 …``."""
    text = f"0/{node_count} nodes are available:"
    if general:
        return f"{text} {general}."
    counts = Counter(reason for verdict in verdicts.values() for reason in verdict.reasons)
    if not_evaluated and len(verdicts) < node_count:
        counts[not_evaluated] += node_count - len(verdicts)
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"{text} {', '.join(reasons)}." if reasons else text


class SchedulingAttempt:
    """One attempt to place one pod.

    Parameters
    ----------
    question
        The pod and its claims.
    choose
        Picks one of several equally good nodes.
    budget
        Limit of searches for devices on all nodes, preemption included. When it is exceeded, the attempt fails, as in
        kube-scheduler after ten seconds on one node (gate DRASchedulerFilterTimeout).
    """

    def __init__(
        self,
        view: ClusterView,
        question: SchedulingQuestion,
        choose: Choose[NodeState],
        budget: SearchBudget | None = None,
    ) -> None:
        self.view = view
        self.question = question
        self._choose = choose
        self._budget = budget
        self._allocator = Allocator(view.slices, view.classes, view.allocated, view.rules, selectors=view.selectors)
        self._to_allocate = [claim for claim in question.claims if not claim.is_allocated]
        # Most pods have no extended resources, and then the classes are not needed.
        extended = frozenset(name for name, amount in question.pod.requests.items() if amount and "/" in name)
        self._classes = classes_by_resource(view.classes.values()) if extended else {}
        self._by_devices = extended & self._classes.keys()
        self._fit = self._node_fit(view.nodes)
        self._unavailable: dict[str, ResourceClaim] = {}
        self._found: dict[str, tuple[Allocation, ...]] = {}
        self._extended: dict[str, ExtendedRequests] = {}

    def decide(self) -> Decision:
        """Find the node, or why there is none."""
        if not self.view.nodes:
            return Unschedulable(0)
        refusal = self._before_any_node()
        if refusal is not None:
            return refusal
        try:
            return self._nominated() or self._search()
        except AllocationError as error:
            return Failure(fatal_message(error))

    def node_verdict(self, state: NodeState, nodes: Sequence[NodeState]) -> FilterVerdict:
        """Verdict of all filters on a node, first with, then without the pods that are nominated to it.

        Parameters
        ----------
        nodes
            All nodes, including this one.

        Raises
        ------
        AllocationError
            When the scheduler would give up on the pod.
        """
        pod = self.question.pod
        nominated_pods = [
            other
            for other in self.view.nominated.get(state.node.name, ())
            if other.priority >= pod.priority and other.uid != pod.uid
        ]
        if nominated_pods:
            with_nominated = state.with_pods(nominated_pods)
            verdict = self._verdict(with_nominated, [with_nominated if other is state else other for other in nodes])
            if not verdict.fits:
                return verdict
        return self._verdict(state, nodes)

    def _before_any_node(self) -> Unschedulable | None:
        """A reason that rules out all nodes at once; None if there is none."""
        question, count = self.question, len(self.view.nodes)
        if eligible_nodes(question.pod) == frozenset():
            general, refusing = "pod affinity terms conflict", Filter.NODE_AFFINITY
        elif question.problem:
            general, refusing = question.problem, question.problem_filter
        else:
            general, refusing = self._missing_class(), Filter.DYNAMIC_RESOURCES
        return Unschedulable(count, general=general, filters=frozenset((refusing,))) if general else None

    def _missing_class(self) -> str:
        for claim in self._to_allocate:
            for request in claim.requests:
                for alternative in request.alternatives:
                    if alternative.device_class_name not in self.view.classes:
                        name = f"{request.name}/{alternative.name}" if request.first_available else request.name
                        return f"request {name}: device class {alternative.device_class_name} does not exist"
        return ""

    def _nominated(self) -> ChosenNode | None:
        """The pod's nominated node, if it fits there now."""
        name = self.question.pod.nominated_node_name
        for state in self.view.nodes:
            if name and state.node.name == name and self.node_verdict(state, self.view.nodes).fits:
                return self._chosen_node(state)
        return None

    def _search(self) -> Decision:
        names = eligible_nodes(self.question.pod)
        eligible = [state for state in self.view.nodes if names is None or state.node.name in names]
        verdicts = {state.node.name: self.node_verdict(state, self.view.nodes) for state in eligible}
        candidates = [state for state in eligible if verdicts[state.node.name].fits]
        if candidates:
            scores = {state.node.name: self._device_score(state.node.name) for state in candidates}
            return self._chosen_node(self._choose(best_nodes(self.question.pod, self.view.nodes, candidates, scores)))
        filters = {verdict.filter for verdict in verdicts.values() if verdict.filter is not None}
        return Unschedulable(
            len(self.view.nodes),
            verdicts,
            not_evaluated="" if names is None else "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            filters=frozenset(filters if names is None else {*filters, Filter.NODE_AFFINITY}),
            unavailable=tuple(self._unavailable.values()),
            leftover=self.question.leftover if self._by_devices else None,
        )

    def _chosen_node(self, state: NodeState) -> ChosenNode:
        name = state.node.name
        allocations, extended = self._found.get(name, ()), None
        if name in self._extended:
            *rest, special = allocations
            allocations, extended = tuple(rest), (self._extended[name], special)
        return ChosenNode(name, tuple(zip(self._to_allocate, allocations, strict=True)), extended)

    def _node_fit(self, nodes: Sequence[NodeState]) -> NodeFit:
        return NodeFit(self.question.pod, nodes, self._by_devices, devices_follow=True)

    def _verdict(self, state: NodeState, nodes: Sequence[NodeState]) -> FilterVerdict:
        fit = self._fit if nodes is self.view.nodes else self._node_fit(nodes)
        verdict = fit.verdict(state)
        return self._devices(state) if verdict.fits else verdict

    def _devices(self, state: NodeState) -> FilterVerdict:
        """Verdict on the claims: whether they are, or can be, allocated on a node."""
        if self._by_devices and self.question.leftover is not None:
            return _no("cannot schedule extended resource claim")
        elsewhere = [claim for claim in self.question.claims if not _usable_from(claim, state)]
        to_allocate = [*self._to_allocate, *self._special_claims(state)]
        if to_allocate:
            try:
                found = self._allocator.allocate(state.node.identity, to_allocate, explain=False, budget=self._budget)
            except SearchStopped:
                problem = f"node {state.node.name}: timed out trying to allocate devices"
                raise AllocationError(FatalReason.ABORTED, problem) from None
            if isinstance(found, DoesNotFit):
                invalid = found.kind is NoDevices.INVALID_POOLS
                return _no("invalid resource pools were encountered" if invalid else "cannot allocate all claims")
            if any(result.binding_conditions for allocation in found for result in allocation.results):
                reason = "node(s) about which this scheduler cannot decide: it does not wait for binding conditions"
                return FilterVerdict(FitCode.UNDECIDABLE, Filter.NOT_MODELLED, (reason,))
            self._found[state.node.name] = found
        if elsewhere:
            self._unavailable |= {claim.name: claim for claim in elsewhere}
            return _no("resourceclaim not available on the node")
        return FITS

    def _special_claims(self, state: NodeState) -> list[ResourceClaim]:
        """The claim for the extended resources that devices must provide on a node; empty if there are none."""
        names = self._fit.needs_devices(state)
        # If the pod has claims of its own, the scheduler creates an empty claim, and binding fails.
        if not names and not (self._by_devices and self.question.claims):
            return []
        pod = self.question.pod
        extended = self._extended[state.node.name] = extended_requests(pod.containers, names, self._classes)
        return [ResourceClaim(EXTENDED_RESOURCE_CLAIM, pod.namespace, requests=extended.requests)]

    def _device_score(self, node_name: str) -> int:
        """Score of the alternatives that the claims get on this node."""
        score = 0
        found = dict(zip((claim.name for claim in self._to_allocate), self._found.get(node_name, ()), strict=False))
        for claim in self.question.claims:
            if claim.name in found:
                given = {result.request for result in found[claim.name].results}
            else:
                given = {device.request for device in claim.status.devices or ()}
            for request in claim.requests:
                for position, alternative in enumerate(request.first_available):
                    if f"{request.name}/{alternative.name}" in given:
                        score += _MAX_ALTERNATIVES - position
        return score


def fatal_message(error: AllocationError) -> str:
    """kube-scheduler's message about an error that stops an attempt."""
    prefix = 'running "DynamicResources" filter plugin: '
    if error.reason is FatalReason.SELECTOR_UNSUPPORTED:
        prefix = "this scheduler cannot decide: "
    return f"{prefix}{error}"


def _usable_from(claim: ResourceClaim, state: NodeState) -> bool:
    selector = claim.status.node_selector
    try:
        return selector is None or selector.matches(state.node.name, state.node.labels)
    except NodeSelectorError as error:
        raise AllocationError(FatalReason.NODE_SELECTOR, f"claim {claim}: {error}") from None


def _no(reason: str) -> FilterVerdict:
    return FilterVerdict(FitCode.UNRESOLVABLE, Filter.DYNAMIC_RESOURCES, (reason,))
