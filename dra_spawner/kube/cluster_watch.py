"""The present cluster: informers of all kinds that decide where pods run, feeding one snapshot."""

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

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.informers import Informer, InformerSettings, InformerState, InformerStatus, wait_informers_ended
from dra_spawner.kube.observed import ObservedObject, share_strings, without_parameters
from dra_spawner.kube.resource import Resource
from dra_spawner.names import RESOURCE_API, TAINT_RULE_APIS
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import BrokenObject, ClusterObject, Kind, Knowledge, decode
from dra_spawner.simulator.model.nodes import SchedulableNode
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot, SnapshotError

log = logging.getLogger(__name__)

RESOURCES: Final[Mapping[Kind, Resource]] = {
    Kind.NODE: Resource(Kind.NODE, "v1", "nodes"),
    Kind.POD: Resource(Kind.POD, "v1", "pods"),
    Kind.RESOURCE_CLAIM: Resource(Kind.RESOURCE_CLAIM, RESOURCE_API, "resourceclaims"),
    Kind.RESOURCE_CLAIM_TEMPLATE: Resource(Kind.RESOURCE_CLAIM_TEMPLATE, RESOURCE_API, "resourceclaimtemplates"),
    Kind.RESOURCE_SLICE: Resource(Kind.RESOURCE_SLICE, RESOURCE_API, "resourceslices"),
    Kind.DEVICE_CLASS: Resource(Kind.DEVICE_CLASS, RESOURCE_API, "deviceclasses"),
    Kind.DEVICE_TAINT_RULE: Resource(Kind.DEVICE_TAINT_RULE, TAINT_RULE_APIS[0], "devicetaintrules"),
}
"""Collections that are followed, in all namespaces: claims of every namespace allocate devices."""
OPTIONAL_KINDS: Final = frozenset((Kind.DEVICE_TAINT_RULE,))
"""Kinds that many clusters do not serve: 1.36 and older only if an administrator asks for them."""
DEVICE_KINDS: Final = frozenset(
    kind
    for kind, resource in RESOURCES.items()
    if resource.group_version == RESOURCE_API and kind not in OPTIONAL_KINDS
)
"""Kinds that a cluster without Dynamic Resource Allocation does not serve."""


class ChangeType(StrEnum):
    """How an object changed."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one object, in the snapshot or in its observed metadata."""

    type: ChangeType
    kind: Kind
    key: ObjectKey
    decides: bool
    """Whether the snapshot changed, so that other pods may fit. A heartbeat of a node or a condition of a pod changes
    nothing there."""


class ClusterWatch:
    """Keeps a snapshot of the present cluster.

    `snapshot` belongs to this event loop: revert every trial before the next ``await``. As an asynchronous context
    manager it ends all informers at the end.

    Parameters
    ----------
    api
        See `Informer`; it needs one connection for each kind in `RESOURCES`, besides those for requests.
    clock
        Monotonic seconds.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        settings: InformerSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self.snapshot = Snapshot()
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
                may_be_absent=kind in DEVICE_KINDS | OPTIONAL_KINDS,
                on_absent=self._note_absence,
                versions=TAINT_RULE_APIS if kind is Kind.DEVICE_TAINT_RULE else (),
                needs_right=kind not in OPTIONAL_KINDS,
            )
            for kind, resource in RESOURCES.items()
        }
        self._tasks: list[asyncio.Task[None]] = []
        self._absence_logged = False

    @property
    def version(self) -> int:
        """Rises with every change of the snapshot (`Change.decides`)."""
        return self._version

    def follow_rules(self, rules: SchedulerRules) -> None:
        """Decide by the rules of this kube-scheduler from now on."""
        if rules != self.snapshot.rules:
            self.snapshot.follow_rules(rules)
            self._version += 1

    @property
    def synced(self) -> bool:
        """Whether every collection was listed once."""
        return all(informer.synced for informer in self._informers.values())

    @property
    def has_devices(self) -> bool:
        """Whether the cluster serves Dynamic Resource Allocation; true until the contrary is known."""
        return all(self._informers[kind].knowledge is not Knowledge.ABSENT for kind in DEVICE_KINDS)

    @property
    def rules_api(self) -> str | None:
        """The API version by which the cluster serves DeviceTaintRules; None if it serves none, or none may be read."""
        informer = self._informers[Kind.DEVICE_TAINT_RULE]
        is_served = informer.synced and informer.knowledge is not Knowledge.ABSENT
        return informer.resource.group_version if is_served else None

    def knowledge(self) -> Mapping[Kind, Knowledge]:
        """What is known of each kind: what is missing in the snapshot is gone only where its kind is known."""
        found = {kind: informer.knowledge for kind, informer in self._informers.items()}
        # Without such objects nothing is unknown: there are none, or `problems` says which right is missing.
        return found | {kind: Knowledge.KNOWN for kind in OPTIONAL_KINDS if found[kind] is Knowledge.ABSENT}

    def staleness_seconds(self) -> float:
        """Age of the oldest collection; infinite until all were listed once.

        Without failures it stays below the duration of a watch (10 s, `InformerSettings.watch_seconds`).
        """
        return max(informer.staleness_seconds() for informer in self._informers.values())

    def status(self) -> tuple[InformerStatus, ...]:
        return tuple(informer.status for informer in self._informers.values())

    def problems(self) -> tuple[str, ...]:
        """Every problem as a sentence; one sentence for all kinds that the cluster does not serve."""
        found = [
            f"Cannot follow {status.resource}: {status.problem}."
            for status in self.status()
            if status.problem and status.state is not InformerState.OFF
        ]
        if not self.has_devices:
            found.append(f"The cluster does not serve {RESOURCE_API}: devices are left out, all else works.")
        return tuple(found)

    def has_reached(self, kind: Kind, resource_version: str) -> bool:
        """Whether every write up to a version was seen: an object that is still missing was deleted again.

        Versions of one cluster are compared as numbers (KEP-5504); any other text counts as reached.
        """
        reached = self._informers[kind].resource_version
        if reached is None:
            return False
        return not (reached.isdigit() and resource_version.isdigit()) or int(reached) >= int(resource_version)

    def observed(self, kind: Kind, key: ObjectKey) -> ObservedObject | None:
        """Metadata and conditions of an object; None if it does not exist. The namespace of a node is ""."""
        return self._observed[kind].get(key)

    def observed_of(self, kind: Kind) -> Mapping[ObjectKey, ObservedObject]:
        """Metadata and conditions of all objects of a kind."""
        return self._observed[kind]

    def scheduler_message(self, pod: Pod) -> str:
        """The scheduler's message about a pod without a node; empty if there is none."""
        observed = self.observed(Kind.POD, ObjectKey.of(pod))
        return observed.scheduler_message if observed is not None and observed.uid == pod.uid else ""

    def on_change(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call back at every change, synchronously; the result is a function that ends it.

        A callback must neither raise nor change the snapshot.
        """
        self._callbacks.append(callback)

        def end() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return end

    def start(self) -> None:
        """Start the informers; returns at once."""
        if self._tasks:
            raise RuntimeError("started already")
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(informer.run(), name=f"informer of {informer.resource}")
            for informer in self._informers.values()
        ]

    async def stop(self) -> None:
        """End the informers; the data stay, and get older."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        # `wait_ended` raises the error of an informer.
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_ended(self) -> NoReturn:
        """Wait until an informer ends; none does except by a mistake of this program.

        Raises
        ------
        InformerEnded
            With the error as its cause. The data get older from then on: stop deciding by them.
        """
        await wait_informers_ended(self._tasks)

    async def wait_synced(self) -> None:
        """Wait until every collection was listed once; for ever if the account may not list one."""
        for informer in self._informers.values():
            await informer.wait_synced()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def put(self, kind: Kind, obj: JsonObject) -> None:
        """Take in a new or changed object. An invalid one is broken (`Snapshot.broken`), and no other.

        Opaque parameters, which only drivers read, are not kept.
        """
        metadata = obj["metadata"]
        key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        before = self._observed[kind].get(key)
        self._observed[kind][key] = _observe(obj)
        decides = self._mirror(kind, key, obj)
        self._notify(Change(ChangeType.ADDED if before is None else ChangeType.CHANGED, kind, key, decides))

    def remove(self, kind: Kind, key: ObjectKey) -> None:
        self._observed[kind].pop(key, None)
        try:
            self.snapshot.forget(kind, key)
        except SnapshotError:
            log.exception("An object to remove is not in the snapshot: kind=%s key=%s", kind, key)
        self._notify(Change(ChangeType.REMOVED, kind, key, decides=True))

    def _mirror(self, kind: Kind, key: ObjectKey, obj: JsonObject) -> bool:
        """Put an object into the snapshot; whether the snapshot changed."""
        try:
            item = decode(_with_shared_strings(kind, without_parameters(kind, obj)))
            assert item is not None, f"{kind} is among the kinds that matter"
            if _is_equal(self._present(kind, key), item):
                return False
            self.snapshot.mirror(item)
        except Exception as error:
            # One object that cannot be taken in must not stop the others.
            log.exception("An object cannot be taken in: kind=%s key=%s", kind, key)
            problem = f"cannot be decoded ({type(error).__name__}: {str(error)[:200]})"
            self.snapshot.mirror(BrokenObject(kind, key, problem))
            return True
        if isinstance(item, BrokenObject):
            log.warning("An object is invalid: %s", item)
        return True

    def _present(self, kind: Kind, key: ObjectKey) -> ClusterObject | BrokenObject | None:
        """The object in the snapshot; None if it is missing or broken."""
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
                return snapshot.state.devices.published(key.name)
            case Kind.DEVICE_TAINT_RULE:
                return snapshot.state.devices.taint_rules.get(key.name)
            case Kind.DEVICE_CLASS:
                return snapshot.classes.get(key.name)

    def _note_absence(self, resource: Resource) -> None:
        """Log once for all kinds that there are no devices."""
        if not self._absence_logged and resource.plural not in {RESOURCES[kind].plural for kind in OPTIONAL_KINDS}:
            self._absence_logged = True
            log.warning("The cluster does not serve %s: there are no devices.", resource.group_version)

    def _notify(self, change: Change) -> None:
        if change.decides:
            self._version += 1
        for callback in tuple(self._callbacks):
            try:
                callback(change)
            except Exception:
                log.exception("A callback failed: change=%s", change)


def _with_shared_strings(kind: Kind, obj: JsonObject) -> JsonObject:
    """The object with its strings shared: names of images and devices would make up most of the memory."""
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
        # As in `ClusterWatch._mirror`; the API server admits no such object.
        log.exception("Metadata or conditions of an object are invalid: metadata=%s", obj["metadata"])
        return ObservedObject(str(obj["metadata"].get("uid", "")), str(obj["metadata"].get("resourceVersion", "")))


class _Receiver:
    """Passes the objects of one informer on, with their kind."""

    def __init__(self, watch: ClusterWatch, kind: Kind) -> None:
        self._watch = watch
        self._kind = kind

    def put(self, obj: JsonObject) -> None:
        self._watch.put(self._kind, obj)

    def remove(self, key: ObjectKey) -> None:
        self._watch.remove(self._kind, key)


def _is_equal(known: ClusterObject | BrokenObject | None, item: ClusterObject | BrokenObject) -> bool:
    """Whether two forms of an object are equal in all modelled fields; nodes and pods define no equality."""
    if type(known) is not type(item):
        return False
    names: Sequence[str] = _FIELDS.get(type(item), ())
    return all(getattr(known, name) == getattr(item, name) for name in names) if names else known == item


_FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    each: tuple(field.name for field in fields(each)) for each in (SchedulableNode, Pod)
}
