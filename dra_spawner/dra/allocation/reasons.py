"""Why claims do not fit on a node, from the device that came nearest.

Reasons come from a second search that runs only on request, so the first search costs no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from dra_spawner.dra.allocation.cause_text import DEVICE_CAUSES, CauseText, RefusalKind
from dra_spawner.dra.allocation.requests import PreparedAlternative
from dra_spawner.dra.allocation.search import Search
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.dra.errors import AllocationError, PoolTrouble
from dra_spawner.dra.model.consumable_capacity import Share, ShareRefused, capacity_of, shortage
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.dra.model.pools import Candidate, Pool, PoolState
from dra_spawner.dra.model.taints import blocking_taint
from dra_spawner.dra.quantity import Quantity, QuantityFormat, amount_text

__all__ = ["ExplainingSearch", "NoFitReason", "Refusal", "RefusalKind", "shortest"]


_NEARNESS: Final = {kind: position for position, kind in enumerate(RefusalKind)}


@dataclass(frozen=True, slots=True)
class Refusal:
    """What kept one device from a request.

    Attributes
    ----------
    kind
        What it was.
    device
        The device; None when it was not about one.
    subject
        Name of what was missing or in the way: capacity, counter (``set.counter``), taint (``key=value:effect``),
        attribute, selector's place, or pool.
    left, needed
        Amounts, where ``subject`` is a capacity or counter.
    """

    kind: RefusalKind
    device: DeviceId | None = None
    subject: str = ""
    left: Quantity | None = None
    needed: Quantity | None = None

    def __str__(self) -> str:
        text = DEVICE_CAUSES[self.kind].detail
        return text.format(subject=self.subject, left=self.left, needed=self.needed)


@dataclass(frozen=True, slots=True)
class NoFitReason:
    """Why the claims do not fit: the request where the search got stuck, and the device that came nearest.

    Attributes
    ----------
    claim
        ``namespace/name``.
    request
        ``request`` or ``request/alternative``.
    nearest
        What kept the nearest device from it.
    wanted, found
        Devices the request wants, and how many of them there were before it got stuck.
    counts
        How many devices were refused, by kind, the nearest kind first.
    is_alone
        Whether no other request has taken devices before this one.
    """

    claim: str
    request: str
    nearest: Refusal
    wanted: int = 1
    found: int = 0
    counts: tuple[tuple[RefusalKind, int], ...] = ()
    is_alone: bool = False

    @property
    def for_user(self) -> CauseText:
        """The texts for the user, with amounts."""
        nearest = self.nearest
        text = DEVICE_CAUSES[nearest.kind]
        if nearest.kind is RefusalKind.TAKEN_HERE and self.is_alone and self.found:
            never = f"it asks for {self.wanted} such devices, and the machine with most of them has {self.found}"
            return replace(text, never=never)
        subject = nearest.subject
        amounts = {"left": _for_people(nearest.left, subject), "needed": _for_people(nearest.needed, subject)}
        amounts["subject"] = subject
        return replace(text, now=text.now.format(**amounts), never=text.never.format(**amounts))

    def __str__(self) -> str:
        """One sentence without names of objects, so that equal reasons of many nodes read the same."""
        if self.found and self.nearest.kind is RefusalKind.TAKEN_HERE:
            return f"only {self.found} of {self.wanted} devices"
        short = f"{self.found} of {self.wanted} devices, then " if self.found else ""
        busy = dict(self.counts).get(self.nearest.kind, 0)
        several = self.nearest.kind is RefusalKind.IN_USE and busy > 1
        return f"{short}{f'all {busy} devices ' if several else ''}{self.nearest}"


class ExplainingSearch(Search):
    """A search that remembers where it got furthest and why it got no further."""

    max_steps: Final = 5_000
    """When to be content with the best reason found so far."""

    def explain(self) -> NoFitReason | None:
        """Search again for the reason; None when there is no request to blame."""
        self._depth = (-1, -1, -1)
        self.reason: NoFitReason | None = None
        self._cancelled = lambda: self.reason is not None and self.steps > self.max_steps
        # What ends this search early has been reported by the first one, or is a limit: the best reason so far will do.
        with suppress(AllocationError, PoolTrouble, SearchStopped):
            self.run()
        return self.reason

    def on_exhausted(self, alternative: PreparedAlternative, position: int, only: Candidate | None = None) -> None:
        if not self._is_deepest(alternative, position):
            return
        candidates = self.candidates if only is None else [only]
        refusals = [refusal for candidate in candidates if (refusal := self._refusal(alternative, candidate))]
        nearest = max(refusals, key=_nearness, default=Refusal(RefusalKind.NO_DEVICES))
        self._note(alternative, position, self._or_pool(nearest), Counter(refusal.kind for refusal in refusals))

    def on_over_limit(self, alternative: PreparedAlternative, position: int) -> None:
        if self._is_deepest(alternative, position):
            self._note(alternative, position, Refusal(RefusalKind.LIMIT), Counter())

    def on_pool_trouble(self, alternative: PreparedAlternative, pool: Pool) -> None:
        self.reason = NoFitReason(str(alternative.claim), alternative.full_name, _pool_refusal(pool))

    def _is_deepest(self, alternative: PreparedAlternative, position: int) -> bool:
        depth = (alternative.claim_index, alternative.request_index, position)
        if depth <= self._depth:
            return False
        self._depth = depth
        return True

    def _note(
        self, alternative: PreparedAlternative, position: int, nearest: Refusal, counts: Counter[RefusalKind]
    ) -> None:
        self.reason = NoFitReason(
            claim=str(alternative.claim),
            request=alternative.full_name,
            nearest=nearest,
            wanted=self.count(alternative),
            found=position,
            counts=tuple(sorted(counts.items(), key=lambda item: -_NEARNESS[item[0]])),
            is_alone=not (alternative.claim_index or alternative.request_index or alternative.alternative_name),
        )

    def _or_pool(self, nearest: Refusal) -> Refusal:
        """An unusable pool is the better explanation where no device is of the kind that is wanted."""
        if _NEARNESS[nearest.kind] > _NEARNESS[RefusalKind.OTHER_NODE]:
            return nearest
        for state in (PoolState.INVALID, PoolState.INCOMPLETE):
            for pool in self.pools:
                if pool.state is state:
                    return _pool_refusal(pool)
        return nearest

    def _refusal(self, alternative: PreparedAlternative, candidate: Candidate) -> Refusal | None:
        """Why the request cannot have the device; None if it could, but the search has been past it."""
        refusal = self._mismatch(alternative, candidate)
        if refusal is None:
            closed, use = self._taint(alternative, candidate), self._use(alternative, candidate)
            # Where a device is closed, it is no use to wait until others leave it.
            refusal = replace(closed, kind=RefusalKind.TAINT_IN_USE) if closed and use else closed or use
        refusal = refusal or self._constraint(alternative, candidate)
        return replace(refusal, device=candidate.device.id) if refusal is not None else None

    def _mismatch(self, alternative: PreparedAlternative, candidate: Candidate) -> Refusal | None:
        """Why the device will not do, even when idle."""
        device = candidate.device
        if device.binding_conditions and not self.features.device_binding_and_status:
            return Refusal(RefusalKind.BINDING_CONDITIONS)
        if not alternative.selects(device.description):
            position = alternative.filter.refused_by(device.description)
            return Refusal(RefusalKind.SELECTOR, subject=alternative.selector_place(position))
        if not self.selects(alternative, candidate):
            return Refusal(RefusalKind.OTHER_NODE)
        if device.counter_sets and not self.features.partitionable_devices:
            return Refusal(RefusalKind.COUNTERS_DISABLED)
        if not self.features.consumable_capacity or device.defect:
            return None
        share = alternative.share(device.description)
        if isinstance(share, ShareRefused):
            kind = RefusalKind.UNKNOWN_CAPACITY if share.is_unknown else RefusalKind.CAPACITY_POLICY
            return Refusal(kind, subject=share.capacity, needed=share.needed)
        missing = shortage(share, None, None) if isinstance(share, Share) else None
        return _capacity_refusal(RefusalKind.TOO_SMALL, candidate, missing) if missing is not None else None

    def _use(self, alternative: PreparedAlternative, candidate: Candidate) -> Refusal | None:
        """Why the device is not available now."""
        device = candidate.device
        if not alternative.is_admin and self.allocated.is_taken(device.id):
            return Refusal(RefusalKind.IN_USE)
        if self.is_taken(alternative, device.id):
            return Refusal(RefusalKind.TAKEN_HERE)
        if self.is_shared_still(alternative, device):
            return Refusal(RefusalKind.IN_USE)
        share = alternative.share(device.description)
        if self.features.consumable_capacity and isinstance(share, Share):
            missing = shortage(share, self.allocated.consumed_capacity(device.id), self.consumed.get(device.id))
            if missing is not None:
                return _capacity_refusal(RefusalKind.CAPACITY, candidate, missing)
        if device.counter_sets and not self.skips_counters(candidate):
            short = self.counters.shortage(candidate.pool, device)
            if short is not None:
                return Refusal(
                    RefusalKind.COUNTERS, None, str(short.counter), _amount(short.left), _amount(short.needed)
                )
        return None

    def _taint(self, alternative: PreparedAlternative, candidate: Candidate) -> Refusal | None:
        """What closes the device to the request."""
        if not self.features.device_taints:
            return None
        taint = blocking_taint(candidate.device.taints, alternative.wanted.tolerations)
        if taint is None:
            return None
        value = f"={taint.value}" if taint.value else ""
        return Refusal(RefusalKind.TAINT, subject=f"{taint.key}{value}:{taint.effect}")

    def _constraint(self, alternative: PreparedAlternative, candidate: Candidate) -> Refusal | None:
        """Why the device does not go with the others."""
        device = candidate.device
        for constraint in self.constraints[alternative.claim_index]:
            if not constraint.add(alternative.request_name, alternative.alternative_name, device):
                return Refusal(RefusalKind.CONSTRAINT, subject=constraint.attribute_name)
            constraint.remove(alternative.request_name, alternative.alternative_name, device)
        return None


def _for_people(quantity: Quantity | None, capacity: str) -> str:
    return amount_text(quantity, capacity) if quantity is not None else ""


def _pool_refusal(pool: Pool) -> Refusal:
    if pool.state is PoolState.INVALID:
        return Refusal(RefusalKind.POOL_INVALID, subject=f"{pool.id} is invalid: {pool.problem}")
    return Refusal(RefusalKind.POOL_INCOMPLETE, subject=str(pool.id))


def _capacity_refusal(kind: RefusalKind, candidate: Candidate, missing: tuple[str, int, int]) -> Refusal:
    name, left, needed = missing
    unit = capacity_of(candidate.device.description, name).value
    return Refusal(kind, None, name, _printed_as(unit, left), _printed_as(unit, needed))


def _printed_as(unit: Quantity, nano: int) -> Quantity:
    """So many nano-units, printed in the format of ``unit``."""
    return Quantity(nano, unit.format)


def _amount(nano: int) -> Quantity:
    """So many nano-units of a counter, printed in the format that is shorter."""
    decimal, binary = Quantity(nano), Quantity(nano, QuantityFormat.BINARY_SI)
    return min(decimal, binary, key=lambda quantity: len(str(quantity)))


def _nearness(refusal: Refusal) -> tuple[int, float]:
    """Later kinds are nearer; of two that lack an amount, the one that lacks the smaller part of it."""
    if refusal.left is None or refusal.needed is None or not refusal.needed.nano:
        return _NEARNESS[refusal.kind], 0.0
    return _NEARNESS[refusal.kind], refusal.left.nano / refusal.needed.nano


def shortest(reasons: Iterable[NoFitReason]) -> NoFitReason | None:
    """The reason that came nearest, of several nodes'."""
    return max(reasons, key=lambda reason: (*_nearness(reason.nearest), reason.found), default=None)
