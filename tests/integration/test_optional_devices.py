"""Servers that start without a device where none is free, and with a device where one is free."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dra_spawner.spawner.hub_parts.hub_wide import forget_hub
from tests.cluster.fault_proxy import Fault
from tests.integration.devices import node_with, whole
from tests.integration.faulty_hub import Faulty, advance_clock, hurried

GPU = {"device_class": "gpu.example.com"}
OPTIONAL = {"first_available": {"whole": GPU, "none": {}}}


@pytest.fixture
def starts(embedded_faulty):
    return with_optional_device(embedded_faulty)


@pytest.fixture
def starts_on_either(faulty):
    return with_optional_device(faulty)


def with_optional_device(faulty: Faulty) -> Faulty:
    faulty.side.spawner_config.device_claims = {"gpu": OPTIONAL}
    faulty.side.spawner_config.optional_devices_wait_seconds = 1
    return faulty


async def claims_of(faulty: Faulty, user: str = "ada") -> list[dict[str, Any]]:
    return (await faulty.pod(user))["spec"].get("resourceClaims", [])


async def test_a_server_starts_with_the_device_where_there_is_one(starts):
    # The scheduler may see the server before the device.
    starts.side.spawner_config.optional_devices_wait_seconds = 60
    await starts.cluster.publish(*node_with("node-b", whole("gpu-1")))
    assert await starts.spawn() is None
    assert len(await claims_of(starts)) == 1
    assert not any("without" in message for message in starts.messages())
    await starts.stop_last()


async def test_a_server_starts_without_the_device_where_there_is_none(starts):
    assert await starts.spawn() is None
    assert await claims_of(starts) == []
    assert "create resourceclaimtemplates" not in starts.requests()
    assert any("This server starts without an optional device. No machine has" in m for m in starts.messages())
    await starts.stop_last()


@pytest.mark.promise("An optional device never prevents a server.")
async def test_a_server_starts_without_the_device_while_all_are_in_use_and_with_it_later(starts_on_either):
    starts = starts_on_either
    await starts.cluster.publish(*node_with("node-b", whole("gpu-1")))
    starts.side.spawner_config.device_claims = {"gpu": {**GPU, "optional": True}}
    for user in ("ada", "bob"):
        assert await starts.spawn(user) is None
    assert [len(await claims_of(starts, user)) for user in ("ada", "bob")] == [1, 0]
    assert any("All devices of this kind are in use" in message for message in starts.messages("bob"))
    for user in ("ada", "bob"):
        await starts.stop(user)
    await starts.nothing_is_left()
    starts.side.spawner_config.optional_devices_wait_seconds = 60
    assert await starts.spawn("eve") is None
    assert len(await claims_of(starts, "eve")) == 1
    await starts.stop("eve")
    await starts.nothing_is_left()


async def test_a_class_that_is_not_there(starts):
    starts.side.spawner_config.device_claims = {"gpu": {"device_class": "missing.example.com", "optional": True}}
    assert await starts.spawn() is None
    assert await claims_of(starts) == []
    await starts.stop()


async def test_a_request_that_is_not_optional_stays(starts):
    starts.side.spawner_config.device_claims = {
        "both": {
            "requests": {
                "share": {"device_class": "gpu-share.example.com", "capacity": {"memory": "5Gi"}},
                "gpu": OPTIONAL,
            },
            "containers": {"notebook": ["share", "gpu"]},
        }
    }
    assert await starts.spawn() is None
    (claim,) = await starts.items("resourceclaims")
    assert [result["request"] for result in claim["status"]["allocation"]["devices"]["results"]] == ["share"]
    await starts.stop_last()


async def test_the_device_is_taken_in_between(starts_on_either):
    """The look at the devices fails, so the pod asks for one. No device is free: the pod is made again without it."""
    starts = starts_on_either
    starts.proxy.fail(Fault.answer(500), verb="list", resource="resourceslices")
    assert await starts.spawn() is None
    assert await claims_of(starts) == []
    assert starts.requests().count("create pods") == 2
    assert any(
        "No device is free any more for this choice; this server starts without it." in m for m in starts.messages()
    )
    await starts.stop_last()


async def test_nothing_can_be_found_out(starts):
    """The hub cannot list the objects: the scheduler decides."""
    for resource in ("deviceclasses", "resourceslices", "resourceclaims", "nodes"):
        forget_hub()  # and what it has read
        starts.proxy.fail(Fault.answer(403, "Forbidden"), verb="list", resource=resource, times=None)
        assert await starts.spawn() is None, resource
        assert await claims_of(starts) == [], resource
        await starts.stop_last()
        starts.proxy.heal()


async def test_the_first_pod_cannot_be_removed_at_once(starts):
    starts.proxy.fail(Fault.answer(500), verb="list", resource="resourceslices")
    starts.proxy.fail(Fault.answer(500), verb="delete", resource="pods", times=3)
    assert await starts.spawn() is None
    assert await claims_of(starts) == []
    await starts.stop_last()


async def test_a_start_that_fits_neither_with_nor_without_the_device_gives_up(starts):
    starts.side.spawner_config.cpu_guarantee = 4000
    await starts.cluster.publish(*node_with("node-b", whole("gpu-1")))
    starts.proxy.fail(Fault.answer(403, "Forbidden"), verb="list", resource="nodes", times=None)
    assert "Gave up after 90 seconds." in str(await starts.give_up())
    await starts.nothing_is_left()


async def test_a_server_keeps_its_device_where_something_else_is_missing(starts):
    starts.side.spawner_config.node_selector = {"example.com/none": "there"}
    await starts.cluster.publish(*node_with("node-b", whole("gpu-1")))
    starting = asyncio.create_task(starts.spawn())
    await starts.cluster.wait_event("jupyter-ada", "FailedScheduling")
    advance_clock(60)
    assert "Gave up after 90 seconds." in str(await hurried(starting))
    assert starts.requests().count("create pods") == 1
    assert starts.proxy.count("list", "nodes") <= 5, "the hub does not ask all the time"
    await starts.nothing_is_left()
