"""A namespace with a ResourceQuota on a real control plane: placeholders use what users leave, and nothing is refused."""

from __future__ import annotations

from typing import Any

from dra_spawner.kube.api import resource_path
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import claim_spec, node, prepare, shape
from tests.service.replica import Replica, publish_shapes, replica

WHOLE = {"gpu": claim_spec()}
GPU = shape(WHOLE)
DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"


async def publish_quota(cluster: ClusterUnderTest, hard: dict[str, str]) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "users"}, "spec": {"hard": hard}}
    await cluster.publish(quota)
    path = resource_path("v1", "resourcequotas", cluster.namespace, "users")
    await cluster.wait_for(path, lambda found: set(found.get("status", {}).get("used", {})) >= set(hard))


def refusals(service: Replica) -> list[str]:
    """What the API server has refused."""
    outcomes = [each.decision.outcome for each in service.context.decisions.newest(1000)]
    return [each for each in outcomes if each != "done"]


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
        path = resource_path("v1", "resourcequotas", cluster.namespace, "users")
        hard = {"pods": "20", "count/resourceclaims.resource.k8s.io": "20", DEVICES: "20"}
        await cluster.admin.patch(path, {"spec": {"hard": hard}})
        await service.until_warm(GPU, 6)
        assert refusals(service) == []
        assert limited(service) == []
