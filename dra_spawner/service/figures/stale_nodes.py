"""Nodes whose utilization figures must be computed again, as devices, claims or pods have changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dra_spawner.dra.model.objects import PoolId, ResourceSlice
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.snapshot import Snapshot

#: Limit of collected names, beyond the number of nodes.
SPARE: Final = 1_000


class StaleNodes:
    """Collects the nodes that changes of a snapshot affect; at first, all nodes.

    Parameters
    ----------
    snapshot
        Call `note` after each change of it (`Change.decides`).
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._names: set[str] = set()
        self._all = True
        self._broken = 0
        self._slices: dict[str, PoolId] = {}
        self._pools: dict[PoolId, dict[str, frozenset[str]]] = {}
        self._claims: dict[ObjectKey, frozenset[PoolId]] = {}
        self._withdrawn: dict[PoolId, frozenset[str]] = {}
        """Nodes of pools that had slices, as claims may still have their devices."""
        for name in snapshot.slices:
            self.note(Kind.RESOURCE_SLICE, ObjectKey("", name))
        for key in snapshot.claims:
            self.note(Kind.RESOURCE_CLAIM, key)

    def note(self, kind: Kind, key: ObjectKey) -> None:
        """Collect the nodes that are affected by an added, changed or removed object."""
        if len(self._snapshot.state.broken) != self._broken:
            # An object became invalid, or valid again. This is rare, so all nodes are computed again.
            self._broken = len(self._snapshot.state.broken)
            self._all = True
        match kind:
            case Kind.NODE:
                self._names.add(key.name)
            case Kind.POD:
                # The claims of a node's pods decide whether its figures are unknown.
                pod = self._snapshot.pods.get(key)
                if pod is not None and pod.node_name:
                    self._names.add(pod.node_name)
            case Kind.RESOURCE_CLAIM:
                self._note_claim(key)
            case Kind.RESOURCE_SLICE:
                self._note_slice(key.name)
            case Kind.DEVICE_CLASS | Kind.DEVICE_TAINT_RULE:
                self._all = True  # rare: what people and administrators change
            case Kind.RESOURCE_CLAIM_TEMPLATE:
                pass
        if len(self._names) > len(self._snapshot.nodes) + SPARE:
            # Memory stays bounded: pods may name nodes that do not exist, and figures may never be requested.
            self._names, self._all = set(), True

    def put_back(self, names: Iterable[str]) -> None:
        """Return nodes that were taken and not computed."""
        self._names.update(names)

    def take(self, every: Iterable[str]) -> list[str]:
        """Remove and return the collected nodes, sorted by name; some may not exist any more.

        Parameters
        ----------
        every
            Names of all nodes.
        """
        names = {*every, *self._names} if self._all else self._names
        self._names, self._all = set(), False
        return sorted(names)

    def _note_claim(self, key: ObjectKey) -> None:
        held = self._snapshot.state.devices.holders.get(key, ())
        before = self._claims.pop(key, frozenset())
        after = frozenset(PoolId(part.id.driver, part.id.pool) for part in held)
        if after:
            self._claims[key] = after
        for pool_id in before | after:
            self._add_nodes_of(pool_id)

    def _note_slice(self, name: str) -> None:
        before = self._slices.pop(name, None)
        if before is not None:
            self._add_nodes_of(before)
            nodes = self._pools[before].pop(name)
            if not self._pools[before]:
                del self._pools[before]
                self._withdrawn[before] = nodes
                if len(self._withdrawn) > SPARE:
                    del self._withdrawn[next(iter(self._withdrawn))]
        item = self._snapshot.slices.get(name)
        if item is not None:
            self._slices[name] = item.pool_id
            self._pools.setdefault(item.pool_id, {})[name] = _nodes_of(item)
            self._withdrawn.pop(item.pool_id, None)
            self._add_nodes_of(item.pool_id)

    def _add_nodes_of(self, pool_id: PoolId) -> None:
        """Collect the nodes with local devices in a pool; devices for all nodes are not in any node's figures."""
        self._names.update(*self._pools.get(pool_id, {}).values(), self._withdrawn.get(pool_id, ()))


def _nodes_of(item: ResourceSlice) -> frozenset[str]:
    if item.node_name:
        return frozenset((item.node_name,))
    return frozenset(device.node_name for device in item.devices if device.node_name)
