"""Only the very object of the decision is deleted."""

from __future__ import annotations

import pytest
from aiohttp import web

from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.placeholders.controller.round.executor import ActionExecutor
from dra_spawner.placeholders.controller.round.expectations import Expectations
from dra_spawner.placeholders.planner.actions import DeleteClaim
from dra_spawner.placeholders.planner.cluster.view import newest_first
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings, placeholder_claims
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import claim_spec, node, prepare, shape
from tests.placeholders.controller.world import PlaceholderWorld, at_work

GPU = shape({"gpu": claim_spec()})
PLAIN = shape({})


async def test_a_claim_of_the_same_name_that_came_after_it_stays(cluster: ClusterUnderTest) -> None:
    settings = PlaceholderSettings(namespace=cluster.namespace)
    (manifest,) = placeholder_claims(GPU, "orphan", settings)
    key = ObjectKey(cluster.namespace, manifest["metadata"]["name"])
    path = f"{cluster.path('resourceclaims')}/{key.name}"
    async with await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig) as api:
        executor = ActionExecutor(api, settings, may_act=lambda: None, new_name=lambda of: of.id)
        (first,) = await cluster.publish(manifest)
        await cluster.admin.delete(path)
        (second,) = await cluster.publish(manifest)
        before, after = first["metadata"]["uid"], second["metadata"]["uid"]
        assert before != after
        await executor.do(DeleteClaim(key, before, "no pod uses it"), {}, Expectations())
        assert (await cluster.admin.get(path))["metadata"]["uid"] == after
        await executor.do(DeleteClaim(key, after, "no pod uses it"), {}, Expectations())
        left = (await cluster.admin.list(cluster.path("resourceclaims")))["items"]
        assert left == []


async def test_a_surplus_placeholder_that_the_scheduler_has_just_placed_stays(
    cluster: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepare(cluster, *node("node-a"))
    await cluster.admin.patch(resource_path("v1", "nodes", name="node-a"), {"spec": {"unschedulable": True}})
    async with cluster.fault_proxy() as proxy:
        kubeconfig = await service_kubeconfig(cluster, server=proxy.url)
        async with at_work(cluster, (PLAIN, ReplicaRange(2, 2)), kubeconfig=kubeconfig) as world:
            await world.until(lambda: len(world.reconciler.view().placeholders) == 2, what="two are pending")
            first, second = sorted(world.reconciler.view().placeholders.values(), key=newest_first)
            assert first.is_pending
            assert second.is_pending
            pass_on = FaultProxy.pass_on

            async def bind_before(of: FaultProxy, request: web.Request, body: bytes) -> web.StreamResponse:
                """The service does not see that the first one gets a node before its deletion arrives."""
                if (request.method, request.path) == ("DELETE", cluster.path("pods", first.pod.name)):
                    await bind(cluster, first.pod.name, "node-a")
                return await pass_on(of, request, body)

            monkeypatch.setattr(FaultProxy, "pass_on", bind_before)
            world.set_replicas(PLAIN, 1, 1)
            await world.until(lambda: str(first.key) in deletions(world), what="the first one would go")
            assert "the placeholder has changed since the decision" in deletions(world)[str(first.key)]
            # A change of the placeholder does not count as a failure.
            assert world.reconciler.problems() == ()
            await world.until(lambda: str(second.key) in deletions(world), what="it is decided again")
            await world.until(lambda: [*world.reconciler.view().placeholders] == [first.key], what="the other one goes")
            assert deletions(world)[str(second.key)] == "done"


async def bind(cluster: ClusterUnderTest, name: str, node_name: str) -> None:
    binding = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node_name}}
    await cluster.admin.create(
        cluster.path("pods", name, "binding"), {"apiVersion": "v1", "kind": "Binding", **binding}
    )


def deletions(world: PlaceholderWorld) -> dict[str, str]:
    """The last outcome of deletions, by placeholder."""
    return {each.subject.removeprefix("Pod "): each.outcome for each in world.deletions()}
