"""The cluster as it is now: informers of all kinds that decide where pods run, feeding one snapshot."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from random import Random
from types import TracebackType
from typing import Final, NoReturn, Self

from dra_spawner.dra.features import SCHEDULER_1_36, Features
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi
from dra_spawner.kube.informers import (
    Informer,
    InformerSettings,
    InformerState,
    InformerStatus,
    Resource,
    wait_informers_ended,
)
from dra_spawner.kube.observed import ObservedObject, share_strings, without_parameters
from dra_spawner.names import RESOURCE_API
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import BrokenObject, ClusterObject, Kind, decode
from dra_spawner.simulator.nodes import SchedulableNode
from dra_spawner.simulator.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot, SnapshotError

__all__ = ["DEVICE_KINDS", "RESOURCES", "Change", "ChangeType", "ClusterWatch"]

log = logging.getLogger(__name__)

RESOURCES: Final[Mapping[Kind, Resource]] = {
    Kind.NODE: Resource(Kind.NODE, "v1", "nodes"),
    Kind.POD: Resource(Kind.POD, "v1", "pods"),
    Kind.RESOURCE_CLAIM: Resource(Kind.RESOURCE_CLAIM, RESOURCE_API, "resourceclaims"),
    Kind.RESOURCE_CLAIM_TEMPLATE: Resource(Kind.RESOURCE_CLAIM_TEMPLATE, RESOURCE_API, "resourceclaimtemplates"),
    Kind.RESOURCE_SLICE: Resource(Kind.RESOURCE_SLICE, RESOURCE_API, "resourceslices"),
    Kind.DEVICE_CLASS: Resource(Kind.DEVICE_CLASS, RESOURCE_API, "deviceclasses"),
}
"""What is followed, in all namespaces: devices are taken by claims of all of them."""
DEVICE_KINDS: Final = frozenset(kind for kind, resource in RESOURCES.items() if resource.group_version == RESOURCE_API)
"""Kinds that a cluster without Dynamic Resource Allocation has not."""


class ChangeType(StrEnum):
    """What happened to an object."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """One object that is different in the snapshot, or in what is observed of it, from now on."""

    type: ChangeType
    kind: Kind
    key: ObjectKey
    decides: bool
    """Whether the snapshot is different: whether any answer to where something fits may be. A node's heartbeat, or a
    condition of a pod, makes no difference there."""


class ClusterWatch:
    """Keeps a snapshot as the cluster is.

    `snapshot` is for the event loop it runs in; whoever tries something out there takes it back before the next
    ``await``. An asynchronous context manager: leaving it ends all informers.

    Parameters
    ----------
    api
        See `Informer`; needs a connection for each kind in `RESOURCES` besides what else goes through it.
    features
        Of the cluster's scheduler.
    clock
        Seconds that only go forward.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        features: Features = SCHEDULER_1_36,
        settings: InformerSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self.snapshot = Snapshot(features=features)
        self._observed: dict[Kind, dict[ObjectKey, ObservedObject]] = {kind: {} for kind in RESOURCES}
        self._callbacks: list[Callable[[Change], None]] = []
        self._version = 0
        self._informers = {
            kind: Informer(
                api,
                resource,
                _Receiver(self, kind),
                settings=settings,
                clock=clock,
                random=random,
                on_absent=self._note_absence,
            )
            for kind, resource in RESOURCES.items()
        }
        self._tasks: list[asyncio.Task[None]] = []
        self._told_of_absence = False

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Rises with every change that decides."""
        return self._version

    @property
    def synced(self) -> bool:
        """Whether everything was seen once."""
        return all(informer.synced for informer in self._informers.values())

    @property
    def has_devices(self) -> bool:
        """Whether the cluster serves Dynamic Resource Allocation, as far as is known."""
        return all(self._informers[kind].status.state is not InformerState.OFF for kind in DEVICE_KINDS)

    def staleness_seconds(self) -> float:
        """How old the oldest part of the knowledge is; infinite while something was not seen yet.

        While all is well this stays below the time after which a watch is begun anew (30 s).
        """
        return max(informer.staleness_seconds() for informer in self._informers.values())

    def status(self) -> tuple[InformerStatus, ...]:
        """What is to be said of each informer."""
        return tuple(informer.status for informer in self._informers.values())

    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong, as sentences; what the cluster does not serve is said in one for all kinds."""
        found = [
            f"Cannot follow {status.resource}: {status.problem}."
            for status in self.status()
            if status.problem and status.state is not InformerState.OFF
        ]
        if not self.has_devices:
            found.append(
                f"The cluster does not serve {RESOURCE_API}: there are no devices, and only they are left out."
            )
        return tuple(found)

    def has_reached(self, kind: Kind, resource_version: str) -> bool:
        """Whether all that was written up to a version was seen: an object that is not there by then has gone again.

        Versions of one cluster are compared as numbers (KEP-5504); what is none is taken for reached.
        """
        reached = self._informers[kind].resource_version
        if reached is None:
            return False
        return not (reached.isdigit() and resource_version.isdigit()) or int(reached) >= int(resource_version)

    def observed(self, kind: Kind, key: ObjectKey) -> ObservedObject | None:
        """Metadata and conditions of an object; None if it is not there. The namespace of a node is ""."""
        return self._observed[kind].get(key)

    def observed_of(self, kind: Kind) -> Mapping[ObjectKey, ObservedObject]:
        """The same of all objects of a kind."""
        return self._observed[kind]

    def scheduler_says(self, pod: Pod) -> str:
        """Why the scheduler found no node for a pod; empty if it says nothing."""
        observed = self.observed(Kind.POD, ObjectKey.of(pod))
        return observed.scheduler_says if observed is not None and observed.uid == pod.uid else ""

    def on_change(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Be told of every change, at once and synchronously; what is returned ends that.

        A callback takes note, and acts later: it must neither raise nor change the snapshot.
        """
        self._callbacks.append(callback)

        def end() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return end

    # --- running -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow; returns at once."""
        if self._tasks:
            raise RuntimeError("started already")
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(informer.run(), name=f"informer of {informer.resource}")
            for informer in self._informers.values()
        ]

    async def stop(self) -> None:
        """Follow no longer; what is known stays, and gets older."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        # What one of them ended by is for `wait_ended` to tell.
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_ended(self) -> NoReturn:
        """Wait until an informer ends, which none does unless by a mistake of this program.

        Raises
        ------
        InformerEnded
            By what it ended. What is known gets older from then on, so whoever decides by it should end.
        """
        await wait_informers_ended(self._tasks)

    async def wait_synced(self) -> None:
        """Wait until everything was seen once; for ever, if something may not be seen."""
        for informer in self._informers.values():
            await informer.wait_synced()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # --- what informers tell -----------------------------------------------------------------------------------------

    def put(self, kind: Kind, obj: JsonObject) -> None:
        """Take in an object, new or changed. What makes no sense costs its own verdict (`Snapshot.broken`).

        Opaque parameters, which only drivers read, are not kept.
        """
        metadata = obj["metadata"]
        key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        before = self._observed[kind].get(key)
        self._observed[kind][key] = _observe(obj)
        decides = self._mirror(kind, key, obj)
        self._tell(Change(ChangeType.ADDED if before is None else ChangeType.CHANGED, kind, key, decides))

    def remove(self, kind: Kind, key: ObjectKey) -> None:
        """Let go of an object."""
        self._observed[kind].pop(key, None)
        try:
            self.snapshot.forget(kind, key)
        except SnapshotError:
            log.exception("An object to remove is not in the snapshot: kind=%s key=%s", kind, key)
        self._tell(Change(ChangeType.REMOVED, kind, key, decides=True))

    def _mirror(self, kind: Kind, key: ObjectKey, obj: JsonObject) -> bool:
        """Take an object over into the snapshot; whether that makes a difference."""
        try:
            item = decode(_with_shared_strings(kind, without_parameters(kind, obj)))
            assert item is not None, f"{kind} is among the kinds that matter"
            if _is_equal(self._present(kind, key), item):
                return False
            self.snapshot.mirror(item)
        except Exception as error:
            # Nothing that somebody puts into one object may stop what is told about all others.
            log.exception("An object cannot be taken in: kind=%s key=%s", kind, key)
            problem = f"cannot be understood ({type(error).__name__}: {str(error)[:200]})"
            self.snapshot.mirror(BrokenObject(kind, key, problem))
            return True
        if isinstance(item, BrokenObject):
            log.warning("An object makes no sense: %s", item)
        return True

    def _present(self, kind: Kind, key: ObjectKey) -> ClusterObject | BrokenObject | None:
        """The object as it is in the snapshot, if it is there in one form only."""
        snapshot = self.snapshot
        if (kind, key) in snapshot.state.broken:
            return None
        match kind:
            case Kind.NODE:
                state = snapshot.nodes.get(key.name)
                return state.node if state is not None else None
            case Kind.POD:
                return snapshot.pods.get(key)
            case Kind.RESOURCE_CLAIM:
                return snapshot.claims.get(key)
            case Kind.RESOURCE_CLAIM_TEMPLATE:
                return snapshot.templates.get(key)
            case Kind.RESOURCE_SLICE:
                return snapshot.slices.get(key.name)
            case Kind.DEVICE_CLASS:
                return snapshot.classes.get(key.name)

    def _note_absence(self, resource: Resource) -> None:
        """Say once, not for each kind, that there are no devices."""
        if not self._told_of_absence:
            self._told_of_absence = True
            log.warning("The cluster does not serve %s: there are no devices.", resource.group_version)

    def _tell(self, change: Change) -> None:
        if change.decides:
            self._version += 1
        for callback in tuple(self._callbacks):
            try:
                callback(change)
            except Exception:
                log.exception("Whoever was told of a change failed: change=%s", change)


def _with_shared_strings(kind: Kind, obj: JsonObject) -> JsonObject:
    """Images are on many nodes, and devices are alike: their names make up most of the memory otherwise."""
    if kind is Kind.RESOURCE_SLICE:
        return {**obj, "spec": share_strings(obj.get("spec"))}
    if kind is Kind.NODE and isinstance(status := obj.get("status"), dict):
        shared = {name: share_strings(status[name]) for name in ("images", "allocatable") if name in status}
        return {**obj, "status": {**status, **shared}}
    return obj


def _observe(obj: JsonObject) -> ObservedObject:
    try:
        return ObservedObject.from_json(obj)
    except Exception:
        # As in `ClusterWatch._mirror`; the API server admits nothing of the kind.
        log.exception("Metadata or conditions of an object make no sense: metadata=%s", obj["metadata"])
        return ObservedObject(str(obj["metadata"].get("uid", "")), str(obj["metadata"].get("resourceVersion", "")))


class _Receiver:
    """Passes on what one informer tells."""

    def __init__(self, watch: ClusterWatch, kind: Kind) -> None:
        self._watch = watch
        self._kind = kind

    def put(self, obj: JsonObject) -> None:
        self._watch.put(self._kind, obj)

    def remove(self, key: ObjectKey) -> None:
        self._watch.remove(self._kind, key)


def _is_equal(known: ClusterObject | BrokenObject | None, item: ClusterObject | BrokenObject) -> bool:
    """Whether an object is in all that is modelled as it was; nodes and pods have no equality of their own."""
    if type(known) is not type(item):
        return False
    names: Sequence[str] = _FIELDS.get(type(item), ())
    return all(getattr(known, name) == getattr(item, name) for name in names) if names else known == item


_FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    each: tuple(field.name for field in fields(each)) for each in (SchedulableNode, Pod)
}
