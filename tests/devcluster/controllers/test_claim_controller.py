from __future__ import annotations

import random

import pytest

from dra_spawner import names
from dra_spawner.devcluster.api.resource_types import EVENTS, NAMESPACES, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.controllers.claim_controller import ClaimController, claim_generate_name
from tests.devcluster.cluster_objects import DRIVER, NAMESPACE, TurnedClock, claim, pod, template

ALLOCATION = {"devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": "n", "device": "gpu-0"}]}}


class Cluster:
    """A store with the claim controller at work."""

    def __init__(self) -> None:
        self.clock = TurnedClock()
        self.store = Store(self.clock.now, random=random.Random(1))
        self.controller = ClaimController(self.store, self.clock)
        self.controller.attach()

    def create(self, resource_type, obj):
        created = self.store.create(resource_type, obj)
        self.controller.settle()
        return created

    def pod(self, name):
        return self.store.get(PODS, NAMESPACE, name)

    def claims(self):
        return list(self.store.objects(RESOURCECLAIMS))

    def claim(self, name):
        return self.store.get(RESOURCECLAIMS, NAMESPACE, name)

    def allocate(self, name, *pods):
        """As the scheduler does."""
        consumers = [{"resource": "pods", "name": each, "uid": self.pod(each)["metadata"]["uid"]} for each in pods]

        def protect(obj):
            obj["metadata"]["finalizers"] = [names.DELETE_PROTECTION]

        def allocate(obj):
            obj["status"] = {"allocation": ALLOCATION, "reservedFor": consumers}

        self.store.modify(RESOURCECLAIMS, NAMESPACE, name, protect)
        self.store.modify(RESOURCECLAIMS, NAMESPACE, name, allocate, "status")
        self.controller.settle()

    def shared(self, *pods):
        """A claim that is allocated, and pods on a node that are its consumers."""
        self.create(RESOURCECLAIMS, claim("standing"))
        for name in pods:
            self.create(PODS, pod(name, claim="standing", nodeName="n"))
        self.allocate("standing", *pods)

    def made(self, name="user", **options):
        """The claim of a pod, made from a template."""
        self.create(RESOURCECLAIMTEMPLATES, template("gpus"))
        self.create(PODS, pod(name, template="gpus", **options))
        (claim,) = self.claims()
        return claim

    def finish(self, name, phase):
        self.store.modify(PODS, NAMESPACE, name, lambda obj: obj["status"].update(phase=phase), "status")
        self.controller.settle()

    def delete(self, resource_type, name, **options):
        self.store.delete(resource_type, NAMESPACE, name, **options)
        self.controller.settle()

    def events(self):
        return [(event["reason"], event["message"], event["count"]) for event in self.store.objects(EVENTS)]


@pytest.fixture
def cluster():
    return Cluster()


def test_claim_is_made_from_the_template(cluster):
    metadata = {"labels": {"user": "ada"}, "annotations": {"why": "because"}}
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus", "10Gi", metadata))
    user = cluster.create(PODS, pod("user", template="gpus"))
    (made,) = cluster.claims()
    assert made["metadata"]["name"].startswith("user-gpu-")
    assert made["metadata"]["generateName"] == "user-gpu-"
    assert made["metadata"]["labels"] == {"user": "ada"}
    assert made["metadata"]["annotations"] == {"why": "because", "resource.kubernetes.io/pod-claim-name": "gpu"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "user", "uid": user["metadata"]["uid"], "controller": True}
    assert made["metadata"]["ownerReferences"] == [owner]
    assert made["spec"] == cluster.store.get(RESOURCECLAIMTEMPLATES, NAMESPACE, "gpus")["spec"]["spec"]
    statuses = [{"name": "gpu", "resourceClaimName": made["metadata"]["name"]}]
    assert cluster.pod("user")["status"]["resourceClaimStatuses"] == statuses


def test_one_claim_for_each_entry(cluster):
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    entries = [{"name": name, "resourceClaimTemplateName": "gpus"} for name in ("a", "b")]
    cluster.create(PODS, pod("user", resourceClaims=[*entries, {"name": "own", "resourceClaimName": "standing"}]))
    statuses = cluster.pod("user")["status"]["resourceClaimStatuses"]
    assert [status["name"] for status in statuses] == ["a", "b"]
    assert len(cluster.claims()) == 2


def test_pods_that_were_there_before_are_served():
    store = Store(TurnedClock().now)
    store.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    store.create(PODS, pod("user", template="gpus"))
    controller = ClaimController(store, TurnedClock())
    controller.attach()
    controller.settle()
    assert len(list(store.objects(RESOURCECLAIMS))) == 1


@pytest.mark.parametrize(
    ("pod_name", "entry", "expected"),
    [
        pytest.param("user", "gpu", "user-gpu-", id="short"),
        pytest.param("p" * 52, "gpu", "p" * 52 + "-gpu-", id="57 characters"),
        pytest.param("p" * 53, "gpu", "p" * 52 + "-" + "gp", id="58 characters"),
        pytest.param("p" * 100, "c" * 50, "p" * 37 + "-" + "c" * 18, id="both shortened"),
    ],
)
def test_generate_name(pod_name, entry, expected):
    assert claim_generate_name(pod_name, entry) == expected


def test_generated_name_is_a_label(cluster):
    assert len(cluster.made("p" * 100)["metadata"]["name"]) <= 63


def test_missing_template_is_reported_and_retried(cluster):
    cluster.create(PODS, pod("user", template="absent"))
    sentence = (
        'PodResourceClaim gpu: resource claim template "absent": '
        'resourceclaimtemplate.resource.k8s.io "absent" not found'
    )
    assert cluster.events() == [("FailedResourceClaimCreation", sentence, 1)]
    cluster.clock.turn(1)
    cluster.controller.settle()
    assert cluster.events() == [("FailedResourceClaimCreation", sentence, 2)]
    cluster.create(RESOURCECLAIMTEMPLATES, template("absent"))
    assert len(cluster.claims()) == 1
    cluster.clock.turn(3600)
    cluster.controller.settle()
    assert cluster.events()[0][2] == 2


def test_retries_come_less_and_less_often(cluster):
    cluster.create(PODS, pod("user", template="absent"))
    for _ in range(600):
        cluster.clock.turn(1)
        cluster.controller.settle()
    assert 12 < cluster.events()[0][2] < 20


def test_claim_the_api_refuses_is_reported(cluster):
    """The namespace may not use admin access, which is only found out when the claim is made."""
    label = "resource.kubernetes.io/admin-access"
    cluster.store.modify(NAMESPACES, None, NAMESPACE, lambda obj: obj["metadata"]["labels"].update({label: "true"}))
    cluster.create(RESOURCECLAIMTEMPLATES, template("admin", adminAccess=True))
    cluster.store.modify(NAMESPACES, None, NAMESPACE, lambda obj: obj["metadata"]["labels"].pop(label))
    cluster.create(PODS, pod("user", template="admin"))
    ((reason, message, _),) = cluster.events()
    assert reason == "FailedResourceClaimCreation"
    assert message.startswith("PodResourceClaim gpu: create ResourceClaim : ")
    assert "admin access" in message


def test_orphan_is_adopted(cluster):
    made = cluster.made()
    cluster.store.modify(PODS, NAMESPACE, "user", lambda obj: obj["status"].pop("resourceClaimStatuses"), "status")
    cluster.controller.settle()
    assert cluster.claims() == [made]
    assert cluster.pod("user")["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == made["metadata"]["name"]


def test_claim_that_was_deleted_is_made_again(cluster):
    made = cluster.made()
    cluster.delete(RESOURCECLAIMS, made["metadata"]["name"])
    (again,) = cluster.claims()
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    status = cluster.pod("user")["status"]["resourceClaimStatuses"]
    assert status == [{"name": "gpu", "resourceClaimName": again["metadata"]["name"]}]


def test_pod_that_needs_no_claim_gets_none(cluster):
    cluster.store.create(PODS, pod("user", template="gpus"))
    skipped = {"resourceClaimStatuses": [{"name": "gpu"}]}
    cluster.store.modify(PODS, NAMESPACE, "user", lambda obj: obj["status"].update(skipped), "status")
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    assert cluster.claims() == []


@pytest.mark.parametrize("end", ["deleted", "Succeeded", "Failed", "replaced"])
def test_last_consumer_frees_the_devices(cluster, end):
    cluster.shared("user")
    if end in ("deleted", "replaced"):
        cluster.store.delete(PODS, NAMESPACE, "user", grace_period_seconds=0)
        if end == "replaced":
            cluster.store.create(PODS, pod("user", claim="standing"))
        cluster.controller.settle()
    else:
        cluster.finish("user", end)
    left = cluster.claim("standing")
    assert left["status"] == {}
    assert "finalizers" not in left["metadata"]


def test_claim_that_nobody_ever_used_stays_allocated(cluster):
    cluster.shared()
    assert cluster.claim("standing")["status"]["allocation"] == ALLOCATION


def test_unknown_consumers_are_left_alone(cluster):
    cluster.shared()
    consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "1"}
    change = {"reservedFor": [consumer]}
    cluster.store.modify(RESOURCECLAIMS, NAMESPACE, "standing", lambda obj: obj["status"].update(change), "status")
    cluster.controller.settle()
    assert cluster.claim("standing")["status"]["reservedFor"] == [consumer]


def test_deleted_claim_without_consumer_disappears_at_once(cluster):
    cluster.shared()
    cluster.delete(RESOURCECLAIMS, "standing")
    assert cluster.claims() == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_claim_of_a_finished_pod_is_deleted_at_once(cluster, phase):
    cluster.allocate(cluster.made(nodeName="n")["metadata"]["name"], "user")
    cluster.finish("user", phase)
    assert cluster.claims() == []
    cluster.clock.turn(60)
    cluster.controller.settle()
    assert cluster.claims() == []
    assert cluster.pod("user")["status"]["phase"] == phase


def test_claim_of_a_deleted_pod_is_deleted_with_the_pod(cluster):
    cluster.allocate(cluster.made(nodeName="n")["metadata"]["name"], "user")
    cluster.delete(PODS, "user")  # its kubelet lets it go later
    assert len(cluster.claims()) == 1
    cluster.delete(PODS, "user", grace_period_seconds=0)
    assert cluster.claims() == []


def test_pod_bound_past_the_scheduler_becomes_a_consumer(cluster):
    cluster.shared("first")
    cluster.create(PODS, pod("second", claim="standing", nodeName="n"))
    cluster.create(PODS, pod("waiting", claim="standing"))
    consumers = [consumer["name"] for consumer in cluster.claim("standing")["status"]["reservedFor"]]
    assert consumers == ["first", "second"]
