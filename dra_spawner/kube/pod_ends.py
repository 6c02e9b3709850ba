"""Why Kubernetes ended a pod that nobody stopped, in words for the pod's user. Pure.

The API server's own components say it in the condition ``DisruptionTarget`` (KEP-3329), and a kubelet in
``status.reason``. Both are gone with the pod, which is often deleted a moment later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

#: Type of the condition.
DISRUPTION: Final = "DisruptionTarget"
_NO_ANSWER: Final = (
    "{node} does not answer, so the server may not, either. Wait for some minutes, or stop the server and start it "
    "again."
)
#: A server whose pod is gone, where nothing says why.
REMOVED: Final = "It was removed from the cluster, and not by JupyterHub. Why is not known."
_SHORT: Final = "{node} ended it, as it ran short of memory, disk space or another resource."
_SHUT_DOWN: Final = "{node} was shut down."
_TAINTED: Final = "{node} does not work or was closed, so that no server stays there."
_WITHDRAWN: Final = "A device of it was withdrawn{on_node}."
_PREEMPTED: Final = "Its place{on_node} was needed for something with a higher priority."
END_SENTENCES: Final[Mapping[str, str]] = {
    # Reasons of the condition.
    "DeletionByDeviceTaintManager": _WITHDRAWN,
    "DeletionByPodGC": "{node} is gone.",
    "DeletionByTaintManager": _TAINTED,
    "EvictionByEvictionAPI": "It was evicted: {node} was to become empty, for example for maintenance.",
    "PreemptionByScheduler": _PREEMPTED,
    "TerminationByKubelet": "{node} ended it, as it ran short of resources or was shut down.",
    # ``status.reason`` of a pod that a kubelet has ended.
    "Evicted": _SHORT,
    "NodeAffinity": "{node} does not take it any more, as its labels have changed.",
    "NodeLost": "{node} does not answer any more.",
    "NodeShutdown": _SHUT_DOWN,
    "Preempting": _PREEMPTED,
    "Shutdown": _SHUT_DOWN,
    "Terminated": _SHUT_DOWN,
}
#: Reasons of events, where the pod was gone before its condition was seen.
_OF_EVENTS: Final[Mapping[str, str]] = {
    "DeviceTaintManagerEviction": "DeletionByDeviceTaintManager",
    "Evicted": "Evicted",
    "Preempted": "PreemptionByScheduler",
    "TaintManagerEviction": "DeletionByTaintManager",
}


def end_sentence(reasons: Iterable[str], node: str) -> str:
    """The sentence for the first reason that is known; empty if none is.

    Parameters
    ----------
    reasons
        The most exact one first.
    node
        Name of the pod's node; empty if it is not known.
    """
    for reason in reasons:
        if sentence := END_SENTENCES.get(reason):
            return _with_node(sentence, node)
    return ""


def unannounced_end(node: str, *, phase: str, is_stopped: bool, node_is_gone: bool = False) -> str:
    """What is known of the end of a pod that nothing explains; empty if somebody stopped it.

    Parameters
    ----------
    node
        Name of the pod's node; empty if it had none.
    phase
        The last one that was seen.
    is_stopped
        Whether its deletion was seen to begin. One with a grace of 0, as by force, is not.
    """
    if is_stopped or not node:
        return ""
    if node_is_gone:
        return end_sentence(("DeletionByPodGC",), node)
    match phase:
        case "Succeeded":
            return "Its program ended."
        case "Failed":
            return f"It failed on machine {node}: its program ended with an error, or the machine ended it."
    return f"Nothing said that it would end: it was deleted by force on machine {node}, or its end was not seen."


def end_of_pod(pod: Mapping[str, Any]) -> str:
    """The sentence for a pod from the API; empty if it says nothing about its end."""
    status = pod.get("status") or {}
    disruptions = (
        str(each.get("reason"))
        for each in status.get("conditions") or ()
        if each.get("type") == DISRUPTION and each.get("status") == "True"
    )
    # A kubelet writes a condition, too, which says less.
    return end_sentence((str(status.get("reason") or ""), *disruptions), _node(pod))


def end_of_events(pod: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> str:
    """The sentence for a pod that is gone, by its events; empty if they say nothing."""
    uid = (pod.get("metadata") or {}).get("uid")
    reasons = (
        _OF_EVENTS.get(str(each.get("reason")), "")
        for each in events
        if uid and (each.get("involvedObject") or {}).get("uid") == uid
    )
    return end_sentence(reasons, _node(pod))


def end_of_missing_pod(events: Iterable[Mapping[str, Any]], since: datetime | None) -> str:
    """The sentence for a pod that was gone before it was seen, by the events of its name; one is always known.

    Parameters
    ----------
    since
        When the server started, with its zone: older events are of earlier pods. None if it is not known.
    """
    of_server = (
        each for each in events if since is None or ((created := _created(each)) is not None and created >= since)
    )
    return end_sentence((_OF_EVENTS.get(str(each.get("reason")), "") for each in of_server), "") or REMOVED


def _created(found: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(str((found.get("metadata") or {}).get("creationTimestamp")))
    except ValueError:
        return None


def trouble_of_pod(pod: Mapping[str, Any]) -> str:
    """The sentence for a pod that runs and is being ended, or whose node does not answer; empty for any other."""
    if (pod.get("metadata") or {}).get("deletionTimestamp") and (sentence := end_of_pod(pod)):
        return sentence
    if (pod.get("spec") or {}).get("readinessGates"):
        return ""  # their conditions are others'
    conditions = {each.get("type"): each.get("status") for each in (pod.get("status") or {}).get("conditions") or ()}
    # When a node's Lease expires, kube-controller-manager writes this condition alone.
    if conditions.get("Ready") == "False" and conditions.get("ContainersReady") == "True":
        return _with_node(_NO_ANSWER, _node(pod))
    return ""


def is_stopped_with_start(pod: Mapping[str, Any], *, delete_stopped_pods: bool) -> bool:
    """Whether ``stop`` is called for a start that fails with its pod in this state, as ``KubeSpawner.poll`` decides.

    Parameters
    ----------
    delete_stopped_pods
        KubeSpawner's setting: whether it stops a pod whose container has ended.
    """
    status = pod.get("status") or {}
    if status.get("phase") == "Pending":
        return True
    containers = status.get("containerStatuses")
    if containers is None:
        return False
    has_ended = any(each["name"] == "notebook" and "terminated" in each["state"] for each in containers)
    return delete_stopped_pods or not has_ended


def _with_node(sentence: str, node: str) -> str:
    return sentence.format(
        node=f"Machine {node}" if node else "Its machine", on_node=f" on machine {node}" if node else ""
    )


def _node(pod: Mapping[str, Any]) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
