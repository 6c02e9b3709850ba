"""Servers in a namespace of each user: placeholders are preempted for them, and no claim is handed over."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import resource_path
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import shareable
from tests.placeholders.controller.objects import SHARE, claim_spec, node, shape
from tests.service.replica import Replica, replica, server_objects, set_up

PART = shape(SHARE)
LARGE_CLAIM = {"gpu": claim_spec("gpu-share.example.com", "40Gi")}
LARGE = shape(LARGE_CLAIM)


@pytest.fixture
async def users_namespace(cluster: ClusterUnderTest) -> AsyncIterator[str]:
    async with cluster.another_namespace("ada") as name:
        yield name


async def start(cluster: ClusterUnderTest, namespace: str) -> str:
    """A server in its user's namespace, as the spawner makes it; the path of its pod."""
    template, pod = server_objects("ada", LARGE, LARGE_CLAIM)
    await cluster.admin.create(resource_path("resource.k8s.io/v1", "resourceclaimtemplates", namespace), template)
    pods = resource_path("v1", "pods", namespace)
    await cluster.admin.create(pods, pod)
    return f"{pods}/ada"


async def ask(service: Replica, namespace: str) -> dict[str, object]:
    status, answer = await service.ask({"shape": PART.id, "pod": "ada", "namespace": namespace})
    assert status == 200, answer
    return answer


@pytest.mark.promise("Placeholders are preempted for servers in namespaces of their own.")
async def test_placeholders_are_preempted_with_the_rights_that_are_shipped(
    cluster: ClusterUnderTest, users_namespace: str
) -> None:
    await set_up(cluster, {"gpu-slice": PART, "gpu-large": LARGE}, *node("node-a", shareable("gpu-0")))
    traits: JsonObject = {"placeholders": {"gpu-slice": {"min": 4}}, "user_namespaces": True, "reservation_seconds": 1}
    async with replica(cluster, **traits) as service:
        await service.until_warm(PART, 4)
        # A claim of another namespace is of no use; a claim of its own fits only after a preemption.
        answer = await ask(service, users_namespace)
        assert (answer["state"], answer["claims"]) == ("after-preemption", {})
        # In the namespace of the placeholders a warm claim is available: only the namespace differs.
        assert (await ask(service, cluster.namespace))["state"] == "ready"
        # No server uses this reservation, and it ends.
        path = await start(cluster, users_namespace)
        await service.until(lambda: has_node(service, users_namespace), "the pod has a node")
        pod = await cluster.admin.get(path)
        assert pod["metadata"]["labels"][names.PREEMPTED_AT].isdigit()
        decisions = [each.decision for each in service.context.decisions.newest(1000)]
        assert {each.outcome for each in decisions} == {"done"}
        preempted = [each for each in decisions if (each.kind, each.code) == ("delete-placeholder", "preempted")]
        assert {each.details["for"] for each in preempted} == {f"{users_namespace}/ada"}
        assert service.context.problems() == ()


def has_node(service: Replica, namespace: str) -> bool:
    pod = service.controller.view().users.get(ObjectKey(namespace, "ada"))
    return pod is not None and bool(pod.node_name)


async def test_placeholders_are_preempted_without_the_right_to_label_the_pod(real_cluster: ClusterUnderTest) -> None:
    """The pod cannot be marked, and the decision says so."""
    cluster = real_cluster
    namespace = f"{cluster.namespace}-ada"
    await cluster.admin.create(resource_path("v1", "namespaces"), {"metadata": {"name": namespace}})
    await set_up(cluster, {"gpu-slice": PART, "gpu-large": LARGE}, *node("node-a", shareable("gpu-0")))
    kubeconfig = await service_kubeconfig(cluster)
    async with replica(cluster, kubeconfig, placeholders={"gpu-slice": {"min": 1}}, user_namespaces=True) as service:
        await service.until_warm(PART, 1)
        await start(cluster, namespace)
        await service.until(lambda: has_node(service, namespace), "the pod has a node")
        (refused,) = {each.decision.outcome for each in service.context.decisions.newest(100)} - {"done"}
        assert 'cannot patch resource "pods"' in refused
        assert f'in the namespace "{namespace}"' in refused
    await cluster.admin.delete(resource_path("v1", "namespaces", None, namespace), missing_ok=True)
