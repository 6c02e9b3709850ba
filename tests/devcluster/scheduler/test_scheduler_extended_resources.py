"""Claims for extended resources on the embedded cluster: leftovers of an attempt, and their removal."""

from __future__ import annotations

import pytest

from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.resource_types import DEVICECLASSES, PODS, RESOURCECLAIMS
from tests.devcluster.cluster_objects import NAMESPACE, claim, device_class, pod, whole
from tests.devcluster.scheduler.scheduled_store import ScheduledStore

GPU = "example.com/gpu"
SPECIAL = {"resource.kubernetes.io/extended-resource-claim": "true"}


@pytest.fixture
def cluster():
    made = ScheduledStore()
    gpus = device_class()
    gpus["spec"]["extendedResourceName"] = GPU
    made.create(DEVICECLASSES, gpus)
    made.add_node("a", whole("gpu-0"), whole("gpu-1"))
    return made


def asking(name, amount="1", **more):
    made = pod(name, **more)
    made["spec"]["containers"][0].setdefault("resources", {})["limits"] = {GPU: amount}
    return made


def special_claims(cluster):
    return [
        each for each in cluster.store.objects(RESOURCECLAIMS) if (each["metadata"].get("annotations") or {}) == SPECIAL
    ]


def left_behind(cluster, name):
    """The claim of an attempt whose binding failed, as a scheduler that died would leave it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": cluster.pod(name)["metadata"]["uid"]}
    made = claim("left")
    made["metadata"] |= {"annotations": SPECIAL, "ownerReferences": [{**owner, "controller": True}]}
    return made


def test_devices_come_and_go_with_the_pod(cluster):
    cluster.create(PODS, asking("first", "2"), asking("second"))
    assert (cluster.place("first"), cluster.place("second")) == ("a", None)
    (made,) = special_claims(cluster)
    assert [device for _, device, _ in cluster.devices(made)] == ["gpu-0", "gpu-1"]
    cluster.delete("first")
    assert cluster.place("second") == "a"
    cluster.delete("second")
    assert special_claims(cluster) == []


def test_claims_of_an_earlier_attempt_are_deleted_first(cluster):
    gated = asking("late", schedulingGates=[{"name": "hold"}])
    cluster.create(PODS, gated)
    cluster.create(RESOURCECLAIMS, left_behind(cluster, "late"))
    cluster.store.modify(PODS, NAMESPACE, "late", lambda obj: obj["spec"].pop("schedulingGates"))
    cluster.settle()
    refusal = "0/1 nodes are available: 1 cannot schedule extended resource claim. deletion of ResourceClaim completed"
    assert [
        message[: len(refusal)] for reason, message, _ in cluster.events("late") if reason == "FailedScheduling"
    ] == [refusal]
    assert cluster.place("late") == "a"
    (made,) = special_claims(cluster)
    assert made["metadata"]["name"] != "left"


def test_a_binding_that_fails_leaves_nothing_and_is_tried_again(cluster, monkeypatch):
    failures = [ApiError(500, "InternalError", "not now")]
    modify = cluster.store.modify

    def failing(resource_type, namespace, name, change, subresource=""):
        if resource_type is PODS and subresource == "status" and "record" in change.__name__ and failures:
            raise failures.pop()
        return modify(resource_type, namespace, name, change, subresource)

    monkeypatch.setattr(cluster.store, "modify", failing)
    cluster.create(RESOURCECLAIMS, claim("own"))
    cluster.create(PODS, asking("user", claim="own"))
    assert cluster.place("user") is None
    assert special_claims(cluster) == []
    assert "reservedFor" not in cluster.claim("own")["status"] or not cluster.claim("own")["status"]["reservedFor"]
    failed = 'running PreBind plugin "DynamicResources": create claim for extended resources default/user: not now'
    assert cluster.condition("user") == ("False", "SchedulerError", failed)
    cluster.clock.turn(10)
    cluster.settle()
    assert cluster.place("user") == "a"
    assert len(special_claims(cluster)) == 1
