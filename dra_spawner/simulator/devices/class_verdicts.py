"""Verdicts that hold for every node of a class: they give positions of devices instead of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from dra_spawner.dra.allocation.allocated_state import AllocatedState
from dra_spawner.dra.allocation.allocator import Allocation, AllocationError, DoesNotFit, FatalReason, NoFitKind
from dra_spawner.dra.allocation.counters import CounterCache
from dra_spawner.dra.allocation.reasons import ExplainingSearch, NoFitReason, RefusalKind
from dra_spawner.dra.allocation.requests import PreparedClaim
from dra_spawner.dra.allocation.results import make_allocation, move_allocation
from dra_spawner.dra.allocation.search import Search
from dra_spawner.dra.budget import SearchBudget, SearchStopped
from dra_spawner.dra.errors import PoolTrouble
from dra_spawner.dra.model.claims import ResourceClaim
from dra_spawner.dra.model.pools import PoolState
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.simulator.devices.pool_views import NodeView

Position = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Fits:
    """The claims fit, with the devices of each."""

    chosen: tuple[tuple[Position, ...], ...]
    """Positions of each claim's devices."""
    view: NodeView
    """The node of the search."""
    allocations: tuple[Allocation, ...]
    """The allocations on that node."""


@dataclass(frozen=True, slots=True, eq=False)
class Misfit:
    """The claims do not fit."""

    kind: NoFitKind
    steps: int


@dataclass(frozen=True, slots=True, eq=False)
class Reason:
    """Why the claims do not fit, with the position of the nearest device."""

    reason: NoFitReason | None
    position: Position | None


@dataclass(frozen=True, slots=True, eq=False)
class Fatal:
    """The scheduler would give up on the pod, with a message for each node."""

    reason: FatalReason
    message: str

    @property
    def is_general(self) -> bool:
        """Whether the message holds for all nodes and claims."""
        return self.reason is FatalReason.ABORTED


@dataclass(frozen=True, slots=True, eq=False)
class Stopped:
    """No verdict, as the search exceeded its budget. Not cached, as another search may have a larger budget."""

    error: SearchStopped


ClassVerdict = Fits | Misfit | Fatal


class Judge:
    """Searches on a node's view, and translates the outcome to other nodes of the same class."""

    def __init__(self, allocated: AllocatedState, rules: SchedulerRules, max_steps: int | None = None) -> None:
        self._allocated = allocated
        self._rules = rules
        self._max_steps = max_steps

    def counters(self) -> CounterCache:
        """Remaining counters, as one attempt to place a pod caches them."""
        return CounterCache(self._allocated, self._rules)

    def judge(
        self,
        view: NodeView,
        claims: tuple[PreparedClaim, ...],
        counters: CounterCache,
        budget: SearchBudget | None = None,
    ) -> ClassVerdict:
        """Verdict on the node and on all nodes of its class.

        Raises
        ------
        SearchStopped
            When the budget is exceeded.
        """
        try:
            return self.find(view, claims, counters, budget)
        except AllocationError as error:
            return Fatal(error.reason, str(error))

    def find(
        self,
        view: NodeView,
        claims: tuple[PreparedClaim, ...],
        counters: CounterCache,
        budget: SearchBudget | None = None,
    ) -> Fits | Misfit:
        """Like `judge`, but raises AllocationError if the scheduler would give up on the pod."""
        if view.error:
            raise AllocationError(FatalReason.NODE_SELECTOR, view.error)
        steps, limit = count(1), self._max_steps
        cancelled = (lambda: next(steps) > limit) if limit is not None else None
        search = Search(
            claims,
            view.pools,
            view.node,
            self._allocated,
            counters,
            self._rules,
            cancelled,
            budget=budget,
        )
        try:
            if not search.run():
                return Misfit(NoFitKind.of(view.pools, self._rules), search.steps)
        except PoolTrouble:
            return Misfit(NoFitKind.INVALID_POOLS, search.steps)
        alternatives = [
            [options[at] for options, at in zip(claim.requests, selected, strict=True)]
            for claim, selected in zip(claims, search.selected, strict=True)
        ]
        allocations = [
            make_allocation(claim, chosen, options, view.node.name, self._rules)
            for claim, chosen, options in zip(claims, search.chosen, alternatives, strict=True)
        ]
        positions = [tuple([view.position(item.candidate) for item in chosen]) for chosen in search.chosen]
        return Fits(tuple(positions), view, tuple(allocations))

    def allocations(self, fits: Fits, view: NodeView, claims: Sequence[PreparedClaim]) -> tuple[Allocation, ...]:
        """The allocations of the claims on this node.

        Raises
        ------
        AllocationError
            When a device's node selector cannot be part of an allocation.
        """
        if view is fits.view:
            return fits.allocations
        return tuple(
            [
                move_allocation(known, claim.claim, [view.candidate(item) for item in chosen], view.node.name)
                for known, claim, chosen in zip(fits.allocations, claims, fits.chosen, strict=True)
            ]
        )

    def explain(
        self,
        view: NodeView,
        claims: tuple[PreparedClaim, ...],
        counters: CounterCache,
        budget: SearchBudget | None = None,
    ) -> Reason:
        """Why the claims do not fit on the node and on its class, within the budget."""
        reason = ExplainingSearch(
            claims, view.pools, view.node, self._allocated, counters, self._rules, budget=budget
        ).explain()
        device = reason.nearest.device if reason is not None else None
        return Reason(reason, view.positions()[device] if device is not None else None)


def no_fit(misfit: Misfit, why: Reason | None, view: NodeView, claims: Sequence[ResourceClaim]) -> DoesNotFit:
    """The verdict with the names of this node and these claims."""
    reason = why.reason if why is not None else None
    if why is None or reason is None:
        return DoesNotFit(misfit.kind, None, misfit.steps)
    nearest = reason.nearest
    if why.position is not None:
        nearest = replace(nearest, device=view.candidate(why.position).device.id)
    elif nearest.kind is RefusalKind.POOL_INVALID:
        pool = next(pool for pool in view.pools if pool.state is PoolState.INVALID)
        nearest = replace(nearest, subject=f"{pool.id} is invalid: {pool.problem}")
    elif nearest.kind is RefusalKind.POOL_INCOMPLETE:
        pool = next(pool for pool in view.pools if pool.state is PoolState.INCOMPLETE)
        nearest = replace(nearest, subject=str(pool.id))
    return DoesNotFit(misfit.kind, replace(reason, claim=str(claims[int(reason.claim)]), nearest=nearest), misfit.steps)
