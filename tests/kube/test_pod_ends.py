"""Each reason for which Kubernetes ends a pod has a sentence for its user, without words of Kubernetes."""

from __future__ import annotations

from typing import Any

from dra_spawner.kube.pod_ends import end_of_events, end_of_pod, is_stopped_with_start, unannounced_end
from tests.all_of_them import all_of_them

FOREIGN = ("pod", "taint", "kube", "evictionapi", "disruption", "preempt")


def pod(reason: str = "", disruption: str = "", status: str = "True", node: str = "n1") -> dict[str, Any]:
    conditions = [{"type": "DisruptionTarget", "status": status, "reason": disruption}] if disruption else []
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"uid": "u"}, "spec": spec, "status": {"reason": reason, "conditions": conditions}}


@all_of_them(
    "pod, sentence",
    {
        "device taint": (pod(disruption="DeletionByDeviceTaintManager"), "A device of it was withdrawn on node n1."),
        "node taint": (pod(disruption="DeletionByTaintManager"), "Node n1 does not work or was closed, so"),
        "drain": (pod(disruption="EvictionByEvictionAPI"), "It was evicted: Node n1 was to become empty"),
        "scheduler": (pod(disruption="PreemptionByScheduler"), "Its place on node n1 was needed for something"),
        "node deleted": (pod(disruption="DeletionByPodGC"), "Node n1 is gone."),
        "pressure": (pod("Evicted", "TerminationByKubelet"), "Node n1 ended it, as the machine ran short of memory"),
        "kubelet": (pod(disruption="TerminationByKubelet"), "Node n1 ended it, as the machine ran short of resources"),
        "shutdown": (pod("Terminated"), "Node n1 was shut down."),
        "no node": (pod("Evicted", node=""), "Its node ended it"),
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
    assert unannounced_end("n1", phase="Running", is_stopped=False, node_is_gone=True) == "Node n1 is gone."
    assert unannounced_end("n1", phase="Running", is_stopped=True, node_is_gone=True) == ""
