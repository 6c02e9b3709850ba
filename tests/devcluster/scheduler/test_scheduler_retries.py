"""The scheduler on changes: which pods are tried again, and when."""

from __future__ import annotations

import pytest

from dra_spawner.devcluster.api.pod_operations import bind_pod
from dra_spawner.devcluster.api.resource_types import (
    DEVICECLASSES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
)
from tests.devcluster.cluster_objects import NAMESPACE, claim, device_class, gpu_slice, pod, template, whole


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda cluster: cluster.create(RESOURCESLICES, gpu_slice("a", whole("gpu-0"))), id="slice"),
        pytest.param(lambda cluster: cluster.add_node("b", whole("gpu-0")), id="node"),
    ],
)
def test_pod_is_tried_again_when_devices_come(cluster, change):
    cluster.add_node("a")
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    cluster.create(PODS, pod("user", template="gpus"))
    assert cluster.attempts("user") == 1
    change(cluster)
    assert cluster.place("user") is not None


def test_pod_is_tried_again_when_its_class_comes(cluster):
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus", device_class_name="late"))
    cluster.create(PODS, pod("user", template="gpus"))
    assert "request gpu: device class late does not exist" in cluster.condition("user")[2]
    cluster.create(DEVICECLASSES, device_class("late"))
    assert cluster.place("user") == "a"


TAINTS = [{"key": "x", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param(lambda obj: None, lambda obj: obj["metadata"]["labels"].update(zone="x"), id="label"),
        pytest.param(
            lambda obj: (obj["metadata"]["labels"].update(zone="x"), obj["spec"].update(taints=TAINTS)),
            lambda obj: obj["spec"].pop("taints"),
            id="taint",
        ),
        pytest.param(
            lambda obj: (obj["metadata"]["labels"].update(zone="x"), obj["spec"].update(unschedulable=True)),
            lambda obj: obj["spec"].pop("unschedulable"),
            id="cordon",
        ),
    ],
)
def test_pod_is_tried_again_when_the_node_changes(cluster, before, change):
    cluster.add_node("a")
    cluster.store.modify(NODES, None, "a", before)
    cluster.create(PODS, pod("user", nodeSelector={"zone": "x"}))
    assert cluster.place("user") is None
    cluster.store.modify(NODES, None, "a", change)
    cluster.settle()
    assert cluster.place("user") == "a"


def test_pod_is_tried_again_when_the_node_grows(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", cpu="6"))
    grown = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}
    cluster.store.modify(NODES, None, "a", lambda obj: obj["status"].update(grown), "status")
    cluster.settle()
    assert cluster.place("user") == "a"


def test_pod_is_tried_again_when_its_volume_comes(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", volumes=[{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]))
    assert 'persistentvolumeclaim "home" not found' in cluster.condition("user")[2]
    resources = {"requests": {"storage": "1Gi"}}
    volume_claim = {
        "metadata": {"name": "home", "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
    }
    cluster.create(PERSISTENTVOLUMECLAIMS, volume_claim)
    assert cluster.place("user") == "a"


def test_changes_that_cannot_help_cost_no_attempt(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", cpu="6"))
    assert cluster.attempts("user") == 1
    cluster.create(RESOURCESLICES, gpu_slice("a", whole("gpu-0")))
    cluster.create(RESOURCECLAIMS, claim("any"))
    cluster.create(PODS, pod("small", cpu="1"))
    cluster.store.modify(NODES, None, "a", lambda obj: obj["status"].update(images=[]), "status")
    cluster.settle()
    assert cluster.attempts("user") == 1
    cluster.delete("small")
    assert cluster.attempts("user") == 2


def test_pod_is_tried_again_after_five_minutes_all_the_same(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", cpu="6"))
    assert cluster.scheduler.step() == pytest.approx(300)
    cluster.clock.turn(299)
    cluster.settle()
    assert cluster.attempts("user") == 1
    cluster.clock.turn(1)
    cluster.settle()
    assert cluster.attempts("user") == 2


def test_failed_attempts_back_off(cluster):
    cluster.add_node("a", whole("gpu-0"))
    selector = {"cel": {"expression": 'device.attributes["gpu.example.com"].missing == "x"'}}
    cluster.create(RESOURCECLAIMTEMPLATES, template("broken", selectors=[selector]))
    cluster.create(PODS, pod("user", template="broken"))
    assert cluster.condition("user")[1] == "SchedulerError"
    delays = []
    for _ in range(6):
        delay = cluster.scheduler.step()
        delays.append(round(delay))
        cluster.clock.turn(delay)
        cluster.settle()
    assert delays == [1, 2, 4, 8, 10, 10]
    assert cluster.attempts("user") == 7


def test_condition_keeps_its_time_while_it_stays_false(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", cpu="6"))
    cluster.clock.turn(60)
    cluster.add_node("b")
    (condition,) = cluster.pod("user")["status"]["conditions"]
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert "0/2 nodes" in condition["message"]


def test_pod_that_goes_leaves_the_queue(cluster):
    cluster.create(PODS, pod("user"))
    cluster.delete("user")
    assert cluster.scheduler.queued_pods == {}


def test_deleted_pod_that_lingers_is_not_scheduled(cluster):
    lingering = pod("user", cpu="6")
    lingering["metadata"]["finalizers"] = ["example.com/keep"]
    cluster.add_node("a")
    cluster.create(PODS, lingering)
    cluster.store.delete(PODS, NAMESPACE, "user")
    cluster.add_node("b", cpu="8")
    assert cluster.place("user") is None
    assert cluster.events("user")[-1][:2] == ("FailedScheduling", "skip schedule deleting pod: default/user")


def test_pods_bound_by_others_count(cluster):
    cluster.add_node("a")
    cluster.store.create(PODS, pod("theirs", cpu="3", schedulerName="another"))
    bind_pod(cluster.store, NAMESPACE, "theirs", "a")
    cluster.create(PODS, pod("user", cpu="2"))
    assert "1 Insufficient cpu" in cluster.condition("user")[2]
