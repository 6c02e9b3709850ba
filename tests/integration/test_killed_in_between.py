"""Hub and service killed at every step of a start; then their namespace is deleted: it goes, and every device is free.

After a start that makes a server's pod again, a hub that is started again leaves nothing behind, either.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dra_spawner.kube.api import resource_path
from tests.cluster.fault_proxy import FaultProxy, Request
from tests.cluster.under_test import RESOURCE_API, ClusterUnderTest
from tests.integration.devices import node_with, shareable
from tests.integration.handover_hub import PROFILE, Hub, prepare, service_kubeconfig
from tests.integration.hub_process import eventually
from tests.integration.node_trouble import NodeTrouble, fail_pod, hanging_pod

pytestmark = pytest.mark.timeout(240)

GONE_SECONDS = 60
#: How long a start may take to come to the step that it is to be killed at.
STEP_SECONDS = 15
#: What a start and a handover write.
WRITTEN = ("pods", "resourceclaims", "resourceclaims/status", "resourceclaimtemplates")

#: The hub asks no service, so there is nothing that could be taken over.
NO_SERVICE = 'c.DRASpawner.placement_service = ""\n'
#: Starts that are over soon, so that what is left of them is swept soon.
SHORT_STARTS = """
c.DRASpawner.start_timeout = 20
c.DRASpawner.k8s_api_request_retry_timeout = 1
c.DRASpawner.leftovers_sweep_interval_seconds = 10
"""
#: Writes of hub and service when a server's pod is made again, and one more.
SECOND_TRY = range(1, 8)


@dataclass(slots=True)
class KillingProxy(FaultProxy):
    """Kills processes when the API server has carried out a write, and before they hear of it.

    Attributes
    ----------
    kill_at
        After which of the writes from now on, counted from 1; 0 for none.
    counted_from
        The first one that counts; any if empty.
    processes
        In the order in which they are killed.
    writes
        What was written since.
    """

    kill_at: int = 0
    counted_from: str = ""
    processes: list[int] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    killed: asyncio.Event = field(default_factory=asyncio.Event)

    async def pass_on(self, request: web.Request, body: bytes) -> web.StreamResponse:
        seen = Request.of(request, body)
        counts = request.method != "GET" and seen.resource in WRITTEN
        if not self.kill_at or not counts or not (self.writes or self.counted_from in str(seen)):
            return await FaultProxy.pass_on(self, request, body)
        self.writes.append(str(seen))
        if len(self.writes) != self.kill_at:
            return await FaultProxy.pass_on(self, request, body)
        async with self._upstream(request, body) as answer:
            assert answer.status < 400 or answer.status in (404, 409, 422), await answer.text()
        self.kill()
        return self._break(request)

    def kill(self) -> None:
        for process in self.processes:
            os.kill(process, signal.SIGKILL)
        self.killed.set()


def through(proxy: FaultProxy, kubeconfig: Path) -> Path:
    """The same account by way of a proxy."""
    config = json.loads(kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {"server": proxy.url}
    path = kubeconfig.with_name(f"proxied-{kubeconfig.name}")
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path


@asynccontextmanager
async def hub_behind(
    cluster: ClusterUnderTest, more: str = "", *nodes: dict[str, Any]
) -> AsyncIterator[tuple[Hub, KillingProxy]]:
    await prepare(cluster, *nodes)
    async with KillingProxy(cluster.url, cluster.certificate_authority) as proxy:
        hub = Hub(cluster, through(proxy, await service_kubeconfig(cluster)), more)
        hub.kubeconfig = through(proxy, cluster.hub_kubeconfig)
        async with hub:
            # The hub first, which would start the service again.
            proxy.processes = [hub.process.pid, await hub.service_process()]
            yield hub, proxy


async def killed_at(hub: Hub, proxy: KillingProxy, step: int) -> None:
    """Start a server and kill hub and service at a step of it; after the last one if there are not as many."""
    await hub.add_user("ada")
    proxy.kill_at = step
    await killed(proxy, asyncio.create_task(hub.spawn("ada", PROFILE)))


async def killed(proxy: KillingProxy, spawning: asyncio.Task[Any]) -> None:
    try:
        await asyncio.wait_for(proxy.killed.wait(), STEP_SECONDS)
    except TimeoutError:
        proxy.kill()
    await asyncio.wait({spawning}, timeout=10)
    spawning.cancel()
    assert proxy.writes, "the start wrote something"


async def namespace_goes(cluster: ClusterUnderTest, writes: list[str]) -> None:
    api = cluster.admin
    path = resource_path("v1", "namespaces", name=cluster.namespace)
    await api.delete(path)
    try:
        await cluster.wait_gone(path, timeout_seconds=GONE_SECONDS)
    except AssertionError as error:
        left: list[Any] = []
        for plural in ("pods", "resourceclaims", "resourceclaimtemplates", "configmaps"):
            for each in (await api.list(cluster.path(plural)))["items"]:
                left.append((plural, each["metadata"]["name"], each["metadata"].get("finalizers"), each.get("status")))
                if plural == "resourceclaims":
                    # Else the next test would find its devices taken.
                    empty = {"status": {"reservedFor": None, "allocation": None}}
                    await api.patch(cluster.path(plural, each["metadata"]["name"], "status"), empty)
        raise AssertionError(f"after {writes}: {left}") from error
    claims = (await api.list(resource_path(RESOURCE_API, "resourceclaims")))["items"]
    assert [each for each in claims if (each.get("status") or {}).get("allocation")] == []


@pytest.mark.parametrize("step", range(1, 9))
async def test_in_a_start_that_takes_over_what_was_kept(real_cluster: ClusterUnderTest, step: int):
    async with hub_behind(real_cluster) as (hub, proxy):
        await hub.until_warm()
        await killed_at(hub, proxy, step)
        await namespace_goes(real_cluster, proxy.writes)


@pytest.mark.parametrize("step", range(1, 4))
async def test_in_a_start_that_makes_its_own_claim(real_cluster: ClusterUnderTest, step: int):
    async with hub_behind(real_cluster, NO_SERVICE) as (hub, proxy):
        await killed_at(hub, proxy, step)
        assert "create resourceclaimtemplates" in proxy.writes[0]
        await namespace_goes(real_cluster, proxy.writes)


FULL_NODE = [
    *(("Never", step) for step in range(1, 11)),
    # The scheduler preempts the placeholder at the same time.
    *(("PreemptLowerPriority", step) for step in range(3, 8)),
]


@pytest.mark.parametrize(("preemption", "step"), FULL_NODE)
async def test_in_a_start_that_takes_over_what_fills_a_node(real_cluster: ClusterUnderTest, preemption: str, step: int):
    """The service makes the pod a consumer of the claim first, and deletes the placeholder then."""
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "server"}}
    await real_cluster.publish({**priority, "value": 0, "preemptionPolicy": preemption})
    more = 'c.DRASpawner.cpu_guarantee = 5  # of 8\nc.DRASpawner.priority_class_name = "server"\n'
    async with hub_behind(real_cluster, more, *node_with("node-c", shareable("gpu-0"))) as (hub, proxy):
        await hub.until_warm()
        await killed_at(hub, proxy, step)
        if (preemption, step) == ("Never", 10):
            kinds = [each.rpartition(" ")[0] for each in proxy.writes]
            assert kinds.index("patch resourceclaims/status") < kinds.index("delete pods")
        await namespace_goes(real_cluster, proxy.writes)


async def killed_in_second_try(hub: Hub, proxy: KillingProxy, step: int) -> None:
    """Kill hub and service at a step of what follows when the node has lost the claim of a server's first pod."""
    warm = len(await hub.placeholders())
    await hub.add_user("ada")
    spawning = asyncio.create_task(hub.spawn("ada", PROFILE))
    first = await hanging_pod(hub.cluster)

    async def first_try_is_written() -> bool:
        # A placeholder stays until its server runs; another one is created for it.
        return len(await hub.placeholders()) == (warm and warm + 1) and await all_belongs_to_pods(hub)

    await eventually(first_try_is_written, "all of the first try is written")
    proxy.counted_from, proxy.kill_at = "delete pods jupyter-ada", step
    await fail_pod(hub.cluster, first, "claim-lost")
    await killed(proxy, spawning)
    if step == SECOND_TRY[-1]:
        assert any(each.startswith("patch resourceclaimtemplates") for each in proxy.writes), "the second pod owns it"


async def all_belongs_to_pods(hub: Hub) -> bool:
    pods = {each["metadata"]["uid"] for each in await hub.items("pods")}
    objects = [*await hub.items("resourceclaims"), *await hub.items("resourceclaimtemplates")]
    return all(pods & {owner["uid"] for owner in each["metadata"].get("ownerReferences", ())} for each in objects)


@pytest.mark.parametrize(
    ("claim", "step"),
    # Once a claim that the first try made itself is deleted, the second try is like any start with its own claim.
    [*(("warm", step) for step in SECOND_TRY), ("own", 1), ("own", 2)],
)
async def test_where_a_server_is_made_again(real_cluster: ClusterUnderTest, claim: str, step: int):
    await real_cluster.start_kubelet(**NodeTrouble(hanging=1).options)
    async with hub_behind(real_cluster, "" if claim == "warm" else NO_SERVICE) as (hub, proxy):
        if claim == "warm":
            await hub.until_warm()
        await killed_in_second_try(hub, proxy, step)
        await namespace_goes(real_cluster, proxy.writes)


@pytest.mark.parametrize("step", SECOND_TRY[:-1])
async def test_a_hub_that_is_started_again_where_a_server_is_made_again(real_cluster: ClusterUnderTest, step: int):
    """The hub sweeps what belongs to no pod; a pod that exists is the user's server."""
    await real_cluster.start_kubelet(**NodeTrouble(hanging=1).options)
    async with hub_behind(real_cluster, SHORT_STARTS) as (hub, proxy):
        await hub.until_warm()
        await killed_in_second_try(hub, proxy, step)
        await hub.kill()
        proxy.kill_at = 0
        await hub.start()
        await eventually(lambda: all_belongs_to_pods(hub), f"no leftovers after {proxy.writes}", within_seconds=60)
        if any(each["metadata"]["name"] == "jupyter-ada" for each in await hub.items("pods")):
            await hub.until_ready("ada")
            await hub.stop_server("ada")
        await hub.only_placeholders_are_left()
