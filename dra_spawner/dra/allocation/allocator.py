"""The structured allocator: which devices a pod's claims get on a node, decided as a release's kube-scheduler decides.

The reference is ``k8s.io/dynamic-resource-allocation`` of each release in `RULES`, package ``structured``. Devices come
first that stand first: pools by driver and name, slices by name, devices as listed. Up to 1.35, and with few features
on up to 1.37, a real scheduler visits pools in random order.

Examples
--------
>>> allocator = Allocator(slices, classes, AllocatedState.from_claims(claims))
>>> match allocator.allocate(node, [claim]):
...     case DoesNotFit(reason=reason):
...         print(f"{node.name}: {reason}")
...     case (allocation,):
...         claim_status["allocation"] = allocation.to_json(lambda: str(uuid.uuid4()))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dra_spawner.dra.allocation.allocated_state import AllocatedState
from dra_spawner.dra.allocation.counters import CounterCache
from dra_spawner.dra.allocation.reasons import ExplainingSearch, NoFitReason
from dra_spawner.dra.allocation.requests import PreparedClaim, prepare_in_order
from dra_spawner.dra.allocation.results import Allocation, make_allocation
from dra_spawner.dra.allocation.search import Search
from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.budget import SearchBudget
from dra_spawner.dra.errors import AllocationError, FatalReason, PoolTrouble
from dra_spawner.dra.model.claims import DeviceClass, ResourceClaim
from dra_spawner.dra.model.devices import ResourceSlice
from dra_spawner.dra.model.node_selector import NodeSelectorError
from dra_spawner.dra.model.objects import Node
from dra_spawner.dra.model.pools import Pool, PoolState, SliceIndex, gather_pools
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, SchedulerRules

__all__ = ["AllocatedState", "Allocation", "AllocationError", "Allocator", "DoesNotFit", "FatalReason", "NoFitKind"]


class NoFitKind(StrEnum):
    """How the scheduler treats the node."""

    NO_SOLUTION = "NoSolution"
    """The devices are not there or not free."""
    INVALID_POOLS = "InvalidPools"
    """As before, but a pool that contradicts itself was passed over: an error, on this node alone."""

    @classmethod
    def of(cls, pools: Iterable[Pool], rules: SchedulerRules) -> NoFitKind:
        """The kind of a search in these pools that found nothing."""
        if rules.quirks.incomplete_pools_used or all(pool.state is not PoolState.INVALID for pool in pools):
            return cls.NO_SOLUTION
        return cls.INVALID_POOLS


@dataclass(frozen=True, slots=True)
class DoesNotFit:
    """The claims cannot be allocated on this node; other nodes may do.

    Attributes
    ----------
    kind
        How the scheduler treats the node.
    reason
        The reason, from the device that came nearest; None if the caller asked for no reason.
    steps
        Steps the search took, a measure of its cost.
    """

    kind: NoFitKind
    reason: NoFitReason | None = None
    steps: int = 0

    def __str__(self) -> str:
        return str(self.reason) if self.reason is not None else "does not fit"


class Allocator:
    """Allocates claims on nodes. Nothing it is given is changed; what is found is for the caller to record.

    One allocator represents one attempt to schedule a pod: counters are computed from ``allocated`` once, when first
    needed. After the slices or the allocated state have changed, make a new one.

    Parameters
    ----------
    slices
        All ResourceSlices of the cluster, or an index of them that several allocators share.
    classes
        DeviceClasses, or a mapping of them by name.
    allocated
        What is taken already.
    rules
        The rules of the cluster's kube-scheduler.
    selectors
        Verdicts of selectors, to be shared by allocators with the same rules.
    """

    def __init__(
        self,
        slices: SliceIndex | Iterable[ResourceSlice],
        classes: Mapping[str, DeviceClass] | Iterable[DeviceClass],
        allocated: AllocatedState,
        rules: SchedulerRules = DEFAULT_RULES,
        *,
        selectors: SelectorCache | None = None,
    ) -> None:
        self._index = slices if isinstance(slices, SliceIndex) else SliceIndex(slices)
        self._classes = classes if isinstance(classes, Mapping) else {item.name: item for item in classes}
        self._allocated = allocated
        self._rules = rules
        self._selectors = selectors or SelectorCache(list_attributes=rules.selectors_see_lists)
        self._counters = CounterCache(allocated, rules)
        self._prepared: tuple[PreparedClaim, ...] | None = None

    def allocate(
        self,
        node: Node,
        claims: Sequence[ResourceClaim],
        *,
        explain: bool = True,
        cancelled: Callable[[], bool] | None = None,
        budget: SearchBudget | None = None,
    ) -> tuple[Allocation, ...] | DoesNotFit:
        """Devices for all claims together, one allocation for each; or why there are none on this node.

        Parameters
        ----------
        node
            Where the pod is to run.
        claims
            Claims without allocation, in the order of the pod's ``spec.resourceClaims``.
        explain
            Determine the reason when they do not fit; costs about a second search.
        cancelled
            Asked at every step of the search; true stops it as kube-scheduler is stopped by a caller's time-out (after
            ten seconds on one node), which is an error of the pod.
        budget
            What the search, which may take exponential time, and finding the reason may cost.

        Raises
        ------
        AllocationError
            When the scheduler would give up on the pod on all nodes.
        SearchStopped
            When the budget is exceeded: there is no verdict.
        """
        prepared = self._prepare(claims)
        try:
            pools = gather_pools(self._index, node, self._rules)
        except NodeSelectorError as error:
            raise AllocationError(FatalReason.NODE_SELECTOR, f"a resource slice's node selector: {error}") from None
        search = Search(*self._search_arguments(prepared, pools, node), cancelled, budget=budget)
        kind = NoFitKind.of(pools, self._rules)
        try:
            if search.run():
                return tuple(self._result(search, index, node) for index in range(len(prepared)))
        except PoolTrouble:
            kind = NoFitKind.INVALID_POOLS
        return DoesNotFit(
            kind,
            ExplainingSearch(*self._search_arguments(prepared, pools, node), budget=budget).explain()
            if explain
            else None,
            search.steps,
        )

    def _search_arguments(
        self, prepared: tuple[PreparedClaim, ...], pools: list[Pool], node: Node
    ) -> tuple[tuple[PreparedClaim, ...], list[Pool], Node, AllocatedState, CounterCache, SchedulerRules]:
        return prepared, pools, node, self._allocated, self._counters, self._rules

    def _prepare(self, claims: Sequence[ResourceClaim]) -> tuple[PreparedClaim, ...]:
        """The claims made ready; one attempt asks for the same ones on every node."""
        known = self._prepared
        if known is None or [item.claim for item in known] != list(claims):
            known = prepare_in_order(claims, self._classes, self._rules, self._selectors)
            self._prepared = known
        return known

    def _result(self, search: Search, index: int, node: Node) -> Allocation:
        claim = search.claims[index]
        alternatives = [
            options[position] for options, position in zip(claim.requests, search.selected[index], strict=True)
        ]
        return make_allocation(claim, search.chosen[index], alternatives, node.name, self._rules)
