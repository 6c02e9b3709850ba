"""Hub and service are killed at every step of a start. Then their namespace can be deleted, and every device is free.

Hub and service as processes of their own are killed by a signal. In this process, which takes a fifth of the time,
their requests are cut off: for the API server that is the same. Then the namespace is emptied as
kube-controller-manager does.

After a start that makes a server's pod again, a hub that is started again leaves nothing behind, either.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dra_spawner.kube.client.api import resource_path
from dra_spawner.spawner.objects.leftovers import Sweep
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.fault_proxy import Fault, FaultProxy, Request
from tests.cluster.under_test import RESOURCE_API, ClusterUnderTest
from tests.integration.devices import priority_class, shareable
from tests.integration.faulty_hub import hurried
from tests.integration.handover_hub import PROFILE, Hub, items, placeholders_of, prepare
from tests.integration.hub_process import let_starts_end
from tests.integration.node_trouble import NodeTrouble, fail_pod, hanging_pod
from tests.integration.warm_placeholders import SHARE, WarmPlaceholders, node, warm_placeholders
from tests.polling import PATIENCE_SECONDS, eventually

#: Resources that a start and a handover write.
WRITTEN = ("pods", "resourceclaims", "resourceclaims/status", "resourceclaimtemplates")

PLACEHOLDERS = 3

#: The hub asks no service, so there is no handover.
NO_SERVICE = 'c.DRASpawner.placeholder_service = ""\n'
#: Leftovers of a start are swept soon after its end.
SOON_SWEPT = """
c.DRASpawner.k8s_api_request_retry_timeout = 1
c.DRASpawner.leftovers_sweep_interval_seconds = 10
"""
#: Writes of hub and service when a server's pod is made again, and one more.
SECOND_TRY = range(1, 8)


@dataclass(slots=True)
class KillingProxy(FaultProxy):
    """Kills all processes behind it after the API server has carried out a write, before the sender gets the answer.

    Attributes
    ----------
    kill_at
        After which of the writes from now on, counted from 1; 0 for none.
    counted_from
        The first write that counts; any if empty.
    processes
        In the order in which they are killed; requests of this process are cut off.
    writes
        Writes since then.
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

    def begin_again(self) -> None:
        """Let a new hub and a new service make requests."""
        self.heal()
        self.kill_at, self.writes, self.killed = 0, [], asyncio.Event()

    def kill(self) -> None:
        for process in self.processes:
            os.kill(process, signal.SIGKILL)
        self.fail(Fault.refuse(), times=None)
        self.cut()
        self.killed.set()


def through(proxy: FaultProxy, kubeconfig: Path) -> Path:
    """The same account by way of a proxy."""
    config = json.loads(kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {"server": proxy.url}
    path = kubeconfig.with_name(f"proxied-{kubeconfig.name}")
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path


@contextlib.asynccontextmanager
async def hub_behind(cluster: ClusterUnderTest, more: str = "") -> AsyncIterator[tuple[Hub, KillingProxy]]:
    await prepare(cluster)
    async with KillingProxy(cluster.url, cluster.certificate_authority) as proxy:
        hub = Hub(cluster, through(proxy, await service_kubeconfig(cluster)), more, lease_seconds=6)
        hub.kubeconfig = through(proxy, cluster.hub_kubeconfig)
        async with hub:
            # The hub first, which would start the service again.
            proxy.processes = [hub.process.pid, await hub.service_process()]
            yield hub, proxy


async def killed_at(hub: Hub, proxy: KillingProxy, step: int) -> None:
    """Start a server and kill hub and service at a step of the start; after the last step if there are fewer steps."""
    await hub.add_user("ada")
    proxy.kill_at = step
    await killed(hub.cluster, proxy, asyncio.create_task(hub.spawn("ada", PROFILE)))


async def killed(
    cluster: ClusterUnderTest, proxy: KillingProxy, spawning: asyncio.Task[Any], placeholders: int = PLACEHOLDERS
) -> None:
    """Wait until all processes are killed; kill them if the start ends before that step."""

    async def is_over() -> bool:
        if proxy.killed.is_set():
            return True
        return bool(proxy.writes) and spawning.done() and await is_settled(cluster, placeholders)

    await eventually(is_over, "the step, or the end of the start", shows=lambda: proxy.writes)
    if not proxy.killed.is_set():
        proxy.kill()
    spawning.cancel()
    over = asyncio.wait({spawning}, timeout=PATIENCE_SECONDS)
    # In this process, the clean-up and the stop get no answers and try again.
    await (over if proxy.processes else hurried(over))


async def is_settled(cluster: ClusterUnderTest, placeholders: int) -> bool:
    """Whether nothing more is to be written: each pod has a claim of its own, and a new placeholder is there."""
    claims, pods = await items(cluster, "resourceclaims"), await items(cluster, "pods")
    consumers = [len((each.get("status") or {}).get("reservedFor", ())) for each in claims]
    return (
        len(claims) == len(pods) > placeholders
        and max(consumers) == 1
        and not any("deletionTimestamp" in each["metadata"] for each in pods)
        and await all_belongs_to_pods(cluster)
    )


async def namespace_goes(cluster: ClusterUnderTest, writes: list[str]) -> None:
    path = resource_path("v1", "namespaces", name=cluster.namespace)
    await cluster.admin.delete(path)
    await gone(cluster, path, writes)
    await no_device_is_taken(cluster)


async def gone(cluster: ClusterUnderTest, path: str, writes: list[str], seconds: float = PATIENCE_SECONDS) -> None:
    try:
        await cluster.wait_gone(path, timeout_seconds=seconds)
    except AssertionError as error:
        for each in await items(cluster, "resourceclaims"):
            # Else the next start would find its devices in use.
            empty = {"status": {"reservedFor": None, "allocation": None}}
            await cluster.admin.patch(cluster.path("resourceclaims", each["metadata"]["name"], "status"), empty)
        error.add_note(f"after {writes}")
        raise


async def no_device_is_taken(cluster: ClusterUnderTest) -> None:
    claims = (await cluster.admin.list(resource_path(RESOURCE_API, "resourceclaims")))["items"]
    assert [each for each in claims if (each.get("status") or {}).get("allocation")] == []


async def all_goes(cluster: ClusterUnderTest, writes: list[str], within_seconds: float = PATIENCE_SECONDS) -> None:
    """Empty the namespace as kube-controller-manager does before it goes: pods first, and nothing by force."""
    for plurals in (("pods",), ("resourceclaims", "resourceclaimtemplates")):
        for plural in plurals:
            await cluster.admin.delete(cluster.path(plural))
        for plural in plurals:
            await gone(cluster, cluster.path(plural), writes, within_seconds)
    await no_device_is_taken(cluster)


@pytest.mark.promise("A hub and a service that are killed during a handover leave no device in use.")
@pytest.mark.parametrize("step", [2, 6])
async def test_in_a_start_that_gets_a_warm_claim(real_cluster: ClusterUnderTest, step: int):
    """Two of the steps, as processes; `test_at_each_step_of_a_start` has all of them."""
    async with hub_behind(real_cluster) as (hub, proxy):
        await hub.until_warm()
        await killed_at(hub, proxy, step)
        await namespace_goes(real_cluster, proxy.writes)


async def test_in_a_start_that_makes_its_own_claim(real_cluster: ClusterUnderTest):
    async with hub_behind(real_cluster, NO_SERVICE) as (hub, proxy):
        await killed_at(hub, proxy, 2)
        assert "create resourceclaimtemplates" in proxy.writes[0]
        await namespace_goes(real_cluster, proxy.writes)


async def test_a_claim_that_hangs_is_found(real_cluster: ClusterUnderTest):
    """Kubernetes never removes a consumer that is no pod."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu-share.example.com"}}
    metadata = {"name": "hangs", "finalizers": ["resource.kubernetes.io/delete-protection"]}
    spec = {"devices": {"requests": [request]}}
    (claim,) = await real_cluster.publish(
        {"apiVersion": RESOURCE_API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
    )
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"}
    consumer = {"apiGroup": "hub.jupyter.org", "resource": "promises", "name": "x", "uid": claim["metadata"]["uid"]}
    status = real_cluster.path("resourceclaims", "hangs", "status")
    allocated = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    await real_cluster.admin.patch(status, {"status": allocated})
    with pytest.raises(AssertionError, match="resourceclaims is gone"):
        await all_goes(real_cluster, [], within_seconds=1)
    await all_goes(real_cluster, [])


@contextlib.asynccontextmanager
async def warm_hub_behind(
    cluster: ClusterUnderTest, *, cpu: float = 0, **kubelet_options: Any
) -> AsyncIterator[WarmPlaceholders]:
    """A hub in this process behind a proxy that can kill it."""
    async with warm_placeholders(cluster, KillingProxy, **kubelet_options) as warm_hub:
        for name in ("node-a", "node-b", "node-c"):
            await cluster.publish(*node(name, shareable("gpu-0")))
        config = warm_hub.side.spawner_config
        config.device_claims = SHARE
        config.k8s_api_request_retry_timeout = 1  # of the stop, which gets no answer
        if cpu:
            config.cpu_guarantee = cpu
            config.priority_class_name = "server"
        yield warm_hub


async def at_each(
    steps: Iterable[int],
    warm_hub: WarmPlaceholders,
    placeholders: int,
    row: Callable[[KillingProxy, int], Awaitable[None]],
) -> None:
    """Run a row for each step, one after the other; fail with the problems of all.

    Each time hub and reconciler are new ones, with a number of warm placeholders.
    """
    proxy, cluster, problems = warm_hub.proxy, warm_hub.cluster, []
    assert isinstance(proxy, KillingProxy)
    if not placeholders:
        warm_hub.side.spawner_config.placeholder_service = ""
    for step in steps:
        proxy.begin_again()
        await warm_hub.restart()
        service = warm_hub.with_placeholders(placeholders, kubeconfig=cluster.admin_kubeconfig_for(proxy.url))
        try:
            async with service if placeholders else contextlib.nullcontext():
                await row(proxy, step)
                await all_goes(cluster, proxy.writes)
        except AssertionError as error:
            problems.append(f"step {step}: {error} {getattr(error, '__notes__', '')}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("placeholders", "steps"),
    [pytest.param(PLACEHOLDERS, range(1, 9), id="warm claim"), pytest.param(0, range(1, 4), id="own claim")],
)
async def test_at_each_step_of_a_start(real_cluster: ClusterUnderTest, placeholders: int, steps: range):
    async def row(proxy: KillingProxy, step: int) -> None:
        proxy.kill_at = step
        await killed(real_cluster, proxy, asyncio.create_task(warm_hub.spawn()), placeholders)

    async with warm_hub_behind(real_cluster) as warm_hub:
        await at_each(steps, warm_hub, placeholders, row)


@pytest.mark.parametrize(
    ("preemption", "steps"),
    [
        # Nine writes, in several orders; the last one comes after all of them.
        ("Never", range(1, 11)),
        # The scheduler preempts the placeholder at the same time.
        ("PreemptLowerPriority", range(3, 11)),
    ],
)
async def test_in_a_handover_on_a_full_node(real_cluster: ClusterUnderTest, preemption: str, steps: range):
    """The service makes the pod a consumer of the claim first, and deletes the placeholder then."""
    await real_cluster.publish(priority_class("server", 0, preemptionPolicy=preemption))

    async def row(proxy: KillingProxy, step: int) -> None:
        proxy.kill_at = step
        await killed(real_cluster, proxy, asyncio.create_task(warm_hub.spawn()))
        if (preemption, step) == ("Never", 10):
            kinds = [each.rpartition(" ")[0] for each in proxy.writes]
            assert kinds.index("patch resourceclaims/status") < kinds.index("delete pods")

    async with warm_hub_behind(real_cluster, cpu=5) as warm_hub:  # of 8
        await at_each(steps, warm_hub, PLACEHOLDERS, row)


async def killed_in_second_try(
    cluster: ClusterUnderTest, proxy: KillingProxy, step: int, start: Callable[[], Coroutine[Any, Any, Any]]
) -> None:
    """Kill hub and service at a step of the second try, after the node has lost the claim of a server's first pod."""
    warm = len(await placeholders_of(cluster))
    spawning = asyncio.create_task(start())
    first = await hanging_pod(cluster)

    async def first_try_is_written() -> bool:
        # A placeholder stays until its server runs; another one is created for it.
        return len(await placeholders_of(cluster)) == (warm and warm + 1) and await all_belongs_to_pods(cluster)

    await eventually(
        first_try_is_written, "all of the first try is written", shows=lambda: (warm, spawning, proxy.requests[-20:])
    )
    proxy.writes, proxy.counted_from, proxy.kill_at = [], "delete pods jupyter-ada", step
    await fail_pod(cluster, first, "claim-lost")
    await killed(cluster, proxy, spawning, warm)
    if step == SECOND_TRY[-1]:
        assert any(each.startswith("patch resourceclaimtemplates") for each in proxy.writes), "the second pod owns it"


async def all_belongs_to_pods(cluster: ClusterUnderTest) -> bool:
    """Whether a pod owns each object that is not being deleted."""
    pods = {each["metadata"]["uid"] for each in await items(cluster, "pods")}
    objects = [*await items(cluster, "resourceclaims"), *await items(cluster, "resourceclaimtemplates")]
    return all(
        "deletionTimestamp" in each["metadata"]
        or pods & {owner["uid"] for owner in each["metadata"].get("ownerReferences", ())}
        for each in objects
    )


@pytest.mark.parametrize(
    ("placeholders", "steps"),
    [
        pytest.param(PLACEHOLDERS, SECOND_TRY, id="warm claim"),
        # Once a claim that the first try made itself is deleted, the second try is like any start with its own claim.
        pytest.param(0, range(1, 3), id="own claim"),
    ],
)
async def test_where_a_server_is_made_again(real_cluster: ClusterUnderTest, placeholders: int, steps: range):
    """The sweep of a hub that is started again deletes all objects that belong to no pod; then the rest can go."""
    trouble = NodeTrouble(hanging=1)

    async def row(proxy: KillingProxy, step: int) -> None:
        trouble.begin_again()
        await killed_in_second_try(real_cluster, proxy, step, warm_hub.spawn)
        await let_starts_end(real_cluster)
        await Sweep(real_cluster.admin, real_cluster.namespace, timedelta(0), datetime.now(UTC)).run()
        await eventually(lambda: all_belongs_to_pods(real_cluster), f"no leftovers after {proxy.writes}")

    async with warm_hub_behind(real_cluster, **trouble.options) as warm_hub:
        await at_each(steps, warm_hub, placeholders, row)


@pytest.mark.parametrize("step", [2, 5])
async def test_a_hub_that_is_started_again_where_a_server_is_made_again(real_cluster: ClusterUnderTest, step: int):
    """The hub sweeps objects that belong to no pod; a pod that exists is the user's server. Two of the steps."""
    await real_cluster.start_kubelet(**NodeTrouble(hanging=1).options)
    async with hub_behind(real_cluster, SOON_SWEPT) as (hub, proxy):
        await hub.until_warm()
        await killed_in_second_try(real_cluster, proxy, step, lambda: hub.spawn("ada", PROFILE))
        await hub.kill()
        await let_starts_end(real_cluster)
        proxy.kill_at = 0
        proxy.heal()
        await hub.start()
        await eventually(lambda: all_belongs_to_pods(real_cluster), f"no leftovers after {proxy.writes}")
        if any(each["metadata"]["name"] == "jupyter-ada" for each in await hub.items("pods")):
            await hub.until_ready("ada")
            await hub.stop_server("ada")
        await hub.only_placeholders_are_left()
