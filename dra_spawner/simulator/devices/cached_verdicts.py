"""Verdicts on claims by shape, cached for each class of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial

from dra_spawner.dra.allocation.allocator import AllocationError
from dra_spawner.dra.allocation.counters import CounterCache
from dra_spawner.dra.allocation.requests import prepare_in_order
from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.dra.model.claims import DeviceClass, ResourceClaim
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.simulator.devices.caching import Cache, CacheSizes
from dra_spawner.simulator.devices.claim_shapes import ClaimShape
from dra_spawner.simulator.devices.class_verdicts import ClassVerdict, Fatal, Fits, Judge, Misfit, Reason, Stopped
from dra_spawner.simulator.devices.node_classes import NodeClass, NodeClasses
from dra_spawner.simulator.devices.node_partitions import NodePartitions
from dra_spawner.simulator.devices.pool_views import NodeView
from dra_spawner.simulator.devices.search_limits import SearchLimits
from dra_spawner.simulator.devices.single_device_cache import SingleDeviceCache
from dra_spawner.simulator.devices.verdicts import ShapeAnswer, ShapeGroup


class CachedVerdicts:
    """Verdicts on the nodes, for each claim shape.

    Parameters
    ----------
    judge
        Searches for missing verdicts.
    partitions
        The nodes in their classes.
    classes
        Device classes by name.
    ranks
        Rank of each node in the order of addition, by name.

    Attributes
    ----------
    limits
        Limits of searches; None for no limit.
    """

    def __init__(
        self,
        judge: Judge,
        partitions: NodePartitions,
        classes: Mapping[str, DeviceClass],
        ranks: Mapping[str, int],
        rules: SchedulerRules,
        sizes: CacheSizes,
    ) -> None:
        self._judge = judge
        self._partitions = partitions
        self._classes = classes
        self._ranks = ranks
        self._rules = rules
        self.limits: SearchLimits | None = None
        self._sizes = sizes
        self._answers: Cache[tuple[int, bool], ShapeAnswer] = Cache(sizes.answers)
        self._found: Cache[int, _ShapeVerdicts] = Cache(sizes.fitting_classes)

    def forget_answers(self) -> None:
        """Forget the answers about all nodes, after a change."""
        if self._answers:
            self._answers.clear()

    def forget_shapes(self) -> None:
        """Forget all verdicts, as shapes get new numbers."""
        self._answers.clear()
        self._found.clear()

    def check(self, shape: ClaimShape) -> None:
        """SearchStopped if nothing may be searched for this shape."""
        if self.limits is not None:
            self.limits.check(shape.id)

    def _found_for(self, shape: ClaimShape) -> _ShapeVerdicts:
        """Verdicts for the shape in the current partition.

        Raises
        ------
        SearchStopped
            If nothing may be searched for this shape; checked first, as partitioning the nodes takes time, too.
        """
        self.check(shape)
        partition = self._partitions.of(shape)
        found = self._found.get(shape.id)
        if found is None or found.partition is not partition:
            found = self._found.keep(shape.id, _ShapeVerdicts(shape, partition, self._rules, self._sizes))
        return found

    def on_node(self, name: str, shape: ClaimShape, explain: bool) -> tuple[ClassVerdict, Reason | None]:
        """The verdict on a node, with the reason of a misfit if asked for."""
        found = self._found_for(shape)
        return self._on_class(found.partition.class_of(name), self._partitions.view(name), found, explain)

    def tokens(self, shape: ClaimShape) -> Callable[[str], tuple[int, NodeClass, int]]:
        """By node: the cache key of the verdict on it."""
        class_of, common_use = self._found_for(shape).partition.class_of, self._partitions.common_use

        def token(name: str) -> tuple[int, NodeClass, int]:
            node_class = class_of(name)
            return shape.id, node_class, common_use(node_class)

        return token

    def first_fitting_node(self, shape: ClaimShape) -> str | None:
        """The first node, in the order of their addition, on which the claims fit; None if there is none."""
        found = self._found_for(shape)
        found.partition.refresh()
        return found.fitting.first(
            found.partition, self._ranks, self._partitions.common_change, partial(self._fits, found)
        )

    def failing_nodes(self, shape: ClaimShape) -> list[str]:
        """Nodes on which the scheduler would give up on the pod."""
        found = self._found_for(shape)
        failing: list[str] = []
        for node_class in found.partition:
            if isinstance(self._verdict(node_class, self._first_view(node_class), found), Fatal):
                failing += node_class.nodes
        return failing

    def _fits(self, found: _ShapeVerdicts, node_class: NodeClass) -> bool:
        return isinstance(self._verdict(node_class, self._first_view(node_class), found), Fits)

    def _first_view(self, node_class: NodeClass) -> NodeView:
        return self._partitions.view(node_class.first(self._ranks)[1])

    def _on_class(
        self, node_class: NodeClass, view: NodeView, found: _ShapeVerdicts, explain: bool
    ) -> tuple[ClassVerdict, Reason | None]:
        verdict = self._verdict(node_class, view, found)
        if not explain or not isinstance(verdict, Misfit):
            return verdict, None
        key = (found.shape.id, self._partitions.common_use(node_class))
        reason = node_class.reasons.get(key)
        if reason is None:
            reason = self._explain(view, found.shape, self._judge.counters())
            if reason is not None and reason.reason is not None:
                node_class.reasons.keep(key, reason)
        return verdict, reason

    def _verdict(self, node_class: NodeClass, view: NodeView, found: _ShapeVerdicts) -> ClassVerdict:
        """The verdict on a class, from the cache or a search on one of its nodes."""
        key = (found.shape.id, self._partitions.common_use(node_class))
        verdict = node_class.verdicts.get(key)
        if verdict is None:
            verdict = node_class.verdicts.keep(key, self._verdict_of_equals(node_class, view, found))
        return verdict

    def _verdict_of_equals(self, node_class: NodeClass, view: NodeView, found: _ShapeVerdicts) -> ClassVerdict:
        """The cached verdict of a class that is equal for these claims, or the verdict of a new search."""
        single_device = found.single_device
        key = single_device.key(node_class.structure, view, node_class.uses) if single_device is not None else None
        if single_device is None or key is None:
            return self._search(view, found.shape, self._judge.counters())
        verdict = single_device.verdicts.get(key)
        if verdict is None:
            verdict = single_device.verdicts.keep(key, self._search(view, found.shape, self._judge.counters()))
        return verdict

    def _search(self, view: NodeView, shape: ClaimShape, counters: CounterCache) -> ClassVerdict:
        """Search on a node; raises SearchStopped when the budget is exceeded."""
        if self.limits is None:
            return self._judge.judge(view, shape.prepared, counters)
        with self.limits.search(shape.id) as budget:
            return self._judge.judge(view, shape.prepared, counters, budget)

    def _explain(self, view: NodeView, shape: ClaimShape, counters: CounterCache) -> Reason | None:
        """Search for the reason; None when the budget is exceeded."""
        if self.limits is None:
            return self._judge.explain(view, shape.prepared, counters)
        try:
            with self.limits.search(shape.id) as budget:
                return self._judge.explain(view, shape.prepared, counters, budget)
        except SearchStopped:
            return None

    def on_all_nodes(self, shape: ClaimShape, explain: bool, entangled: frozenset[str]) -> ShapeAnswer:
        """The verdicts of one attempt on all nodes.

        Parameters
        ----------
        entangled
            Names of pools whose nodes must be judged one by one, see `PoolViews.entangled_names`.
        """
        answer = self._answers.get((shape.id, explain))
        if answer is None:
            found = self._found_for(shape)
            groups = [self._group(item, found, explain) for item in found.partition]
            if entangled:
                groups = self._judge_separately(groups, shape, explain, entangled)
            groups.sort(key=lambda group: self._ranks[group.nodes[0]])
            answer = ShapeAnswer(tuple(groups), self._partitions.views())
            if not any(isinstance(group.verdict, Stopped) for group in groups):
                self._answers.keep((shape.id, explain), answer)
        return answer

    def error(
        self,
        fatal: Fatal,
        view: NodeView,
        claims: Sequence[ResourceClaim],
        shape: ClaimShape,
        counters: CounterCache | None = None,
    ) -> AllocationError:
        """The error with the names of this node and these claims, which takes another search to find."""
        if not fatal.is_general:
            try:
                selectors = SelectorCache(list_attributes=self._rules.selectors_see_lists)
                prepared = prepare_in_order(claims, self._classes, self._rules, selectors)
                with self.limits.search(shape.id) if self.limits is not None else nullcontext() as budget:
                    self._judge.find(view, prepared, counters or self._judge.counters(), budget)
            except AllocationError as error:
                return error
            except SearchStopped:
                pass  # the message of the class must do
        return AllocationError(fatal.reason, fatal.message)

    def _group(self, node_class: NodeClass, found: _ShapeVerdicts, explain: bool) -> ShapeGroup:
        names = tuple(node_class.nodes)
        if len(names) > 1:
            names = tuple(sorted(names, key=self._ranks.__getitem__))
        view = self._partitions.view(names[0])
        try:
            return ShapeGroup(names, view, *self._on_class(node_class, view, found, explain))
        except SearchStopped as stopped:
            return ShapeGroup(names, view, Stopped(stopped), None)

    def _judge_separately(
        self, groups: list[ShapeGroup], shape: ClaimShape, explain: bool, entangled: frozenset[str]
    ) -> list[ShapeGroup]:
        """Judge the nodes with entangled pools one by one, in order, as each may change the verdict on the next."""
        views = self._partitions.views()
        separate = {name for name, view in views.items() if any(pool.id.pool in entangled for pool in view.pools)}
        remaining = [left for group in groups if (left := group.without(separate, views)) is not None]
        counters = self._judge.counters()
        for name in sorted(separate, key=self._ranks.__getitem__):
            view = views[name]
            verdict: ClassVerdict | Stopped
            try:
                verdict = self._search(view, shape, counters)
            except SearchStopped as stopped:
                verdict = Stopped(stopped)
            needs_reason = explain and isinstance(verdict, Misfit)
            reason = self._explain(view, shape, counters) if needs_reason else None
            remaining.append(ShapeGroup((name,), view, verdict, reason, counters))
        return remaining


class _FittingClasses:
    """Node classes on which claims of one shape fit; after a change only classes that were empty are checked."""

    __slots__ = ("_common_change", "_fitting", "_revived", "_seen")

    def __init__(self) -> None:
        self._fitting: dict[NodeClass, None] = {}
        self._revived: list[NodeClass] = []
        self._seen = 0
        self._common_change = -1

    def first(
        self,
        partition: NodeClasses,
        ranks: Mapping[str, int],
        common_change: int,
        fits: Callable[[NodeClass], bool],
    ) -> str | None:
        """Name of the first node of a class that fits; None if there is none.

        Parameters
        ----------
        partition
            The current nodes.
        common_change
            Number of the last change of the use of any common device, which may change every verdict.
        fits
            Whether the claims fit on a class.
        """
        if self._revived is not partition.revived or self._common_change != common_change:
            self._fitting.clear()
            self._revived, self._seen = partition.revived, len(partition.revived)
            self._common_change = common_change
            self._fitting.update((item, None) for item in partition.live if fits(item))
        for item in self._revived[self._seen :]:
            if item.nodes and item not in self._fitting and fits(item):
                self._fitting[item] = None
        self._seen = len(self._revived)
        for item in [item for item in self._fitting if not item.nodes]:
            del self._fitting[item]
        return min([item.first(ranks) for item in self._fitting], default=(0, None))[1]


class _ShapeVerdicts:
    __slots__ = ("fitting", "partition", "shape", "single_device")

    def __init__(self, shape: ClaimShape, partition: NodeClasses, rules: SchedulerRules, sizes: CacheSizes) -> None:
        self.shape = shape
        self.partition = partition
        self.fitting = _FittingClasses()
        self.single_device: SingleDeviceCache | None = None
        if sizes.single_device and SingleDeviceCache.picks_one_device(shape):
            self.single_device = SingleDeviceCache(shape, rules, sizes.single_device)
