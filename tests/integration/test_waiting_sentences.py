"""Messages that users read while a server is pending for a device, and after the start gave up."""

from __future__ import annotations

import asyncio

import jupyterhub
import pytest

from dra_spawner.simulator.refusal_text import CLOSED
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from tests.integration.devices import node_with, whole
from tests.integration.faulty_hub import Faulty

IN_USE = "All devices of this kind are in use."


@pytest.fixture
async def waiting(faulty: Faulty) -> Faulty:
    """Servers ask for a whole GPU; there is one."""
    await faulty.cluster.publish(*node_with("node-w", whole("gpu-w")))
    faulty.side.spawner_config.device_claims = {"gpu": {"device_class": "gpu.example.com"}}
    return faulty


@pytest.mark.promise("A user whose server waits reads the reason in plain words.")
async def test_a_device_of_a_cordoned_node(waiting: Faulty):
    await waiting.cluster.admin.patch("/api/v1/nodes/node-w", {"spec": {"unschedulable": True}})
    sentence = CLOSED.now
    error = await waiting.give_up(text=sentence)
    assert isinstance(error, SpawnRefused)
    if jupyterhub.version_info >= (6,):  # older ones replace it
        assert error.reason == RefusalReason.NO_DEVICE
    assert sentence in error.jupyterhub_message
    await waiting.nothing_is_left()


async def test_a_failure_does_not_say_that_the_server_still_waits(waiting: Faulty):
    assert await waiting.spawn() is None
    spawner = waiting.user("eve").spawner
    error = await waiting.give_up("eve", IN_USE)
    assert isinstance(error, SpawnRefused)
    assert error.jupyterhub_message == f"Gave up after 90 seconds. {IN_USE} The server does not wait any more."
    assert f"{IN_USE} The server starts as soon as one is free." in [event["message"] for event in spawner.events]


@pytest.mark.parametrize("devices", [True, False])
async def test_a_server_in_a_queue_starts_when_it_is_let(waiting: Faulty, devices: bool):
    """As Kueue holds pods back and lets them go."""
    if not devices:
        waiting.side.spawner_config.device_claims = {}
    spawner = waiting.user().spawner
    spawner.extra_pod_config = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    sentence = "This cluster starts servers in turn, through a queue."
    start = asyncio.create_task(waiting.spawn())
    path = waiting.cluster.path("pods", spawner.pod_name)
    await waiting.cluster.wait_for(path, lambda pod: sentence in [each["message"] for each in spawner.events])
    assert parts_of(spawner).page.progress.held_back == sentence
    await waiting.cluster.admin.patch(path, {"spec": {"schedulingGates": None}})
    assert await start is None


async def test_a_share_that_rounds_above_every_device(waiting: Faulty):
    share = {"device_class": "gpu-share.example.com", "capacity": {"memory": "42Gi"}}
    waiting.side.spawner_config.device_claims = {"gpu": share}
    spawner = waiting.user().spawner
    error = await waiting.give_up(text="45 GiB of memory")
    assert isinstance(error, SpawnRefused)
    assert "Gave up after 90 seconds." in error.jupyterhub_message
    said = [event["message"] for event in spawner.events]
    for message in (error.jupyterhub_message, next(each for each in said if "45 GiB" in each)):
        assert "no device gives a share of 45 GiB of memory." in message
        assert ("only when another machine is added" in message) == (message is not error.jupyterhub_message)
    await waiting.nothing_is_left()
