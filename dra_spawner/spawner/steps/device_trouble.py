"""What keeps a server's pod from running although it has its devices and its node. Pure: a second pod may help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dra_spawner.json_types import JsonObject

__all__ = ["DeviceTrouble", "Trouble", "TroubleKind", "TroubleWatch", "status_trouble", "withdrawn"]


#: How often events are looked at, in seconds at most; there may be thousands, of other pods.
_EVENTS_LOOK_SECONDS: Final = 5.0
#: Event of the kubelet (pkg/kubelet/events) for each failed try to prepare a pod's devices.
_FAILED_PREPARE: Final = "FailedPrepareDynamicResources"
#: Of the kubelet's DRA manager: it has forgotten a prepared claim. It prepares before it makes the sandbox only, so
#: the containers of this pod never start.
_CLAIM_LOST: Final = "unable to get claim info for"
#: Condition and event of kube-controller-manager's eviction for NoExecute taints of devices (KEP-5055).
_WITHDRAWAL: Final = "DeletionByDeviceTaintManager"
_WITHDRAWAL_EVENT: Final = "DeviceTaintManagerEviction"
#: Condition of pods that a kubelet ends: for a critical pod (preemption), as the node shuts down or lacks something.
_ENDED_BY_KUBELET: Final = "TerminationByKubelet"
#: State of a container that was not there when its pod ended; most never ran (pkg/kubelet/status).
_NEVER_SEEN: Final = "ContainerStatusUnknown"
#: ``status.reason`` of pods that a kubelet does not admit (pkg/kubelet/lifecycle, cm, nodeshutdown, eviction), where
#: another node or another moment may help; besides ``OutOf<resource>``.
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
#: What containers wait for while their pod's sandbox is not there yet.
_NO_SANDBOX: Final = ("ContainerCreating", "PodInitializing")


class TroubleKind(StrEnum):
    """Why a pod is made again: label of the metric; a closed vocabulary."""

    PREPARATION = "preparation-failed"
    CLAIM_LOST = "claim-lost"
    ADMISSION = "not-admitted"
    ENDED = "ended-by-node"
    UNHEALTHY = "device-unhealthy"
    WITHDRAWN = "device-withdrawn"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a pod on a node will not run.

    Attributes
    ----------
    node
        Empty if it is not known.
    """

    kind: TroubleKind
    node: str

    def sentence(self, devices: Sequence[str]) -> str:
        """For the user.

        Parameters
        ----------
        devices
            Names of the server's devices, as far as they are known.
        """
        plural = len(devices) > 1
        device = f"device{'s' if plural else ''} {', '.join(devices)}" if devices else "a device"
        node = f"Node {self.node}" if self.node else "A node"
        where = f" on node {self.node}" if self.node else ""
        start = device[0].upper() + device[1:]
        match self.kind:
            case TroubleKind.PREPARATION:
                return f"{node} could not make {device} ready for this server."
            case TroubleKind.CLAIM_LOST:
                return f"{node} lost track of {device} while this server started."
            case TroubleKind.ADMISSION:
                # Kubernetes has taken the device back by now.
                return f"{node} did not accept this server."
            case TroubleKind.ENDED:
                return f"{node} ended this server while it started, as it ran short of resources or was shut down."
            case TroubleKind.UNHEALTHY if plural:
                return f"One of {device}{where} does not work any more."
            case TroubleKind.UNHEALTHY:
                return f"{start}{where} does not work any more."
            case TroubleKind.WITHDRAWN:
                return f"{start}{where} {'were' if plural else 'was'} withdrawn while this server started."


class DeviceTrouble(Exception):
    """Raised where a pod will not run, and another one may.

    Attributes
    ----------
    pod
        As it was seen last.
    """

    def __init__(self, trouble: Trouble, pod: JsonObject) -> None:
        super().__init__(f"{trouble.kind} on node {trouble.node or '(unknown)'}")
        self.trouble = trouble
        self.pod = pod


@dataclass
class TroubleWatch:
    """Judges one pod, again and again.

    Attributes
    ----------
    limit_seconds
        For how long preparation may fail. All else that is judged here does not heal by itself.
    """

    limit_seconds: float
    _next_look: float = 0.0
    _failing_since: float | None = None

    def judge(self, pod: JsonObject, events: Callable[[], Iterable[JsonObject]], now: float) -> Trouble | None:
        """Why the pod is to be made again; None while it may come to run.

        Parameters
        ----------
        pod
            As the API has it.
        events
            Gives Event objects, also of other pods; called every few seconds at most.
        now
            Seconds that only go forward.
        """
        trouble = status_trouble(pod)
        if trouble is not None:
            return trouble
        if not _is_without_sandbox(pod):
            self._failing_since = None
            return None
        if self._failing_since is None and now >= self._next_look:
            self._next_look = now + min(_EVENTS_LOOK_SECONDS, self.limit_seconds / 4)
            if any(event.get("reason") == _FAILED_PREPARE for event in _events_of(pod, events())):
                self._failing_since = now
        if self._failing_since is None or now < self._failing_since + self.limit_seconds:
            return None
        return self.failing(pod)

    def failing(self, pod: JsonObject) -> Trouble | None:
        """The trouble if preparation fails at present, be it for long or not."""
        return None if self._failing_since is None else Trouble(TroubleKind.PREPARATION, _node_of(pod))


def status_trouble(pod: JsonObject) -> Trouble | None:
    """What a pod's status alone tells; none of it heals by itself."""
    node, status = _node_of(pod), pod.get("status") or {}
    if not node:
        return None
    if _is_disrupted(status, _WITHDRAWAL):
        return Trouble(TroubleKind.WITHDRAWN, node)
    if status.get("phase") in ("Failed", "Succeeded"):
        return _trouble_of_ended(node, status)
    for each in _containers(status):
        waits = (each.get("state") or {}).get("waiting") or {}
        if waits.get("reason") == "CreateContainerConfigError" and _CLAIM_LOST in str(waits.get("message")):
            return Trouble(TroubleKind.CLAIM_LOST, node)
        if any(device.get("health") == "Unhealthy" for device in _devices(each)):
            return Trouble(TroubleKind.UNHEALTHY, node)
    return None


def _trouble_of_ended(node: str, status: JsonObject) -> Trouble | None:
    reason = str(status.get("reason") or "")
    if reason in _NOT_ADMITTED or reason.startswith("OutOf"):
        ran = any(_has_run(each) for each in _containers(status))
        # Evicted later, it may have used too much itself.
        return None if ran else Trouble(TroubleKind.ADMISSION, node)
    # Where its program ends without an error when it is told to, the pod has succeeded, and there is no reason.
    return Trouble(TroubleKind.ENDED, node) if _is_disrupted(status, _ENDED_BY_KUBELET) else None


def withdrawn(pod: JsonObject, events: Iterable[JsonObject]) -> Trouble | None:
    """The trouble if a pod that is gone was deleted because its device was taken out of use.

    Parameters
    ----------
    pod
        As it was seen last, which may have been before that.
    """
    marked = _is_disrupted(pod.get("status") or {}, _WITHDRAWAL)
    if marked or any(event.get("reason") == _WITHDRAWAL_EVENT for event in _events_of(pod, events)):
        return Trouble(TroubleKind.WITHDRAWN, _node_of(pod))
    return None


def _is_disrupted(status: JsonObject, reason: str) -> bool:
    return any(
        each.get("type") == "DisruptionTarget" and each.get("status") == "True" and each.get("reason") == reason
        for each in status.get("conditions") or ()
    )


def _is_without_sandbox(pod: JsonObject) -> bool:
    """Whether a pod that has its node is not ready to start containers; kubelet prepares devices before that."""
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
