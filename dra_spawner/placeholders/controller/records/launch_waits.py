"""How long users' servers are pending, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from dra_spawner import names
from dra_spawner.kube.cluster_watch import Change, ChangeType, ClusterWatch
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.placeholders.planner.cluster.pod_kinds import is_demand
from dra_spawner.placeholders.planner.cluster.view import age
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod

#: Age at which a reservation is forgotten.
_LONGEST: Final = timedelta(minutes=10)
#: Precision of creation stamps: an object younger than this counts as created when it was seen.
_JUST: Final = timedelta(seconds=2)
#: Part of the hub's ``start_timeout`` after which a pending server is slow: its user still waits, and soon in vain.
_SLOW_PART: Final = 0.6


class LaunchOutcome(StrEnum):
    """How a server got its node."""

    #: By a handover.
    HIT = "hit"
    #: On a node that was created after it.
    NODE_WAIT = "node_wait"
    #: Otherwise: free capacity, or preemption.
    MISS = "miss"


@dataclass(frozen=True, slots=True)
class BoundServer:
    """A server that got a node.

    Attributes
    ----------
    since
        When its pod was seen first, or was created.
    seconds
        From then until it had a node.
    """

    pod: Pod
    outcome: LaunchOutcome
    since: datetime
    seconds: float


@dataclass(slots=True)
class _Waits:
    uid: str
    since: datetime
    is_counted: bool = False


class LaunchWaits:
    """Watches users' servers from pending until they have a node.

    Parameters
    ----------
    namespaces
        Of users' servers.
    start_seconds
        The hub's ``start_timeout``; 0 if it is not known.

    Attributes
    ----------
    namespaces
        May be replaced.
    """

    def __init__(
        self,
        watch: ClusterWatch,
        namespaces: Namespaces,
        *,
        now: Callable[[], datetime],
        start_seconds: Callable[[], int] = lambda: 0,
    ) -> None:
        self._watch = watch
        self.namespaces = namespaces
        self._now = now
        self._waiting: dict[ObjectKey, _Waits] = {}
        self._reserved: dict[ObjectKey, datetime] = {}
        self._callbacks: list[Callable[[BoundServer], None]] = []
        self._start_seconds = start_seconds
        self._slow = 0
        watch.on_change(self._note)

    def on_launch(self, callback: Callable[[BoundServer], None]) -> None:
        """Register a callback for each server that got a node."""
        self._callbacks.append(callback)

    @property
    def slow(self) -> int:
        """Servers so far that were without a node for more than 60 % of the hub's ``start_timeout``; it never falls."""
        for each in self._waiting.values():
            self._count_if_slow(each)
        return self._slow

    def _count_if_slow(self, waits: _Waits) -> None:
        limit = _SLOW_PART * self._start_seconds()
        if limit and not waits.is_counted and (self._now() - waits.since).total_seconds() > limit:
            waits.is_counted = True
            self._slow += 1

    def _forget(self, key: ObjectKey) -> None:
        waits = self._waiting.pop(key, None)
        if waits is not None:
            self._count_if_slow(waits)

    def reservation(self, namespace: str, pod: str) -> None:
        """Note a reservation for a pod that does not exist yet."""
        now = self._now()
        self._reserved = {key: at for key, at in self._reserved.items() if now - at < _LONGEST}
        self._reserved[ObjectKey(namespace, pod)] = now

    def _note(self, change: Change) -> None:
        if change.kind is not Kind.POD:
            return
        key = change.key
        pod = self._watch.snapshot.pods.get(key) if change.type is not ChangeType.REMOVED else None
        if pod is None or pod.is_deleted or pod.is_finished or not self.is_server(pod):
            self._forget(key)
            return
        known = self._waiting.get(key)
        if not pod.node_name:
            if known is None or known.uid != pod.uid:
                self._forget(key)
                now = self._now()
                waits = age(pod.created, now)
                # The one that waits for a server of `dra-spawner try` is told so there.
                self._waiting[key] = _Waits(pod.uid, now - waits if waits > _JUST else now, not is_demand(pod))
            return
        # The wait of a server that had a node at first sight is unknown.
        self._forget(key)
        if known is not None and known.uid == pod.uid:
            self._note_wait(key, pod, known.since)

    def _note_wait(self, key: ObjectKey, pod: Pod, since: datetime) -> None:
        seconds = max((self._now() - since).total_seconds(), 0.0)
        bound = BoundServer(pod, self._outcome(key, pod, since), since, seconds)
        for callback in self._callbacks:
            callback(bound)

    def _outcome(self, key: ObjectKey, pod: Pod, since: datetime) -> LaunchOutcome:
        reserved = self._reserved.pop(key, None) is not None
        # A pod that missed its reservation has a claim of its own.
        if self.has_warm_claim(pod) or (reserved and not pod.claims):
            return LaunchOutcome.HIT
        return LaunchOutcome.NODE_WAIT if self.is_older_than_node(pod, since) else LaunchOutcome.MISS

    def has_warm_claim(self, pod: Pod) -> bool:
        """Whether a pod names the claim of a placeholder."""
        return any(self._is_warm(pod.namespace, each.claim) for each in pod.claims)

    def is_older_than_node(self, pod: Pod, since: datetime) -> bool:
        """Whether the pod's node was created after a time."""
        node = self._watch.snapshot.nodes.get(pod.node_name)
        return node is not None and self._now() - age(node.node.created, self._now()) > since

    def _is_warm(self, namespace: str, name: str | None) -> bool:
        claim = self._watch.snapshot.claims.get(ObjectKey(namespace, name)) if name else None
        return claim is not None and claim.labels.get(names.COMPONENT) == names.PLACEHOLDER

    def is_server(self, pod: Pod) -> bool:
        """Whether a pod is a user's server."""
        return pod.labels.get(names.COMPONENT) == names.USER_SERVER and (
            self.namespaces.servers is None or pod.namespace in self.namespaces.servers
        )
