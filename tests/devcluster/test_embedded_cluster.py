from __future__ import annotations

import asyncio
import json
import socket
import stat
import sys

import aiohttp
import pytest

from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.resource_types import PODS
from dra_spawner.devcluster.demo.example_nodes import example_objects
from dra_spawner.devcluster.embedded_cluster import EmbeddedCluster
from dra_spawner.devcluster.kubelet.kubelet import Kubelet
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from tests.cluster.background import BackgroundLoop
from tests.cluster.fake_runtime import FakeRuntime
from tests.devcluster.cluster_objects import node as full_node
from tests.polling import PATIENCE_SECONDS, eventually
from tests.running import is_running

POD_PATH = resource_path("v1", "pods", "default")
SLEEP = "import os, pathlib, signal, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); signal.pause()"


def node(name: str):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def pod(name: str, *command: str, **spec):
    container = {"name": "main", "image": "example.com/image:1", "command": list(command)}
    spec = {"restartPolicy": "Never", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def until(api: KubernetesApi, name: str, phase: str = "Running"):
    """The pod, once it is in that phase."""

    async def wait():
        async for _, obj in api.watch(POD_PATH, resource_version="0"):
            if obj["metadata"]["name"] == name and obj.get("status", {}).get("phase") == phase:
                return obj
        raise AssertionError("the watch ended")

    return await asyncio.wait_for(wait(), PATIENCE_SECONDS)


async def test_starts_and_stops(tmp_path):
    cluster = EmbeddedCluster(tmp_path / "cluster")
    url = await cluster.start()
    cluster.publish(example_objects())
    async with await KubernetesApi.from_kubeconfig(cluster.kubeconfig) as api:
        assert len((await api.list(resource_path("v1", "nodes")))["items"]) == 4
    await cluster.stop()
    assert url == cluster.url
    with pytest.raises(aiohttp.ClientConnectionError):
        async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz"):
            pass
    await cluster.stop()  # nothing more to do


async def test_only_the_owner_of_the_kubeconfig_gets_in(tmp_path):
    async with EmbeddedCluster(tmp_path / "cluster") as cluster:
        assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600
        assert cluster.url.startswith("http://127.0.0.1:")
        async with aiohttp.ClientSession() as session, session.get(f"{cluster.url}/api/v1/pods") as answer:
            assert answer.status == 401
    assert not cluster.kubeconfig.exists()


async def test_kubeconfig_serves_clients_that_send_no_token_over_plain_http(tmp_path):
    async with EmbeddedCluster(tmp_path / "cluster") as cluster:
        server = json.loads(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        async with aiohttp.ClientSession() as session, session.get(f"{server}/api/v1/pods") as answer:
            assert answer.status == 200


async def test_tokens_differ(tmp_path):
    assert EmbeddedCluster(tmp_path / "a").token != EmbeddedCluster(tmp_path / "b").token


async def test_old_kubeconfig_is_replaced_and_never_readable_by_others(tmp_path):
    tmp_path.joinpath("kubeconfig").write_text("old")
    async with EmbeddedCluster(tmp_path) as cluster:
        assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600
        assert cluster.token in cluster.kubeconfig.read_text()


async def test_pods_run_as_processes_that_end_with_the_cluster(tmp_path):
    bystander = await asyncio.create_subprocess_exec(sys.executable, "-c", "import signal; signal.pause()")
    pid_file = tmp_path / "pid"
    try:
        async with EmbeddedCluster(tmp_path / "cluster") as cluster:
            cluster.publish([node("a"), pod("user", sys.executable, "-c", SLEEP, str(pid_file))])
            async with await KubernetesApi.from_kubeconfig(cluster.kubeconfig) as api:
                assert (await until(api, "user"))["spec"]["nodeName"] == "a"
                pid = int(
                    await eventually(lambda: pid_file.exists() and pid_file.read_text(), "the process tells its id")
                )
            assert is_running(pid)
        assert not is_running(pid)
        assert bystander.returncode is None
    finally:
        bystander.kill()
        await bystander.wait()


async def test_nodes_may_come_and_go_over_the_api(tmp_path):
    async with (
        EmbeddedCluster(tmp_path / "cluster", runtime=FakeRuntime()) as cluster,
        await KubernetesApi.from_kubeconfig(cluster.kubeconfig) as api,
    ):
        await api.create(resource_path("v1", "nodes"), full_node("late"))
        await api.create(POD_PATH, pod("user"))
        await until(api, "user")
        await api.delete(resource_path("v1", "nodes", name="late"))
        await eventually(lambda: cluster.store.find(PODS, "default", "user") is None, "the pod goes")


async def test_nodes_from_before_the_start_are_served(tmp_path):
    cluster = EmbeddedCluster(tmp_path / "cluster", runtime=FakeRuntime())
    cluster.publish([node("a"), pod("user")])
    async with cluster, await KubernetesApi.from_kubeconfig(cluster.kubeconfig) as api:
        await until(api, "user")


async def test_pods_can_be_left_to_another_kubelet(tmp_path):
    async with (
        EmbeddedCluster(tmp_path / "cluster", run_pods=False) as cluster,
        await KubernetesApi.from_kubeconfig(cluster.kubeconfig) as api,
    ):
        cluster.publish([pod("user")])
        kubelet = Kubelet(api, [node("a")], runtime=FakeRuntime(), directory=tmp_path / "kubelet")
        await kubelet.start()
        await until(api, "user")
        await kubelet.stop()


async def test_invalid_objects_are_not_published(tmp_path):
    cluster = EmbeddedCluster(tmp_path)
    with pytest.raises(ValueError, match=r"no example\.com/v1 Widget"):
        cluster.publish([{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}])
    cluster.publish([node("a")])
    with pytest.raises(ApiError, match="already exists"):
        cluster.publish([node("a")])


@pytest.mark.promise("The embedded cluster that cannot start leaves nothing behind.")
async def test_failed_start_leaves_nothing(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        cluster = EmbeddedCluster(tmp_path / "cluster")
        before = {task for task in asyncio.all_tasks() if not task.done()}
        with pytest.raises(OSError, match="address already in use"):
            await cluster.start(taken.getsockname()[1])
    assert not cluster.kubeconfig.exists()
    assert {task for task in asyncio.all_tasks() if not task.done()} == before
    await cluster.start()  # elsewhere it can still be started
    await cluster.stop()


async def test_clusters_side_by_side_do_not_meet(tmp_path):
    async with EmbeddedCluster(tmp_path / "a") as one, EmbeddedCluster(tmp_path / "b") as other:
        one.publish([node("a")])
        async with await KubernetesApi.from_kubeconfig(other.kubeconfig) as api:
            assert (await api.list(resource_path("v1", "nodes")))["items"] == []
        headers = {"Authorization": f"Bearer {one.token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{other.url}/api/v1/nodes") as answer,
        ):
            assert answer.status == 401


def test_in_a_thread_of_its_own(tmp_path):
    with BackgroundLoop("cluster") as background:
        cluster = EmbeddedCluster(tmp_path / "cluster", runtime=FakeRuntime())
        background.run(cluster.start())

        async def publish():
            cluster.publish([node("a")])

        background.run(publish())

        async def use():
            async with await KubernetesApi.from_kubeconfig(cluster.kubeconfig) as api:
                await api.create(POD_PATH, pod("user"))
                await until(api, "user")
                with pytest.raises(KubernetesError, match="not found"):
                    await api.get(f"{POD_PATH}/nobody")

        asyncio.run(use())
        background.run(cluster.stop())
    assert not cluster.kubeconfig.exists()
