"""A namespace with a ResourceQuota on a real control plane: placeholders use what users leave, and nothing is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.history.decision_log import Decision
from dra_spawner.kube.api import KubernetesError, resource_path
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
    """What the API server has refused."""
    outcomes = [each.decision.outcome for each in service.context.decisions.newest(1000)]
    return [each for each in outcomes if each != "done"]


def yields(service: Replica) -> list[Decision]:
    """Placeholders that went for a quota."""
    newest = [each.decision for each in service.context.decisions.newest(1000)]
    return [each for each in newest if each.code == "quota"]


def creations(service: Replica) -> int:
    newest = service.context.decisions.newest(1000)
    return sum(each.decision.kind is ActionKind.CREATE_PLACEHOLDER for each in newest)


def limited(service: Replica) -> list[dict[str, Any]]:
    latest = service.controller.latest
    return [{"wanted": each.wanted, "allowed": each.allowed} for each in latest.limited.values()] if latest else []


async def test_placeholders_use_what_users_leave(real_cluster: ClusterUnderTest) -> None:
    """Pods, claims and devices of a class, as Kubernetes itself counts them."""
    cluster = real_cluster
    await prepare(cluster, *node("node-a", *(whole(f"gpu-{number}") for number in range(9))))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    await publish_quota(cluster, {"pods": "6", "count/resourceclaims.resource.k8s.io": "6", DEVICES: "5"})
    async with replica(cluster, placeholders={"gpu-whole": {"min": 6}}) as service:
        # Of five devices one is left for a server.
        await service.until_warm(GPU, 4)
        told = "Placeholders of gpu-whole: 6 are wanted, 4 are allowed by ResourceQuota 'users' (at most 5 of "
        await service.until(lambda: any(each.startswith(told) for each in service.context.problems()), "it is said")
        assert limited(service) == [{"wanted": 6, "allowed": 4}]
        # A server takes a warm placeholder over: its pod is one more for a while, and its claim is the same.
        answer = await service.place(GPU, "ada")
        assert answer["kind"] == "warm"
        await service.start(GPU, "ada", WHOLE, answer)
        await cluster.wait_running("ada")
        await service.until(lambda: len(service.placeholders()) == 3, "the placeholder goes, and none comes for it")
        assert refusals(service) == []
        # The administrator has more to give.
        await change_quota(cluster, {"pods": "20", "count/resourceclaims.resource.k8s.io": "20", DEVICES: "20"})
        await service.until_warm(GPU, 6)
        assert refusals(service) == []
        assert limited(service) == []


async def test_placeholders_yield_when_a_quota_is_lowered(real_cluster: ClusterUnderTest) -> None:
    """Below what exists: at once, down to what leaves room for a server, and no further for each that comes."""
    cluster = real_cluster
    await prepare(cluster, *node("node-a", *(whole(f"gpu-{number}") for number in range(9))))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    await publish_quota(cluster, {"pods": "20", DEVICES: "20"})
    async with replica(cluster, placeholders={"gpu-whole": {"min": 6}}) as service:
        await service.until_warm(GPU, 6)
        made = creations(service)
        await change_quota(cluster, {"pods": "4", DEVICES: "20"})
        await service.until(lambda: len(yields(service)) == 3, "three of four pods are left")
        assert {each.reason for each in yields(service)} == {
            "ResourceQuota 'users' (at most 4 of pods) has no room for one more server"
        }
        path = resource_path("v1", "resourcequotas", cluster.namespace, "users")
        await cluster.wait_for(path, lambda found: found["status"]["used"]["pods"] == "3")
        # A user takes one of them over: it costs no other one, and room for the next is left.
        answer = await service.place(GPU, "ada")
        assert answer["kind"] == "warm"
        await service.start(GPU, "ada", WHOLE, answer)
        await cluster.wait_running("ada")
        await service.until(lambda: len(service.placeholders()) == 2, "it is handed over")
        await service.decide()
        assert (len(service.placeholders()), len(yields(service))) == (2, 3)
        assert creations(service) == made
        assert refusals(service) == []


async def test_placeholders_yield_to_a_pod_that_the_quota_refuses(real_cluster: ClusterUnderTest) -> None:
    """Its profile has no placeholders, so they left no room for it. The user's second try works."""
    cluster = real_cluster
    await prepare(cluster, *node("node-a", *(whole(f"gpu-{number}") for number in range(9))))
    await publish_shapes(cluster, {"gpu-whole": GPU, "big": BIG})
    await publish_quota(cluster, {"requests.cpu": "5"})
    manifest = user_pod("ada", {}, cpu="3")
    manifest["metadata"]["labels"][names.SHAPE] = BIG.id
    async with replica(cluster, placeholders={"gpu-whole": {"min": 4}}) as service:
        await service.until_warm(GPU, 4)
        made = creations(service)
        assert (await service.place(BIG, "ada"))["kind"] == "fresh"
        with pytest.raises(KubernetesError, match="exceeded quota"):
            await cluster.admin.create(cluster.path("pods"), manifest)
        await service.until(lambda: len(yields(service)) == 2, "two of them yield")
        assert len(service.placeholders()) == 2
        assert {(each.details["for"], each.reason) for each in yields(service)} == {
            (
                f"{cluster.namespace}/ada",
                f"ResourceQuota 'users' (at most 5 of requests.cpu) has no room for {cluster.namespace}/ada, "
                "which is about to start",
            )
        }
        await service.decide()
        assert creations(service) == made, "the user may try again"
        path = resource_path("v1", "resourcequotas", cluster.namespace, "users")
        await cluster.wait_for(path, lambda found: found["status"]["used"]["requests.cpu"] == "2")
        assert (await service.place(BIG, "ada"))["kind"] == "fresh"
        await cluster.admin.create(cluster.path("pods"), manifest)
        await cluster.wait_running("ada")
        await service.until(lambda: len(service.placeholders()) == 1, "one more server has room")
        assert creations(service) == made
        assert refusals(service) == []


async def test_placeholders_yield_to_claims_that_the_quota_refuses(real_cluster: ClusterUnderTest) -> None:
    """Kubernetes makes a template's claim when the pod is there; the pod waits for it."""
    cluster, pair = real_cluster, shape(PAIR)
    await prepare(cluster, *node("node-a", *(whole(f"gpu-{number}") for number in range(9))))
    await publish_shapes(cluster, {"gpu-whole": GPU, "gpu-pair": pair})
    await publish_quota(cluster, {DEVICES: "5"})
    async with replica(cluster, placeholders={"gpu-whole": {"min": 4}}) as service:
        await service.until_warm(GPU, 4)
        made = creations(service)
        assert (await service.place(pair, "bob"))["kind"] == "fresh"
        template = {"metadata": {"name": "bob"}, "spec": {"spec": PAIR["gpu"]}}
        await cluster.admin.create(cluster.path("resourceclaimtemplates"), template)
        manifest = user_pod("bob", {"gpu": {"resourceClaimTemplateName": "bob"}})
        manifest["metadata"]["labels"][names.SHAPE] = pair.id
        await cluster.admin.create(cluster.path("pods"), manifest)
        await service.until(lambda: bool(yields(service)), "one of them yields")
        assert yields(service)[-1].reason == (
            f"ResourceQuota 'users' (at most 5 of {DEVICES}) has no room for the claims of {cluster.namespace}/bob"
        )
        await cluster.wait_running("bob")
        await service.until(lambda: len(service.placeholders()) == 2, "one more server has room")
        await service.decide()
        assert (creations(service), len(yields(service))) == (made, 2)
        assert refusals(service) == []
