"""Who holds which device on which node, and what else would fit: the allocator's answers for a cluster that changes.

`DeviceState` decides as :class:`~dra_spawner.dra.allocator.Allocator` does, and searches once for all nodes that are
alike: nodes whose pools and devices differ in names only, or in attributes that no selector or constraint of the claims
can see, and whose devices are used alike. What has been found out about such a class of nodes is kept, for these claims
and for all that ask for the same under other names, for as long as a class like this exists.

Where that would not be exact it searches on every node: when one attempt on all nodes meets pools of one name whose
counters kube-scheduler mistakes for one another's (`PoolViews.entangled_names`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Final

from dra_spawner.dra.allocator import AllocatedState, Allocation, AllocationError, DoesNotFit
from dra_spawner.dra.counters import CounterCache
from dra_spawner.dra.features import QUIRKS_1_36, SCHEDULER_1_36, Features, Quirks
from dra_spawner.dra.objects import AllocatedDevice, DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.requests import prepare_claims
from dra_spawner.dra.results import DeviceResult
from dra_spawner.dra.selectors import SelectorCache
from dra_spawner.simulator.claim_shapes import ClaimShape, ClaimShapes
from dra_spawner.simulator.class_verdicts import ClassVerdict, Fatal, Fits, Judge, Misfit, Reason, no_fit
from dra_spawner.simulator.fitting_classes import FittingClasses
from dra_spawner.simulator.journal import Journal
from dra_spawner.simulator.node_classes import NodeClass, NodeClasses
from dra_spawner.simulator.outlines import outline, picks_one_device
from dra_spawner.simulator.pool_views import Concerned, NodeView, PoolViews
from dra_spawner.simulator.verdicts import Question, ShapeAnswer, ShapeGroup, Verdict, VerdictGroup, Verdicts

__all__ = ["DeviceState", "Verdict", "VerdictGroup", "Verdicts"]

_MOST_OUTLINES: Final = 10_000
_MOST_SHAPES: Final = 1_000

_MOST_DIVISIONS: Final = 16
"""Ways to divide nodes into classes, one for each set of attributes that claims look at."""


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
        self._pools = PoolViews(features, quirks, slices)
        self._classes = {item.name: item for item in classes}
        self._nodes = {node.name: node for node in nodes}
        self._places = {name: place for place, name in enumerate(self._nodes)}
        self._next_place = count(len(self._nodes))
        self._allocated = AllocatedState(features)
        self._judge = Judge(self._allocated, features, quirks, max_steps)
        self._shapes = ClaimShapes(features, quirks)
        self._views: dict[str, NodeView] = {}
        self._divisions: dict[frozenset[str] | None, NodeClasses] = {}
        self._common_change = 0
        self._answers: dict[tuple[int, bool], ShapeAnswer] = {}
        self._fitting: dict[int, FittingClasses] = {}
        self._outlines: dict[int, dict[tuple[int, Hashable], ClassVerdict] | None] = {}
        self._holders: dict[Hashable, tuple[AllocatedDevice, ...]]
        allocated = [claim for claim in claims if claim.status.devices is not None]
        self._holders = {(claim.namespace, claim.name): claim.status.devices or () for claim in allocated}
        if len(self._holders) < len(allocated):
            raise ValueError("two of the claims have the same name")
        self._allocated.add_all(self._holders.values())

    # --- what there is ---------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, Node]:
        return MappingProxyType(self._nodes)

    @property
    def slices(self) -> Mapping[str, ResourceSlice]:
        return MappingProxyType(self._pools.slices)

    def in_order(self) -> tuple[list[ResourceSlice], list[Node]]:
        """All slices and nodes in the order in which they count."""
        return self._pools.in_order(), [self._nodes[name] for name in sorted(self._nodes, key=self._places.__getitem__)]

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

        The answer is that of an :class:`~dra_spawner.dra.allocator.Allocator` which is asked for this node only.

        Raises
        ------
        AllocationError
            When the scheduler would give up on the pod on all nodes.
        KeyError
            When there is no such node.
        """
        shape = self._shapes.shape(claims, self._classes)
        division = self._division(shape)
        node_class = division.class_of(node_name)
        view = self._view(node_name)
        verdict = self._verdict(node_class, view, shape)
        if isinstance(verdict, Fits):
            return self._judge.allocations(verdict, view, shape.prepared)
        if isinstance(verdict, Fatal):
            raise self._error(verdict, view, claims)
        return no_fit(verdict, self._reason(node_class, view, shape) if explain else None, view, claims)

    def verdicts(self, claims: Sequence[ResourceClaim], explain: bool = True) -> Verdicts:
        """What one attempt to place a pod with these claims finds on each node, nodes with the same end together.

        The answer is that of one :class:`~dra_spawner.dra.allocator.Allocator` which is asked for one node after the
        other, in the order in which they were added.

        Raises
        ------
        AllocationError
            When the claims cannot be allocated whatever the nodes are.
        """
        shape = self._shapes.shape(claims, self._classes)
        answer = self._answers.get((shape.id, explain))
        if answer is None:
            answer = self._answers[shape.id, explain] = self._answer(shape, explain)
        errors = {
            group: self._error(group.verdict, group.view, claims, group.counters)
            for group in answer.fatal
            if isinstance(group.verdict, Fatal)
        }
        return Verdicts(answer, Question(tuple(claims), shape, self._judge, errors))

    def first_fitting_node(self, claims: Sequence[ResourceClaim]) -> str | None:
        """The first node, in the order in which they were added, on which `allocate` finds devices; None if none.

        Nodes for which `allocate` raises AllocationError are passed over.

        Raises
        ------
        AllocationError
            When the claims cannot be allocated whatever the nodes are.
        """
        shape = self._shapes.shape(claims, self._classes)
        division = self._division(shape)
        division.refresh()
        fitting = self._fitting.get(shape.id)
        if fitting is None:
            if len(self._fitting) >= _MOST_SHAPES:
                self._fitting.clear()
            fitting = self._fitting[shape.id] = FittingClasses()
        return fitting.first(division, self._places, self._common_change, partial(self._fits, shape))

    def failing_nodes(self, claims: Sequence[ResourceClaim]) -> tuple[str, ...]:
        """Nodes on which `allocate` raises AllocationError: one that the scheduler looks at, and it gives up."""
        try:
            shape = self._shapes.shape(claims, self._classes)
        except AllocationError:
            return tuple(self._nodes)
        failing: list[str] = []
        for node_class in self._division(shape):
            if isinstance(self._verdict(node_class, self._view(node_class.first(self._places)[1]), shape), Fatal):
                failing += node_class.nodes
        return tuple(sorted(failing, key=self._places.__getitem__))

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
        held = tuple([item.as_allocated() if isinstance(item, DeviceResult) else item for item in results])
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
        """Add a node, or replace the one of this name, which keeps its place."""
        before = self._nodes.get(node.name)
        place = self._places[node.name] if before is not None else next(self._next_place)
        self._set_node(node.name, node, place)
        self.journal.record(partial(self._set_node, node.name, before, place))

    def remove_node(self, name: str) -> None:
        """Remove a node; what is allocated there stays allocated. KeyError when there is none."""
        node, place = self._nodes[name], self._places[name]
        self._set_node(name, None, place)
        self.journal.record(partial(self._set_node, name, node, place))

    def put_slice(self, item: ResourceSlice) -> None:
        """Add a slice, or replace the one of this name."""
        before = self._pools.slices.get(item.name)
        self._look_again(self._pools.put(item))
        undo = partial(self._undo_put, before) if before is not None else partial(self._undo_new, item.name)
        self.journal.record(undo)

    def remove_slice(self, name: str) -> None:
        """Remove a slice; what is allocated of it stays allocated. KeyError when there is none."""
        item = self._pools.slices[name]
        place, concerned = self._pools.remove(name)
        self._look_again(concerned)
        self.journal.record(partial(self._undo_put, item, place))

    def put_class(self, item: DeviceClass) -> None:
        """Add a class, or replace the one of this name."""
        before = self._classes.get(item.name)
        self._set_class(item.name, item)
        self.journal.record(partial(self._set_class, item.name, before))

    def remove_class(self, name: str) -> None:
        """Remove a class. KeyError when there is none."""
        before = self._classes[name]
        self._set_class(name, None)
        self.journal.record(partial(self._set_class, name, before))

    # --- how changes are made and undone -----------------------------------------------------------------------------

    def _hold(self, claim_key: Hashable, held: tuple[AllocatedDevice, ...]) -> None:
        self._holders[claim_key] = held
        self._allocated.add(held)
        self._note_use(held)

    def _let_go(self, claim_key: Hashable) -> tuple[AllocatedDevice, ...]:
        held = self._holders.pop(claim_key)
        self._allocated.remove(held)
        self._note_use(held)
        return held

    def _note_use(self, held: tuple[AllocatedDevice, ...]) -> None:
        if not self._divisions:
            # Nothing has been found out yet that this could change.
            return
        self._forget_answers()
        for item in held:
            if item.admin_access:
                continue
            owner = self._pools.owner(item.id)
            if owner:
                for division in self._divisions.values():
                    division.mark_stale(owner)
            elif owner is not None:
                self._common_change += 1

    def _set_node(self, name: str, node: Node | None, place: int) -> None:
        self._forget_answers()
        self._views.pop(name, None)
        if node is None:
            del self._nodes[name], self._places[name]
        else:
            self._nodes[name], self._places[name] = node, place
        for division in self._divisions.values():
            division.mark_stale(name)

    def _look_again(self, concerned: Concerned) -> None:
        """These nodes see other pools now; None means all of them."""
        self._forget_answers()
        # What is allocated of a common pool may only count now.
        self._common_change += 1
        names = self._nodes if concerned is None else concerned
        for name in names:
            self._views.pop(name, None)
            for division in self._divisions.values():
                division.mark_stale(name)

    def _undo_put(self, item: ResourceSlice, place: int | None = None) -> None:
        self._look_again(self._pools.put(item, place))

    def _undo_new(self, name: str) -> None:
        self._look_again(self._pools.remove(name)[1])

    def _set_class(self, name: str, item: DeviceClass | None) -> None:
        self._forget_answers()
        self._shapes.clear()
        self._fitting.clear()
        self._outlines.clear()
        if item is None:
            del self._classes[name]
        else:
            self._classes[name] = item

    def _forget_answers(self) -> None:
        if self._answers:
            self._answers.clear()

    # --- how questions are answered ----------------------------------------------------------------------------------

    def _view(self, name: str) -> NodeView:
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._pools.view(self._nodes[name])
        return view

    def _division(self, shape: ClaimShape) -> NodeClasses:
        """The nodes, divided by what claims of this shape can see."""
        division = self._divisions.get(shape.attributes)
        if division is None:
            if len(self._divisions) >= _MOST_DIVISIONS:
                del self._divisions[next(iter(self._divisions))]
                self._fitting.clear()
                # Structures are numbered anew when a division is made again.
                self._outlines.clear()
            division = NodeClasses(shape.attributes, self._pools.serials, self._view, self._allocated, self._places)
            self._divisions[shape.attributes] = division
        return division

    def _verdict(self, node_class: NodeClass, view: NodeView, shape: ClaimShape) -> ClassVerdict:
        """The verdict on a class, found on one of its nodes if it is not known."""
        key = (shape.id, node_class.common.number(self._allocated, self._common_change))
        verdict = node_class.verdicts.get(key)
        if verdict is None:
            verdict = self._verdict_by_outline(node_class, view, shape)
            node_class.keep(key, verdict)
        return verdict

    def _verdict_by_outline(self, node_class: NodeClass, view: NodeView, shape: ClaimShape) -> ClassVerdict:
        """The verdict found on another class that comes to the same for these claims, or a new one."""
        known = self._outlines.get(shape.id)
        if known is None:
            if len(self._outlines) >= _MOST_SHAPES:
                self._outlines.clear()
            known = self._outlines[shape.id] = {} if picks_one_device(shape) else None
        seen = outline(view, shape, self._allocated, self._features) if known is not None else None
        if known is None or seen is None:
            return self._judge.judge(view, shape.prepared, self._judge.counters())
        key = (node_class.key[0], seen)
        verdict = known.get(key)
        if verdict is None:
            if len(known) >= _MOST_OUTLINES:
                known.clear()
            verdict = known[key] = self._judge.judge(view, shape.prepared, self._judge.counters())
        return verdict

    def _reason(self, node_class: NodeClass, view: NodeView, shape: ClaimShape) -> Reason:
        key = (shape.id, node_class.common.number(self._allocated, self._common_change))
        reason = node_class.reasons.get(key)
        if reason is None:
            reason = node_class.reasons[key] = self._judge.explain(view, shape.prepared, self._judge.counters())
        return reason

    def _fits(self, shape: ClaimShape, node_class: NodeClass) -> bool:
        view = self._view(node_class.first(self._places)[1])
        return isinstance(self._verdict(node_class, view, shape), Fits)

    def _answer(self, shape: ClaimShape, explain: bool) -> ShapeAnswer:
        groups = [self._group(item, shape, explain) for item in self._division(shape)]
        if self._pools.entangled_names:
            groups = self._untangle(groups, shape, explain)
        groups.sort(key=lambda group: self._places[group.nodes[0]])
        return ShapeAnswer(tuple(groups), dict(self._views))

    def _group(self, node_class: NodeClass, shape: ClaimShape, explain: bool) -> ShapeGroup:
        names = tuple(sorted(node_class.nodes, key=self._places.__getitem__))
        view = self._view(names[0])
        verdict = self._verdict(node_class, view, shape)
        needs_reason = explain and isinstance(verdict, Misfit)
        return ShapeGroup(names, view, verdict, self._reason(node_class, view, shape) if needs_reason else None)

    def _untangle(self, groups: list[ShapeGroup], shape: ClaimShape, explain: bool) -> list[ShapeGroup]:
        """Judge nodes one by one, in order, where one may change the verdict on the next."""
        entangled = self._pools.entangled_names
        apart = {name for name in self._nodes if any(pool.id.pool in entangled for pool in self._view(name).pools)}
        remaining = [left for group in groups if (left := group.without(apart, self._views)) is not None]
        counters = self._judge.counters()
        for name in sorted(apart, key=self._places.__getitem__):
            view = self._view(name)
            verdict = self._judge.judge(view, shape.prepared, counters)
            needs_reason = explain and isinstance(verdict, Misfit)
            reason = self._judge.explain(view, shape.prepared, counters) if needs_reason else None
            remaining.append(ShapeGroup((name,), view, verdict, reason, counters))
        return remaining

    def _error(
        self, fatal: Fatal, view: NodeView, claims: Sequence[ResourceClaim], counters: CounterCache | None = None
    ) -> AllocationError:
        """The error in the names of this node and these claims, which takes another search to find."""
        if not fatal.is_general:
            try:
                selectors = SelectorCache(list_attributes=self._features.list_type_attributes)
                prepared = prepare_claims(claims, self._classes, self._features, self._quirks, selectors)
                self._judge.find(view, prepared, counters or self._judge.counters())
            except AllocationError as error:
                return error
        return AllocationError(fatal.reason, fatal.message)
