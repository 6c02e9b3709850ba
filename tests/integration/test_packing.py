"""Servers whose claims prefer devices: the scheduler follows, and no start fails that would work without."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.cluster.fault_proxy import Fault
from tests.integration.devices import shareable
from tests.integration.warm_placeholders import SHARE, WarmPlaceholders, node, warm_placeholders
from tests.polling import eventually
from tests.presence import present

TEMPLATES = "resourceclaimtemplates"


def identified(name: str) -> dict[str, Any]:
    """A shared GPU with an identifier that is hostile text."""
    device = shareable(name)
    return {**device, "attributes": {**device["attributes"], "uuid": {"string": f'GPU-"{name}\\" || true || "'}}}


@pytest.fixture
async def hub(cluster):
    """A node with three GPUs of four shares each."""
    async with warm_placeholders(cluster) as found:
        found.side.spawner_config.device_claims = SHARE
        await cluster.publish(*node("node-a", *(identified(f"gpu-{number}") for number in range(3))))
        async with found.with_placeholders(0):
            yield found


async def device_of(hub: WarmPlaceholders, user: str) -> tuple[str, str]:
    """The device of a user's server, and the request that got it."""
    (found,) = (await hub.claim_of(user))["status"]["allocation"]["devices"]["results"]
    return found["device"], found["request"]


async def start(hub: WarmPlaceholders, *users: str) -> None:
    """Start servers at once, and wait until the service sees them."""
    assert await asyncio.gather(*(hub.spawn(user) for user in users)) == [None] * len(users)
    await is_seen(hub)


async def is_seen(hub: WarmPlaceholders) -> None:
    async def is_equal() -> bool:
        snapshot = present(hub.world).watch.snapshot
        seen = {key.name for key, each in snapshot.claims.items() if each.claim.is_allocated}
        return seen == {each["metadata"]["name"] for each in await hub.items("resourceclaims")}

    await eventually(is_equal, "the service sees which devices are in use")


@pytest.mark.promise(
    "Where devices are packed, a server gets the fullest device with capacity, and starts wherever it did."
)
async def test_servers_get_the_fullest_device_with_capacity_and_all_of_them_start(hub):
    # How many of them each device gets is not sure: kube-scheduler may count a claim twice for a moment.
    places: dict[str, list[str]] = {}
    for user in [f"first-{number}" for number in range(6)]:
        await start(hub, user)
        places.setdefault((await device_of(hub, user))[0], []).append(user)
    kept = [*places["gpu-0"][:1], *places["gpu-1"][:2]]
    for user in {each for users in places.values() for each in users}.difference(kept):
        await hub.stop(user)
    assert len(kept) == 3
    await is_seen(hub)
    # The first device has one share in use, the second has two, the third none.
    world = present(hub.world)
    world.policy = replace(world.policy, packs_devices=True)
    await start(hub, "packed")
    assert await device_of(hub, "packed") == ("gpu-1", "gpu/preferred")

    refused = hub.fail_for("refused", Fault.answer(422, "Invalid", "no lists of alternatives"), "create", TEMPLATES)
    await start(hub, "refused")
    assert len(refused) == 2
    assert await device_of(hub, "refused") == ("gpu-0", "gpu")

    # All of them ask before any has a device, and get the same answer.
    rest = [f"rest-{number}" for number in range(7)]
    await start(hub, *rest)
    found = Counter([(await device_of(hub, user))[0] for user in (*kept, "packed", "refused", *rest)])
    assert found == {"gpu-0": 4, "gpu-1": 4, "gpu-2": 4}
    for user in (*kept, "packed", "refused", *rest):
        await hub.stop(user)
    await hub.only_placeholders_are_left()
