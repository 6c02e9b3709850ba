"""The pools that each node sees, updated only for the nodes that a change affects.

A pool is *local* when all its slices name the same node: then no other node can use its devices. All other pools
(network-attached, selected by labels, spread over nodes, with node selection by device) are *common*.

Other nodes see of a local pool at most that it is incomplete or invalid. By a peculiarity of kube-scheduler 1.36,
slices with counters affect every node, and an incomplete or invalid pool changes the verdict even on nodes without its
devices. A pool with this effect is *troubled*, and every node sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from dra_spawner.dra.allocation.allocated_state import PoolDevices
from dra_spawner.dra.model.devices import DeviceId, PoolId, ResourceSlice
from dra_spawner.dra.model.node_selector import NodeSelectorError
from dra_spawner.dra.model.objects import Node
from dra_spawner.dra.model.pools import Candidate, Pool, PoolState, gather_pools, local_pool, pool_order
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.simulator.model.journal import Journal
from dra_spawner.simulator.model.table import Table

Concerned = frozenset[str] | None
"""Names of the nodes that see other pools after a change; None for all nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """The pools that one node sees. A change of these pools makes a new object.

    Attributes
    ----------
    pools
        The pools in the order in which their devices are tried.
    local
        Ids of the pools that are local to this node.
    error
        Why the scheduler would give up on any pod at this node; empty if it would not.
    local_devices, common_devices
        Devices whose use decides about the node, in the order of the pools; they include devices of other nodes that
        draw on the same counters.
    """

    node: Node
    pools: tuple[Pool, ...]
    local: frozenset[PoolId]
    error: str = ""
    local_devices: tuple[PoolDevices, ...] = field(init=False)
    common_devices: tuple[PoolDevices, ...] = field(init=False)

    def __post_init__(self) -> None:
        local: list[PoolDevices] = []
        common: list[PoolDevices] = []
        for pool in self.pools:
            if pool.device_names:
                (local if pool.id in self.local else common).append((pool.id, pool.device_names))
        object.__setattr__(self, "local_devices", tuple(local))
        object.__setattr__(self, "common_devices", tuple(common))

    def candidate(self, position: tuple[int, int, int]) -> Candidate:
        """The device at a position: index of the pool, of the slice in the pool, and of the device in the slice."""
        pool = self.pools[position[0]]
        part = pool.slices[position[1]]
        return Candidate(part.devices[position[2]], part, pool)

    def position(self, candidate: Candidate) -> tuple[int, int, int]:
        """Position of a device of this view.

        Raises
        ------
        ValueError
            If the view does not have the device.
        """
        for in_slices, part in enumerate(candidate.pool.slices):
            if part is candidate.slice:
                for in_devices, device in enumerate(part.devices):
                    if device is candidate.device:
                        return self.pools.index(candidate.pool), in_slices, in_devices
        raise ValueError(f"device {candidate.device.id} is not in this view")

    def positions(self) -> dict[DeviceId, tuple[int, int, int]]:
        """Position of each device."""
        return {
            device.id: (in_pools, in_slices, in_devices)
            for in_pools, pool in enumerate(self.pools)
            for in_slices, part in enumerate(pool.slices)
            for in_devices, device in enumerate(part.devices)
        }


@dataclass(slots=True, eq=False)
class _KnownPool:
    slices: list[ResourceSlice]
    """The slices, in the order of their ranks."""
    owner: str | None = None
    """The node to which the pool is local; empty if it is common; None until `_settle` has run."""
    trouble: Pool | None = None
    """The pool as other nodes than the owner see it, if it is troubled; None otherwise."""


class PoolViews:
    """All slices of the cluster, arranged by the nodes that see them.

    Attributes
    ----------
    serials
        Unique number of each version of a slice, by the slice's name.
    """

    def __init__(self, rules: SchedulerRules, slices: Iterable[ResourceSlice] = ()) -> None:
        # The owner of this object records undos in its own journal.
        self.slices: Table[str, ResourceSlice] = Table(Journal())
        self.serials: dict[str, int] = {}
        self._rules = rules
        self._ranks: dict[str, int] = {}
        self._next_rank = count()
        self._next_serial = count()
        self._pools: dict[PoolId, _KnownPool] = {}
        self._local: dict[str, dict[PoolId, _KnownPool]] = {}
        self._common: list[ResourceSlice] | None = None
        self._troubled: list[_KnownPool] | None = None
        self._entangled: frozenset[str] | None = None
        for item in {item.name: item for item in slices}.values():
            self._enter(item)
            self._pools.setdefault(item.pool_id, _KnownPool([])).slices.append(item)
        for pool_id in self._pools:
            self._settle(pool_id)

    def follow_rules(self, rules: SchedulerRules) -> None:
        """See the same slices by other rules."""
        self._rules = rules
        for pool_id in self._pools:
            self._settle(pool_id)
        self._common = self._troubled = self._entangled = None

    def put(self, item: ResourceSlice, rank: int | None = None) -> Concerned:
        """Add a slice, or replace the one of this name.

        Parameters
        ----------
        rank
            Its rank among the slices; None keeps its present rank, or puts it last.
        """
        before = self.slices.get(item.name)
        if rank is not None:
            self._ranks[item.name] = rank
        self._enter(item)
        pool = self._pools.setdefault(item.pool_id, _KnownPool([]))
        pool.slices = [known for known in pool.slices if known is not before] + [item]
        pool.slices.sort(key=lambda known: self._ranks[known.name])
        concerned = self._settle(item.pool_id)
        if before is None or before.pool_id == item.pool_id:
            return concerned
        return _union(concerned, self._leave(before))

    def remove(self, name: str) -> tuple[int, Concerned]:
        """Remove a slice; return its rank and the affected nodes. Raises KeyError when there is none."""
        item = self.slices[name]
        self.slices.discard(name)
        del self.serials[name]
        return self._ranks.pop(name), self._leave(item)

    def view(self, node: Node) -> NodeView:
        """The pools that the node sees."""
        local = self._local.get(node.name, {})
        pools = []
        for known in local.values():
            slices = known.slices if len(known.slices) == 1 else sorted(known.slices, key=self._order)
            pool = local_pool(slices, self._rules)
            if pool is not None:
                pools.append(pool)
        if self._common_slices():
            try:
                pools += gather_pools(self, node, self._rules)
            except NodeSelectorError as error:
                return NodeView(node, (), frozenset(), f"a resource slice's node selector: {error}")
        pools += self._trouble_for(node.name)
        if len(pools) > 1:
            pools.sort(key=lambda pool: (pool.has_binding_conditions, *pool_order(pool)))
        return NodeView(node, tuple(pools), frozenset(local))

    def owner(self, device: DeviceId) -> str | None:
        """The node to which the device is local; empty if its pool is common, None if the pool does not exist."""
        pool = self._pools.get(PoolId(device.driver, device.pool))
        return pool.owner if pool is not None else None

    @property
    def entangled_names(self) -> frozenset[str]:
        """Names of pools whose counters kube-scheduler may confuse within one attempt to place a pod.

        It caches what is left of counters by pool. That is harmless if the pool is local to one node, or its counters
        look alike from every node. Up to 1.36 it does so by the pool's name alone: then all pools of a name count.
        """
        if self._entangled is None:
            self._entangled = self._find_entangled()
        return self._entangled

    def for_node(self, node_name: str, rules: SchedulerRules) -> Sequence[ResourceSlice]:
        """Slices of common pools, for all nodes."""
        return self._common_slices()

    def of_pool(self, pool_id: PoolId) -> Sequence[ResourceSlice]:
        """Slices of one pool, of all generations and for all nodes."""
        pool = self._pools.get(pool_id)
        return pool.slices if pool is not None else ()

    def in_order(self) -> list[ResourceSlice]:
        """All slices in the order of their ranks."""
        return sorted(self.slices.values(), key=lambda item: self._ranks[item.name])

    def _common_slices(self) -> Sequence[ResourceSlice]:
        if self._common is None:
            common = [item for pool in self._pools.values() if not pool.owner for item in pool.slices]
            self._common = sorted(common, key=self._order)
        return self._common

    def _order(self, item: ResourceSlice) -> tuple[bool, int]:
        """Sort key: as in kube-scheduler, slices with devices of one node come first within a pool.

        If the slices of a pool disagree about their number, the first slice counts.
        """
        everywhere = bool(item.shared_counters) and self._rules.quirks.counter_slices_relevant_everywhere
        return not item.node_name or everywhere, self._ranks[item.name]

    def _enter(self, item: ResourceSlice) -> None:
        self.slices.put(item.name, item)
        self.serials[item.name] = next(self._next_serial)
        if item.name not in self._ranks:
            self._ranks[item.name] = next(self._next_rank)

    def _leave(self, item: ResourceSlice) -> Concerned:
        pool = self._pools[item.pool_id]
        pool.slices = [known for known in pool.slices if known is not item]
        return self._settle(item.pool_id)

    def _settle(self, pool_id: PoolId) -> Concerned:
        """Determine the owner of a pool after its slices have changed."""
        pool = self._pools[pool_id]
        before = (pool.owner, pool.trouble is not None)
        if pool.owner:
            del self._local[pool.owner][pool_id]
        if pool.slices:
            names = {item.node_name for item in pool.slices}
            pool.owner = (len(names) == 1 and names.pop()) or ""
            pool.trouble = self._find_trouble(pool_id, pool) if pool.owner else None
        else:
            pool.owner = pool.trouble = None
            del self._pools[pool_id]
        if pool.owner:
            self._local.setdefault(pool.owner, {})[pool_id] = pool
        after = (pool.owner, pool.trouble is not None)
        self._entangled = None
        if before[1] or after[1]:
            self._troubled = None
        if before[0] == "" or after[0] == "":
            self._common = None
            return None
        if before[1] or after[1]:
            return None
        return frozenset(owner for owner in (before[0], after[0]) if owner)

    def _find_trouble(self, pool_id: PoolId, pool: _KnownPool) -> Pool | None:
        counter_slices = [item for item in pool.slices if item.shared_counters]
        if not counter_slices:
            return None
        # No node has the empty name, so this is the view of every node but the owner.
        seen = gather_pools(_OnePool(counter_slices, pool.slices), Node(""), self._rules)
        return next((item for item in seen if item.state is not PoolState.USABLE), None)

    def _trouble_for(self, node_name: str) -> list[Pool]:
        """Troubled pools of other nodes; the first pool of each state is enough."""
        if self._troubled is None:
            troubled = [pool for pool in self._pools.values() if pool.trouble is not None]
            self._troubled = sorted(troubled, key=lambda pool: pool_order(pool.trouble) if pool.trouble else ())
        first: dict[PoolState, Pool] = {}
        for pool in self._troubled:
            if pool.trouble is not None and pool.owner != node_name:
                first.setdefault(pool.trouble.state, pool.trouble)
                if len(first) == len(PoolState) - 1:
                    break
        return list(first.values())

    def _find_entangled(self) -> frozenset[str]:
        with_counters: dict[str, list[_KnownPool]] = {}
        for pool_id, pool in self._pools.items():
            if any(item.shared_counters for item in pool.slices):
                with_counters.setdefault(pool_id.pool, []).append(pool)
        if not self._rules.quirks.counters_by_pool_name:
            return frozenset(
                name
                for name, pools in with_counters.items()
                if any(not pool.owner and not _looks_alike_everywhere(pool.slices) for pool in pools)
            )
        return frozenset(
            name
            for name, pools in with_counters.items()
            if (
                any(not pool.owner for pool in pools)
                and (len(pools) > 1 or not _looks_alike_everywhere(pools[0].slices))
            )
            or len({pool.owner for pool in pools}) > 1
        )


class _OnePool:
    """Slices of one pool; a node sees some of them."""

    def __init__(self, visible: Sequence[ResourceSlice], everywhere: Sequence[ResourceSlice]) -> None:
        self._visible = visible
        self._everywhere = everywhere

    def for_node(self, node_name: str, rules: SchedulerRules) -> Sequence[ResourceSlice]:
        return self._visible

    def of_pool(self, pool_id: PoolId) -> Sequence[ResourceSlice]:
        return self._everywhere


def _looks_alike_everywhere(slices: Sequence[ResourceSlice]) -> bool:
    """Whether all nodes that can use the pool see the same slices of it."""
    first = slices[0]
    return all(item.generation == first.generation and item.resource_slice_count == len(slices) for item in slices)


def _union(one: Concerned, other: Concerned) -> Concerned:
    return None if one is None or other is None else one | other
