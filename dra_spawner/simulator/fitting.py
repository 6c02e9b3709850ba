"""Decides on which nodes of a snapshot one pod fits: node filters and devices together, with a reason for each refusal.

The same filters decide for every pod, also for a pod with a nominated node, or without generated claims yet. A search
for devices that exceeds its budget raises SearchStopped: then it is not known whether the pod fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from dra_spawner.dra.allocation.allocator import Allocation, AllocationError, DoesNotFit, FatalReason, NoFitKind
from dra_spawner.dra.allocation.reasons import NoFitReason
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.dra.model.objects import DeviceClass, ResourceClaim
from dra_spawner.simulator.claim_requirements import ClaimRequirement, claim_requirements, leftover_claim
from dra_spawner.simulator.cluster_state import ClusterState
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim, simulated_name
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.extended_resources import classes_by_resource, extended_resource_claim
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.node_fit import (
    FITS,
    Filter,
    FilterVerdict,
    FitCode,
    NodeFit,
    eligible_nodes,
    named_nodes,
)


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """Whether a pod fits on a node.

    Attributes
    ----------
    verdict
        Verdict of the filters, with the refusing filter and its message.
    reason
        What devices lack, in numbers, if devices are lacking and the caller asked for it.
    allocations
        Allocations of the claims that are not allocated yet; empty unless the pod fits.
    """

    verdict: FilterVerdict
    reason: NoFitReason | None = None
    allocations: tuple[tuple[TrackedClaim, Allocation], ...] = ()

    @property
    def fits(self) -> bool:
        return self.verdict.fits

    def __str__(self) -> str:
        if self.fits:
            return "fits"
        return str(self.reason) if self.reason is not None else "; ".join(self.verdict.reasons)


@dataclass(frozen=True, slots=True)
class PodFit:
    """Whether a pod fits, on each node.

    Attributes
    ----------
    nodes
        Answer by node. Nodes with equal devices share one answer, whose allocations, and the pools that its reason
        names, are those of one of them; an error that names a pool or a device names the node's own.
    general
        A verdict that rules out all nodes at once; None if there is none.
    """

    pod: ObjectKey
    nodes: Mapping[str, NodeAnswer] = field(default_factory=dict)
    general: FilterVerdict | None = None

    @property
    def fitting(self) -> tuple[str, ...]:
        """Nodes where it fits."""
        return tuple(name for name, answer in self.nodes.items() if answer.fits)

    @property
    def error(self) -> FilterVerdict | None:
        """Why the pod gets no node at all: kube-scheduler gives up, or its answer is not known."""
        verdicts = [self.general] if self.general is not None else [answer.verdict for answer in self.nodes.values()]
        return next((verdict for verdict in verdicts if verdict.ends_attempt), None)


_OF_THE_NODE: Final = frozenset(
    (
        Filter.NODE_UNSCHEDULABLE,
        Filter.NODE_NAME,
        Filter.TAINT_TOLERATION,
        Filter.NODE_AFFINITY,
        Filter.NODE_PORTS,
        Filter.NODE_RESOURCES_FIT,
    )
)
#: Errors whose message names a pool or a device.
_OF_ONE_NODE: Final = frozenset(
    (FatalReason.POOL_INCOMPLETE, FatalReason.POOL_INVALID, FatalReason.DEVICE, FatalReason.NODE_SELECTOR)
)
_KNOWN_RESOURCES: Final = frozenset(("cpu", "memory", "ephemeral-storage", "pods"))


class Fitting:
    """Compares one pod and its claims with the nodes of a cluster, which must not change meanwhile."""

    def __init__(self, pod: Pod, state: ClusterState) -> None:
        self.pod = pod
        self._state = state
        self._extended = self._extended_resources()
        requirements = claim_requirements(pod, state)
        self.requirements: tuple[ClaimRequirement, ...] = (
            () if isinstance(requirements, FilterVerdict) else requirements
        )
        self.general = self._general_problem() or (requirements if isinstance(requirements, FilterVerdict) else None)

    def answer(self, node_name: str, explain: bool = False) -> NodeAnswer:
        """Whether the pod fits on one node.

        Parameters
        ----------
        explain
            Whether to say what devices lack; costs about as much as a second search.
        """
        verdict = self._besides_devices(node_name)
        return self._with_devices(node_name, explain) if verdict.fits else NodeAnswer(verdict)

    def answers(self, explain: bool = True) -> PodFit:
        """Whether the pod fits, for all nodes."""
        key = ObjectKey.of(self.pod)
        if self.general is not None:
            return PodFit(key, {name: NodeAnswer(self.general) for name in sorted(self._state.nodes)}, self.general)
        besides = {name: self._besides_devices(name) for name in sorted(self._state.nodes)}
        answers = {name: NodeAnswer(verdict) for name, verdict in besides.items()}
        open_nodes = [name for name, verdict in besides.items() if verdict.fits]
        answers |= self._devices_of_nodes(open_nodes, explain)
        return PodFit(key, answers)

    def token(self, node_name: str) -> object:
        """A value that equals an earlier one only if the pod's verdict on this node is unchanged; None if unknown.

        Only for pods without allocated claims and without conditions on the pods of other nodes.
        """
        if self._extended or self.general is not None or self._state.nominated[node_name]:
            return None
        try:
            devices = self._device_token(node_name) if self._unallocated else ()
        except (AllocationError, KeyError):
            return None
        return self._state.nodes.get(node_name), devices

    def number_of_claims(self) -> int | None:
        """The number of equal unallocated claims; None if tokens depend on more than that."""
        if self._extended or self.general is not None or self._has_allocated or any(self._state.nominated):
            return None
        try:
            return self._state.devices.number_of(self._unallocated) if self._unallocated else 0
        except AllocationError:
            return None

    @cached_property
    def _device_token(self) -> Callable[[str], object]:
        return self._state.devices.tokens(self._unallocated)

    def has_claims_at(self, node_name: str) -> bool:
        """Whether all allocated claims can be used on a node."""
        if not self._has_allocated:
            return True
        node = self._state.nodes[node_name].node
        selectors = (requirement.claim.status.node_selector for requirement in self.requirements)
        return all(each is None or each.matches(node.name, node.labels) for each in selectors)

    def holds(self, node_name: str, verdict: FilterVerdict) -> bool:
        """Whether a refusal holds while the node and its pods are unchanged."""
        return verdict.filter in _OF_THE_NODE and not self._extended and not self._state.nominated[node_name]

    def candidates(self) -> Iterator[str]:
        """Nodes that have the pod's devices, in a fixed order; other filters may still refuse some of them.

        Nodes on which the scheduler would give up come first.
        """
        if self.general is not None:
            return
        claims = self._unallocated
        if self._extended or not claims:
            yield from sorted(self._nodes_of_claims())
            return
        devices = self._state.devices
        failing = devices.failing_nodes(claims)
        yield from failing
        first = devices.first_fitting_node(claims) if len(failing) < len(self._state.nodes) else None
        if first is not None:
            yield first
            # Reached only if another filter refuses the first node.
            for group in devices.verdicts(claims, explain=False):
                if group.stopped is not None:
                    raise group.stopped
                if group.fits:
                    yield from (name for name in group.nodes if name != first)

    def _nodes_of_claims(self) -> Iterable[str]:
        """Nodes that the allocated claims allow by name."""
        names: Iterable[str] = self._state.nodes
        for requirement in self.requirements:
            selector = requirement.claim.status.node_selector
            named = named_nodes(selector) if selector is not None else None
            if named is not None:
                names = [name for name in named if name in names]
        return names

    def _general_problem(self) -> FilterVerdict | None:
        pod = self.pod
        if pod.is_gated:
            return FilterVerdict(
                FitCode.UNRESOLVABLE, None, ("Scheduling is blocked due to non-empty scheduling gates",)
            )
        if pod.is_deleted or pod.is_finished:
            return FilterVerdict(FitCode.UNRESOLVABLE, None, ("the pod has ended or is being deleted",))
        if pod.too_many:
            return _unknown(f"it is not known where the pod may run: it has {pod.too_many}")
        if eligible_nodes(pod) == frozenset():
            return FilterVerdict(FitCode.UNRESOLVABLE, Filter.NODE_AFFINITY, ("pod affinity terms conflict",))
        return None

    def _extended_resources(self) -> frozenset[str]:
        """The extended resources of the pod that a device class provides."""
        names = {name for name, wanted in self.pod.requests.items() if wanted} - _KNOWN_RESOURCES
        return frozenset(names & self._classes.keys()) if names else frozenset()

    @cached_property
    def _classes(self) -> Mapping[str, DeviceClass]:
        return classes_by_resource(self._state.devices.classes.values())

    def _besides_devices(self, name: str) -> FilterVerdict:
        state = self._state.nodes.get(name)
        if state is None:
            broken = self._state.broken.get((Kind.NODE, ObjectKey("", name)))
            return _unknown(str(broken)) if broken is not None else _never(Filter.NODE_NAME, f'node "{name}" not found')
        if self.general is not None:
            return self.general
        nominated_pods = self._nominated_pods(name)
        if nominated_pods:
            with_nominated = state.with_pods(nominated_pods)
            others = [with_nominated if other is state else other for other in self._neighbours]
            verdict = self._node_fit(others if with_nominated in others else [*others, with_nominated]).verdict(
                with_nominated
            )
            if not verdict.fits:
                return verdict
        verdict = self._fit.verdict(state)
        return self._unreadable_pod(name) or verdict if verdict.fits else verdict

    def _nominated_pods(self, name: str) -> list[Pod]:
        """Pods nominated to the node with at least the priority of this one."""
        key = ObjectKey.of(self.pod)
        nominated = [self._state.pods[other] for other in self._state.nominated[name] if other != key]
        return [other for other in nominated if other.priority >= self.pod.priority]

    @cached_property
    def _neighbours(self) -> list[NodeState]:
        """The nodes whose pods may affect the verdict on this pod."""
        pod, nodes = self.pod, self._state.nodes
        if pod.required_affinity or pod.required_anti_affinity or pod.spread_constraints:
            return list(nodes.values())
        return [nodes[name] for name in self._state.anti_affinity_pods if name in nodes]

    @cached_property
    def _fit(self) -> NodeFit:
        return self._node_fit(self._neighbours)

    def _node_fit(self, nodes: Sequence[NodeState]) -> NodeFit:
        return NodeFit(self.pod, nodes, self._extended, devices_follow=True)

    def _unreadable_pod(self, node_name: str) -> FilterVerdict | None:
        """The verdict if a pod on the node is invalid, as its requests are not known; None otherwise."""
        for broken in self._state.broken.values():
            if broken.kind is Kind.POD and broken.node_name == node_name:
                return _unknown(str(broken))
        return None

    def _to_allocate(self, by_devices: frozenset[str]) -> list[ResourceClaim]:
        """Unallocated claims, with a claim for the extended resources that devices provide on the node."""
        if not by_devices:
            return self._unallocated
        return [*self._unallocated, extended_resource_claim(self.pod, by_devices, self._classes)]

    @cached_property
    def _has_allocated(self) -> bool:
        return any(requirement.claim.status.node_selector is not None for requirement in self.requirements)

    @cached_property
    def _unallocated(self) -> list[ResourceClaim]:
        return [requirement.claim for requirement in self.requirements if not requirement.claim.is_allocated]

    def _devices_of_nodes(self, names: Sequence[str], explain: bool) -> dict[str, NodeAnswer]:
        """Answers of nodes that pass all other filters."""
        if self._extended or len(names) < 2:
            return {name: self._with_devices(name, explain) for name in names}
        claims = self._unallocated
        answers: dict[str, NodeAnswer] = {}
        wanted = set(names)
        try:
            groups = self._state.devices.verdicts(claims, explain) if claims else ()
        except AllocationError as error:
            return dict.fromkeys(names, self._devices_answer(error, claims))
        for group in groups:
            if isinstance(group.verdict, AllocationError) and group.verdict.reason in _OF_ONE_NODE:
                answers |= {name: self._with_devices(name, explain) for name in group.nodes if name in wanted}
                continue
            answer = self._devices_answer(group.verdict, claims)
            answers |= {name: answer for name in group.nodes if name in wanted}
        fitting = NodeAnswer(FITS)
        return {name: self._check_claim_nodes(name, answers.get(name, fitting)) for name in names}

    def _with_devices(self, name: str, explain: bool) -> NodeAnswer:
        """The answer of one node that passes all other filters."""
        by_devices = self._fit.needs_devices(self._state.nodes[name])
        leftover = leftover_claim(self.pod, self._state) if self._extended else None
        if leftover is not None and leftover.claim.requests:
            return NodeAnswer(_never(Filter.DYNAMIC_RESOURCES, "cannot schedule extended resource claim"))
        claims = self._to_allocate(by_devices)
        answer = NodeAnswer(FITS)
        if claims:
            found: tuple[Allocation, ...] | DoesNotFit | AllocationError
            try:
                found = self._state.devices.allocate(name, claims, explain)
            except AllocationError as error:
                found = error
            answer = self._devices_answer(found, claims)
        return self._check_claim_nodes(name, answer)

    def _devices_answer(
        self,
        found: tuple[Allocation, ...] | DoesNotFit | AllocationError | SearchStopped,
        claims: Sequence[ResourceClaim],
    ) -> NodeAnswer:
        if isinstance(found, SearchStopped):
            raise found
        if isinstance(found, AllocationError):
            is_unknown = found.reason is FatalReason.SELECTOR_UNSUPPORTED
            code = FitCode.UNDECIDABLE if is_unknown else FitCode.ERROR
            return NodeAnswer(FilterVerdict(code, Filter.DYNAMIC_RESOURCES, (str(found),)))
        if isinstance(found, DoesNotFit):
            invalid = found.kind is NoFitKind.INVALID_POOLS
            words = "invalid resource pools were encountered" if invalid else "cannot allocate all claims"
            return NodeAnswer(_never(Filter.DYNAMIC_RESOURCES, words), found.reason)
        tracked = {requirement.claim.name: requirement.tracked for requirement in self.requirements}
        return NodeAnswer(
            FITS,
            allocations=tuple(
                (tracked.get(claim.name) or self._extended_claim(claim), allocation)
                for claim, allocation in zip(claims, found, strict=True)
            ),
        )

    def _extended_claim(self, claim: ResourceClaim) -> TrackedClaim:
        named = replace(claim, name=simulated_name(self.pod, claim.name), uid=f"{self.pod.uid}/{claim.name}")
        return TrackedClaim.created_for(self.pod, "", named)

    def _check_claim_nodes(self, name: str, answer: NodeAnswer) -> NodeAnswer:
        """The answer after checking the node selectors of allocated claims, too."""
        if answer.fits and not self.has_claims_at(name):
            return NodeAnswer(_never(Filter.DYNAMIC_RESOURCES, "resourceclaim not available on the node"))
        return answer


def _never(judge: Filter, reason: str) -> FilterVerdict:
    return FilterVerdict(FitCode.UNRESOLVABLE, judge, (reason,))


def _unknown(reason: str) -> FilterVerdict:
    return FilterVerdict(FitCode.UNDECIDABLE, Filter.NOT_MODELLED, (reason,))
