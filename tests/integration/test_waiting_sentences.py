"""Messages that users read while a server is pending for a device, and after the start gave up."""

from __future__ import annotations

import asyncio

import jupyterhub
import pytest

from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable, whole
from tests.integration.faulty_hub import Faulty
from tests.integration.hub_process import HubProcess

IN_USE = "All devices of this kind are in use."


@pytest.fixture
async def waiting(faulty: Faulty) -> Faulty:
    """Servers ask for a whole GPU; there is one."""
    await faulty.cluster.publish(*node_with("node-w", whole("gpu-w")))
    faulty.side.spawner_config.device_claims = {"gpu": {"device_class": "gpu.example.com"}}
    return faulty


async def test_a_device_of_a_cordoned_node(waiting: Faulty):
    await waiting.cluster.admin.patch("/api/v1/nodes/node-w", {"spec": {"unschedulable": True}})
    sentence = "its node is cordoned: an administrator has closed it for new servers."
    error = await waiting.give_up(text=sentence)
    assert isinstance(error, SpawnRefused)
    if jupyterhub.version_info >= (6,):  # older ones replace it
        assert error.reason == RefusalReason.NO_DEVICE
    assert sentence in error.jupyterhub_message
    await waiting.nothing_is_left()


async def test_a_failure_does_not_say_that_the_server_still_waits(waiting: Faulty):
    assert await waiting.spawn() is None
    error = await waiting.give_up("eve", IN_USE)
    assert isinstance(error, SpawnRefused)
    assert error.jupyterhub_message == f"Gave up after 90 seconds. {IN_USE} The server does not wait any more."
    assert f"{IN_USE} The server starts as soon as one is free." in waiting.messages("eve")


async def test_shortage_does_not_end_the_hub(embedded_cluster: ClusterUnderTest):
    """Hubs end after ``consecutive_failure_limit`` failed starts; z2jh sets five."""
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    more = """
c.Spawner.consecutive_failure_limit = 1
c.DRASpawner.start_timeout = 8
c.DRASpawner.apply_user_options = {"image_input": "image"}
"""
    async with HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, more) as hub:
        users = [f"user-{number}" for number in range(2)]
        answers = await asyncio.gather(*(hub.spawn(user, {"profile": "gpu-whole"}) for user in users))
        assert {status for status, _ in answers} == {202}
        for events in await asyncio.gather(*(hub.progress(user) for user in users)):
            assert events[-1]["failed"]
            assert "Gave up after 8 seconds." in events[-1]["message"]
        log = hub.log.read_text()
        assert "Aborting due to" not in log
        # Options of profiles cause no warning about unhandled options.
        assert "nhandled user" not in log
