"""A hub whose API server is away for longer than KubeSpawner waits: it learns of its servers again, and forgets none."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import kubespawner.reflector
import pytest

from dra_spawner.spawner.progress import patient_reflectors
from tests.cluster.fault_proxy import Fault
from tests.integration.devices import classes, node_with, shareable
from tests.integration.faulty_hub import Faulty, hub_behind_proxy, without_patience
from tests.integration.hub_process import HubProcess
from tests.polling import eventually
from tests.spawner.hub_side import asked_at_the_start, cancel_start

#: KubeSpawner's reflector gives up after the ninth failure.
MANY = 12


@pytest.fixture
async def outage(embedded_cluster, monkeypatch):
    """A hub on a cluster with a node, whose waits between two tries are short."""

    async def short(seconds: float) -> None:
        await asyncio.sleep(seconds / 500)

    for module in (kubespawner.reflector, patient_reflectors):
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": short}))
    async with hub_behind_proxy(embedded_cluster) as (proxy, side):
        await embedded_cluster.publish(*node_with("node-a"))
        without_patience(side)
        yield Faulty(embedded_cluster, proxy, side)


def break_off(hub: Faulty, fault: Fault | None = None, **of: Any) -> None:
    hub.proxy.fail(fault or Fault.refuse(), times=None, **of)
    hub.proxy.cut()


async def tries(hub: Faulty, resource: str, number: int = MANY, verb: str = "list") -> None:
    before = hub.proxy.count(verb, resource)
    await eventually(lambda: hub.proxy.count(verb, resource) >= before + number, f"{verb} {resource} is sent again")


async def test_ends_of_servers_are_seen_after_it(outage: Faulty):
    assert await outage.spawn() is None
    spawner = outage.user().spawner
    break_off(outage)
    for resource in ("pods", "events"):
        await tries(outage, resource)
    assert await spawner.poll() is None
    await outage.cluster.admin.delete(outage.cluster.path("pods", "jupyter-ada"), grace_period_seconds=0)
    outage.proxy.heal()

    async def is_seen() -> bool:
        return await spawner.poll() is not None

    await eventually(is_seen, "the hub notices the end of a server")
    await outage.stop()
    assert await outage.spawn() is None
    assert any("assigned" in each["message"] for each in spawner.events), "events of this start are seen"


@pytest.mark.promise(
    "A server that is stopped while the API server is away is stopped when it answers, and not forgotten."
)
async def test_a_server_that_is_stopped_in_it_is_not_forgotten(outage: Faulty):
    """JupyterHub forgets a server whose stop ends with an error: its pod would run on with its devices."""
    for fault in (Fault.refuse(), Fault.answer(500), Fault.answer(403), Fault.answer(429)):
        assert await outage.spawn() is None
        break_off(outage, fault)
        stopping = asyncio.create_task(outage.stop())
        await tries(outage, "pods", 3, verb="delete")
        assert outage.user().spawner.pending == "stop", fault
        outage.proxy.heal()
        await stopping
        await outage.nothing_is_left()


async def test_an_api_server_that_is_behind_ends_no_server_after_it(outage: Faulty):
    """Its cache answers a list of version 0, which means any version."""
    assert await outage.spawn() is None
    behind = Fault.json({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})
    break_off(outage)
    await tries(outage, "pods")
    outage.proxy.heal()
    outage.proxy.fail(behind, resource="pods", matching=lambda each: "resourceVersion=0" in each.path, times=None)
    asked = outage.proxy.count("watch", "pods")
    await eventually(lambda: outage.proxy.count("watch", "pods") > asked, "the hub has listed the pods")
    assert await outage.user().spawner.poll() is None


@pytest.mark.promise("A hub that starts while the API server is away takes no running server for stopped.")
async def test_a_hub_that_starts_in_it_takes_no_server_for_stopped(outage: Faulty):
    """JupyterHub takes an error of `poll` at its start for the end of the server, and forgets it."""
    assert await outage.spawn() is None
    await outage.restart()
    break_off(outage)
    asked = asyncio.create_task(asked_at_the_start(outage.user().spawner))
    await tries(outage, "pods")
    assert not asked.done()
    outage.proxy.heal()
    assert await asked is None


async def test_a_real_hub_that_starts_in_it(embedded_cluster):
    await embedded_cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    async with embedded_cluster.fault_proxy() as proxy:
        kubeconfig = embedded_cluster.hub_kubeconfig_for(proxy.url)
        more = "c.JupyterHub.init_spawners_timeout = 1\n"
        async with HubProcess(embedded_cluster.directory / "hub", kubeconfig, embedded_cluster.namespace, more) as hub:
            await hub.spawn("ada")
            await hub.until_ready("ada")
            await hub.lose()
            proxy.fail(Fault.refuse(), times=None)
            asked = proxy.count("list", "pods")
            await hub.come_back()
            await eventually(lambda: proxy.count("list", "pods") > asked + 4, "the hub asks again")

            async def pending() -> Any:
                _, user = await hub.request("GET", "/users/ada")
                return user["servers"][""]["pending"] or user["servers"][""]["ready"]

            assert await pending() == "check"
            proxy.heal()

            async def is_ready() -> bool:
                return await pending() is True

            await eventually(is_ready, "the hub has found the server")
            await hub.stop_server("ada")


async def test_a_start_in_it_ends_and_leaves_nothing_unseen(outage: Faulty):
    assert await outage.spawn() is None
    for fault in (Fault.refuse(), Fault.answer(500), Fault.answer(403)):
        for resource in ("pods", "events"):
            await outage.restart()
            break_off(outage, fault, verb="list", resource=resource)
            error = await outage.spawn("bob")
            assert "The cluster" in getattr(error, "jupyterhub_message", ""), repr(error)
            outage.proxy.heal()
            assert await asked_at_the_start(outage.user().spawner) is None
            assert await outage.spawn("bob") is None
            assert any("assigned" in each["message"] for each in outage.user("bob").spawner.events)
            await outage.stop("bob")


async def test_a_hub_with_a_namespace_for_each_user_goes_on(outage: Faulty):
    """KubeSpawner ends such a hub."""
    outage.side.spawner_config.enable_user_namespaces = True
    outage.side.spawner_config.user_namespace_template = outage.cluster.namespace
    break_off(outage, verb="list", resource="pods")
    assert "The cluster" in getattr(await outage.spawn(), "jupyterhub_message", "")
    outage.proxy.heal()
    assert await outage.spawn() is None
    break_off(outage)
    await tries(outage, "pods")
    outage.proxy.heal()
    await outage.stop()


async def test_a_start_that_is_cancelled_in_the_first_list(outage: Faulty):
    assert await outage.spawn() is None
    outage.side.config.ResourceReflector.request_timeout = 2
    await outage.restart()
    break_off(outage, Fault.hold(), verb="list", resource="pods")
    starting = asyncio.create_task(outage.spawn("bob"))
    await tries(outage, "pods", 1)
    asked = asyncio.create_task(asked_at_the_start(outage.user().spawner))
    cancel_start(outage.user("bob").spawner)
    outage.proxy.heal()
    await asyncio.wait([starting])
    assert await asked is None
