"""Placeholders on both clusters: created, reserved, preempted, and cleaned up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.round.expectations import Expectations
from dra_spawner.placeholders.controller.round.reservations import Reservations
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import device_class, shareable, whole
from tests.placeholders.controller.objects import SHARE, WHOLE, claim_spec, node, shape
from tests.placeholders.controller.world import at_work
from tests.presence import present


async def test_placeholders_are_preempted_for_a_pending_pod(prepared: ClusterUnderTest) -> None:
    """kube-scheduler alone would leave the user's pod pending for ever."""
    share = shape(SHARE)
    await prepared.publish(*node("node-a", shareable("gpu-0")))
    async with at_work(prepared, (share, ReplicaRange(4, 4))) as world:
        await world.until_warm(share, 4)
        await world.user("ada", {"gpu": claim_spec("gpu-share.example.com", "20Gi")})
        await world.until(lambda: world.node_of("ada") == "node-a")
        # A request may be answered after its effect is seen.
        await world.until(lambda: [each.code for each in world.deletions()] == ["preempted"] * 2)


async def test_a_node_without_the_image_is_for_placeholders_only(prepared: ClusterUnderTest) -> None:
    gpu = shape(WHOLE)
    await prepared.publish(*node("node-a", whole("gpu-0"), images=()))
    async with at_work(prepared, (gpu, ReplicaRange(1, 2))) as world:
        await world.until(lambda: any(not each.is_pending for each in world.reconciler.view().placeholders.values()))
        await world.user("ada", WHOLE)
        reason = "fits on node node-a, which is not ready for users yet"

        def is_told() -> bool:
            latest = world.reconciler.latest
            return latest is not None and [each.reason for each in latest.pending] == [reason]

        await world.until(is_told, what="why ada waits is told")
        assert not world.node_of("ada")
        await world.pull("node-a")
        await world.until(lambda: world.node_of("ada") == "node-a")


async def test_nothing_is_left_behind(prepared: ClusterUnderTest) -> None:
    gpu = shape(WHOLE)
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (gpu, ReplicaRange(1, 2))) as world:
        await world.until_warm(gpu)
        world.policy = type(world.policy)()
        world.reconciler.wake()
        await world.until(lambda: not world.reconciler.view().placeholders)
        await world.until(lambda: not list(world.reconciler.view().warm_claims))


async def test_a_new_leader_keeps_existing_placeholders(prepared: ClusterUnderTest) -> None:
    gpu = shape(WHOLE)
    await prepared.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with at_work(prepared, (gpu, ReplicaRange(2, 4))) as world:
        await world.until_warm(gpu, 2)
        # It attracts placeholders once the service sees that it is ready for users.
        await world.until(
            lambda: (
                names.ATTRACT in world.watch.snapshot.nodes["node-a"].node.labels
                and not present(world.reconciler.latest).actions
            )
        )
        before = set(world.reconciler.view().placeholders)
    async with at_work(prepared, (gpu, ReplicaRange(2, 4))) as world:
        await world.until(lambda: world.reconciler.latest is not None)
        assert set(world.reconciler.view().placeholders) == before
        assert world.decisions.count == 0, "nothing is done when all is as it should be"


async def test_each_claim_is_reserved_for_one_server(prepared: ClusterUnderTest) -> None:
    """Many servers ask at once, through two replicas."""
    gpu = shape(WHOLE)
    await prepared.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with at_work(prepared, (gpu, ReplicaRange(2, 2))) as world:
        await world.until_warm(gpu, 2)
        # As if two replicas led: neither knows the other's reservations.
        other = Reservations(replace(world.reconciler, expectations=Expectations()))
        asked = [
            each.place(gpu, prepared.namespace, f"user-{number}")
            for number, each in enumerate([world.reservations, other] * 4)
        ]
        reservations = await asyncio.gather(*asked)
        given = [claim for each in reservations for claim in each.claims.values()]
        assert len(given) == len(set(given)) == 2
        for claim in given:
            assert world.seen_claim(claim)
        await world.until(lambda: all(names.RESERVED_FOR in world.seen_claim(claim).labels for claim in given))


async def test_devices_as_extended_resources(prepared: ClusterUnderTest) -> None:
    """The scheduler owns their claim, so there is no handover: the placeholder is preempted for the server."""
    limits = {"example.com/whole-gpu": "1"}
    gpu = shape({}, limits=limits)
    extended = device_class("whole-gpu.example.com", "!device.allowMultipleAllocations")
    extended["spec"]["extendedResourceName"] = "example.com/whole-gpu"
    await prepared.publish(extended, *node("node-a", whole("gpu-0")))
    async with at_work(prepared, (gpu, ReplicaRange(1, 1))) as world:
        await world.until_warm(gpu)
        reservation = await world.placed_user("ada", gpu, {}, limits=limits)
        assert reservation.placement.state is AvailabilityState.READY
        await world.until(lambda: world.node_of("ada") == "node-a")
