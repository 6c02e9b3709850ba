"""Servers whose node or device fails them are started again, once, with another device."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import jupyterhub
import pytest
from prometheus_client import REGISTRY

from dra_spawner import names
from dra_spawner.kube.client.api import resource_path
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import SpawnRefused
from dra_spawner.spawner.steps import second_pod
from dra_spawner.spawner.steps.pod_failures import PodFailureKind
from tests.cluster.fault_proxy import Fault
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import DRIVER, node_with, shareable, whole
from tests.integration.faulty_hub import Faulty, advance_clock, faulty_on, hurried
from tests.integration.node_trouble import NodeTrouble, fail_pod, hanging_pod, withdraw_device
from tests.integration.warm_placeholders import IMAGE, node, warm_placeholders
from tests.polling import eventually
from tests.presence import present
from tests.spawner.hub_side import cancel_start

KIND_OF = {"no-cpu-left": "not-admitted"}


@contextlib.asynccontextmanager
async def on_nodes(cluster: ClusterUnderTest, trouble: NodeTrouble, *more: str) -> AsyncIterator[Faulty]:
    """A hub's side on node-a and others, each with one shareable GPU; pods may hang there."""
    async with faulty_on(cluster, **trouble.options) as faulty:
        for number, name in enumerate(more, 1):
            await cluster.publish(*node_with(name, shareable(f"gpu-{number}")))
        faulty.side.spawner_config.retry_failed_pod_after_seconds = 2
        yield faulty


def counted() -> dict[str, float]:
    """The metric, as the hub shows it."""
    name = "dra_spawner_pods_recreated_total"
    return {kind.value: REGISTRY.get_sample_value(name, {"reason": kind.value}) or 0.0 for kind in PodFailureKind}


def more_than(before: dict[str, float]) -> dict[str, float]:
    return {kind: number - before[kind] for kind, number in counted().items() if number != before[kind]}


async def hub_sees_node(faulty: Faulty) -> None:
    """Wait until the start has seen on which node its pod is."""

    def node_is_seen() -> bool:
        return bool(parts_of(faulty.user().spawner).page.progress.pod.get("spec", {}).get("nodeName"))

    await eventually(node_is_seen, "the start sees the pod's node")


def named(pod: dict[str, Any]) -> tuple[str, str]:
    """The pod's device and node."""
    node = pod["spec"]["nodeName"]
    return {"node-a": "gpu-0", "node-b": "gpu-1"}[node], node


@pytest.mark.promise("A server whose node fails it is made again on another node.")
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("claim-lost", "Machine {node} lost track of device {device} while this server started."),
        ("not-admitted", "Machine {node} did not accept this server."),
        ("no-cpu-left", "Machine {node} did not accept this server."),
        ("device-unhealthy", "Device {device} on machine {node} does not work any more."),
    ],
)
async def test_a_server_is_made_again_on_another_node(embedded_cluster, kind, sentence):
    async with on_nodes(embedded_cluster, NodeTrouble(hanging=1), "node-b") as faulty:
        before = counted()
        starting = asyncio.create_task(faulty.spawn())
        first = await hanging_pod(embedded_cluster)
        await fail_pod(embedded_cluster, first, kind)
        assert await starting is None
        second = await faulty.pod()
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert second["spec"]["nodeName"] != first["spec"]["nodeName"]
        assert faulty.requests().count("create pods") == 2
        assert more_than(before) == {KIND_OF.get(kind, kind): 1.0}
        device, node = named(first)
        expected = sentence.format(node=node, device=device)
        assert faulty.messages().count(f"{expected} It is started again, on another machine.") == 1
        claims = await faulty.items("resourceclaims")
        owners = {owner["uid"] for claim in claims for owner in claim["metadata"]["ownerReferences"]}
        assert second["metadata"]["uid"] in owners
        await faulty.stop_last()


async def test_devices_that_are_not_prepared(cluster):
    """The driver refuses one pod's devices for longer than the limit."""
    async with on_nodes(cluster, NodeTrouble(undevised=1), "node-b") as faulty:
        before = counted()
        starting = asyncio.create_task(faulty.spawn())
        first = await cluster.wait_for(
            cluster.path("pods", "jupyter-ada"), lambda pod: bool(pod["spec"].get("nodeName"))
        )
        assert await starting is None
        assert (await faulty.pod())["spec"]["nodeName"] != first["spec"]["nodeName"]
        assert more_than(before) == {"preparation-failed": 1.0}
        device, node = named(first)
        sentence = f"Machine {node} could not make device {device} ready for this server. It is started again, on another machine."
        assert sentence in faulty.messages()
        await faulty.stop_last()


async def test_a_node_that_still_takes_the_devices_back(embedded_cluster):
    """As kubelets do from 1.37 on: pods are created until one gets the devices, which no failure of a device is."""
    trouble = NodeTrouble(undevised=2, why="ResourceClaim gpu is being unprepared")
    async with on_nodes(embedded_cluster, trouble) as faulty:
        before = counted()
        assert await faulty.spawn() is None
        assert more_than(before) == {"claim-still-held": 2.0}
        sentence = "Machine node-a is still taking device gpu-0 back from an earlier server. It is started again."
        assert faulty.messages().count(sentence) == 2
        await faulty.stop_last()


@pytest.mark.promise("A server whose device is withdrawn while it starts is made again.")
async def test_a_device_that_is_withdrawn(embedded_cluster):
    async with on_nodes(embedded_cluster, NodeTrouble(hanging=1), "node-b") as faulty:
        before = counted()
        starting = asyncio.create_task(faulty.spawn())
        first = await hanging_pod(embedded_cluster)
        await hub_sees_node(faulty)
        await withdraw_device(embedded_cluster, first)
        assert await starting is None
        assert (await faulty.pod())["spec"]["nodeName"] != first["spec"]["nodeName"]
        assert more_than(before) == {"device-withdrawn": 1.0}
        await faulty.stop_last()


async def test_a_device_is_withdrawn_and_the_hub_watches_no_events(embedded_cluster):
    """As where its watch of events is behind the watch of pods: the API server is asked for the pod's events."""
    async with on_nodes(embedded_cluster, NodeTrouble(hanging=1), "node-b") as faulty:
        faulty.side.spawner_config.events_enabled = False
        before = counted()
        starting = asyncio.create_task(faulty.spawn())
        first = await hanging_pod(embedded_cluster)
        await hub_sees_node(faulty)
        await withdraw_device(embedded_cluster, first, is_marked=False)
        assert await starting is None
        assert more_than(before) == {"device-withdrawn": 1.0}
        await faulty.stop_last()


async def test_the_only_node_gets_the_server_again(embedded_cluster):
    async with on_nodes(embedded_cluster, NodeTrouble(hanging=1)) as faulty:
        starting = asyncio.create_task(faulty.spawn())
        first = await hanging_pod(embedded_cluster)
        await fail_pod(embedded_cluster, first, "claim-lost")
        assert await starting is None
        assert (await faulty.pod())["metadata"]["uid"] != first["metadata"]["uid"]
        assert any(
            each.endswith("It is started again, with another device if there is one.") for each in faulty.messages()
        )
        await faulty.stop_last()


@pytest.mark.promise("A server that fails twice is not made again, and the user reads why.")
async def test_the_second_failure_ends_the_start(cluster):
    async with on_nodes(cluster, NodeTrouble(hanging=2), "node-b") as faulty:
        before = counted()
        starting = asyncio.create_task(faulty.spawn())
        first = await hanging_pod(cluster)
        await fail_pod(cluster, first, "claim-lost")
        second = await hanging_pod(cluster, other_than=first["metadata"]["uid"])
        await fail_pod(cluster, second, "device-unhealthy")
        error = await starting
        (device, node), (other_device, other_node) = named(first), named(second)
        assert str(error) == (
            f"This server was tried twice and did not start. First: Machine {node} lost track of device {device} while this "
            f"server started. Then: Device {other_device} on machine {other_node} does not work any more. Please try again "
            "later, or tell your administrator."
        )
        assert isinstance(error, SpawnRefused)
        assert error.reason == ("error" if jupyterhub.version_info < (6,) else "device-failed")
        assert more_than(before) == {"claim-lost": 1.0}
        assert faulty.requests().count("create pods") == 2
        await faulty.nothing_is_left()


async def test_slow_preparation_is_left_alone(embedded_cluster):
    """Longer than the limit, but nothing fails."""
    async with on_nodes(embedded_cluster, NodeTrouble(seconds=2.0), "node-b") as faulty:
        faulty.side.spawner_config.retry_failed_pod_after_seconds = 1
        assert await faulty.spawn() is None
        assert faulty.requests().count("create pods") == 1
        await faulty.stop()


async def test_preparation_that_fails_for_a_moment_is_left_alone(embedded_cluster):
    async with on_nodes(embedded_cluster, NodeTrouble(undevised=1, tries=4), "node-b") as faulty:
        faulty.side.spawner_config.retry_failed_pod_after_seconds = 10
        assert await faulty.spawn() is None
        assert await embedded_cluster.wait_event("jupyter-ada", "FailedPrepareDynamicResources")
        assert faulty.requests().count("create pods") == 1
        await faulty.stop()


async def test_no_time_left(embedded_cluster, monkeypatch):
    # Longer than a start may take.
    monkeypatch.setattr(second_pod, "LEAST_SECONDS", 1000.0)
    async with on_nodes(embedded_cluster, NodeTrouble(hanging=1), "node-b") as faulty:
        starting = asyncio.create_task(faulty.spawn())
        await fail_pod(embedded_cluster, await hanging_pod(embedded_cluster), "claim-lost")
        error = str(await starting)
        assert "lost track of device" in error
        assert error.endswith("No time was left for a second try. Please try again.")
        assert faulty.requests().count("create pods") == 1
        await faulty.nothing_is_left()


async def test_switched_off(embedded_cluster):
    async with on_nodes(embedded_cluster, NodeTrouble(hanging=1), "node-b") as faulty:
        faulty.side.spawner_config.retry_failed_pod_after_seconds = 0
        starting = asyncio.create_task(faulty.spawn())
        await fail_pod(embedded_cluster, await hanging_pod(embedded_cluster), "not-admitted")
        assert "The server's pod has failed: UnexpectedAdmissionError" in str(await starting)
        await faulty.nothing_is_left()


async def test_servers_without_devices_are_not_made_again(embedded_cluster):
    async with on_nodes(embedded_cluster, NodeTrouble(hanging=1), "node-b") as faulty:
        faulty.side.spawner_config.device_claims = {}
        starting = asyncio.create_task(faulty.spawn())
        await fail_pod(embedded_cluster, await hanging_pod(embedded_cluster), "not-admitted")
        advance_clock(60)
        assert await hurried(starting) is not None
        assert faulty.requests().count("create pods") == 1
        await faulty.nothing_is_left()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_user_stops_the_server_meanwhile(embedded_cluster, when):
    """Before the second pod is there, and after."""
    async with on_nodes(embedded_cluster, NodeTrouble(hanging=2), "node-b") as faulty:
        starting = asyncio.create_task(faulty.spawn())
        first = await hanging_pod(embedded_cluster)
        await fail_pod(embedded_cluster, first, "claim-lost")
        if when == "before":
            await embedded_cluster.wait_gone(embedded_cluster.path("pods", "jupyter-ada"))
        else:
            await hanging_pod(embedded_cluster, other_than=first["metadata"]["uid"])
        cancel_start(faulty.user().spawner)
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        await faulty.stop_last()
        assert faulty.requests().count("create pods") <= 2


async def test_the_first_pod_cannot_be_removed_at_once(embedded_cluster):
    async with on_nodes(embedded_cluster, NodeTrouble(hanging=1), "node-b") as faulty:
        faulty.proxy.fail(Fault.answer(500), verb="delete", resource="pods", times=3)
        starting = asyncio.create_task(faulty.spawn())
        first = await hanging_pod(embedded_cluster)
        await fail_pod(embedded_cluster, first, "claim-lost")
        assert await starting is None
        assert (await faulty.pod())["metadata"]["uid"] != first["metadata"]["uid"]
        await faulty.stop_last()


async def test_the_controller_withdraws_a_device(real_cluster):
    """By a NoExecute taint, as drivers put it on devices that fail."""
    async with on_nodes(real_cluster, NodeTrouble(hanging=1), "node-b") as faulty:
        before = counted()
        starting = asyncio.create_task(faulty.spawn())
        first = await hanging_pod(real_cluster)
        device, node = named(first)
        await hub_sees_node(faulty)
        taint = {"key": "example.com/broken", "effect": "NoExecute"}
        path = resource_path(names.RESOURCE_API, "resourceslices", None, f"{node}-{DRIVER}")
        await real_cluster.admin.patch(path, {"spec": {"devices": [{**shareable(device), "taints": [taint]}]}})
        assert await starting is None
        assert (await faulty.pod())["spec"]["nodeName"] != node
        assert more_than(before) == {"device-withdrawn": 1.0}
        assert any(
            f"on machine {node} was withdrawn while this server started." in each for each in faulty.messages()
        ), faulty.messages()
        await faulty.stop_last()


async def test_a_warm_claim_that_fails_is_deleted(cluster):
    """The second pod has a claim of its own; the warm claim is deleted, and a new placeholder is made."""
    async with warm_placeholders(cluster) as warm_hub:
        warm_hub.side.spawner_config.init_containers = [{"name": "slow", "image": IMAGE}]
        await cluster.publish(*node("node-a", whole("gpu-0"), whole("gpu-1"), whole("gpu-2")))
        async with warm_hub.with_placeholders(1) as world:
            (placeholder,) = world.warm(warm_hub.shape)
            (warm_claim,) = placeholder.claims
            starting = asyncio.create_task(warm_hub.spawn())
            first = await hanging_pod(cluster)
            assert first["spec"]["resourceClaims"][0]["resourceClaimName"] == warm_claim.name
            await fail_pod(cluster, first, "claim-lost")
            await hanging_pod(cluster, other_than=first["metadata"]["uid"])
            assert "resourceClaimTemplateName" in (await warm_hub.pod())["spec"]["resourceClaims"][0]
            await cluster.wait_gone(cluster.path("resourceclaims", warm_claim.name))
            present(cluster.fake_runtime).exit(cluster.namespace, "jupyter-ada", "slow", 0)
            assert await starting is None
            await world.until(lambda: len(world.warm(warm_hub.shape)) == 1)
            assert any("lost track of device" in each for each in warm_hub.said())
            await warm_hub.stop_last()
