"""A model of a cluster whose changes can be reverted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from dra_spawner.dra.model.objects import DeviceClass, DeviceTaintRule, ResourceSlice
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, SchedulerRules
from dra_spawner.simulator.cluster_state import ClusterState
from dra_spawner.simulator.devices.device_state import DeviceState
from dra_spawner.simulator.devices.search_limits import SearchLimits
from dra_spawner.simulator.model.claims import ClaimTemplate, ObjectKey, TrackedClaim
from dra_spawner.simulator.model.cluster_objects import BrokenObject, ClusterObject, Kind, decode, decode_all
from dra_spawner.simulator.model.journal import Journal
from dra_spawner.simulator.model.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot_errors import SnapshotError, SnapshotProblem


class ForkableCluster:
    """Nodes, slices, rules for taints, classes, claims, templates and pods of a cluster.

    Every change is atomic. An invalid object is in `broken`, and makes undecidable what it affects: the pod that names
    it, its node, its pool.

    Parameters
    ----------
    rules
        The rules of the cluster's kube-scheduler.
    max_steps
        Maximum steps of the search for devices on one node; None for no limit.
    """

    def __init__(
        self,
        objects: Iterable[ClusterObject | BrokenObject] = (),
        *,
        rules: SchedulerRules = DEFAULT_RULES,
        max_steps: int | None = None,
    ) -> None:
        items = list(objects)
        self._journal = Journal()
        devices = DeviceState(
            [item for item in items if isinstance(item, ResourceSlice)],
            [item for item in items if isinstance(item, DeviceClass)],
            rules=rules,
            taint_rules=[item for item in items if isinstance(item, DeviceTaintRule)],
            journal=self._journal,
            max_steps=max_steps,
        )
        self._state = ClusterState(self._journal, devices)
        self._forks: list[int] = []
        for item in items:
            if not isinstance(item, (ResourceSlice, DeviceClass, DeviceTaintRule)):
                put_object(self._state, item)

    @classmethod
    def from_objects(
        cls,
        objects: Iterable[object],
        *,
        rules: SchedulerRules = DEFAULT_RULES,
        max_steps: int | None = None,
    ) -> Self:
        """Snapshot of API objects as JSON; other kinds are ignored."""
        return cls(
            decode_all(objects),
            rules=rules,
            max_steps=max_steps,
        )

    @property
    def rules(self) -> SchedulerRules:
        """The rules of the cluster's kube-scheduler."""
        return self._state.devices.rules

    def follow_rules(self, rules: SchedulerRules) -> None:
        """Decide by other rules from now on, as after an upgrade of the cluster; outside forks only."""
        if self._forks:
            raise SnapshotError(SnapshotProblem.FORK_OPEN, "rules cannot change while a fork is open")
        if rules != self.rules:
            self._state.devices.follow_rules(rules)

    def limit_searches(self, limits: SearchLimits | None) -> None:
        """Limit the cost of searches for devices; None for no limit.

        A search beyond the limit raises SearchStopped, and nothing has changed then.
        """
        self._state.devices.limit_searches(limits)

    @property
    def nodes(self) -> Mapping[str, NodeState]:
        """Nodes with the pods bound to them, by name."""
        return self._state.nodes

    @property
    def pods(self) -> Mapping[ObjectKey, Pod]:
        """Pods by namespace and name, including pending pods."""
        return self._state.pods

    @property
    def claims(self) -> Mapping[ObjectKey, TrackedClaim]:
        """Claims by namespace and name, including those created in the model."""
        return self._state.claims

    @property
    def templates(self) -> Mapping[ObjectKey, ClaimTemplate]:
        """Claim templates by namespace and name."""
        return self._state.templates

    @property
    def slices(self) -> Mapping[str, ResourceSlice]:
        """Slices by name, with the taints of rules; an invalid one is replaced by one that makes its pool invalid."""
        return self._state.devices.slices

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        return self._state.devices.classes

    @property
    def broken(self) -> tuple[BrokenObject, ...]:
        return tuple(self._state.broken[key] for key in sorted(self._state.broken))

    def items(self) -> list[ClusterObject | BrokenObject]:
        """All objects of the cluster. They are immutable, so another thread may build an equal cluster from them."""
        substitutes = {key.name for kind, key in self._state.broken if kind is Kind.RESOURCE_SLICE}
        slices, nodes = self._state.devices.in_order()
        return [
            *(self.nodes[each.name].node for each in nodes),
            *(item for item in slices if item.name not in substitutes),
            *self._state.devices.taint_rules.values(),
            *self.classes.values(),
            *self.templates.values(),
            *self.claims.values(),
            *self.pods.values(),
            *self.broken,
        ]

    @property
    def state(self) -> ClusterState:
        """The objects and their indexes; read only."""
        return self._state

    def fork(self) -> None:
        """Start a fork: later changes can be reverted. Forks nest."""
        self._forks.append(self._journal.mark())

    def commit(self) -> None:
        """Keep the changes since the latest fork; an outer fork can still revert them."""
        self._journal.forget_to(self._close_fork())

    def revert(self) -> None:
        """Revert the changes since the latest fork, at the cost of these changes."""
        self._journal.revert_to(self._close_fork())

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Revert the changes of the block at its end, including forks that are still open."""
        depth = len(self._forks)
        self.fork()
        try:
            yield
        finally:
            mark = self._forks[depth]
            del self._forks[depth:]
            self._journal.revert_to(mark)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Revert the changes of the block if it raises; it must leave no fork open."""
        with self._journal.all_or_nothing():
            yield

    def _close_fork(self) -> int:
        if not self._forks:
            raise SnapshotError(SnapshotProblem.NO_FORK, "no fork is open")
        return self._forks.pop()

    def apply(self, obj: object) -> BrokenObject | None:
        """Add or replace an API object given as JSON.

        Returns
        -------
        BrokenObject or None
            The object with its problem, if it is invalid.
        """
        item = decode(obj)
        if item is None:
            return None
        self.put(item)
        return item if isinstance(item, BrokenObject) else None

    def put(self, item: ClusterObject | BrokenObject) -> None:
        """Add an object, or replace the one of its kind and name.

        A bound pod uses its node's resources; an allocated claim uses its devices.
        """
        with self._journal.all_or_nothing():
            put_object(self._state, item)

    def remove(self, kind: Kind, key: ObjectKey) -> None:
        """Remove an object.

        Removing a pod removes its own claims and deallocates claims without another consumer. Removing a claim frees
        its devices. Pods of a removed node stay.

        Raises
        ------
        SnapshotError
            If the object does not exist.
        """
        with self._journal.all_or_nothing():
            remove_object(self._state, kind, key)

    def mirror(self, item: ClusterObject | BrokenObject) -> None:
        """Add or replace an object as the API server has it; unlike `put`, this changes no other object.

        A snapshot that follows watches thereby equals a snapshot of the objects, for any order of events.
        """
        with self._journal.all_or_nothing():
            put_object(self._state, item, mirrored=True)

    def forget(self, kind: Kind, key: ObjectKey) -> None:
        """Remove an object; unlike `remove`, this changes no other object.

        Raises
        ------
        SnapshotError
            If the object does not exist.
        """
        with self._journal.all_or_nothing():
            remove_object(self._state, kind, key, mirrored=True)

    def add_pod(self, pod: Pod) -> None:
        """Add a pod, or replace the one of this name."""
        self.put(pod)

    def remove_pod(self, key: ObjectKey) -> None:
        self.remove(Kind.POD, key)

    def add_claim(self, claim: TrackedClaim) -> None:
        """Add a claim, or replace the one of this name."""
        self.put(claim)

    def remove_claim(self, key: ObjectKey) -> None:
        self.remove(Kind.RESOURCE_CLAIM, key)


def put_object(state: ClusterState, item: ClusterObject | BrokenObject, *, mirrored: bool = False) -> None:
    """Add an object, or replace the one of its kind and name; `mirrored` as in `ClusterState.put_pod`."""
    match item:
        case BrokenObject():
            _put_broken(state, item)
            return
        case SchedulableNode():
            state.put_node(item)
            kind, key = Kind.NODE, ObjectKey("", item.name)
        case Pod():
            state.put_pod(item, mirrored=mirrored)
            kind, key = Kind.POD, ObjectKey.of(item)
        case TrackedClaim():
            state.put_claim(item)
            kind, key = Kind.RESOURCE_CLAIM, item.key
        case ClaimTemplate():
            state.put_template(item)
            kind, key = Kind.RESOURCE_CLAIM_TEMPLATE, ObjectKey(item.namespace, item.name)
        case DeviceClass():
            state.put_class(item)
            kind, key = Kind.DEVICE_CLASS, ObjectKey("", item.name)
        case ResourceSlice():
            state.put_slice(item)
            kind, key = Kind.RESOURCE_SLICE, ObjectKey("", item.name)
        case DeviceTaintRule():
            state.put_rule(item)
            kind, key = Kind.DEVICE_TAINT_RULE, ObjectKey("", item.name)
    state.broken.discard((kind, key))


def remove_object(state: ClusterState, kind: Kind, key: ObjectKey, *, mirrored: bool = False) -> None:
    """Remove an object, valid or not. Raises :class:`SnapshotError` when there is none."""
    was_broken = state.broken.discard((kind, key)) is not None
    if _is_known(state, kind, key):
        _remove(state, kind, key, mirrored=mirrored)
    elif not was_broken:
        raise SnapshotError(SnapshotProblem.NOT_FOUND, f"{kind} {key} not found")


def _put_broken(state: ClusterState, broken: BrokenObject) -> None:
    """Store an invalid object. The devices of a claim, and the last valid version of a pod, still count."""
    kind, key = broken.kind, broken.key
    if broken.held is not None:
        state.put_claim(broken.held)
    elif kind not in (Kind.POD, Kind.RESOURCE_CLAIM) and _is_known(state, kind, key):
        _remove(state, kind, key)
    state.put_broken(broken)


def _is_known(state: ClusterState, kind: Kind, key: ObjectKey) -> bool:
    match kind:
        case Kind.NODE:
            return key.name in state.nodes
        case Kind.POD:
            return key in state.pods
        case Kind.RESOURCE_CLAIM:
            return key in state.claims
        case Kind.RESOURCE_CLAIM_TEMPLATE:
            return key in state.templates
        case Kind.DEVICE_CLASS:
            return key.name in state.devices.classes
        case Kind.RESOURCE_SLICE:
            return key.name in state.devices.slices
        case Kind.DEVICE_TAINT_RULE:
            return key.name in state.devices.taint_rules


def _remove(state: ClusterState, kind: Kind, key: ObjectKey, *, mirrored: bool = False) -> None:
    match kind:
        case Kind.NODE:
            state.remove_node(key.name)
        case Kind.POD:
            state.remove_pod(key, mirrored=mirrored)
        case Kind.RESOURCE_CLAIM:
            state.remove_claim(key)
        case Kind.RESOURCE_CLAIM_TEMPLATE:
            state.templates.discard(key)
        case Kind.DEVICE_CLASS:
            state.remove_class(key.name)
        case Kind.RESOURCE_SLICE:
            state.remove_slice(key.name)
        case Kind.DEVICE_TAINT_RULE:
            state.remove_rule(key.name)
