"""What the spawn form knows of devices, from an API server that comes, changes and goes."""

from __future__ import annotations

import asyncio
import logging

from kubernetes_asyncio.client import ApiClient, Configuration

from dra_spawner.devcluster.api.resource_types import RESOURCESLICES
from dra_spawner.devcluster.demo.example_nodes import device_classes, resource_slices
from dra_spawner.devcluster.embedded_cluster import EmbeddedCluster
from dra_spawner.kube.api import KubernetesApi
from dra_spawner.profiles.claims import DeviceRequest
from dra_spawner.spawner.devices.known_devices import KnownDevices

SHARE = DeviceRequest("gpu", "gpu-share.example.com")


def sizes(catalog):
    return [str(offer.largest) for offer in catalog.offers(SHARE, "memory")]


async def test_news_are_read_and_old_ones_kept_while_nobody_answers(tmp_path, caplog):
    async with EmbeddedCluster(tmp_path, run_pods=False) as cluster:
        cluster.publish([*device_classes(), *resource_slices()])
        api = await KubernetesApi.from_kubeconfig(cluster.kubeconfig)
        known, patient = KnownDevices(fresh_seconds=0, retry_seconds=0), KnownDevices()
        assert not known.catalog.is_known
        first = await known.learn(api)
        assert sizes(first) == ["40Gi"]
        assert await known.learn(api) is first, "what is the same is not gone over again"
        await patient.learn(api)

        for each in list(cluster.store.objects(RESOURCESLICES)):
            cluster.store.delete(RESOURCESLICES, None, each["metadata"]["name"])
        assert sizes(await known.learn(api)) == []
        assert sizes(await patient.learn(api)) == ["40Gi"], "it was read a moment ago"
        cluster.publish(resource_slices())
        assert sizes(await known.learn(api)) == ["40Gi"]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert sizes(await known.learn(api)) == ["40Gi"]
    assert len(caplog.records) == 1
    await api.close()


async def test_nobody_waits_long_and_all_wait_for_one_reading():
    """For an API server that takes connections and says nothing."""
    connections = []
    silent = await asyncio.start_server(lambda *streams: connections.append(streams), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with ApiClient(Configuration(host=f"http://127.0.0.1:{port}")) as client:
        known, api = KnownDevices(), KubernetesApi(client, timeout_seconds=60)
        begun = asyncio.get_running_loop().time()
        catalogs = await asyncio.gather(*(known.learn(api) for _ in range(5)))
        assert asyncio.get_running_loop().time() - begun < 5
        assert not any(catalog.is_known for catalog in catalogs)
        assert len(connections) == 2, "one for the classes, one for the slices"
    silent.close()
