"""Messages that users read while a server is pending for a device, and after the start gave up."""

from __future__ import annotations

import asyncio

import jupyterhub

from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable, whole
from tests.integration.faulty_hub import Faulty
from tests.integration.hub_process import HubProcess

#: The sentence must be there by then, on a busy machine, too.
LIMIT_SECONDS = 30


def asks_for_whole_gpu(faulty: Faulty, seconds: int = LIMIT_SECONDS) -> None:
    faulty.side.spawner_config.start_timeout = seconds
    faulty.side.spawner_config.device_claims = {"gpu": {"device_class": "gpu.example.com"}}
    faulty.user = faulty.side.user("bob")


async def test_a_device_of_a_cordoned_node(faulty: Faulty):
    await faulty.cluster.publish(*node_with("node-w", whole("gpu-w")))
    await faulty.cluster.admin.patch("/api/v1/nodes/node-w", {"spec": {"unschedulable": True}})
    asks_for_whole_gpu(faulty)
    error = await faulty.spawn()
    assert isinstance(error, SpawnRefused)
    if jupyterhub.version_info >= (6,):  # older ones replace it
        assert error.reason == RefusalReason.NO_DEVICE
    assert "its node is cordoned: an administrator has closed it for new servers." in error.jupyterhub_message
    await faulty.nothing_is_left()


async def test_a_failure_does_not_say_that_the_server_still_waits(faulty: Faulty):
    await faulty.cluster.publish(*node_with("node-w", whole("gpu-w")))
    asks_for_whole_gpu(faulty, 60)
    assert await faulty.spawn() is None
    asks_for_whole_gpu(faulty)
    faulty.user = faulty.side.user("eve")
    spawner = faulty.user.spawner
    error = await faulty.spawn()
    assert isinstance(error, SpawnRefused)
    assert error.jupyterhub_message == (
        f"Gave up after {LIMIT_SECONDS} seconds. All devices of this kind are in use. The server does not wait any more."
    )
    said = [event["message"] for event in spawner.events]
    assert "All devices of this kind are in use. The server starts as soon as one is free." in said


async def test_shortage_does_not_end_the_hub(embedded_cluster: ClusterUnderTest):
    """Hubs end after ``consecutive_failure_limit`` failed starts; z2jh sets five."""
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    more = """
c.Spawner.consecutive_failure_limit = 1
# The clean-up has three seconds of it, before JupyterHub itself gives up.
c.DRASpawner.start_timeout = 30
c.DRASpawner.apply_user_options = {"image_input": "image"}
"""
    async with HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, more) as hub:
        users = [f"user-{number}" for number in range(2)]
        answers = await asyncio.gather(*(hub.spawn(user, {"profile": "gpu-whole"}) for user in users))
        assert {status for status, _ in answers} == {202}
        for events in await asyncio.gather(*(hub.progress(user) for user in users)):
            assert events[-1]["failed"]
            assert "Gave up after 30 seconds. No node has a device" in events[-1]["message"]
        log = hub.log.read_text()
        assert "Aborting due to" not in log
        # Options of profiles cause no warning about unhandled options.
        assert "nhandled user" not in log
