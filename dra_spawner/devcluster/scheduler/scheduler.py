"""The embedded cluster's scheduler: places pods one by one, as kube-scheduler does.

`dra_spawner.simulator` and `dra_spawner.dra` decide, as in the service. A pod is tried after a change that may help it,
without polling. An attempt is one uninterrupted call, so there are no allocations *in flight* as in kube-scheduler.

If kube-scheduler's decision is not known, the pod stays pending, and its event has the reason.
"""

from __future__ import annotations

import random as random_module
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.pod_operations import bind_pod
from dra_spawner.devcluster.api.resource_types import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
)
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.clock import Clock, timestamp
from dra_spawner.devcluster.controllers.controller import Controller
from dra_spawner.devcluster.controllers.event_writer import EventWriter
from dra_spawner.devcluster.scheduler.cache import ClusterCache
from dra_spawner.devcluster.scheduler.claim_binding import (
    BindingFailed,
    bind_claims,
    deallocate,
    delete_extended_resource_claim,
)
from dra_spawner.devcluster.scheduler.queue import PodKey, QueuedPod, QueueState, SchedulingQueue
from dra_spawner.dra.budget import SearchBudget
from dra_spawner.dra.model.extended_resources import EXTENDED_RESOURCE_ANNOTATION
from dra_spawner.simulator.model.pods import DEFAULT_SCHEDULER, Pod
from dra_spawner.simulator.scheduler.node_fit import Filter
from dra_spawner.simulator.scheduler.scheduler_preemption import SchedulerPreemption, resolve
from dra_spawner.simulator.scheduler.scheduling import (
    ChosenNode,
    Failure,
    SchedulingAttempt,
    SchedulingQuestion,
    Unschedulable,
)

#: Maximum steps of the searches in one attempt: a few tenths of a second. kube-scheduler may take ten seconds on each
#: node, but blocks no other program meanwhile; here all parts share one thread.
_MAX_STEPS: Final = 20_000


class Scheduler(Controller):
    """Schedules all pods whose ``schedulerName`` is ``default-scheduler``.

    Parameters
    ----------
    clock
        Clock of back-off and time stamps.
    random
        Random numbers for the choice between equal nodes.
    new_share_id
        Returns the ``shareID`` of a share of a device: a lower-case UUID.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        random: random_module.Random | None = None,
        new_share_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        super().__init__(store, clock)
        self._random = random or random_module.Random()  # noqa: S311 (nodes, not secrets)
        self._new_share_id = new_share_id
        self._events = EventWriter(store, DEFAULT_SCHEDULER)
        self._cache = ClusterCache(store)
        self._queue = SchedulingQueue(clock.now)

    @property
    def queued_pods(self) -> dict[PodKey, QueueState]:
        """The state of each queued pod."""
        return {entry.key: entry.state for entry in self._queue}

    def adopt(self) -> None:
        self._cache.adopt()
        for pod in sorted(self.store.objects(PODS), key=lambda pod: int(pod["metadata"]["resourceVersion"])):
            self._pod_noted(pod, None)

    def note(self, event: WatchEvent) -> None:
        self._cache.apply(event)
        if event.resource_type is PODS:
            if event.type is WatchEventType.DELETED:
                self._queue.remove(_key(event.object))
            else:
                self._pod_noted(event.object, event.previous)
        help_ = helped_by(event)
        if help_.filters:
            self._queue.changed(help_.filters)
        if help_.all_pods:
            self._queue.changed(None)
        if help_.claim is not None:
            self._claim_noted(help_.claim)

    def step(self) -> float | None:
        entry = self._queue.pop()
        if entry is not None:
            try:
                self._schedule(entry)
            except Exception:
                self._queue.failed(entry)
                raise
        return self._queue.seconds_until_due()

    def _pod_noted(self, obj: JsonObject, previous: JsonObject | None) -> None:
        key, spec = _key(obj), obj["spec"]
        phase = obj.get("status", {}).get("phase")
        if spec.get("nodeName") or phase in ("Succeeded", "Failed") or spec.get("schedulerName") != DEFAULT_SCHEDULER:
            self._queue.remove(key)
            return
        entry = self._queue.get(key)
        if entry is not None and entry.uid != obj["metadata"]["uid"]:
            self._queue.remove(key)
            entry = None
        gated = self._is_gated(key)
        if entry is None:
            self._queue.put(key, obj["metadata"]["uid"], spec.get("priority", 0), gated=gated)
        elif previous is None or pod_changed_itself(previous, obj):
            self._queue.gate(entry, gated)
            self._queue.changed_for(entry)

    def _is_gated(self, key: PodKey) -> bool:
        """Whether a pod has scheduling gates or lacks a claim."""
        pod = self._cache.pod(key)
        return pod is not None and (pod.is_gated or bool(self._cache.claim_problem(pod)))

    def _claim_noted(self, claim: PodKey) -> None:
        """Note that a change of this claim may help the pods that name it."""
        for entry in self._queue:
            pod = self._cache.pod(entry.key)
            if pod is not None and any((pod.namespace, each.claim) == claim for each in pod.claims):
                self._queue.gate(entry, self._is_gated(entry.key))
                self._queue.changed_for(entry)

    def _schedule(self, entry: QueuedPod) -> None:
        obj = self.store.find(PODS, *entry.key)
        pod = self._cache.pod(entry.key)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            self._queue.remove(entry.key)
            if obj is not None:
                message = f"skip schedule deleting pod: {'/'.join(entry.key)}"
                self._events.report(obj, "Warning", "FailedScheduling", message, "Scheduling")
            return
        if pod is None:
            self._queue.failed(entry)
            self._report_pending(
                obj, f"this scheduler cannot decide: {self._cache.problem(PODS, entry.key)}", "SchedulerError"
            )
            return
        question = self._cache.question(pod)
        attempt = SchedulingAttempt(self._cache.view(), question, self._random.choice, SearchBudget(_MAX_STEPS))
        match attempt.decide():
            case ChosenNode() as placement:
                self._place(entry, obj, question, placement)
            case Unschedulable() as refusal:
                self._refuse(entry, obj, attempt, refusal)
            case Failure(message):
                self._fail(entry, obj, message)

    def _place(self, entry: QueuedPod, obj: JsonObject, question: SchedulingQuestion, placement: ChosenNode) -> None:
        try:
            bind_claims(self.store, question, placement, self._new_share_id)
            bind_pod(self.store, *entry.key, placement.node_name, uid=entry.uid)
        except BindingFailed as failure:
            self._fail(entry, obj, f'running PreBind plugin "DynamicResources": {failure}')
        except ApiError as error:
            self._fail(entry, obj, f"binding rejected: {error.message}")
        else:
            self._queue.remove(entry.key)
            message = f"Successfully assigned {question.pod} to {placement.node_name}"
            self._events.report(obj, "Normal", "Scheduled", message, "Binding")

    def _fail(self, entry: QueuedPod, obj: JsonObject, message: str) -> None:
        self._queue.failed(entry)
        self._report_pending(obj, message, "SchedulerError", nominated="")

    def _refuse(self, entry: QueuedPod, obj: JsonObject, attempt: SchedulingAttempt, refusal: Unschedulable) -> None:
        """Report why the pod is pending, and preempt or deallocate for it."""
        self._queue.refused(entry, refusal.filters)  # before any write that may help it
        resolution = resolve(attempt, refusal, self._random.choice)
        if resolution.deallocate is not None:
            deallocate(self.store, resolution.deallocate)
        if resolution.delete is not None:
            delete_extended_resource_claim(self.store, resolution.delete.namespace, resolution.delete.name)
        preemption = resolution.preemption
        nominated = preemption.node_name if preemption is not None else None
        if resolution.clears_nomination:
            nominated = ""
        self._report_pending(obj, refusal.message(resolution.message), "Unschedulable", nominated)
        if preemption is not None:
            self._preempt(attempt.question.pod, preemption)

    def _report_pending(self, obj: JsonObject, message: str, reason: str, nominated: str | None = None) -> None:
        """Write event, condition and, unless it is None, the nominated node of a pending pod."""
        self._events.report(obj, "Warning", "FailedScheduling", message, "Scheduling")

        def change(pod: JsonObject) -> None:
            _set_condition(pod, self.store.now(), "PodScheduled", "False", reason, message)
            if nominated:
                pod["status"]["nominatedNodeName"] = nominated
            elif nominated == "":
                _drop_nomination(pod)

        self.store.modify(PODS, *_key(obj), change, "status")

    def _preempt(self, preemptor: Pod, preemption: SchedulerPreemption) -> None:
        """Delete the victims, and clear the nominations of pods with lower priority for that node."""
        for other in self._cache.view().nominated.get(preemption.node_name, ()):
            if other.priority < preemptor.priority:
                self.store.modify(PODS, other.namespace, other.name, _drop_nomination, "status")
        for victim in preemption.victims:
            obj = self.store.find(PODS, victim.namespace, victim.name)
            if victim.is_deleted or obj is None or obj["metadata"]["uid"] != victim.uid:
                continue
            why = f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod"

            def mark(pod: JsonObject, why: str = why) -> None:
                _set_condition(pod, self.store.now(), "DisruptionTarget", "True", "PreemptionByScheduler", why)

            self.store.modify(PODS, victim.namespace, victim.name, mark, "status")
            self.store.delete(PODS, victim.namespace, victim.name, uid=victim.uid)
            message = f"Preempted by pod {preemptor.uid} on node {preemption.node_name}"
            self._events.report(obj, "Normal", "Preempted", message, "Preempting")


def _set_condition(pod: JsonObject, now: datetime, kind: str, value: str, reason: str, message: str) -> None:
    """Set a condition in ``status.conditions``, in place; its time changes only with its status."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    before = next((condition for condition in conditions if condition["type"] == kind), None)
    changed = before is None or before["status"] != value
    condition = {
        "type": kind,
        "observedGeneration": pod["metadata"].get("generation", 1),
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now) if changed or before is None else before["lastTransitionTime"],
        "reason": reason,
        "message": message,
    }
    if before is None:
        conditions.append(condition)
    else:
        conditions[conditions.index(before)] = condition


def _drop_nomination(pod: JsonObject) -> None:
    pod["status"].pop("nominatedNodeName", None)


def _key(obj: JsonObject) -> PodKey:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


_FREED_BY_PODS = frozenset({Filter.NODE_RESOURCES_FIT, Filter.NODE_PORTS, Filter.INTER_POD_AFFINITY})
_DEVICES = frozenset({Filter.DYNAMIC_RESOURCES, Filter.NOT_MODELLED})


@dataclass(frozen=True, slots=True)
class HelpedPods:
    """Pods that a change may help."""

    filters: frozenset[Filter] = frozenset()
    """Filters: the change may help pods that one of them refused."""
    all_pods: bool = False
    """Whether the change may help all pods."""
    claim: tuple[str, str] | None = None
    """Namespace and name of a claim: the change may help pods that use it."""


def helped_by(event: WatchEvent) -> HelpedPods:
    """The pods that a change of the store may help."""
    gone = event.type is WatchEventType.DELETED
    if event.resource_type is NODES:
        if event.previous is None:
            return HelpedPods(all_pods=True)
        return HelpedPods() if gone else HelpedPods(_node_changes(event.previous, event.object))
    if event.resource_type is PODS:
        return HelpedPods(_pod_changes(event.previous, None if gone else event.object))
    if event.resource_type is RESOURCECLAIMS:
        return _claim_changes(event)
    if event.resource_type is DEVICETAINTRULES:
        # For the scheduler it is the slice that changes.
        return HelpedPods(_DEVICES)
    if gone:
        return HelpedPods()
    if event.resource_type is RESOURCESLICES:
        return HelpedPods(_DEVICES)
    if event.resource_type is DEVICECLASSES:
        # Its devices may provide a resource that no node has.
        return HelpedPods(_DEVICES | {Filter.NODE_RESOURCES_FIT})
    if event.resource_type is PERSISTENTVOLUMECLAIMS:
        return HelpedPods(frozenset({Filter.VOLUME_BINDING}))
    return HelpedPods()


def pod_changed_itself(before: JsonObject, after: JsonObject) -> bool:
    """Whether a pending pod's own change may help it; the scheduler's writes do not count."""
    return _requirements(before) != _requirements(after)


def _requirements(pod: JsonObject) -> tuple[object, ...]:
    metadata, status = pod["metadata"], pod.get("status", {})
    marks = metadata.get("labels"), metadata.get("deletionTimestamp")
    return pod["spec"], *marks, status.get("resourceClaimStatuses")


def _node_changes(before: JsonObject, after: JsonObject) -> frozenset[Filter]:
    helped: set[Filter] = set()
    if before["metadata"].get("labels") != after["metadata"].get("labels"):
        helped |= {Filter.NODE_AFFINITY, Filter.INTER_POD_AFFINITY, *_DEVICES}
    if before["spec"].get("taints") != after["spec"].get("taints"):
        helped.add(Filter.TAINT_TOLERATION)
    if before["spec"].get("unschedulable") != after["spec"].get("unschedulable"):
        helped.add(Filter.NODE_UNSCHEDULABLE)
    if before.get("status", {}).get("allocatable") != after.get("status", {}).get("allocatable"):
        helped |= {Filter.NODE_RESOURCES_FIT, *_DEVICES}
    return frozenset(helped)


def _pod_changes(before: JsonObject | None, after: JsonObject | None) -> frozenset[Filter]:
    """Filters that may decide otherwise after a change of a pod."""
    had, has = _is_placed(before), _is_placed(after)
    if had and not has:
        return _FREED_BY_PODS
    if has and (not had or _labels(before) != _labels(after)):
        return frozenset({Filter.INTER_POD_AFFINITY})
    return frozenset()


def _claim_changes(event: WatchEvent) -> HelpedPods:
    before, after = event.previous, event.object
    name = (after["metadata"]["namespace"], after["metadata"]["name"])
    was_allocated = before is not None and "allocation" in before.get("status", {})
    if event.type is WatchEventType.DELETED:
        # A pod with extended resources may wait for the deletion of its leftover claim.
        is_special = (after["metadata"].get("annotations") or {}).get(EXTENDED_RESOURCE_ANNOTATION) == "true"
        return HelpedPods(_DEVICES if was_allocated or is_special else frozenset(), claim=name)
    if was_allocated and "allocation" not in after.get("status", {}):
        return HelpedPods(_DEVICES, claim=name)
    unchanged = before is not None and before.get("status") == after.get("status")
    deletion_asked = after["metadata"].get("deletionTimestamp")
    return HelpedPods(claim=None if unchanged and not deletion_asked else name)


def _is_placed(pod: JsonObject | None) -> bool:
    if pod is None or not (pod["spec"].get("nodeName") or pod.get("status", {}).get("nominatedNodeName")):
        return False
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _labels(pod: JsonObject | None) -> object:
    return pod["metadata"].get("labels") if pod is not None else None
