"""Caches of what was derived from a snapshot, carried from one view to the next.

A snapshot replaces objects and never changes them. So a result holds as long as the object is the same one, and a view
reads only objects that were replaced. A fresh index gives the same views, slower.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from dra_spawner import names
from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.model.objects import PoolId, ResourceSlice
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.placeholders.planner.cluster.device_memo import DeviceMemo
from dra_spawner.placeholders.planner.cluster.node_memo import NodeMemo
from dra_spawner.placeholders.planner.cluster.pod_kinds import is_demand, is_server
from dra_spawner.simulator.failed_fits import FailedFits
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.model.table import Table
from dra_spawner.simulator.snapshot import Snapshot
from dra_spawner.simulator.usage.device_doubts import DeviceDoubts

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Entries under names that users choose: at most this many more than there are objects in the cluster.
SPARE = 1_000
_NODE_LABELS = (names.ATTRACT, names.DRAINING, names.DRAIN_SPARES_PREFIX)


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Namespaces that are read; None means all.

    Attributes
    ----------
    placeholders
        Namespaces of placeholders and warm claims. Labels elsewhere are not believed.
    pullers
        Namespaces of pods that pull images.
    installation
        Label of this service's placeholders. Those with another one are of the service of another hub in the namespace.
    """

    servers: frozenset[str] | None = None
    placeholders: frozenset[str] | None = None
    pullers: frozenset[str] | None = None
    installation: str = ""

    @classmethod
    def of(cls, namespaces: Namespaces | Collection[str] | None) -> Namespaces:
        """The same, or a collection of namespaces for servers and placeholders alike."""
        if isinstance(namespaces, Namespaces):
            return namespaces
        servers = None if namespaces is None else frozenset(namespaces)
        return cls(servers, servers)

    @property
    def hub(self) -> str:
        """Name of this service's hub, as in `hub_of`."""
        return "/".join((*sorted(self.placeholders or ()), *filter(None, (self.installation,))))

    def is_own(self, key: ObjectKey, labels: Mapping[str, str]) -> bool:
        """Whether a placeholder or a warm claim is this service's; without the label it is."""
        is_ours = not self.installation or labels.get(names.INSTALLATION, self.installation) == self.installation
        return is_ours and _is_in(key, self.placeholders)


@dataclass(frozen=True, slots=True)
class FitMemos:
    """Memos of where a pending pod does not fit.

    Attributes
    ----------
    at_once
        Failures while placeholders stay.
    without_placeholders
        Failures even without placeholders.
    """

    at_once: FailedFits = field(default_factory=FailedFits)
    without_placeholders: FailedFits = field(default_factory=FailedFits)

    def forget(self, node: str) -> None:
        """Forget the failures on a deleted node."""
        self.at_once.forget(node)
        self.without_placeholders.forget(node)


@dataclass(frozen=True, slots=True)
class Moment:
    """A state of one index: the cursor for its changes since then.

    Attributes
    ----------
    of
        Token that is replaced when the index begins anew.
    number
        Number of the last change.
    """

    of: object = None
    number: int = 0


class ClusterIndex:
    """See the module.

    Attributes
    ----------
    placeholders
        Placeholders, terminating ones included.
    users
        Users' servers that have not ended.
    users_of_shape
        The number of these servers by the shape in their label; empty for a server without one.
    trials
        The servers of `users` that are no demand (`is_demand`).
    pullers
        Pods that pull images, by node.
    waiting
        Users' servers without a node.
    naming
        Users' servers and placeholders by each claim that they name.
    other_placeholders
        Placeholders of other hubs' services, in any namespace.
    other_pending
        Servers without a node in namespaces that this service does not serve.
    warm_claims
        Claims of placeholders.
    created
        Creation time by node.
    labelled
        Names of nodes by each of this project's labels.
    fit_memos
        By pending pod: as it is, and as if all nodes were ready.
    busyness
        `Busyness` of nodes.
    doubts
        `DeviceDoubts` of nodes.
    seen_placeholders
        By key: the `Placeholder` of the last view while nothing has changed that it follows from, and whether devices
        are missing on its node.
    tainted_slices
        Names of slices with a tainted device.
    of_devices
        Results that follow from all slices and device classes.
    selectors
        Verdicts of selectors of device classes, by the scheduler's rules.
    """

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._namespaces = Namespaces()
        self._forget()

    def _forget(self) -> None:
        self._pods = _Followed[ObjectKey, Pod]()
        self._nodes = _Followed[str, NodeState]()
        self._claims = _Followed[ObjectKey, TrackedClaim]()
        self._slices = _Followed[str, ResourceSlice]()
        self.placeholders: dict[ObjectKey, Pod] = {}
        self.other_placeholders: dict[ObjectKey, Pod] = {}
        self.other_pending: dict[ObjectKey, Pod] = {}
        self.users: dict[ObjectKey, Pod] = {}
        self.users_of_shape: dict[str, int] = {}
        self.trials: dict[ObjectKey, Pod] = {}
        self.pending: dict[ObjectKey, Pod] = {}
        self.pullers: dict[str, tuple[Pod, ...]] = {}
        self.users_of_node: dict[str, tuple[Pod, ...]] = {}
        self.naming: dict[ObjectKey, tuple[Pod, ...]] = {}
        self.warm_claims: dict[ObjectKey, TrackedClaim] = {}
        self.created: dict[str, datetime | None] = {}
        self._newest: list[str] | None = None
        self.labelled: dict[str, set[str]] = {label: set() for label in _NODE_LABELS}
        self.slices_of_node: dict[str, tuple[ResourceSlice, ...]] = {}
        self.slices_of_pool: dict[PoolId, tuple[ResourceSlice, ...]] = {}
        self.tainted_slices: set[str] = set()
        self._epoch = object()
        self._changes = 0
        #: Number of the last change of each changed or deleted node (`touched_since`), the oldest first.
        self._touched: dict[str, int] = {}
        self.fit_memos: dict[ObjectKey, tuple[Pod, FitMemos, FitMemos]] = {}
        self.seen_placeholders: dict[ObjectKey, tuple[Any, bool]] = {}
        self._placeholders_of_node: dict[str, tuple[Pod, ...]] = {}
        self.busyness: NodeMemo[Any] = NodeMemo()
        self.doubts: NodeMemo[DeviceDoubts] = NodeMemo()
        self.of_devices = DeviceMemo()
        self.selectors: dict[SchedulerRules, SelectorCache] = {}

    def refresh(self, snapshot: Snapshot, namespaces: Namespaces | Collection[str] | None) -> None:
        """Update everything from a snapshot; `namespaces` as in `View`."""
        within = Namespaces.of(namespaces)
        if snapshot is not self._snapshot or within != self._namespaces:
            self._forget()
            self._snapshot, self._namespaces = snapshot, within
        for key, pod_before, pod in self._pods.changes(snapshot.state.pods):
            self._remove_pod(key, pod_before)
            self._add_pod(key, pod)
        for key, claim_before, claim in self._claims.changes(snapshot.state.claims):
            self.busyness.object_changed(key)
            for name in self.doubts.object_changed(key):
                self._forget_placeholders(self._placeholders_of_node.get(name, ()))
            self._forget_placeholders(self.naming.get(key, ()))
            if claim_before is not None:
                self.warm_claims.pop(key, None)
            if claim is not None and _is_warm(claim) and within.is_own(key, claim.labels):
                self.warm_claims[key] = claim
        for _, slice_before, item in self._slices.changes(snapshot.state.devices.slices):
            self._replace_slice(slice_before, item)
        for name, state_before, state in self._nodes.changes(snapshot.state.nodes):
            self._replace_node(name, state_before, state)
        self._forget_what_is_gone()

    @property
    def hub(self) -> str:
        """Name of this service's hub, as in `hub_of`."""
        return self._namespaces.hub

    @property
    def moment(self) -> Moment:
        """The present state, for `touched_since`."""
        return Moment(self._epoch, self._changes)

    def touched_since(self, moment: Moment) -> set[str] | None:
        """Nodes that changed or were deleted since a moment; None if that is not known.

        A change of their slices, pullers or users' servers counts, too.
        """
        if moment.of is not self._epoch:
            return None
        found: set[str] = set()
        for name in reversed(self._touched):
            if self._touched[name] <= moment.number:
                break
            found.add(name)
        return found

    def _touch(self, name: str) -> None:
        self._changes += 1
        self._touched.pop(name, None)
        self._touched[name] = self._changes

    def _forget_what_is_gone(self) -> None:
        """Drop old entries of nodes and claims that do not exist: users' pods can name any number of them."""
        nodes = self._nodes.items
        if len(self._touched) > len(nodes) + SPARE:
            self._touched = {name: number for name, number in self._touched.items() if name in nodes}
        for memo in (self.busyness, self.doubts):
            if memo.trim(len(self._claims.items) + len(self.slices_of_pool) + SPARE):
                self.seen_placeholders.clear()

    def _forget_placeholders(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.seen_placeholders.pop(ObjectKey.of(pod), None)

    def fit_memos_of(self, pod: Pod) -> FitMemos:
        """Memos for a pending pod, empty unless they are for this very object."""
        return self._fit_memos_of(pod)[1]

    def fit_memos_once_ready(self, pod: Pod) -> FitMemos:
        """Memos for the same pod if it did not require a ready node."""
        return self._fit_memos_of(pod)[2]

    def _fit_memos_of(self, pod: Pod) -> tuple[Pod, FitMemos, FitMemos]:
        key = ObjectKey.of(pod)
        known = self.fit_memos.get(key)
        if known is None or known[0] is not pod:
            known = self.fit_memos[key] = pod, FitMemos(), FitMemos()
        return known

    def _add_pod(self, key: ObjectKey, pod: Pod | None) -> None:
        if pod is None:
            return
        component = pod.labels.get(names.COMPONENT)
        if component in names.IMAGE_PULLERS:
            if not _is_in(key, self._namespaces.pullers):
                return
            _add(self.pullers, pod.node_name, pod)
            self._touch(pod.node_name)
            return
        if names.SHAPE in pod.labels or component in (names.USER_SERVER, names.PLACEHOLDER):
            for claim in _named(pod):
                _add(self.naming, claim, pod)
        if component == names.PLACEHOLDER and pod.labels.get(names.MANAGED_BY) == names.MANAGER:
            is_own = self._namespaces.is_own(key, pod.labels)
            _add(self._placeholders_of_node, pod.node_name, pod)
            (self.placeholders if is_own else self.other_placeholders)[key] = pod
        elif is_server(pod):
            if not _is_in(key, self._namespaces.servers):
                if not pod.node_name:
                    self.other_pending[key] = pod
                return
            self.users[key] = pod
            if not is_demand(pod):
                self.trials[key] = pod
            shape = pod.labels.get(names.SHAPE, "")
            self.users_of_shape[shape] = self.users_of_shape.get(shape, 0) + 1
            if pod.node_name:
                _add(self.users_of_node, pod.node_name, pod)
                self._touch(pod.node_name)
            else:
                self.pending[key] = pod

    def _remove_pod(self, key: ObjectKey, pod: Pod | None) -> None:
        if pod is None:
            return
        self.placeholders.pop(key, None)
        self.seen_placeholders.pop(key, None)
        _remove(self._placeholders_of_node, pod.node_name, pod)
        self.other_placeholders.pop(key, None)
        self.other_pending.pop(key, None)
        self.fit_memos.pop(key, None)
        self.pending.pop(key, None)
        self.trials.pop(key, None)
        if self.users.pop(key, None) is not None:
            shape = pod.labels.get(names.SHAPE, "")
            self.users_of_shape[shape] -= 1
            if not self.users_of_shape[shape]:
                del self.users_of_shape[shape]
            if pod.node_name:
                _remove(self.users_of_node, pod.node_name, pod)
                self._touch(pod.node_name)
        if pod.node_name in self.pullers:
            _remove(self.pullers, pod.node_name, pod)
            self._touch(pod.node_name)
        for claim in _named(pod):
            _remove(self.naming, claim, pod)

    def newest_nodes(self) -> list[str]:
        """Names of nodes, the newest first."""
        if self._newest is None:
            nodes = self._nodes.items
            self._newest = sorted(nodes, key=lambda name: (nodes[name].node.created, name), reverse=True)
        return self._newest

    def _replace_node(self, name: str, before: NodeState | None, after: NodeState | None) -> None:
        self._forget_placeholders(self._placeholders_of_node.get(name, ()))
        if before is None or after is None or before.node.created != after.node.created:
            self._newest = None
        if after is None:
            self._touch(name)
            del self.created[name]
            self.busyness.forget(name)
            self.doubts.forget(name)
            for names in self.labelled.values():
                names.discard(name)
            for _, *memos in self.fit_memos.values():
                for each in memos:
                    each.forget(name)
        elif before is None or before.node is not after.node:
            self._touch(name)
            self.created[name] = _moment(after.node.created)
            for label, names in self.labelled.items():
                (names.add if _has_label(after.node.labels, label) else names.discard)(name)

    def _replace_slice(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        self.of_devices.devices_changed()
        self.seen_placeholders.clear()
        for item in (before, after):
            if item is not None:
                if item.node_name:
                    self._touch(item.node_name)
                for memo in (self.busyness, self.doubts):
                    memo.object_changed(item.pool_id)
                    memo.forget(item.node_name or "")
        if before is not None:
            self.tainted_slices.discard(before.name)
            _remove(self.slices_of_node, before.node_name or "", before)
            _remove(self.slices_of_pool, before.pool_id, before)
        if after is not None:
            if any(device.taints for device in after.devices):
                self.tainted_slices.add(after.name)
            _add(self.slices_of_pool, after.pool_id, after)
            if after.node_name:
                _add(self.slices_of_node, after.node_name, after)


class _Followed(Generic[K, V]):
    """The items of a table at the last look."""

    def __init__(self) -> None:
        self.items: dict[K, V] = {}
        self._changes = 0

    def changes(self, table: Table[K, V]) -> list[tuple[K, V | None, V | None]]:
        """Changed keys with their values before and after; None where there was or is none."""
        keys = table.changed_since(self._changes)
        self._changes = table.changes
        items = self.items
        found: list[tuple[K, V | None, V | None]] = []
        for key in keys if keys is not None else {**table, **items}:
            before, after = items.get(key), table.get(key)
            if after is before:
                continue
            found.append((key, before, after))
            if after is None:
                del items[key]
            else:
                items[key] = after
        return found


def _named(pod: Pod) -> list[ObjectKey]:
    return [ObjectKey(pod.namespace, reference.claim) for reference in pod.claims if reference.claim]


def _has_label(labels: Mapping[str, str], label: str) -> bool:
    return label in labels or (label.endswith(".") and any(key.startswith(label) for key in labels))


def _is_in(key: ObjectKey, namespaces: frozenset[str] | None) -> bool:
    return namespaces is None or key.namespace in namespaces


def _is_warm(claim: TrackedClaim) -> bool:
    return (
        claim.labels.get(names.COMPONENT) == names.PLACEHOLDER and claim.labels.get(names.MANAGED_BY) == names.MANAGER
    )


def _moment(stamp: str) -> datetime | None:
    """A ``creationTimestamp``; None if there is none."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _add(groups: dict[K, tuple[V, ...]], key: K, item: V) -> None:
    groups[key] = (*groups.get(key, ()), item)


def _remove(groups: dict[K, tuple[V, ...]], key: K, item: V) -> None:
    left = tuple(each for each in groups.get(key, ()) if each is not item)
    if left:
        groups[key] = left
    else:
        groups.pop(key, None)
