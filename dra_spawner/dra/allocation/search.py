"""The search: depth first, the first complete solution wins, nothing is scored.

Order decides everything: claims and requests as listed, alternatives of ``firstAvailable`` as listed, devices as
:func:`~dra_spawner.dra.model.pools.gather_pools` orders them. A later request that cannot be served sends the search
back to the devices and alternatives of earlier ones.

The recursion runs on a stack of generators: each step of the search yields the step that comes after it and is sent
that step's outcome, so its depth is not limited by Python's own stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final

from dra_spawner.dra.allocation.allocated_state import AllocatedState
from dra_spawner.dra.allocation.constraints import Constraint, make_constraint
from dra_spawner.dra.allocation.counters import CounterCache, CounterUse
from dra_spawner.dra.allocation.requests import MAX_DEVICES_PER_CLAIM, PreparedAlternative, PreparedClaim
from dra_spawner.dra.allocation.results import ChosenDevice
from dra_spawner.dra.allocation.search_steps import StepOutcome, TakenDevice
from dra_spawner.dra.budget import SearchBudget
from dra_spawner.dra.errors import AllocationError, FatalReason, PoolTrouble
from dra_spawner.dra.model.consumable_capacity import Share, ShareError, ShareRefused, shortage
from dra_spawner.dra.model.devices import Device, DeviceId
from dra_spawner.dra.model.node_selector import NodeSelectorError
from dra_spawner.dra.model.objects import Node
from dra_spawner.dra.model.pools import Candidate, Pool, PoolState, selects_node
from dra_spawner.dra.model.taints import blocking_taint
from dra_spawner.dra.scheduler_rules import SchedulerRules

__all__ = ["Search", "StepOutcome"]


Step = Generator["Step", StepOutcome, StepOutcome]

Asked = dict[tuple[DeviceId, int, int, int], bool]
"""Verdicts of selectors by device, claim, request and alternative."""

# What costs about as much as one step: looking at so many devices. Checking a constraint costs two of these looks.
_LOOKS_OF_A_STEP: Final = 16
_LOOKS_OF_A_CONSTRAINT: Final = 2
_MAX_LOOKS_UNPAID: Final = 1024


class Search:
    """One attempt to allocate claims on one node. Attributes are for reading, while and after it runs.

    Attributes
    ----------
    candidates
        Devices of usable pools, in the order in which they are tried.
    chosen
        For each claim, the devices taken so far.
    selected
        For each claim, the position of the alternative chosen of each request.
    steps
        Steps taken; equals the reference's ``NumAllocateOneInvocations``.
    """

    def __init__(
        self,
        claims: Sequence[PreparedClaim],
        pools: Sequence[Pool],
        node: Node,
        allocated: AllocatedState,
        counters: CounterCache,
        rules: SchedulerRules,
        cancelled: Callable[[], bool] | None = None,
        *,
        budget: SearchBudget | None = None,
    ) -> None:
        self.claims = claims
        self.pools = pools
        self.node = node
        self.allocated = allocated
        self.features = rules.features
        self.quirks = rules.quirks
        self.counters = CounterUse(counters)
        self.candidates: list[Candidate] = []
        self._fatal_pool: Pool | None = None
        for pool in pools:
            if pool.state is PoolState.USABLE or (self.quirks.incomplete_pools_used and pool.slices):
                self.candidates += pool.candidates()
            elif self.quirks.incomplete_pools_used and self._fatal_pool is None:
                self._fatal_pool, self._end = pool, len(self.candidates)
        if self._fatal_pool is None:
            self._end = len(self.candidates)
        self.chosen: list[list[ChosenDevice]] = [[] for _ in claims]
        self.selected: list[list[int]] = [[0] * len(claim.requests) for claim in claims]
        self.steps = 0
        self.taken: dict[DeviceId, list[int]] = {}
        self.consumed: dict[DeviceId, dict[str, int]] = {}
        self.constraints: list[list[Constraint]] = [
            [constraint for item in claim.claim.constraints if (constraint := make_constraint(item, rules)) is not None]
            for claim in claims
        ]
        self._cancelled = cancelled
        self._budget = budget
        self._looks = 0
        self._asked: Asked | None = None
        if rules.quirks.alternatives_mixed_up and any(len(each) > 1 for claim in claims for each in claim.requests):
            self._asked = {}
        self._all_candidates: dict[PreparedAlternative, list[Candidate]] = {}

    def run(self) -> bool:
        """Search; True when a solution is found, which is then in ``chosen`` and ``selected``.

        Raises
        ------
        AllocationError
            When the claims cannot be allocated on any node, or the caller cancelled the search.
        PoolTrouble
            When they cannot be allocated on this node, because of a pool's state.
        SearchStopped
            When the budget is exceeded.
        """
        self._count_devices()
        self._asked = None
        stack: list[Step] = [self._request(0, 0)]
        outcome: StepOutcome | None = None
        while stack:
            if outcome is None:
                self.steps += 1
                if self._cancelled is not None and self._cancelled():
                    raise AllocationError(FatalReason.ABORTED, "the search was stopped")
                self._pay(1)
            try:
                # A generator that has not started must be sent None.
                following = next(stack[-1]) if outcome is None else stack[-1].send(outcome)
            except StopIteration as stop:
                stack.pop()
                outcome = stop.value
                if outcome is StepOutcome.FOUND:
                    return True
            else:
                stack.append(following)
                outcome = None
        if outcome is StepOutcome.OVER_LIMIT:
            raise AllocationError(FatalReason.TOO_MANY_DEVICES, "a claim needs more devices than it may have")
        return False

    def _pay(self, steps: int) -> None:
        """Spend these steps of the budget, and what looking at devices has cost since the last time."""
        if self._budget is not None:
            self._budget.spend(steps + self._looks // _LOOKS_OF_A_STEP)
            self._looks %= _LOOKS_OF_A_STEP

    def count(self, alternative: PreparedAlternative) -> int:
        """How many devices the request wants on this node."""
        if alternative.takes_all:
            return len(self._all_candidates[alternative])
        return alternative.wanted.count

    def is_taken(self, alternative: PreparedAlternative, device: DeviceId) -> bool:
        """Whether the whole device is in use for this request."""
        holders = self.taken.get(device)
        if alternative.is_admin:
            return holders is not None and alternative.claim_index in holders
        return holders is not None or self.allocated.is_taken(device)

    def is_shared_still(self, alternative: PreparedAlternative, device: Device) -> bool:
        """Whether shares are in use of a device that is not shared any more."""
        if device.is_shared or alternative.is_admin or self.quirks.shares_of_whole_devices_ignored:
            return False
        return self.allocated.has_shares(device.id)

    def selects(self, alternative: PreparedAlternative, candidate: Candidate) -> bool:
        """Whether the request's selectors select the device, and the device may be used on this node."""
        if self._asked is not None:
            return self._asked_before(self._asked, alternative, candidate)
        device = candidate.device
        if device.binding_conditions and not self.features.device_binding_and_status:
            return False
        if not alternative.selects(device.description):
            return False
        if not candidate.slice.per_device_node_selection:
            return True
        try:
            return selects_node(self.node, device.node_name, device.all_nodes, device.node_selector)
        except NodeSelectorError as error:
            raise AllocationError(FatalReason.NODE_SELECTOR, f"device {device.id}: {error}") from None

    def _asked_before(self, asked: Asked, alternative: PreparedAlternative, candidate: Candidate) -> bool:
        """The verdict that is remembered for the request's alternative, see `Quirks.alternatives_mixed_up`."""
        place = self.claims[alternative.claim_index].requests[alternative.request_index].index(alternative)
        key = (candidate.device.id, alternative.claim_index, alternative.request_index, max(place - 1, 0))
        if key not in asked:
            self._asked = None
            asked[key] = self.selects(alternative, candidate)
            self._asked = asked
        return asked[key]

    def has_capacity(self, alternative: PreparedAlternative, candidate: Candidate) -> bool:
        """Whether the device has what the request would consume."""
        device = candidate.device
        if device.defect:
            raise AllocationError(FatalReason.DEVICE, f"device {device.id}: {device.defect}")
        share = alternative.share(device.description)
        if not isinstance(share, Share):
            return self._never_has_capacity(alternative, device.id, share)
        return shortage(share, self.allocated.consumed_capacity(device.id), self.consumed.get(device.id)) is None

    def _never_has_capacity(
        self, alternative: PreparedAlternative, device: DeviceId, share: ShareRefused | ShareError
    ) -> bool:
        if isinstance(share, ShareError):
            raise AllocationError(FatalReason.SIZE, f"{alternative}: device {device}: {share}")
        return False

    def _may_be_all(self, alternative: PreparedAlternative, candidate: Candidate) -> bool:
        """Whether the device counts among all devices that the request wants."""
        if not self.features.consumable_capacity:
            return True
        if self.quirks.all_leaves_out_full_devices:
            return self.has_capacity(alternative, candidate)
        device = candidate.device
        if device.defect:
            raise AllocationError(FatalReason.DEVICE, f"device {device.id}: {device.defect}")
        share = alternative.share(device.description)
        if not isinstance(share, Share):
            return self._never_has_capacity(alternative, device.id, share)
        return shortage(share, None, None) is None

    def skips_counters(self, candidate: Candidate) -> bool:
        """Whether the device's counters are paid already, by an earlier share."""
        device = candidate.device
        if not (self.features.consumable_capacity and device.is_shared):
            return False
        if self.allocated.consumed_capacity(device.id) is not None or device.id in self.consumed:
            return True
        return not self.quirks.uncounted_shares_pay_again and self.allocated.has_shares(device.id)

    def on_exhausted(self, alternative: PreparedAlternative, position: int, only: Candidate | None = None) -> None:
        """Called where no device (or not the one that must be taken) could be taken as number ``position``."""

    def on_pool_trouble(self, alternative: PreparedAlternative, pool: Pool) -> None:
        """Called where a request wants all devices and this pool is incomplete or invalid."""

    def on_over_limit(self, alternative: PreparedAlternative, position: int) -> None:
        """Called where a claim would get more devices than it may have."""

    def _count_devices(self) -> None:
        """Settle which devices "all" means, and refuse claims that need too many devices in any case."""
        for claim in self.claims:
            minimum = 0
            for alternatives in claim.requests:
                for alternative in alternatives:
                    if alternative.takes_all:
                        self._all_candidates[alternative] = self._find_all(alternative)
                minimum += min(map(self.count, alternatives), default=0)
                if minimum > MAX_DEVICES_PER_CLAIM:
                    raise AllocationError(
                        FatalReason.TOO_MANY_DEVICES,
                        f"claim {claim.claim}: needs {minimum} devices, and {MAX_DEVICES_PER_CLAIM} is the limit",
                    )
            if claim.problem is not None:
                raise AllocationError(*claim.problem)

    def _find_all(self, alternative: PreparedAlternative) -> list[Candidate]:
        troubled = next((pool for pool in self.pools if pool.state is not PoolState.USABLE), None)
        if troubled is not None and self.quirks.pool_trouble_ends_attempt:
            incomplete = troubled.state is PoolState.INCOMPLETE
            raise AllocationError(
                FatalReason.POOL_INCOMPLETE if incomplete else FatalReason.POOL_INVALID,
                f"{alternative}: wants all devices, and pool {troubled.id} is "
                f"{'being updated' if incomplete else f'invalid: {troubled.problem}'}",
            )
        self._looks += len(self.candidates)
        self._pay(0)
        # Errors of pools before the troubled one end the attempt first.
        earlier = self.pools if troubled is None else self.pools[: self.pools.index(troubled)]
        found = [
            candidate
            for candidate in self.candidates
            if (troubled is None or candidate.pool in earlier)
            and self.selects(alternative, candidate)
            and self._may_be_all(alternative, candidate)
        ]
        if troubled is not None:
            self.on_pool_trouble(alternative, troubled)
            raise PoolTrouble
        return found

    def _request(self, claim_index: int, request_index: int) -> Step:
        """Serve this request and all that follow."""
        if claim_index == len(self.claims):
            return StepOutcome.FOUND
        claim = self.claims[claim_index]
        if request_index == len(claim.requests):
            outcome = yield self._request(claim_index + 1, 0)
            # Earlier claims may leave later ones a better choice, so the limit of one claim is no error for another.
            return StepOutcome.NOT_FOUND if outcome is StepOutcome.OVER_LIMIT else outcome
        alternatives = claim.requests[request_index]
        if not claim.is_prioritized(request_index):
            return (yield from self._devices(alternatives[0], 0, 0))
        all_over_limit = True
        for position, alternative in enumerate(alternatives):
            self.selected[claim_index][request_index] = position
            outcome = yield self._devices(alternative, 0, 0)
            if outcome is not StepOutcome.OVER_LIMIT:
                all_over_limit = False
        return StepOutcome.OVER_LIMIT if all_over_limit else StepOutcome.NOT_FOUND

    def _devices(self, alternative: PreparedAlternative, position: int, start: int) -> Step:
        """Take device number ``position`` of the request, trying candidates from ``start`` on, and all that follow."""
        count = self.count(alternative)
        if alternative.takes_all and not count:
            self.on_exhausted(alternative, position)
            return StepOutcome.NOT_FOUND
        if position >= count:
            return (yield self._request(alternative.claim_index, alternative.request_index + 1))
        if len(self.chosen[alternative.claim_index]) + count - position > MAX_DEVICES_PER_CLAIM:
            self.on_over_limit(alternative, position)
            return StepOutcome.OVER_LIMIT
        if alternative.takes_all:
            return (yield from self._next_of_all(alternative, position))

        found_one = False
        seen = start
        for index in range(start, self._end):
            candidate = self.candidates[index]
            if not self._is_eligible(alternative, candidate):
                continue
            taken = self._take(alternative, candidate)
            if taken is None:
                continue
            found_one = True
            self._looks += index - seen
            seen = index
            # From the next candidate on: combinations are searched, not permutations.
            outcome = yield self._devices(
                alternative, position + 1, 0 if self.quirks.permutations_searched else index + 1
            )
            self._give_back(taken)
            if outcome is StepOutcome.OVER_LIMIT:
                return outcome
        self._looks += self._end - seen
        if self._fatal_pool is not None:
            pool = self._fatal_pool
            raise AllocationError(FatalReason.POOL_INVALID, f"pool {pool.id} is invalid: {pool.problem}")
        if not found_one:
            self.on_exhausted(alternative, position)
        return StepOutcome.NOT_FOUND

    def _next_of_all(self, alternative: PreparedAlternative, position: int) -> Step:
        """Take the device whose turn it is: with "all" there is no choice."""
        candidate = self._all_candidates[alternative][position]
        taken = self._take(alternative, candidate, must=True)
        if taken is None:
            self.on_exhausted(alternative, position, candidate)
            return StepOutcome.NOT_FOUND
        following = alternative
        if self.quirks.alternatives_mixed_up:
            following = self.claims[alternative.claim_index].requests[alternative.request_index][0]
        outcome = yield self._devices(following, position + 1, 0)
        self._give_back(taken)
        return outcome

    def try_device(self, alternative: PreparedAlternative, candidate: Candidate) -> TakenDevice | None:
        """Take a device for a request, outside of `run`; None if the request cannot have it now."""
        return self._take(alternative, candidate) if self._is_eligible(alternative, candidate) else None

    def give_back(self, taken: TakenDevice) -> None:
        """Undo `try_device`; the last device first."""
        self._give_back(taken)

    def _is_eligible(self, alternative: PreparedAlternative, candidate: Candidate) -> bool:
        return (
            not self.is_taken(alternative, candidate.device.id)
            and self.selects(alternative, candidate)
            and (not self.features.consumable_capacity or self.has_capacity(alternative, candidate))
        )

    def _take(
        self, alternative: PreparedAlternative, candidate: Candidate, *, must: bool = False
    ) -> TakenDevice | None:
        """Mark the device as taken by the request; None, and nothing changed, when that is not possible.

        A refused candidate may leave a trace in a constraint, see :class:`Quirks`.

        Parameters
        ----------
        must
            There is no other choice: a constraint's refusal is then an error of the claim.
        """
        device = candidate.device
        features = self.features
        is_shared = features.consumable_capacity and device.is_shared
        if self.is_taken(alternative, device.id):
            return None
        if self.is_shared_still(alternative, device):
            return None
        if device.counter_sets and not features.partitionable_devices:
            return None
        pays_counters = bool(device.counter_sets) and not self.skips_counters(candidate)
        if pays_counters and not self.counters.reserve(candidate.pool, device):
            return None
        taken = TakenDevice(alternative, candidate, counters_reserved=pays_counters)
        if features.device_taints and device.taints and blocking_taint(device.taints, alternative.wanted.tolerations):
            self._give_back(taken)
            return None
        constraints = self.constraints[alternative.claim_index]
        self._looks += _LOOKS_OF_A_CONSTRAINT * len(constraints)
        if self._looks > _MAX_LOOKS_UNPAID:
            self._pay(0)
        for constraint in constraints:
            if not constraint.add(alternative.request_name, alternative.alternative_name, device):
                self._give_back(taken)
                if must:
                    raise AllocationError(
                        FatalReason.CONSTRAINT,
                        f"{alternative}: wants all devices, and {constraint.attribute_name} does not allow {device.id}",
                    )
                return None
            taken.constraints_added += 1
        if not is_shared:
            self.taken.setdefault(device.id, []).append(alternative.claim_index)
            taken.is_marked = True
        if features.consumable_capacity:
            if not self.has_capacity(alternative, candidate):
                self._give_back(taken)
                return None
            share = alternative.share(device.description)
            if is_shared and isinstance(share, Share):
                taken.add_share(share, self.consumed)
        self.chosen[alternative.claim_index].append(
            ChosenDevice(alternative, candidate, taken.share.consumed if taken.share is not None else None)
        )
        taken.is_recorded = True
        return taken

    def _give_back(self, taken: TakenDevice) -> None:
        """Undo what taking a device has changed so far, in reverse order."""
        alternative, device = taken.alternative, taken.candidate.device
        if taken.is_recorded:
            self.chosen[alternative.claim_index].pop()
        taken.remove_share(self.consumed)
        if taken.is_marked:
            holders = self.taken[device.id]
            holders.remove(alternative.claim_index)
            if not holders:
                del self.taken[device.id]
        added = self.constraints[alternative.claim_index][: taken.constraints_added]
        for constraint in reversed(added):
            constraint.remove(alternative.request_name, alternative.alternative_name, device)
        if taken.counters_reserved:
            self.counters.release(taken.candidate.pool, device)
