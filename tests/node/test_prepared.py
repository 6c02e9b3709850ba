"""Devices of a warm placeholder are prepared by the real driver; a broken one is replaced and never reserved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from dra_spawner.history.decision_log import Decision
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.amounts.creations import Loss
from dra_spawner.placeholders.planner.targets.policy import Policy
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import shape
from tests.placeholders.controller.world import PlaceholderWorld

from .devices import GPU_DRIVER, SHARED_NODE
from .images import QUICK_SERVER
from .real_node import RealNode
from .reserved_placeholders import SHARE, placeholders

WANTED = shape(SHARE, cpu="100m", image=QUICK_SERVER)
START_SECONDS = 3
GRACE = replace(Policy().grace, start=timedelta(seconds=START_SECONDS))
RENEWAL = replace(Policy().renewal, first_delay=timedelta(seconds=1))


def shared_gpu(node: RealNode, index: int) -> str:
    """The device's name in the driver's client."""
    return f"{node.pool(SHARED_NODE)}/gpu-{index}"


def decisions(world: PlaceholderWorld, kind: str, code: str = "") -> Sequence[Decision]:
    """Decisions, the oldest first."""
    found = world.decisions.newest(matches=lambda each: (each.kind, each.code) == (kind, code))
    return [each.decision for each in reversed(found)]


def broken(world: PlaceholderWorld) -> Sequence[Decision]:
    return decisions(world, "delete-placeholder", "broken")


def allocated(world: PlaceholderWorld) -> set[str]:
    """Devices of all claims."""
    claims = world.watch.snapshot.claims.values()
    return {str(each.id) for claim in claims for each in claim.claim.status.devices or ()}


async def loss_after(world: PlaceholderWorld, number: int) -> Loss:
    """When the placeholder is replaced that has failed as the first, the second and so on."""
    await world.until(lambda: len(broken(world)) == number, what=f"{number} have failed")
    return world.reconciler.planner_state.creations.lost.of_shape[WANTED.id]


async def placement_kind(world: PlaceholderWorld) -> AvailabilityState:
    reservation = await world.reservations.place(WANTED, world.cluster.namespace, "ada")
    return reservation.placement.state


async def reserve_and_start(world: PlaceholderWorld) -> None:
    """Reserve a warm placeholder for a server, and wait until the server runs."""
    await world.until(lambda: bool(world.warm(WANTED)))
    reservation = await world.placed_user("ada", WANTED, SHARE, cpu="100m", image=QUICK_SERVER)
    assert reservation.placement.state is AvailabilityState.READY
    await world.cluster.wait_running("ada")


@pytest.mark.parametrize("fails", ["one", "all"])
async def test_a_placeholder_that_cannot_be_prepared(node: RealNode, node_cluster: ClusterUnderTest, fails: str):
    message = "the device does not answer"
    first = shared_gpu(node, 0)
    node.gpus.fail(prepare=message if fails == "all" else {first: message})
    async with placeholders(node_cluster, WANTED, grace=GRACE, renewal=RENEWAL) as world:
        await world.until(lambda: bool(allocated(world)))
        assert allocated(world) == {f"{GPU_DRIVER}/{first}"}
        await asyncio.to_thread(node.gpus.wait_call, "prepare", ended=True)
        assert await placement_kind(world) is AvailabilityState.FREE
        losses = [await loss_after(world, number) for number in (1, 2)]
        assert await placement_kind(world) is AvailabilityState.FREE
        for end in broken(world):
            assert f"on node {node.name} " in end.reason
            assert f"({GPU_DRIVER}/{first})" in end.reason
            assert end.node == node.name
        node.gpus.fail(prepare="")
        # A busy machine does not start a container in so short a time.
        world.policy = replace(world.policy, grace=Policy().grace)
        await reserve_and_start(world)
        assert [each.delay for each in losses] == [RENEWAL.first_delay, 2 * RENEWAL.first_delay]
        made = decisions(world, "create-placeholder")[1:]
        assert all(new.at >= each.until for new, each in zip(made, losses, strict=False))
        assert all(after.at > before.at for before, after in pairwise(made))


async def test_a_device_that_is_not_healthy(node: RealNode, node_cluster: ClusterUnderTest):
    async with placeholders(node_cluster, WANTED, renewal=RENEWAL) as world:
        await world.until(lambda: bool(world.warm(WANTED)))
        (warm,) = world.warm(WANTED)
        (device,) = allocated(world)
        node.gpus.unhealthy({device.removeprefix(f"{GPU_DRIVER}/"): "double bit error"})
        await world.until(lambda: bool(broken(world)))
        assert await placement_kind(world) is not AvailabilityState.READY
        end = broken(world)[0]
        assert str(warm.key) in end.subject
        assert f"on node {node.name} is not healthy ({device})" in end.reason
        node.gpus.unhealthy({})
        await reserve_and_start(world)
