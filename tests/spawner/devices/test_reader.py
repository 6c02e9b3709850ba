"""The spawn form's knowledge of devices, from an API server that comes, changes and goes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.resource_types import RESOURCESLICES
from dra_spawner.devcluster.demo.example_nodes import device_classes, resource_slices
from dra_spawner.devcluster.embedded_cluster import EmbeddedCluster
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.names import RESOURCE_API
from dra_spawner.profiles.compiler.claims import DeviceRequest
from dra_spawner.spawner.devices.reader import NOW, DeviceReader
from tests.cluster.example_objects import taint_rule
from tests.cluster.fault_proxy import Fault, hide_devices
from tests.cluster.under_test import ClusterUnderTest
from tests.log_messages import log_messages
from tests.polling import eventually

SHARE = DeviceRequest("gpu", "gpu-share.example.com")


def sizes(catalog):
    return [str(offer.largest) for offer in catalog.offers(SHARE, "memory")]


async def learned(reader, expected):
    """The catalog with these sizes, however long the reading takes: a form waits for some seconds only."""

    async def is_learned():
        catalog = await reader.learn()
        return catalog if catalog.is_known and sizes(catalog) == expected else None

    return await eventually(is_learned, f"sizes {expected} are read")


async def test_news_are_read_and_old_ones_kept_while_nobody_answers(tmp_path, caplog):
    async with EmbeddedCluster(tmp_path, run_pods=False) as cluster:
        cluster.publish([*device_classes(), *resource_slices()])
        api = await KubernetesApi.from_kubeconfig(cluster.kubeconfig)
        known, patient = DeviceReader(api, form_seconds=0, retry_seconds=0), DeviceReader(api)
        assert not known.catalog.is_known
        first = await learned(known, ["40Gi"])
        assert await known.learn() is first, "unchanged objects are not examined again"
        await learned(patient, ["40Gi"])
        patient.follow_release((1, 37), {"DRAFractionalCapacityRange": True})
        assert patient.catalog.facts.scheduler_rules.features.fractional_capacity_range
        assert sizes(patient.catalog) == ["40Gi"]
        assert (await patient.objects()).scheduler_rules == patient.catalog.facts.scheduler_rules

        for each in list(cluster.store.objects(RESOURCESLICES)):
            cluster.store.delete(RESOURCESLICES, None, each["metadata"]["name"])
        await learned(known, [])
        assert sizes(await patient.learn()) == ["40Gi"], "it was read a moment ago"
        cluster.publish(resource_slices())
        await learned(known, ["40Gi"])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert sizes(await known.learn()) == ["40Gi"]
    assert len(log_messages(caplog)) == 1
    await api.close()


async def test_devices_that_were_read_are_not_missing_because_of_a_failure(embedded_cluster: ClusterUnderTest) -> None:
    """A replica of the control plane that begins refuses accounts; one that is older does not serve devices."""
    cluster = embedded_cluster
    await cluster.publish(*device_classes(), *resource_slices())
    async with (
        cluster.fault_proxy() as proxy,
        await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig_for(proxy.url)) as api,
    ):
        proxy.fail(Fault.answer(404), verb="list", resource="deviceclasses")
        reader = DeviceReader(api, form_seconds=0, retry_seconds=0)
        with pytest.raises(KubernetesError):
            await reader.devices.get(NOW)  # discovery names the kind
        known = await reader.devices.get(NOW)
        assert known.classes
        for status in (403, 404):
            proxy.fail(Fault.answer(status), verb="list", resource="deviceclasses")
            with pytest.raises(KubernetesError):
                await reader.devices.get(NOW)
            assert (reader.devices.value, reader.devices.has_failed) == (known, True)
        await reader.rules.get(NOW)
        await cluster.admin.create(resource_path(RESOURCE_API, "devicetaintrules"), taint_rule("upkeep"))
        (rule,) = await reader.rules.get(NOW)
        # A load balancer without its route answers discovery with 404, too.
        proxy.fail(Fault.answer(404), times=None)
        with pytest.raises(KubernetesError):
            await reader.rules.get(NOW)
        proxy.heal()
        proxy.fail(Fault.answer(403), verb="list", resource="devicetaintrules")
        with pytest.raises(KubernetesError):
            await reader.rules.get(NOW)
        assert reader.rules.value == [rule]
        hide_devices(proxy)
        fresh = await DeviceReader(api).devices.get(NOW)
        assert (fresh.classes, fresh.slices) == (None, None)


async def test_nobody_waits_for_ever_and_all_wait_for_one_reading():
    """For an API server that takes connections and says nothing."""
    connections = []
    silent = await asyncio.start_server(lambda *streams: connections.append(streams), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with ApiClient(Configuration(host=f"http://127.0.0.1:{port}")) as client:
        known = DeviceReader(KubernetesApi(client, timeout_seconds=60), form_seconds=0.1)
        catalogs = await asyncio.gather(*(known.learn() for _ in range(5)))
        assert not any(catalog.is_known for catalog in catalogs)
        # The form's time may be over before the requests have their connections.
        await eventually(lambda: len(connections) >= 2, "the API server is asked")
        assert len(connections) == 2, "one for the classes, one for the slices"
    silent.close()


class CountingApi(KubernetesApi):
    """Counts lists of slices."""

    slice_lists = 0

    async def list(self, path: str, **options: Any) -> JsonObject:
        self.slice_lists += path.endswith("/resourceslices")
        return await super().list(path, **options)


async def test_callers_at_the_same_time_share_requests_that_begin_after_their_calls(tmp_path):
    """A change before the call is in the answer, even if a request of another caller was under way."""
    async with EmbeddedCluster(tmp_path, run_pods=False) as cluster:
        cluster.publish(device_classes())
        async with await CountingApi.from_kubeconfig(cluster.kubeconfig) as api:
            reader = DeviceReader(api)
            early = asyncio.create_task(reader.objects())
            await asyncio.sleep(0)
            cluster.publish(resource_slices())
            late = await asyncio.gather(*(reader.objects() for _ in range(20)))
            await early
            assert {len(each.slices) for each in late} == {len(resource_slices())}
            assert api.slice_lists <= 2
            assert reader.slices.value is None, "large collections are not stored"


async def test_a_check_and_a_form_share_one_reading(tmp_path):
    async with EmbeddedCluster(tmp_path, run_pods=False) as cluster:
        cluster.publish([*device_classes(), *resource_slices()])
        async with await KubernetesApi.from_kubeconfig(cluster.kubeconfig) as api:
            reader = DeviceReader(api)
            devices = await reader.devices.get(NOW)
            assert (await reader.learn()).facts.slices is devices.slices
            assert await reader.devices.get(60.0) is devices
