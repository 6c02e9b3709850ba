"""Each reason for which Kubernetes ends a pod has a sentence for its user, without words of Kubernetes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dra_spawner.kube.pod_ends import (
    REMOVED,
    end_of_events,
    end_of_missing_pod,
    end_of_pod,
    is_stopped_with_start,
    trouble_of_pod,
    unannounced_end,
)
from tests.all_of_them import all_of_them

FOREIGN = ("pod", "taint", "kube", "evictionapi", "disruption", "preempt")


def pod(reason: str = "", disruption: str = "", status: str = "True", node: str = "n1") -> dict[str, Any]:
    conditions = [{"type": "DisruptionTarget", "status": status, "reason": disruption}] if disruption else []
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"uid": "u"}, "spec": spec, "status": {"reason": reason, "conditions": conditions}}


@all_of_them(
    "pod, sentence",
    {
        "device taint": (pod(disruption="DeletionByDeviceTaintManager"), "A device of it was withdrawn on machine n1."),
        "node taint": (pod(disruption="DeletionByTaintManager"), "Machine n1 does not work or was closed, so"),
        "drain": (pod(disruption="EvictionByEvictionAPI"), "It was evicted: Machine n1 was to become empty"),
        "scheduler": (pod(disruption="PreemptionByScheduler"), "Its place on machine n1 was needed for something"),
        "node deleted": (pod(disruption="DeletionByPodGC"), "Machine n1 is gone."),
        "pressure": (pod("Evicted", "TerminationByKubelet"), "Machine n1 ended it, as it ran short of memory"),
        "kubelet": (pod(disruption="TerminationByKubelet"), "Machine n1 ended it, as it ran short of resources"),
        "shutdown": (pod("Terminated"), "Machine n1 was shut down."),
        "no node": (pod("Evicted", node=""), "Its machine ended it"),
    },
)
def test_a_reason_has_a_sentence(pod: dict[str, Any], sentence: str) -> None:
    found = end_of_pod(pod)
    assert found.startswith(sentence)
    assert found.endswith(".")
    assert not any(word in found.lower() for word in FOREIGN)


@all_of_them(
    "pod",
    [
        pod(),
        pod("Error"),
        pod(disruption="EvictionByEvictionAPI", status="False"),
        pod(disruption="Else"),
        {},
        {"status": None},
    ],
)
def test_what_is_not_known_is_not_told(pod: dict[str, Any]) -> None:
    assert end_of_pod(pod) == ""


def test_events_tell_it_where_the_condition_was_not_seen() -> None:
    other = {"reason": "Preempted", "involvedObject": {"uid": "another"}}
    own = {"reason": "DeviceTaintManagerEviction", "involvedObject": {"uid": "u"}}
    assert end_of_events(pod(), [other]) == ""
    assert end_of_events(pod(), [other, {"reason": "Killing", "involvedObject": {"uid": "u"}}, own]).startswith(
        "A device"
    )


RUNNING = {"name": "notebook", "state": {"running": {}}}
ENDED = {"name": "notebook", "state": {"terminated": {"exitCode": 1}}}


@all_of_them(
    "status, is_stopped",
    {
        "waits for a node": ({"phase": "Pending"}, True),
        "starts": ({"phase": "Pending", "containerStatuses": [RUNNING]}, True),
        "runs": ({"phase": "Running", "containerStatuses": [RUNNING]}, True),
        "evicted before it ran": ({"phase": "Failed"}, False),
        "ended": ({"phase": "Failed", "containerStatuses": [ENDED]}, True),
        "another container ended": ({"phase": "Running", "containerStatuses": [{**ENDED, "name": "x"}]}, True),
        "nothing known": ({}, False),
    },
)
def test_which_pods_are_stopped_with_their_start(status: dict[str, Any], is_stopped: bool) -> None:
    assert is_stopped_with_start({"status": status}, delete_stopped_pods=True) is is_stopped
    kept = is_stopped and ENDED not in status.get("containerStatuses", ())
    assert is_stopped_with_start({"status": status}, delete_stopped_pods=False) is kept


def test_the_node_of_an_unannounced_end() -> None:
    assert unannounced_end("n1", phase="Running", is_stopped=False, node_is_gone=True) == "Machine n1 is gone."
    assert unannounced_end("n1", phase="Running", is_stopped=True, node_is_gone=True) == ""


def running(ready: str, containers_ready: str, disruption: str = "", **metadata: Any) -> dict[str, Any]:
    found = pod(disruption=disruption)
    found["metadata"] |= metadata
    found["status"]["conditions"] += [
        {"type": "Ready", "status": ready},
        {"type": "ContainersReady", "status": containers_ready},
    ]
    return found


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@all_of_them(
    "pod, text",
    {
        "well": (running("True", "True"), ""),
        "its node is lost": (running("False", "True"), "Machine n1 does not answer, so the server may not"),
        "its container is not ready": (running("False", "False"), ""),
        "evicted from a lost node": (running("False", "True", "DeletionByTaintManager", **DELETED), "Machine n1 does not work"),
        "drained": (running("True", "True", "EvictionByEvictionAPI", **DELETED), "It was evicted: Machine n1"),
        "being stopped": (running("False", "False", **DELETED), ""),
        "readiness of others": ({**running("False", "True"), "spec": {"readinessGates": [{}]}}, ""),
        "gone": ({}, ""),
    },
)  # fmt: skip
def test_a_running_server_that_may_not_answer(pod: dict[str, Any], text: str) -> None:
    found = trouble_of_pod(pod)
    assert found.startswith(text)
    assert bool(found) == bool(text)


def test_a_pod_that_was_gone_before_it_was_seen() -> None:
    """A hub that was restarted knows its events at most."""

    def event(reason: str, hour: int) -> dict[str, Any]:
        return {"reason": reason, "metadata": {"creationTimestamp": f"2026-01-01T{hour:02}:00:00Z"}}

    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    evicted = "Its machine does not work or was closed, so that no server stays there."
    assert end_of_missing_pod([event("Killing", 13), event("TaintManagerEviction", 13)], noon) == evicted
    assert end_of_missing_pod([event("TaintManagerEviction", 11)], noon) == REMOVED
    assert end_of_missing_pod([event("TaintManagerEviction", 11)], None) == evicted
    assert end_of_missing_pod([{"reason": "Evicted", "metadata": {"creationTimestamp": "soon"}}, {}], noon) == REMOVED
    assert not any(word in REMOVED.lower() for word in FOREIGN)
