"""CapacityBuffers on a real API server with the resource definition, and without it or without its rights."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.kube.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.placeholders.planner.capacity_buffers import buffer_name
from dra_spawner.service.application import DRASpawnerService
from tests.cluster.access import CAPACITY_BUFFER_RULES, SERVICE_ACCOUNT, grant
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import shareable
from tests.placeholders.controller.buffer_definition import DEFINITION
from tests.placeholders.controller.objects import SHARE, node, prepare, shape
from tests.polling import eventually
from tests.service.replica import Replica, publish_shapes, replica

API = f"{names.AUTOSCALING_GROUP}/v1beta1"
PLAIN = shape({})
SLICE = shape(SHARE)
SHAPES = {"plain": PLAIN, "gpu-slice": SLICE}
PLACEHOLDERS = {"plain": {"min": 2}, "gpu-slice": {"min": 1}}
NAME = buffer_name(PLAIN.id)

Json = dict[str, Any]


@contextlib.asynccontextmanager
async def definition(api: KubernetesApi) -> AsyncIterator[None]:
    """The API server serves CapacityBuffers."""
    path = resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions")
    await api.create(path, DEFINITION)
    try:

        async def is_served() -> bool:
            try:
                return bool((await api.get(f"/apis/{API}"))["resources"])
            except KubernetesError as error:
                if not error.not_found:
                    raise
                return False

        await eventually(is_served, "CapacityBuffers are served")
        yield
    finally:
        await api.delete(f"{path}/{DEFINITION['metadata']['name']}")


async def listed(cluster: ClusterUnderTest, api_version: str, plural: str) -> list[Json]:
    found: list[Json] = (await cluster.admin.list(resource_path(api_version, plural, cluster.namespace)))["items"]
    return found


def shapes_of_placeholders(service: Replica) -> set[str]:
    return {each.shape for each in service.placeholders().values()}


async def test_a_buffer_instead_of_placeholders_without_devices(real_cluster: ClusterUnderTest) -> None:
    cluster = real_cluster
    await prepare(cluster, *node("node-a", shareable("gpu-0")))
    await publish_shapes(cluster, SHAPES)
    kubeconfig = await service_kubeconfig(cluster)
    settings: Json = {"placeholders": PLACEHOLDERS, "capacity_buffers": True}
    async with definition(cluster.admin):
        async with replica(cluster, kubeconfig, **settings) as service:
            await service.until_warm(PLAIN, 2)
            (problem,) = [each for each in service.context.problems() if "capacity buffers" in each]
            rule = f'apiGroups: ["{names.AUTOSCALING_GROUP}"], resources: [capacitybuffers], verbs: [list]'
            assert rule in problem

        await grant(cluster.admin, cluster.namespace, CAPACITY_BUFFER_RULES, SERVICE_ACCOUNT)
        async with replica(cluster, kubeconfig, **settings) as service:
            await service.until_warm(SLICE, 1)
            await service.until(lambda: shapes_of_placeholders(service) == {SLICE.id}, "no placeholder without devices")
            (buffer,) = await listed(cluster, API, "capacitybuffers")
            assert buffer["metadata"]["name"] == NAME
            assert buffer["spec"] == {
                "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
                "podTemplateRef": {"name": NAME},
                "replicas": 2,
            }
            (template,) = await listed(cluster, "v1", "podtemplates")
            (container,) = template["template"]["spec"]["containers"]
            assert container["resources"]["requests"] == {"cpu": "1"}
            assert not [each for each in service.context.problems() if "capacity buffers" in each]
            decisions = [each.decision for each in service.context.decisions.newest(50)]
            (set_buffer,) = [each for each in decisions if each.kind == "set-capacity-buffer"]
            assert (set_buffer.profile, set_buffer.reason, set_buffer.outcome) == (
                "plain",
                "target 2, before 0",
                "done",
            )

        more: Json = {**settings, "placeholders": {**PLACEHOLDERS, "plain": {"min": 5}}, "placeholder_image": "other:1"}
        async with replica(cluster, kubeconfig, **more) as service:

            async def is_changed() -> bool:
                (buffer,) = await listed(cluster, API, "capacitybuffers")
                (template,) = await listed(cluster, "v1", "podtemplates")
                image = template["template"]["spec"]["containers"][0]["image"]
                return (buffer["spec"]["replicas"], image) == (5, "other:1")

            await eventually(is_changed, "another target, another image")
            await service.until(lambda: PLAIN.id not in shapes_of_placeholders(service))

        async with replica(cluster, kubeconfig, placeholders=PLACEHOLDERS) as service:
            await service.until_warm(PLAIN, 2)
            assert await listed(cluster, API, "capacitybuffers") == []
            assert await listed(cluster, "v1", "podtemplates") == []


@pytest.mark.promise("Where the cluster serves no capacity buffers, placeholders do their work.")
async def test_where_they_are_not_served_placeholders_are_used(embedded_cluster: ClusterUnderTest, caplog: Any) -> None:
    await prepare(embedded_cluster, *node("node-a", shareable("gpu-0")))
    await publish_shapes(embedded_cluster, SHAPES)
    async with replica(embedded_cluster, placeholders=PLACEHOLDERS, capacity_buffers=True) as service:
        await service.until_warm(PLAIN, 2)
        (problem,) = [each for each in service.context.problems() if "capacity buffers" in each]
    assert problem == (
        "Placeholders: capacity buffers: the cluster does not serve CapacityBuffer (autoscaling.x-k8s.io);"
        " placeholders are used instead."
    )
    assert sum("capacity buffers" in each.getMessage() for each in caplog.records) == 1


@pytest.mark.parametrize("is_on", [True, False])
async def test_the_setting(is_on: bool) -> None:
    assert DRASpawnerService(capacity_buffers=is_on, namespace="hub").controller_settings().capacity_buffers is is_on
