"""A namespace with a ResourceQuota: placeholders use the quota that users leave, and no request is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.history.decision_log import Decision
from dra_spawner.kube.client.api import KubernetesError, resource_path
from dra_spawner.placeholders.lifecycle import ActionKind
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import claim_spec, node, prepare, shape, user_pod
from tests.service.replica import Replica, publish_shapes, replica

WHOLE = {"gpu": claim_spec()}
GPU = shape(WHOLE)
DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"


PAIR = {
    "gpu": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]}}
}
BIG = shape({}, cpu="3")


async def change_quota(cluster: ClusterUnderTest, hard: dict[str, str]) -> None:
    path = resource_path("v1", "resourcequotas", cluster.namespace, "users")
    await cluster.admin.patch(path, {"spec": {"hard": hard}})


async def publish_quota(cluster: ClusterUnderTest, hard: dict[str, str]) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "users"}, "spec": {"hard": hard}}
    await cluster.publish(quota)
    path = resource_path("v1", "resourcequotas", cluster.namespace, "users")
    await cluster.wait_for(path, lambda found: set(found.get("status", {}).get("used", {})) >= set(hard))


def refusals(service: Replica) -> list[str]:
    """Outcomes of the actions that the API server has refused."""
    outcomes = [each.decision.outcome for each in service.context.decisions.newest(1000)]
    return [each for each in outcomes if each != "done"]


def quota_deletions(service: Replica) -> list[Decision]:
    """Decisions that deleted placeholders because of a quota."""
    newest = [each.decision for each in service.context.decisions.newest(1000)]
    return [each for each in newest if each.code == "quota"]


def creations(service: Replica) -> int:
    newest = service.context.decisions.newest(1000)
    return sum(each.decision.kind is ActionKind.CREATE_PLACEHOLDER for each in newest)


def limited(service: Replica) -> list[dict[str, Any]]:
    latest = service.controller.latest
    return [{"wanted": each.wanted, "allowed": each.allowed} for each in latest.limited.values()] if latest else []


@pytest.mark.promise("Placeholders use only the quota that users leave.")
async def test_placeholders_use_the_quota_that_users_leave(real_cluster: ClusterUnderTest) -> None:
    """Pods, claims and devices of a class, as Kubernetes itself counts them."""
    cluster = real_cluster
    await prepare(cluster, *node("node-a", *(whole(f"gpu-{number}") for number in range(9))))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    await publish_quota(cluster, {"pods": "6", "count/resourceclaims.resource.k8s.io": "6", DEVICES: "5"})
    async with replica(cluster, placeholders={"gpu-whole": {"min": 6}}) as service:
        # Of five devices one is left for a server.
        await service.until_warm(GPU, 4)
        sentence = "Placeholders of gpu-whole: 6 are wanted, 4 are allowed by ResourceQuota 'users' (at most 5 of "
        await service.until(
            lambda: any(each.startswith(sentence) for each in service.context.problems()), "the problem is shown"
        )
        assert limited(service) == [{"wanted": 6, "allowed": 4}]
        # At a handover there is one more pod for a while, and the claim is the same.
        answer = await service.place(GPU, "ada")
        assert answer["state"] == "ready"
        await service.start(GPU, "ada", WHOLE, answer)
        await cluster.wait_running("ada")
        await service.until(
            lambda: len(service.placeholders()) == 3, "the placeholder is deleted, and no new one is created"
        )
        assert refusals(service) == []
        # The administrator raises the quota.
        await change_quota(cluster, {"pods": "20", "count/resourceclaims.resource.k8s.io": "20", DEVICES: "20"})
        await service.until_warm(GPU, 6)
        assert refusals(service) == []
        assert limited(service) == []


async def test_placeholders_are_deleted_when_a_quota_is_lowered(real_cluster: ClusterUnderTest) -> None:
    """The new quota is below the use: placeholders are deleted until one more server fits. A handover deletes none."""
    cluster = real_cluster
    await prepare(cluster, *node("node-a", *(whole(f"gpu-{number}") for number in range(9))))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    await publish_quota(cluster, {"pods": "20", DEVICES: "20"})
    async with replica(cluster, placeholders={"gpu-whole": {"min": 6}}) as service:
        await service.until_warm(GPU, 6)
        made = creations(service)
        await change_quota(cluster, {"pods": "4", DEVICES: "20"})
        await service.until(lambda: len(quota_deletions(service)) == 3, "three of four pods are left")
        assert {each.reason for each in quota_deletions(service)} == {
            "ResourceQuota 'users' (at most 4 of pods) has no capacity for one more server"
        }
        path = resource_path("v1", "resourcequotas", cluster.namespace, "users")
        await cluster.wait_for(path, lambda found: found["status"]["used"]["pods"] == "3")
        # A handover deletes no further placeholder, and the next server still fits.
        answer = await service.place(GPU, "ada")
        assert answer["state"] == "ready"
        await service.start(GPU, "ada", WHOLE, answer)
        await cluster.wait_running("ada")
        await service.until(lambda: len(service.placeholders()) == 2, "its claim is handed over")
        await service.decide()
        assert (len(service.placeholders()), len(quota_deletions(service))) == (2, 3)
        assert creations(service) == made
        assert refusals(service) == []


async def test_placeholders_are_deleted_for_a_pod_that_the_quota_refuses(real_cluster: ClusterUnderTest) -> None:
    """The pod's profile has no placeholders, so no quota was left for the pod. The user's second try works."""
    cluster = real_cluster
    await prepare(cluster, *node("node-a", *(whole(f"gpu-{number}") for number in range(9))))
    await publish_shapes(cluster, {"gpu-whole": GPU, "big": BIG})
    await publish_quota(cluster, {"requests.cpu": "5"})
    manifest = user_pod("ada", {}, cpu="3")
    manifest["metadata"]["labels"][names.SHAPE] = BIG.id
    async with replica(cluster, placeholders={"gpu-whole": {"min": 4}}) as service:
        await service.until_warm(GPU, 4)
        made = creations(service)
        assert (await service.place(BIG, "ada"))["state"] == "free"
        with pytest.raises(KubernetesError, match="exceeded quota"):
            await cluster.admin.create(cluster.path("pods"), manifest)
        await service.until(lambda: len(quota_deletions(service)) == 2, "two placeholders are deleted")
        await service.until(lambda: len(service.placeholders()) == 2, "they are gone")
        assert {(each.details["for"], each.reason) for each in quota_deletions(service)} == {
            (
                f"{cluster.namespace}/ada",
                f"ResourceQuota 'users' (at most 5 of requests.cpu) has no capacity for {cluster.namespace}/ada, "
                "which is about to start",
            )
        }
        await service.decide()
        assert creations(service) == made, "the user may try again"
        path = resource_path("v1", "resourcequotas", cluster.namespace, "users")
        await cluster.wait_for(path, lambda found: found["status"]["used"]["requests.cpu"] == "2")
        assert (await service.place(BIG, "ada"))["state"] == "free"
        await cluster.admin.create(cluster.path("pods"), manifest)
        await cluster.wait_running("ada")
        await service.until(lambda: len(service.placeholders()) == 1, "the quota fits one more server")
        assert creations(service) == made
        assert refusals(service) == []


async def test_placeholders_are_deleted_for_claims_that_the_quota_refuses(real_cluster: ClusterUnderTest) -> None:
    """Kubernetes makes a template's claim when the pod exists; the pod is pending until then."""
    cluster, pair = real_cluster, shape(PAIR)
    await prepare(cluster, *node("node-a", *(whole(f"gpu-{number}") for number in range(9))))
    await publish_shapes(cluster, {"gpu-whole": GPU, "gpu-pair": pair})
    await publish_quota(cluster, {DEVICES: "5"})
    async with replica(cluster, placeholders={"gpu-whole": {"min": 4}}) as service:
        await service.until_warm(GPU, 4)
        made = creations(service)
        assert (await service.place(pair, "bob"))["state"] == "free"
        template = {"metadata": {"name": "bob"}, "spec": {"spec": PAIR["gpu"]}}
        await cluster.admin.create(cluster.path("resourceclaimtemplates"), template)
        manifest = user_pod("bob", {"gpu": {"resourceClaimTemplateName": "bob"}})
        manifest["metadata"]["labels"][names.SHAPE] = pair.id
        await cluster.admin.create(cluster.path("pods"), manifest)
        await service.until(lambda: bool(quota_deletions(service)), "a placeholder is deleted")
        assert quota_deletions(service)[-1].reason == (
            f"ResourceQuota 'users' (at most 5 of {DEVICES}) has no capacity for the claims of {cluster.namespace}/bob"
        )
        await cluster.wait_running("bob")
        await service.until(lambda: len(service.placeholders()) == 2, "the quota fits one more server")
        await service.decide()
        assert (creations(service), len(quota_deletions(service))) == (made, 2)
        assert refusals(service) == []
