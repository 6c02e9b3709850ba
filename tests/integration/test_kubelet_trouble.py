"""Containers that keep failing, and an API server that does."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from dra_spawner.devcluster.clock import ScaledClock
from dra_spawner.devcluster.kubelet.kubelet import Kubelet
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from tests.cluster.example_objects import pod
from tests.cluster.fake_runtime import FakeRuntime
from tests.cluster.fault_proxy import Fault, FaultProxy
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import PATIENCE_SECONDS, eventually

from .kubelet_pods import NODE, container_status, waiting_reason

NODE_STATUS = resource_path("v1", "nodes", name="node-a", subresource="status")


async def test_crash_loop_backs_off(embedded_cluster: ClusterUnderTest):
    await embedded_cluster.publish(NODE)
    await embedded_cluster.publish(pod("loop", [sys.executable, "-c", "raise SystemExit(1)"], restartPolicy="Always"))
    body = await embedded_cluster.wait_for(
        embedded_cluster.path("pods", "loop"),
        lambda obj: waiting_reason(obj) == "CrashLoopBackOff",
    )
    status = body["status"]["containerStatuses"][0]
    assert "back-off 10s restarting failed container=main" in status["state"]["waiting"]["message"]
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert body["status"]["phase"] == "Running"
    await embedded_cluster.wait_event("loop", "BackOff", text="Back-off restarting failed container main in pod loop_")


async def test_back_off_doubles_and_runs_on_the_clusters_clock(embedded_cluster: ClusterUnderTest):
    """A minute and more of back-off in a few seconds; a container that runs for ten minutes would begin anew."""
    await embedded_cluster.start_kubelet(fake=True, clock=ScaledClock(speed=20))
    assert embedded_cluster.fake_runtime is not None
    await embedded_cluster.publish(NODE)
    await embedded_cluster.publish(pod("loop", [], restartPolicy="Always"))
    waited = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for _, obj in embedded_cluster.admin.watch(embedded_cluster.path("pods")):
            state = container_status(obj).get("state", {})
            if "waiting" in state and state["waiting"]["reason"] == "CrashLoopBackOff":
                waited.append(state["waiting"]["message"].partition(" restarting")[0])
            if "running" in state:
                if container_status(obj)["restartCount"] == 4:
                    break
                embedded_cluster.fake_runtime.exit(embedded_cluster.namespace, "loop", "main", 1)
    # The first restart is at once.
    assert list(dict.fromkeys(waited)) == ["back-off 10s", "back-off 20s", "back-off 40s"]


async def test_kubelet_gets_over_an_ailing_api_server(cluster: ClusterUnderTest):
    async with cluster.fault_proxy() as proxy, api_through(cluster, proxy) as api:
        proxy.fail(Fault.answer(500), verb="patch", resource="pods/status", times=2)
        proxy.fail(Fault.lose_answer(), verb="patch", resource="pods/status", nth=4)
        proxy.fail(Fault.answer(503), verb="list", resource="pods", nth=2)
        kubelet = Kubelet(api, [node_manifest("node-a")], runtime=FakeRuntime())
        await kubelet.start()
        try:
            await kubelet.wait_schedulable(PATIENCE_SECONDS)
            await cluster.publish(pod("one", []))
            await cluster.wait_running("one")
            proxy.fail(Fault.refuse(), verb="delete", resource="pods", times=3)
            await cluster.admin.delete(cluster.path("pods", "one"))
            await cluster.wait_gone(cluster.path("pods", "one"))
            assert proxy.count("patch", "pods/status") >= 3
        finally:
            await kubelet.stop()


async def test_images_of_a_node_are_reported_one_at_a_time(
    embedded_cluster: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier report that arrives late would take a later image away."""
    goes_on, pass_on, held = asyncio.Event(), FaultProxy.pass_on, list[str]()

    async def first_is_late(of: FaultProxy, request: web.Request, body: bytes) -> web.StreamResponse:
        if (request.method, request.path) == ("PATCH", NODE_STATUS) and not held:
            held.append(request.path)
            await goes_on.wait()
        return await pass_on(of, request, body)

    monkeypatch.setattr(FaultProxy, "pass_on", first_is_late)
    async with embedded_cluster.fault_proxy() as proxy, api_through(embedded_cluster, proxy) as api:
        kubelet = Kubelet(api, [node_manifest("node-a")], runtime=FakeRuntime())
        await kubelet.start()
        try:
            first = asyncio.create_task(kubelet.add_image("node-a", "first"))
            await eventually(lambda: held, "the first image is reported")
            second = asyncio.create_task(kubelet.add_image("node-a", "second"))
            await asyncio.wait({second}, timeout=0.5)  # it waits; without that it is done by then
            goes_on.set()
            await asyncio.gather(first, second)
        finally:
            await kubelet.stop()
    images = (await embedded_cluster.admin.get(NODE_STATUS))["status"]["images"]
    assert [each["names"] for each in images] == [["first:latest"], ["second:latest"]]


async def test_new_kubelet_adopts_pods_and_a_broken_watch_is_begun_again(cluster: ClusterUnderTest):
    async with cluster.fault_proxy() as proxy, api_through(cluster, proxy) as api:
        proxy.fail(Fault.refuse(), verb="watch", resource="pods", times=4)
        first = Kubelet(api, [node_manifest("node-a")], runtime=FakeRuntime())
        await first.start()
        await first.wait_schedulable(PATIENCE_SECONDS)
        await cluster.publish(pod("one", []), pod("two", []))
        await cluster.wait_running("one")
        await cluster.wait_running("two")
        await first.stop()
        await cluster.admin.delete(cluster.path("pods", "one"))
        second = Kubelet(api, [node_manifest("node-a")], runtime=FakeRuntime())
        await second.start()
        try:
            await cluster.wait_gone(cluster.path("pods", "one"))
            await cluster.admin.delete(cluster.path("pods", "two"))
            await cluster.wait_gone(cluster.path("pods", "two"))
        finally:
            await second.stop()


@contextlib.asynccontextmanager
async def api_through(cluster: ClusterUnderTest, proxy: FaultProxy) -> AsyncIterator[KubernetesApi]:
    """An administrator's API through the proxy."""
    kubeconfig = cluster.admin_kubeconfig_for(proxy.url)
    async with await KubernetesApi.from_kubeconfig(kubeconfig, timeout_seconds=PATIENCE_SECONDS) as api:
        yield api
