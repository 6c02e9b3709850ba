"""A claim is deleted only if it is the very object of the decision."""

from __future__ import annotations

from dra_spawner.kube.api import KubernetesApi
from dra_spawner.placeholders.controller.executor import ActionExecutor
from dra_spawner.placeholders.controller.expectations import Expectations
from dra_spawner.placeholders.planner.actions import DeleteClaim
from dra_spawner.placeholders.planner.placeholder_objects import PlaceholderSettings, placeholder_claims
from dra_spawner.simulator.claims import ObjectKey
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import claim_spec, shape

GPU = shape({"gpu": claim_spec()})


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
