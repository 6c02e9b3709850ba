"""The scheduler and devices: allocated, shared, handed over, and given back."""

from __future__ import annotations

from dra_spawner import names
from dra_spawner.devcluster.api.resource_types import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from dra_spawner.devcluster.scheduler.queue import QueueState
from tests.devcluster.cluster_objects import NAMESPACE, claim, pod, template, whole
from tests.devcluster.scheduler.scheduled_store import ALL_TAKEN


def test_whole_device(cluster):
    cluster.add_node("a")
    cluster.add_node("b", whole("gpu-0"))
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    cluster.create(PODS, pod("user", template="gpus"))
    assert cluster.place("user") == "b"
    made = cluster.claim_of("user")
    user = cluster.pod("user")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "b", "device": "gpu-0"}
    assert made["status"] == {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [term]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": "user", "uid": user["metadata"]["uid"]}],
    }
    assert made["metadata"]["finalizers"] == [names.DELETE_PROTECTION]


def test_pod_that_finds_no_device_waits_for_one(cluster):
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    cluster.create(PODS, pod("first", template="gpus"), pod("second", template="gpus"))
    assert cluster.condition("second") == ("False", "Unschedulable", ALL_TAKEN)
    assert ("FailedScheduling", ALL_TAKEN, 1) in cluster.events("second")
    cluster.delete("first")
    assert cluster.place("second") == "a"
    assert cluster.condition("second")[0] == "True"


def test_pod_waits_for_its_claim_without_a_word(cluster):
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(PODS, pod("user", claim="standing"))
    assert cluster.scheduler.queued_pods == {(NAMESPACE, "user"): QueueState.GATED}
    assert cluster.events("user") == []
    cluster.create(RESOURCECLAIMS, claim("standing"))
    assert cluster.place("user") == "a"


def test_claim_of_another_pod_is_not_used(cluster):
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    cluster.create(RESOURCECLAIMS, claim("foreign"))
    cluster.store.create(PODS, pod("user", template="gpus"))
    foreign = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "foreign"}]}
    cluster.store.modify(PODS, NAMESPACE, "user", lambda obj: obj["status"].update(foreign), "status")
    cluster.settle()
    assert cluster.place("user") == "a"
    assert cluster.claim_of("user")["metadata"]["name"] != "foreign"
    assert cluster.claim("foreign")["status"] == {}


def test_failed_handover_heals_itself(cluster):
    """The user's pod does not fit beside its claim's devices; without the placeholder they are given up for others."""
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMS, claim("standing"))
    cluster.create(PODS, pod("placeholder", claim="standing", cpu="1"))
    cluster.create(PODS, pod("hog", cpu="3"))
    cluster.add_node("b", whole("gpu-0"))
    cluster.create(PODS, pod("user", claim="standing", cpu="2"))
    assert "1 Insufficient cpu, 1 resourceclaim not available on the node" in cluster.condition("user")[2]
    cluster.delete("placeholder")
    assert cluster.place("user") == "b"
    assert cluster.devices(cluster.claim("standing")) == [("b", "gpu-0", None)]


def test_claim_allocated_for_a_node_that_does_not_fit_is_given_back(cluster):
    cluster.add_node("a", whole("gpu-0"), labels={"zone": "a"})
    cluster.create(RESOURCECLAIMS, claim("standing"))
    cluster.create(PODS, pod("placeholder", claim="standing"))
    allocation = cluster.claim("standing")["status"]["allocation"]
    cluster.delete("placeholder")

    def allocate(obj):  # as if a driver had, for nobody
        obj["status"]["allocation"] = allocation

    cluster.store.modify(RESOURCECLAIMS, NAMESPACE, "standing", allocate, "status")
    cluster.add_node("b", whole("gpu-0"), labels={"zone": "b"})
    cluster.create(PODS, pod("user", claim="standing", nodeSelector={"zone": "b"}))
    assert any("deallocation of ResourceClaim completed" in message for _, message, _ in cluster.events("user"))
    assert cluster.place("user") == "b"


def test_devices_of_a_finished_pod_are_free(cluster):
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    cluster.create(PODS, pod("first", template="gpus"), pod("second", template="gpus"))
    cluster.store.modify(PODS, NAMESPACE, "first", lambda obj: obj["status"].update(phase="Succeeded"), "status")
    cluster.settle()
    assert cluster.place("second") == "a"


def test_reservation_the_api_refuses_fails_the_attempt(cluster):
    """A claim has at most 256 consumers; the scheduler learns of it only when it writes."""
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMS, claim("standing"))
    cluster.create(PODS, pod("first", claim="standing"))

    def crowd(obj):
        consumers = [{"resource": "jobs", "name": f"j{number}", "uid": str(number)} for number in range(255)]
        obj["status"]["reservedFor"] += consumers

    cluster.store.modify(RESOURCECLAIMS, NAMESPACE, "standing", crowd, "status")
    cluster.create(PODS, pod("user", claim="standing"))
    status, reason, message = cluster.condition("user")
    assert (status, reason) == ("False", "SchedulerError")
    assert message.startswith('running PreBind plugin "DynamicResources": add reservation to claim default/standing: ')
    assert "must have at most 256 items" in message
    assert cluster.place("user") is None
