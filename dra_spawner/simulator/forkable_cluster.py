"""A cluster as a model that can be changed: objects come and go, claims get devices, and all can be taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from dra_spawner.dra.features import QUIRKS_1_36, SCHEDULER_1_36, Features, Quirks
from dra_spawner.dra.objects import DeviceClass, ResourceSlice
from dra_spawner.simulator.claims import ClaimTemplate, ObjectKey, TrackedClaim
from dra_spawner.simulator.cluster_objects import BrokenObject, ClusterObject, Kind, decode, decode_all
from dra_spawner.simulator.cluster_state import ClusterState
from dra_spawner.simulator.device_state import DeviceState
from dra_spawner.simulator.journal import Journal
from dra_spawner.simulator.nodes import NodeState
from dra_spawner.simulator.object_changes import put_object, remove_object
from dra_spawner.simulator.pods import Pod
from dra_spawner.simulator.search_limits import SearchLimits
from dra_spawner.simulator.snapshot_errors import SnapshotError, SnapshotProblem

__all__ = ["ForkableCluster"]


class ForkableCluster:
    """Nodes, slices, classes, claims, templates and pods of a cluster.

    Every change happens as a whole or not at all. An object that makes no sense is kept in `broken` and costs a
    verdict of what it touches: the pod that names it, the node it runs on, the pool it belongs to.

    Parameters
    ----------
    features, quirks
        See :class:`~dra_spawner.dra.allocator.Allocator`.
    max_steps
        Steps of the search for devices on one node after which it is given up; None for no limit.
    """

    def __init__(
        self,
        objects: Iterable[ClusterObject | BrokenObject] = (),
        *,
        features: Features = SCHEDULER_1_36,
        quirks: Quirks = QUIRKS_1_36,
        max_steps: int | None = None,
    ) -> None:
        items = list(objects)
        self._journal = Journal()
        devices = DeviceState(
            [item for item in items if isinstance(item, ResourceSlice)],
            [item for item in items if isinstance(item, DeviceClass)],
            features=features,
            quirks=quirks,
            journal=self._journal,
            max_steps=max_steps,
        )
        self._state = ClusterState(self._journal, devices)
        self._forks: list[int] = []
        for item in items:
            if not isinstance(item, (ResourceSlice, DeviceClass)):
                put_object(self._state, item)

    @classmethod
    def from_objects(
        cls,
        objects: Iterable[object],
        *,
        features: Features = SCHEDULER_1_36,
        quirks: Quirks = QUIRKS_1_36,
        max_steps: int | None = None,
    ) -> Self:
        """Snapshot of API objects as JSON; kinds that do not matter are passed over."""
        return cls(
            decode_all(objects),
            features=features,
            quirks=quirks,
            max_steps=max_steps,
        )

    def limit_searches(self, limits: SearchLimits | None) -> None:
        """What searches for devices may cost from now on; None for no limit.

        Every question whose search would cost more raises SearchStopped, and nothing has changed then.
        """
        self._state.devices.limit_searches(limits)

    # --- what there is ---------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, NodeState]:
        """Nodes with the pods that have a place there, by name."""
        return self._state.nodes

    @property
    def pods(self) -> Mapping[ObjectKey, Pod]:
        """Pods by namespace and name, those without a place included."""
        return self._state.pods

    @property
    def claims(self) -> Mapping[ObjectKey, TrackedClaim]:
        """Claims by namespace and name, those made for pods in the model included."""
        return self._state.claims

    @property
    def templates(self) -> Mapping[ObjectKey, ClaimTemplate]:
        """Claim templates by namespace and name."""
        return self._state.templates

    @property
    def slices(self) -> Mapping[str, ResourceSlice]:
        """Slices by name; one that makes no sense is replaced by one that makes its pool invalid."""
        return self._state.devices.slices

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """Device classes by name."""
        return self._state.devices.classes

    @property
    def broken(self) -> tuple[BrokenObject, ...]:
        """Objects that make no sense."""
        return tuple(self._state.broken[key] for key in sorted(self._state.broken))

    @property
    def state(self) -> ClusterState:
        """All of it, for reading: what is changed here past the snapshot may leave it in pieces."""
        return self._state

    # --- forks -----------------------------------------------------------------------------------------------------

    def fork(self) -> None:
        """From here on, changes can be reverted. Forks nest."""
        self._forks.append(self._journal.mark())

    def commit(self) -> None:
        """Keep what was changed since the latest fork; an outer fork can still revert it."""
        self._journal.forget_to(self._close_fork())

    def revert(self) -> None:
        """Take back what was changed since the latest fork, at the price of these changes."""
        self._journal.revert_to(self._close_fork())

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What happens in the block is taken back at its end, forks that it left open included."""
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
        """What was changed in the block is taken back if the block raises; forks must not be left open in it."""
        with self._journal.all_or_nothing():
            yield

    def _close_fork(self) -> int:
        if not self._forks:
            raise SnapshotError(SnapshotProblem.NO_FORK, "no fork is open")
        return self._forks.pop()

    # --- objects come and go ---------------------------------------------------------------------------------------

    def apply(self, obj: object) -> BrokenObject | None:
        """Take in an API object as JSON, new or changed. Returns what is wrong if it makes no sense."""
        item = decode(obj)
        if item is None:
            return None
        self.put(item)
        return item if isinstance(item, BrokenObject) else None

    def put(self, item: ClusterObject | BrokenObject) -> None:
        """Add an object, or replace the one of its kind and name.

        A pod on a node uses it from now on; a claim with an allocation holds its devices.
        """
        with self._journal.all_or_nothing():
            put_object(self._state, item)

    def remove(self, kind: Kind, key: ObjectKey) -> None:
        """Remove an object.

        With a pod go the claims that were made for it, and others are deallocated if it was the last to use them. A
        claim's devices are free. Pods of a node that is removed stay.

        Raises
        ------
        SnapshotError
            When there is none.
        """
        with self._journal.all_or_nothing():
            remove_object(self._state, kind, key)

    def mirror(self, item: ClusterObject | BrokenObject) -> None:
        """Take over an object as the API server has it: unlike with `put`, nothing follows from it for other objects.

        A snapshot that is fed with what a watch tells is so the same as one made from the objects themselves, in
        whatever order the watches of different kinds tell it.
        """
        with self._journal.all_or_nothing():
            put_object(self._state, item, mirrored=True)

    def forget(self, kind: Kind, key: ObjectKey) -> None:
        """Remove an object as `mirror` adds it.

        Raises
        ------
        SnapshotError
            When there is none.
        """
        with self._journal.all_or_nothing():
            remove_object(self._state, kind, key, mirrored=True)

    def add_pod(self, pod: Pod) -> None:
        """Add a pod, or replace the one of this name."""
        self.put(pod)

    def remove_pod(self, key: ObjectKey) -> None:
        """Remove a pod as `remove` does."""
        self.remove(Kind.POD, key)

    def add_claim(self, claim: TrackedClaim) -> None:
        """Add a claim, or replace the one of this name."""
        self.put(claim)

    def remove_claim(self, key: ObjectKey) -> None:
        """Remove a claim as `remove` does."""
        self.remove(Kind.RESOURCE_CLAIM, key)
