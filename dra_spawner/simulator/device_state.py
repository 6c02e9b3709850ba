"""Who holds which device on which node, and what else would fit: the allocator's answers for a cluster that changes.

`DeviceState` decides as :class:`~dra_spawner.dra.allocator.Allocator` does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import TypeVar

from dra_spawner.dra.allocator import AllocatedState, Allocation, AllocationError, Allocator, DoesNotFit
from dra_spawner.dra.features import QUIRKS_1_36, SCHEDULER_1_36, Features, Quirks
from dra_spawner.dra.objects import AllocatedDevice, DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.results import DeviceResult
from dra_spawner.dra.selectors import SelectorCache
from dra_spawner.simulator.journal import Journal

__all__ = ["DeviceState", "Verdict", "VerdictGroup"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Verdict = tuple[Allocation, ...] | DoesNotFit | AllocationError
"""What the claims get on a node, why they do not fit, or why the scheduler would give up on the pod."""


@dataclass(frozen=True, slots=True, eq=False)
class VerdictGroup:
    """Nodes on which the same claims meet the same end.

    Attributes
    ----------
    nodes
        Names, in the order in which the nodes were added.
    verdict
        That of the first node.
    """

    nodes: tuple[str, ...]
    verdict: Verdict

    @property
    def fits(self) -> bool:
        return isinstance(self.verdict, tuple)


class DeviceState:
    """Nodes, slices, classes and what is allocated; every change can be reverted through the journal.

    Parameters
    ----------
    slices, classes, nodes
        Objects of the cluster. Slices count in this order (it matters only where a pool's slices contradict one
        another); one that is put again keeps its place.
    claims
        Those with an allocation are recorded under ``(namespace, name)``.
    features, quirks
        See :class:`~dra_spawner.dra.allocator.Allocator`.
    journal
        Where undos are recorded; one of its own if there is none to share.
    max_steps
        Steps after which the search on one node is given up, as kube-scheduler gives up after ten seconds; None for
        no limit.
    """

    def __init__(
        self,
        slices: Iterable[ResourceSlice] = (),
        classes: Iterable[DeviceClass] = (),
        nodes: Iterable[Node] = (),
        claims: Iterable[ResourceClaim] = (),
        features: Features = SCHEDULER_1_36,
        quirks: Quirks = QUIRKS_1_36,
        *,
        journal: Journal | None = None,
        max_steps: int | None = None,
    ) -> None:
        self.journal = journal if journal is not None else Journal()
        self._features = features
        self._quirks = quirks
        self._max_steps = max_steps
        self._slices = {item.name: item for item in slices}
        self._classes = {item.name: item for item in classes}
        self._nodes = {node.name: node for node in nodes}
        self._allocated = AllocatedState(features)
        self._holders: dict[Hashable, tuple[AllocatedDevice, ...]] = {}
        self._selectors = SelectorCache(list_attributes=features.list_type_attributes)
        for claim in claims:
            if claim.status.devices is not None:
                self.record((claim.namespace, claim.name), claim.status.devices)

    # --- what there is ---------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, Node]:
        return MappingProxyType(self._nodes)

    @property
    def slices(self) -> Mapping[str, ResourceSlice]:
        return MappingProxyType(self._slices)

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        return MappingProxyType(self._classes)

    @property
    def holders(self) -> Mapping[Hashable, tuple[AllocatedDevice, ...]]:
        """What each recorded claim holds."""
        return MappingProxyType(self._holders)

    @property
    def allocated(self) -> AllocatedState:
        """What all claims hold together; not to be changed."""
        return self._allocated

    # --- questions -------------------------------------------------------------------------------------------------

    def allocate(
        self, node_name: str, claims: Sequence[ResourceClaim], explain: bool = False
    ) -> tuple[Allocation, ...] | DoesNotFit:
        """Devices for all claims together on one node, or why there are none; nothing is recorded.

        Raises
        ------
        AllocationError
            When the scheduler would give up on the pod on all nodes.
        KeyError
            When there is no such node.
        """
        return self._allocate(self._allocator(), self._nodes[node_name], claims, explain)

    def verdicts(self, claims: Sequence[ResourceClaim], explain: bool = True) -> tuple[VerdictGroup, ...]:
        """What one attempt to place a pod with these claims finds on each node, nodes with the same end together."""
        allocator = self._allocator()
        groups = []
        for node in self._nodes.values():
            verdict: Verdict
            try:
                verdict = self._allocate(allocator, node, claims, explain)
            except AllocationError as error:
                verdict = error
            groups.append(VerdictGroup((node.name,), verdict))
        return tuple(groups)

    # --- changes ---------------------------------------------------------------------------------------------------

    def record(self, claim_key: Hashable, results: Iterable[AllocatedDevice | DeviceResult]) -> None:
        """Count what a claim holds from now on.

        Raises
        ------
        ValueError
            When the claim holds something already.
        """
        if claim_key in self._holders:
            raise ValueError(f"claim {claim_key} is recorded already")
        held = tuple(item.as_allocated() if isinstance(item, DeviceResult) else item for item in results)
        self._hold(claim_key, held)
        self.journal.record(partial(self._let_go, claim_key))

    def release(self, claim_key: Hashable) -> tuple[AllocatedDevice, ...]:
        """What the claim held is free again; returns it.

        Raises
        ------
        KeyError
            When the claim is not recorded.
        """
        held = self._let_go(claim_key)
        self.journal.record(partial(self._hold, claim_key, held))
        return held

    def add_node(self, node: Node) -> None:
        """Add a node, or replace the one of this name."""
        self._put(self._nodes, node.name, node)

    def remove_node(self, name: str) -> None:
        """Remove a node; what is allocated there stays allocated. KeyError when there is none."""
        self._remove(self._nodes, name)

    def put_slice(self, item: ResourceSlice) -> None:
        """Add a slice, or replace the one of this name."""
        self._put(self._slices, item.name, item)

    def remove_slice(self, name: str) -> None:
        """Remove a slice; what is allocated of it stays allocated. KeyError when there is none."""
        self._remove(self._slices, name)

    def put_class(self, item: DeviceClass) -> None:
        """Add a class, or replace the one of this name."""
        self._put(self._classes, item.name, item)

    def remove_class(self, name: str) -> None:
        """Remove a class. KeyError when there is none."""
        self._remove(self._classes, name)

    def _hold(self, claim_key: Hashable, held: tuple[AllocatedDevice, ...]) -> None:
        self._holders[claim_key] = held
        self._allocated.add(held)

    def _let_go(self, claim_key: Hashable) -> tuple[AllocatedDevice, ...]:
        held = self._holders.pop(claim_key)
        self._allocated.remove(held)
        return held

    def _put(self, known: dict[K, V], key: K, value: V) -> None:
        undo: Callable[[], object]
        undo = partial(known.__setitem__, key, known[key]) if key in known else partial(known.pop, key)
        known[key] = value
        self.journal.record(undo)

    def _remove(self, known: dict[K, V], key: K) -> None:
        # Order counts, so that the undo puts back all that there was.
        before = dict(known)
        del known[key]

        def undo() -> None:
            known.clear()
            known.update(before)

        self.journal.record(undo)

    def _allocator(self) -> Allocator:
        return Allocator(
            self._slices.values(),
            self._classes,
            self._allocated,
            self._features,
            self._quirks,
            selectors=self._selectors,
        )

    def _allocate(
        self, allocator: Allocator, node: Node, claims: Sequence[ResourceClaim], explain: bool
    ) -> tuple[Allocation, ...] | DoesNotFit:
        steps, limit = count(1), self._max_steps
        cancelled = (lambda: next(steps) > limit) if limit is not None else None
        return allocator.allocate(node, claims, explain=explain, cancelled=cancelled)
