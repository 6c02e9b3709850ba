"""Failures that keep a pod with its devices and its node from running, where a second pod may help. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dra_spawner.common.json_types import JsonObject

#: Maximum seconds between searches of events; there may be thousands of events of other pods.
_EVENTS_LOOK_SECONDS: Final = 5.0
#: Event of the kubelet (pkg/kubelet/events) for each failed try to prepare a pod's devices.
_FAILED_PREPARE: Final = "FailedPrepareDynamicResources"
#: Messages of the kubelet's DRA manager whose node still takes a claim back, or an older one of that name: from 1.37 on
#: no pod joins meanwhile, and up to 1.36 its pod lost the claim. The next try, after 60 to 90 s, or the next pod gets
#: it.
_STILL_HELD: Final = ("is being unprepared", "still exists (previous pod force-deleted?!)")
#: Message of the kubelet's DRA manager that has forgotten a prepared claim. It prepares claims only before it creates
#: the sandbox, so the containers of this pod never start.
_CLAIM_LOST: Final = "unable to get claim info for"
#: Condition and event of kube-controller-manager's eviction for NoExecute taints of devices (KEP-5055).
_WITHDRAWAL: Final = "DeletionByDeviceTaintManager"
_WITHDRAWAL_EVENT: Final = "DeviceTaintManagerEviction"
#: Condition of pods that a kubelet ends: for a critical pod (preemption), at a shutdown, or for lack of resources.
_ENDED_BY_KUBELET: Final = "TerminationByKubelet"
#: State of a container that did not exist when its pod ended; most never ran (pkg/kubelet/status).
_NEVER_SEEN: Final = "ContainerStatusUnknown"
#: ``status.reason`` of pods that a kubelet does not admit (pkg/kubelet/lifecycle, cm, nodeshutdown, eviction), if
#: another node or a later try may help; also ``OutOf<resource>``.
_NOT_ADMITTED: Final = frozenset(
    {
        "AppArmor",
        "Evicted",
        "InvalidNodeInfo",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeShutdown",
        "PodFeatureUnsupported",
        "SMTAlignmentError",
        "SupplementalGroupsPolicyNotSupported",
        "TaintToleration",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    }
)
#: Waiting reasons of containers before their pod's sandbox exists.
_NO_SANDBOX: Final = ("ContainerCreating", "PodInitializing")


class PodFailureKind(StrEnum):
    """Why a pod is created again; a label of the metric."""

    PREPARATION = "preparation-failed"
    STILL_HELD = "claim-still-held"
    CLAIM_LOST = "claim-lost"
    ADMISSION = "not-admitted"
    ENDED = "ended-by-node"
    UNHEALTHY = "device-unhealthy"
    WITHDRAWN = "device-withdrawn"


@dataclass(frozen=True, slots=True)
class PodFailure:
    """Why a pod on a node will not run.

    Attributes
    ----------
    node
        Node of the pod; empty if it is not known.
    """

    kind: PodFailureKind
    node: str

    def sentence(self, devices: Sequence[str]) -> str:
        """Sentence for the user.

        Parameters
        ----------
        devices
            Known names of the server's devices.
        """
        plural = len(devices) > 1
        device = f"device{'s' if plural else ''} {', '.join(devices)}" if devices else "a device"
        node = f"Machine {self.node}" if self.node else "A machine"
        where = f" on machine {self.node}" if self.node else ""
        start = device[0].upper() + device[1:]
        match self.kind:
            case PodFailureKind.PREPARATION:
                return f"{node} could not make {device} ready for this server."
            case PodFailureKind.STILL_HELD:
                return f"{node} is still taking {device} back from an earlier server."
            case PodFailureKind.CLAIM_LOST:
                return f"{node} lost track of {device} while this server started."
            case PodFailureKind.ADMISSION:
                # The device is not named, as Kubernetes has deallocated it already.
                return f"{node} did not accept this server."
            case PodFailureKind.ENDED:
                return f"{node} ended this server while it started, as it ran short of resources or was shut down."
            case PodFailureKind.UNHEALTHY if plural:
                return f"One of {device}{where} does not work any more."
            case PodFailureKind.UNHEALTHY:
                return f"{start}{where} does not work any more."
            case PodFailureKind.WITHDRAWN:
                return f"{start}{where} {'were' if plural else 'was'} withdrawn while this server started."


class PodCannotRun(Exception):
    """Raised if a pod will not run, but another pod may.

    Attributes
    ----------
    pod
        Last seen state of the pod.
    """

    def __init__(self, failure: PodFailure, pod: JsonObject) -> None:
        super().__init__(f"{failure.kind} on node {failure.node or '(unknown)'}")
        self.failure = failure
        self.pod = pod


@dataclass
class PodFailureWatch:
    """Detects the failure of one pod, by repeated checks.

    Attributes
    ----------
    limit_seconds
        Time for which the preparation of devices may fail. Other failures count at once, as they are permanent.
    held_seconds
        Time for which the node may take the devices back from an earlier pod.
    """

    limit_seconds: float
    held_seconds: float
    _next_look: float | None = None
    _failing_since: float | None = None
    _kind: PodFailureKind = PodFailureKind.PREPARATION

    def judge(self, pod: JsonObject, events: Callable[[], Iterable[JsonObject]], now: float) -> PodFailure | None:
        """Return why the pod must be created again; None while it may still run.

        Parameters
        ----------
        pod
            The pod from the API.
        events
            Returns Event objects, also of other pods; called at most every few seconds.
        now
            Seconds of a monotonic clock.
        """
        failure = status_failure(pod)
        if failure is not None:
            return failure
        if not _is_without_sandbox(pod):
            self._failing_since = None
            return None
        pause = min(_EVENTS_LOOK_SECONDS, self.limit_seconds / 4)
        if self._next_look is None:
            # Not at once: most pods have a sandbox soon, and in a rush there are events of many pods.
            self._next_look = now + pause
        if now >= self._next_look:
            self._next_look = now + pause
            self._read(_events_of(pod, events()), now)
        limit = self.held_seconds if self._kind is PodFailureKind.STILL_HELD else self.limit_seconds
        if self._failing_since is None or now < self._failing_since + limit:
            return None
        return self.failing(pod)

    def _read(self, events: Iterable[JsonObject], now: float) -> None:
        """Note since when the preparation fails, and why."""
        failed = [str(each.get("message")) for each in events if each.get("reason") == _FAILED_PREPARE]
        if not failed:
            return
        is_held = all(any(text in message for text in _STILL_HELD) for message in failed)
        kind = PodFailureKind.STILL_HELD if is_held else PodFailureKind.PREPARATION
        if self._failing_since is None or kind is not self._kind:
            self._failing_since, self._kind = now, kind

    def failing(self, pod: JsonObject) -> PodFailure | None:
        """Return the failure if the preparation of devices fails at present, for any time; else None."""
        return None if self._failing_since is None else PodFailure(self._kind, _node_of(pod))


def status_failure(pod: JsonObject) -> PodFailure | None:
    """Return the failure in a pod's status; None if there is none. These failures are permanent."""
    node, status = _node_of(pod), pod.get("status") or {}
    if not node:
        return None
    if _is_disrupted(status, _WITHDRAWAL):
        return PodFailure(PodFailureKind.WITHDRAWN, node)
    if status.get("phase") in ("Failed", "Succeeded"):
        return _ended_failure(node, status)
    for each in _containers(status):
        waits = (each.get("state") or {}).get("waiting") or {}
        if waits.get("reason") == "CreateContainerConfigError" and _CLAIM_LOST in str(waits.get("message")):
            return PodFailure(PodFailureKind.CLAIM_LOST, node)
        if any(device.get("health") == "Unhealthy" for device in _devices(each)):
            return PodFailure(PodFailureKind.UNHEALTHY, node)
    return None


def _ended_failure(node: str, status: JsonObject) -> PodFailure | None:
    reason = str(status.get("reason") or "")
    if reason in _NOT_ADMITTED or reason.startswith("OutOf"):
        ran = any(_has_run(each) for each in _containers(status))
        # A pod that ran and was evicted later may have used too many resources itself.
        return None if ran else PodFailure(PodFailureKind.ADMISSION, node)
    # If the program ends without an error after SIGTERM, the pod has succeeded, and there is no reason.
    return PodFailure(PodFailureKind.ENDED, node) if _is_disrupted(status, _ENDED_BY_KUBELET) else None


def withdrawn(pod: JsonObject, events: Iterable[JsonObject]) -> PodFailure | None:
    """Return the failure if a pod was deleted because its device was withdrawn; else None.

    Parameters
    ----------
    pod
        Last seen state of the pod, which may be older than the withdrawal.
    """
    marked = _is_disrupted(pod.get("status") or {}, _WITHDRAWAL)
    if marked or any(event.get("reason") == _WITHDRAWAL_EVENT for event in _events_of(pod, events)):
        return PodFailure(PodFailureKind.WITHDRAWN, _node_of(pod))
    return None


def _is_disrupted(status: JsonObject, reason: str) -> bool:
    return any(
        each.get("type") == "DisruptionTarget" and each.get("status") == "True" and each.get("reason") == reason
        for each in status.get("conditions") or ()
    )


def _is_without_sandbox(pod: JsonObject) -> bool:
    """Whether a pod with a node has no sandbox yet; the kubelet prepares devices before it creates the sandbox."""
    status = pod.get("status") or {}
    if not _node_of(pod) or pod["metadata"].get("deletionTimestamp"):
        return False
    for each in status.get("conditions") or ():
        if each.get("type") == "PodReadyToStartContainers" and each.get("status") == "True":
            return False
    waiting = ((each.get("state") or {}).get("waiting") or {} for each in _containers(status))
    return all(each.get("reason") in _NO_SANDBOX for each in waiting)


def _containers(status: JsonObject) -> Iterator[JsonObject]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _has_run(container: JsonObject) -> bool:
    state = container.get("state") or {}
    ended = state.get("terminated") or {}
    has_ended = bool(ended) and ended.get("reason") != _NEVER_SEEN
    return bool(state.get("running") or has_ended or container.get("restartCount"))


def _devices(container: JsonObject) -> Iterator[JsonObject]:
    """Health of each device of a container (KEP-4680)."""
    for resource in container.get("allocatedResourcesStatus") or ():
        yield from resource.get("resources") or ()


def _events_of(pod: JsonObject, events: Iterable[JsonObject]) -> Iterator[JsonObject]:
    uid = pod["metadata"].get("uid")
    return (event for event in events if uid and (event.get("involvedObject") or {}).get("uid") == uid)


def _node_of(pod: JsonObject) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
