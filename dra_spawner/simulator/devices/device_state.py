"""Allocated devices and the allocator's verdicts, for a cluster that changes.

`DeviceState` decides like :class:`~dra_spawner.dra.allocation.allocator.Allocator`, and searches once for a class of
equal nodes: their pools and devices are in equal use, and differ only in names or in attributes that the claims do not
read.
Verdicts are cached by class and claim shape.

Where that would not be exact, it searches on every node: kube-scheduler confuses the counters of pools with one name
(`PoolViews.entangled_names`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType

from dra_spawner.dra.allocation.allocator import AllocatedState, Allocation, AllocationError, DoesNotFit
from dra_spawner.dra.allocation.results import DeviceResult
from dra_spawner.dra.model.objects import (
    AllocatedDevice,
    DeviceClass,
    DeviceTaintRule,
    Node,
    PoolId,
    ResourceClaim,
    ResourceSlice,
)
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, SchedulerRules
from dra_spawner.simulator.devices.cached_verdicts import CachedVerdicts
from dra_spawner.simulator.devices.caching import CacheSizes
from dra_spawner.simulator.devices.claim_shapes import ClaimShapes
from dra_spawner.simulator.devices.class_verdicts import Fatal, Fits, Judge, no_fit
from dra_spawner.simulator.devices.holders import Held, Holders
from dra_spawner.simulator.devices.node_partitions import NodePartitions
from dra_spawner.simulator.devices.pool_views import Concerned, NodeView, PoolViews
from dra_spawner.simulator.devices.search_limits import SearchLimits
from dra_spawner.simulator.devices.tainted_slices import TaintedSlices
from dra_spawner.simulator.devices.verdicts import DeviceQuestion, Verdict, VerdictGroup, Verdicts
from dra_spawner.simulator.model.journal import Journal
from dra_spawner.simulator.model.table import ChangeLog, Table

__all__ = ["DeviceState", "Verdict", "VerdictGroup", "Verdicts"]


class DeviceState:
    """Nodes, slices, classes and allocated devices; every change can be reverted through the journal.

    Parameters
    ----------
    slices, classes, nodes
        Objects of the cluster. The order of slices matters only where slices of a pool contradict one another; a
        replaced slice keeps its rank.
    claims
        Allocated claims are recorded under ``(namespace, name)``, which must be unique.
    rules
        The rules of the cluster's kube-scheduler.
    taint_rules
        Rules that taint devices of the slices.
    journal
        Journal for undo entries; None for a new one.
    max_steps
        Maximum steps of a search on one node; None for no limit. kube-scheduler's limit is ten seconds.
    sizes
        Sizes of the caches; None for the default ones.
    """

    def __init__(
        self,
        slices: Iterable[ResourceSlice] = (),
        classes: Iterable[DeviceClass] = (),
        nodes: Iterable[Node] = (),
        claims: Iterable[ResourceClaim] = (),
        rules: SchedulerRules = DEFAULT_RULES,
        *,
        taint_rules: Iterable[DeviceTaintRule] = (),
        journal: Journal | None = None,
        max_steps: int | None = None,
        sizes: CacheSizes | None = None,
    ) -> None:
        self.journal = journal if journal is not None else Journal()
        self._rules = rules
        self._max_steps = max_steps
        self._sizes = sizes or CacheSizes()
        self._tainted = TaintedSlices(self.journal, rules.quirks, taint_rules)
        self._pools = PoolViews(rules, map(self._tainted.enter, slices))
        self._classes = {item.name: item for item in classes}
        self._nodes = {node.name: node for node in nodes}
        self._ranks = {name: rank for rank, name in enumerate(self._nodes)}
        self._next_rank = count(len(self._nodes))
        self._holders = Holders(claims)
        self._begin_to_judge(self._holders.held_at_first())

    def _begin_to_judge(self, held: Iterable[Held]) -> None:
        rules, sizes = self._rules, self._sizes
        self._allocated = AllocatedState(rules)
        self._allocated.add_all(held)
        self._judge = Judge(self._allocated, rules, self._max_steps)
        self._shapes = ClaimShapes(rules, sizes)
        self._partitions = NodePartitions(self._nodes, self._ranks, self._pools, self._allocated, sizes)
        self._verdicts = CachedVerdicts(self._judge, self._partitions, self._classes, self._ranks, rules, sizes)

    @property
    def rules(self) -> SchedulerRules:
        """The rules of the cluster's kube-scheduler."""
        return self._rules

    def follow_rules(self, rules: SchedulerRules) -> None:
        """Decide by other rules from now on. All verdicts are forgotten; this has no undo entry."""
        limits = self._verdicts.limits
        self._rules = rules
        self._pools.follow_rules(rules)
        self._tainted.quirks = rules.quirks
        self._taint_again(self._tainted.rules.values())
        self._begin_to_judge(self._holders.by_key.values())
        self._verdicts.limits = limits

    @property
    def nodes(self) -> Mapping[str, Node]:
        return MappingProxyType(self._nodes)

    @property
    def slices(self) -> Table[str, ResourceSlice]:
        """Slices as the scheduler sees them: with the taints of rules."""
        return self._pools.slices

    def slices_of(self, pool_id: PoolId) -> Sequence[ResourceSlice]:
        """All slices of a pool, of all generations."""
        return self._pools.of_pool(pool_id)

    @property
    def taint_rules(self) -> Mapping[str, DeviceTaintRule]:
        return self._tainted.rules

    def published(self, name: str) -> ResourceSlice | None:
        """A slice as its driver publishes it; None if there is none."""
        return self._tainted.published.get(name) or self._pools.slices.get(name)

    def in_order(self) -> tuple[list[ResourceSlice], list[Node]]:
        """All slices, as published, and all nodes in their order."""
        slices = [self._tainted.published.get(item.name, item) for item in self._pools.in_order()]
        return slices, [self._nodes[name] for name in sorted(self._nodes, key=self._ranks.__getitem__)]

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        return MappingProxyType(self._classes)

    @property
    def holders(self) -> Mapping[Hashable, Held]:
        """Devices of each recorded claim, by its key."""
        return MappingProxyType(self._holders.by_key)

    @property
    def allocated(self) -> AllocatedState:
        """Devices of all claims together; read only."""
        return self._allocated

    def view(self, node_name: str) -> NodeView:
        """The pools that a node sees. Raises KeyError if the node does not exist."""
        return self._partitions.view(node_name)

    def limit_searches(self, limits: SearchLimits | None) -> None:
        """Limit the cost of searches; None for no limit. A search that exceeds the limit raises SearchStopped."""
        self._verdicts.limits = limits

    def allocate(
        self, node_name: str, claims: Sequence[ResourceClaim], explain: bool = False
    ) -> tuple[Allocation, ...] | DoesNotFit:
        """Devices for all claims together on one node, or the reason; records nothing.

        The answer equals that of a new :class:`~dra_spawner.dra.allocation.allocator.Allocator` for this node alone.

        Raises
        ------
        AllocationError
            When the scheduler would give up on the pod on all nodes.
        SearchStopped
            When the search exceeds its budget.
        KeyError
            If the node does not exist.
        """
        shape = self._shapes.shape(claims, self._classes)
        verdict, reason = self._verdicts.on_node(node_name, shape, explain)
        view = self._partitions.view(node_name)
        if isinstance(verdict, Fits):
            return self._judge.allocations(verdict, view, shape.prepared)
        if isinstance(verdict, Fatal):
            raise self._verdicts.error(verdict, view, claims, shape)
        return no_fit(verdict, reason, view, claims)

    def verdicts(self, claims: Sequence[ResourceClaim], explain: bool = True) -> Verdicts:
        """Verdicts of one attempt to place a pod with these claims; nodes with the same verdict are grouped.

        The answer equals that of one :class:`~dra_spawner.dra.allocation.allocator.Allocator` for one node after the
        other, in the order in which they were added.

        Raises
        ------
        AllocationError
            When the claims cannot be allocated on any node.
        """
        shape = self._shapes.shape(claims, self._classes)
        answer = self._verdicts.on_all_nodes(shape, explain, self._pools.entangled_names)
        errors = {
            group: self._verdicts.error(group.verdict, group.view, claims, shape, group.counters)
            for group in answer.fatal
            if isinstance(group.verdict, Fatal)
        }
        return Verdicts(answer, DeviceQuestion(tuple(claims), shape, self._judge, errors))

    def first_fitting_node(self, claims: Sequence[ResourceClaim]) -> str | None:
        """The first node, in the order of addition, on which `allocate` finds devices; None if there is none.

        Skips nodes for which `allocate` raises AllocationError.

        Raises
        ------
        AllocationError
            When the claims cannot be allocated whatever the nodes are.
        """
        return self._verdicts.first_fitting_node(self._shapes.shape(claims, self._classes))

    def failing_nodes(self, claims: Sequence[ResourceClaim]) -> tuple[str, ...]:
        """Nodes on which `allocate` raises AllocationError: the scheduler gives up on the pod there."""
        try:
            shape = self._shapes.shape(claims, self._classes)
        except AllocationError:
            return tuple(self._nodes)
        return tuple(sorted(self._verdicts.failing_nodes(shape), key=self._ranks.__getitem__))

    @property
    def changes(self) -> ChangeLog[str]:
        """Nodes where verdicts may have changed."""
        return self._partitions.changes

    def number_of(self, claims: Sequence[ResourceClaim]) -> int:
        """The number of equal claims, until a class changes.

        Raises
        ------
        AllocationError
            When the claims cannot be allocated whatever the nodes are.
        SearchStopped
            If nothing may be searched for these claims.
        """
        shape = self._shapes.shape(claims, self._classes)
        self._verdicts.check(shape)
        return shape.id

    def tokens(self, claims: Sequence[ResourceClaim]) -> Callable[[str], Hashable]:
        """By node: a value that equals an earlier one only if `allocate` has the same answer for these claims there.

        The devices must not change meanwhile. For a node that does not exist it raises KeyError.

        Raises
        ------
        AllocationError
            When the claims cannot be allocated whatever the nodes are.
        """
        return self._verdicts.tokens(self._shapes.shape(claims, self._classes))

    def record(self, claim_key: Hashable, results: Iterable[AllocatedDevice | DeviceResult]) -> None:
        """Record the devices of a claim.

        Raises
        ------
        ValueError
            When the claim is recorded already.
        """
        if claim_key in self._holders.by_key:
            raise ValueError(f"claim {claim_key} is recorded already")
        held = tuple([item.as_allocated() if isinstance(item, DeviceResult) else item for item in results])
        self._hold(claim_key, held)
        self.journal.record(partial(self._free, claim_key))

    def release(self, claim_key: Hashable) -> Held:
        """Free the devices of a claim.

        Returns
        -------
        tuple
            These devices.

        Raises
        ------
        KeyError
            When the claim is not recorded.
        """
        held = self._free(claim_key)
        self.journal.record(partial(self._hold, claim_key, held))
        return held

    def add_node(self, node: Node) -> None:
        """Add a node, or replace the one of this name, which keeps its rank."""
        before = self._nodes.get(node.name)
        rank = self._ranks[node.name] if before is not None else next(self._next_rank)
        self._set_node(node.name, node, rank)
        self.journal.record(partial(self._set_node, node.name, before, rank))

    def remove_node(self, name: str) -> None:
        """Remove a node; its devices stay allocated. Raises KeyError when there is none."""
        node, rank = self._nodes[name], self._ranks[name]
        self._set_node(name, None, rank)
        self.journal.record(partial(self._set_node, name, node, rank))

    def put_slice(self, item: ResourceSlice) -> None:
        """Add a slice as published, or replace the one of this name."""
        self._put_seen(self._tainted.enter(item))

    def remove_slice(self, name: str) -> None:
        """Remove a slice; its devices stay allocated. Raises KeyError when there is none."""
        item = self._pools.slices[name]
        self._tainted.published.discard(name)
        rank, concerned = self._pools.remove(name)
        self._note_pools(concerned)
        self.journal.record(partial(self._undo_put, item, rank))

    def put_rule(self, rule: DeviceTaintRule) -> None:
        """Add a rule, or replace the one of this name."""
        before = self._tainted.rules.get(rule.name)
        self._tainted.rules.put(rule.name, rule)
        self._taint_again(filter(None, (before, rule)))

    def remove_rule(self, name: str) -> None:
        """Remove a rule. Raises KeyError when there is none."""
        before = self._tainted.rules[name]
        self._tainted.rules.discard(name)
        self._taint_again((before,))

    def put_class(self, item: DeviceClass) -> None:
        """Add a class, or replace the one of this name."""
        before = self._classes.get(item.name)
        self._set_class(item.name, item)
        self.journal.record(partial(self._set_class, item.name, before))

    def remove_class(self, name: str) -> None:
        """Remove a class. Raises KeyError when there is none."""
        before = self._classes[name]
        self._set_class(name, None)
        self.journal.record(partial(self._set_class, name, before))

    def _taint_again(self, rules: Iterable[DeviceTaintRule]) -> None:
        """Apply all rules again to the slices that one of these may select."""
        changed = tuple(rules)
        for seen in list(self._pools.slices.values()):
            if any(rule.may_select(seen.pool_id) for rule in changed):
                item = self._tainted.enter(self._tainted.published.get(seen.name, seen))
                if item != seen:
                    self._put_seen(item)

    def _put_seen(self, item: ResourceSlice) -> None:
        """Put a slice as the scheduler sees it."""
        before = self._pools.slices.get(item.name)
        self._note_pools(self._pools.put(item))
        undo = partial(self._undo_put, before) if before is not None else partial(self._undo_new, item.name)
        self.journal.record(undo)

    def _hold(self, claim_key: Hashable, held: Held) -> None:
        self._holders.by_key[claim_key] = held
        self._allocated.add(held)
        self._note_use(held)

    def _free(self, claim_key: Hashable) -> Held:
        held = self._holders.by_key.pop(claim_key)
        self._allocated.remove(held)
        self._note_use(held)
        return held

    def _note_use(self, held: Held) -> None:
        self._verdicts.forget_answers()
        self._partitions.note_use(held)

    def _set_node(self, name: str, node: Node | None, rank: int) -> None:
        self._verdicts.forget_answers()
        if node is None:
            del self._nodes[name], self._ranks[name]
        else:
            self._nodes[name], self._ranks[name] = node, rank
        self._partitions.note_node(name)

    def _note_pools(self, concerned: Concerned) -> None:
        """Note that these nodes see other pools now; None means all nodes."""
        self._verdicts.forget_answers()
        self._partitions.note_pools(concerned)

    def _undo_put(self, item: ResourceSlice, rank: int | None = None) -> None:
        self._note_pools(self._pools.put(item, rank))

    def _undo_new(self, name: str) -> None:
        self._note_pools(self._pools.remove(name)[1])

    def _set_class(self, name: str, item: DeviceClass | None) -> None:
        self._partitions.changes.note_all()
        self._shapes.clear()
        self._verdicts.forget_shapes()
        if item is None:
            del self._classes[name]
        else:
            self._classes[name] = item
