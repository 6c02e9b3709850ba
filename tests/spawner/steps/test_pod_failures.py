"""Conditions for making a pod again: a table of kubelets' statuses, and the limit by a clock of the test's own."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dra_spawner.spawner.placement.pod import without_node
from dra_spawner.spawner.steps.pod_failures import (
    PodFailure,
    PodFailureKind,
    PodFailureWatch,
    status_failure,
    withdrawn,
)
from tests.all_of_them import all_of_them

LOST = "internal error: unable to get claim info for ResourceClaim c in namespace n"


def pod(status: dict[str, Any], node: str = "node-a", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "1", **metadata}, "spec": {"nodeName": node} if node else {}, "status": status}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"name": "notebook", "state": {"waiting": {"reason": reason, "message": message}}}


def failed(reason: str, **more: Any) -> dict[str, Any]:
    return {"phase": "Failed", "reason": reason, **more}


def with_health(health: str, state: str = "waiting") -> dict[str, Any]:
    devices = [{"resourceID": "a", "health": "Healthy"}, {"resourceID": "b", "health": health}]
    return {
        "name": "c",
        "state": {state: {}},
        "allocatedResourcesStatus": [{"name": "claim:gpu", "resources": devices}],
    }


def condition(reason: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": "DisruptionTarget", "status": status, "reason": reason}]}


CREATING = {"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]}
RAN = {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}
NEVER_RAN = {
    "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}]
}
BY_KUBELET = condition("TerminationByKubelet")


@all_of_them(
    "status, kind",
    {
        "nothing known": ({}, None),
        "it is being made": (CREATING, None),
        "claim lost": ({"containerStatuses": [waiting("CreateContainerConfigError", LOST)]}, "claim-lost"),
        "by an init container": ({"initContainerStatuses": [waiting("CreateContainerConfigError", LOST)]}, "claim-lost"),
        "a secret is missing": ({"containerStatuses": [waiting("CreateContainerConfigError", "secret not found")]}, None),
        "an image is missing": ({"containerStatuses": [waiting("ImagePullBackOff", LOST)]}, None),
        "unexpected": (failed("UnexpectedAdmissionError"), "not-admitted"),
        "a resource is used up": (failed("OutOfnvidia.com/gpu"), "not-admitted"),
        "labels changed": (failed("NodeAffinity", containerStatuses=[waiting("ContainerCreating")]), "not-admitted"),
        "evicted before it ran": (failed("Evicted"), "not-admitted"),
        "evicted before it ran, later": (failed("Evicted", **NEVER_RAN, **BY_KUBELET), "not-admitted"),
        "ended for a critical pod": (failed("Preempting", **NEVER_RAN, **BY_KUBELET), "ended-by-node"),
        "ended as the node shuts down": (failed("Terminated", **RAN, **BY_KUBELET), "ended-by-node"),
        "ended without an error": ({"phase": "Succeeded", **RAN, **BY_KUBELET}, "ended-by-node"),
        "ended by itself": ({"phase": "Succeeded", **RAN}, None),
        "evicted for what it used": (failed("Evicted", **RAN, **BY_KUBELET), None),
        "evicted when it ran": (failed("Evicted", **RAN), None),
        "no node would take it": (failed("SysctlForbidden"), None),
        "failed without a word": (failed(""), None),
        "unhealthy": ({"containerStatuses": [with_health("Unhealthy")]}, "device-unhealthy"),
        "health unknown": ({"containerStatuses": [with_health("Unknown")]}, None),
        "withdrawn": (condition("DeletionByDeviceTaintManager"), "device-withdrawn"),
        "not withdrawn after all": (condition("DeletionByDeviceTaintManager", "False"), None),
        "somebody drains the node": (condition("EvictionByEvictionAPI"), None),
    },
)  # fmt: skip
def test_the_kind_of_failure_by_status(status, kind):
    assert status_failure(pod(status)) == (None if kind is None else PodFailure(PodFailureKind(kind), "node-a"))
    assert status_failure(pod(status, node="")) is None, "it is nobody's node's fault"


class Clock:
    """A pod whose preparation may fail, and the time."""

    def __init__(self, limit: float = 60.0, held: float = 0.0) -> None:
        self.watch = PodFailureWatch(limit, held)
        self.events: list[dict[str, Any]] = []
        self.status: dict[str, Any] = CREATING
        self.metadata: dict[str, Any] = {}
        self.looks = 0

    def fail(self, uid: str = "1", reason: str = "FailedPrepareDynamicResources", message: str = "") -> None:
        self.events.append({"involvedObject": {"uid": uid}, "reason": reason, "message": message})

    def _events(self) -> list[dict[str, Any]]:
        self.looks += 1
        return self.events

    def first_trouble(self, start: int, end: int) -> int | None:
        """The second at which the pod is to be made again."""
        for now in range(start, end):
            if self.watch.judge(pod(self.status, **self.metadata), self._events, now):
                return now
        return None


def test_preparation_that_fails_for_too_long():
    clock = Clock()
    assert clock.first_trouble(0, 100) is None, "slow is not wrong"
    clock.fail()
    assert clock.first_trouble(100, 1000) == 160
    assert clock.watch.failing(pod(CREATING)) == PodFailure(PodFailureKind.PREPARATION, "node-a")


@all_of_them(
    "message",
    [
        "Failed to prepare dynamic resources: prepare dynamic resources: ResourceClaim c is being unprepared",
        "prepare dynamic resources: old ResourceClaim with same name c and different UID 1 still exists (previous pod "
        "force-deleted?!)",
    ],
)
def test_a_claim_that_the_node_still_takes_back(message):
    """The first pod is made again at once, later ones when the limit is over; then a failure of the device counts."""
    clock = Clock()
    clock.fail(message=message)
    assert clock.first_trouble(0, 1000) == 5
    assert clock.watch.failing(pod(CREATING)) == PodFailure(PodFailureKind.STILL_HELD, "node-a")
    later = Clock(held=60.0)
    later.fail(message=message)
    assert later.first_trouble(0, 50) is None
    later.fail(message="NodePrepareResources failed: the device does not answer")
    assert later.first_trouble(50, 1000) == 110
    assert later.watch.failing(pod(CREATING)) == PodFailure(PodFailureKind.PREPARATION, "node-a")


def test_events_are_not_looked_at_all_the_time():
    clock = Clock()
    clock.first_trouble(0, 5)
    assert clock.looks == 0, "most pods run by then"
    clock.first_trouble(5, 100)
    assert clock.looks == 19


@all_of_them("event", [{"uid": "2"}, {"reason": "FailedMount"}])
def test_events_of_others_do_not_count(event):
    clock = Clock()
    clock.fail(**event)
    assert clock.first_trouble(0, 1000) is None


@all_of_them(
    "status",
    {
        "ready": {"conditions": [{"type": "PodReadyToStartContainers", "status": "True"}]},
        "pulls": {"containerStatuses": [waiting("ErrImagePull")]},
        "runs": {"containerStatuses": [{"name": "c", "state": {"running": {}}}]},
    },
)
def test_preparation_that_comes_right(status):
    """The event stays in the list for an hour; the status of the pod shows that the trouble is over."""
    clock = Clock()
    clock.fail()
    assert clock.first_trouble(0, 50) is None
    clock.status = status
    assert clock.first_trouble(50, 1000) is None
    assert clock.watch.failing(pod(status)) is None


def test_a_pod_that_goes_anyway_is_left_alone():
    clock = Clock()
    clock.fail()
    clock.metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert clock.first_trouble(0, 1000) is None


def test_a_pod_that_is_gone_was_withdrawn_if_an_event_says_so():
    events = [{"involvedObject": {"uid": "1"}, "reason": "DeviceTaintManagerEviction"}]
    assert withdrawn(pod({}), events) == PodFailure(PodFailureKind.WITHDRAWN, "node-a")
    assert withdrawn(pod(condition("DeletionByDeviceTaintManager")), []) == PodFailure(
        PodFailureKind.WITHDRAWN, "node-a"
    )
    assert withdrawn(pod({}), [{**events[0], "involvedObject": {"uid": "2"}}]) is None
    assert withdrawn(pod({}), []) is None


@pytest.mark.promise("Each failure of a pod has a sentence without Kubernetes' words.")
@all_of_them(
    "kind, devices, node", itertools.product(PodFailureKind, ([], ["gpu-0"], ["gpu-0", "gpu-1"]), ("node-a", ""))
)
def test_sentences(kind, devices, node):
    sentence = PodFailure(kind, node).sentence(devices)
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert not node or node in sentence
    without = (PodFailureKind.ADMISSION, PodFailureKind.ENDED)
    assert kind in without or all(device in sentence for device in devices)
    assert not {"pod", "claim", "kubelet", "admission", "taint"} & set(sentence.lower().rstrip(".").split())


OTHERS = {"key": "metadata.name", "operator": "NotIn", "values": ["node-a"]}
ZONE = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
HOST = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a", "node-b"]}]}
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


@all_of_them(
    "terms, expected",
    {
        "of none": ([], [{"matchFields": [OTHERS]}]),
        "of alternatives": (
            [ZONE, HOST],
            [{**ZONE, "matchFields": [OTHERS]}, {"matchFields": [*HOST["matchFields"], OTHERS]}],
        ),
    },
)
def test_another_node_is_required_besides(terms, expected):
    before = {"podAffinity": {}, "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}} if terms else {}}
    once = without_node(before, "node-a", required=True)
    assert once == {"podAffinity": {}, "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": expected}}}
    assert without_node(once, "node-a", required=True) == once


def test_another_node_is_preferred_besides():
    other = {"weight": 1, "preference": ZONE}
    once = without_node({"nodeAffinity": {PREFERRED: [other]}}, "node-a", required=False)
    assert once["nodeAffinity"][PREFERRED] == [{"weight": 100, "preference": {"matchFields": [OTHERS]}}, other]
    assert without_node(once, "node-a", required=False) == once
