"""Servers take over places that are kept, on both clusters: beside the placeholder, in its stead, or not at all."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.devcluster.kubelet.container_runtime import ContainerLaunch, FakeContainer
from dra_spawner.placeholders.planner.policy import Renewal, ReplicaRange
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.simulator.claims import ObjectKey
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape, user_pod
from tests.placeholders.controller.world import PlaceholderWorld, at_work, device_of, node_of
from tests.polling import eventually
from tests.presence import present

#: A node has 8 CPUs: a server has room beside a placeholder, or has none.
BESIDE, FULL = 3, 5


def consumers(world: PlaceholderWorld, claim: str) -> list[tuple[str, str]]:
    found = world.watch.snapshot.claims.get(ObjectKey(world.cluster.namespace, claim))
    return [(each.resource, each.name) for each in found.consumers] if found is not None else []


def is_there(world: PlaceholderWorld, claim: str) -> bool:
    return ObjectKey(world.cluster.namespace, claim) in world.watch.snapshot.claims


async def reserved(world: PlaceholderWorld, cpu: int) -> tuple[ObjectKey, str]:
    """The placeholder, and its claim."""
    gpu = shape(WHOLE, cpu=str(cpu))
    await world.until(lambda: len(world.warm(gpu)) == 1)
    (kept,) = world.warm(gpu)
    reservation = await world.reservations.place(gpu, world.cluster.namespace, "ada")
    return kept.key, reservation.claims["gpu"]


def kept(cpu: int) -> tuple[Shape, ReplicaRange]:
    return shape(WHOLE, cpu=str(cpu)), ReplicaRange(1, 1)


@pytest.mark.parametrize("cpu", [BESIDE, FULL], ids=["beside", "full"])
async def test_the_server_has_the_very_device(prepared: ClusterUnderTest, cpu: int) -> None:
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, kept(cpu)) as world:
        placeholder, claim = await reserved(world, cpu)
        device = device_of(world, claim)
        allocated = watch_allocations(world, claim)
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu=str(cpu))
        await world.until(lambda: placeholder not in world.watch.snapshot.pods, what="the placeholder goes")
        await world.until(lambda: consumers(world, claim) == [("pods", "ada")])
        await world.until(lambda: node_of(world, "ada") == "node-a")
        assert device_of(world, claim) == device
        assert allocated == {True}, "never anybody's in between"
        path = prepared.path("resourceclaims", claim)
        owners = (await prepared.admin.get(path))["metadata"]["ownerReferences"]
        assert [each["name"] for each in owners] == ["ada"]
        await prepared.admin.delete(prepared.path("pods", "ada"), grace_period_seconds=0)
        # Nobody collects garbage on the control plane that tests have.
        await prepared.admin.delete(path, missing_ok=True)
        await world.until(lambda: not is_there(world, claim), what="the claim goes with its pod")
        gpu, _ = kept(cpu)
        await world.until(lambda: len(world.warm(gpu)) == 1, what="a new one is kept")


def watch_allocations(world: PlaceholderWorld, claim: str) -> set[bool]:
    """Whether the claim was ever seen with devices, and without."""
    key, seen = ObjectKey(world.cluster.namespace, claim), set[bool]()

    def note(_: object) -> None:
        tracked = world.watch.snapshot.claims.get(key)
        if tracked is not None:
            seen.add(tracked.claim.is_allocated)

    note(None)
    world.watch.on_change(note)
    return seen


async def test_the_placeholder_stays_while_the_server_does_not_run(
    prepared: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its images are pulled, its volumes are attached, or its devices prepared: that may take minutes."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, kept(BESIDE)) as world:
        placeholder, claim = await reserved(world, BESIDE)
        runtime, may_run = present(prepared.fake_runtime), threading.Event()
        start = runtime.start

        async def start_later(launch: ContainerLaunch) -> FakeContainer:
            await eventually(may_run.is_set, "the container may run")
            return await start(launch)

        monkeypatch.setattr(runtime, "start", start_later)
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu=str(BESIDE))
        await world.until(lambda: node_of(world, "ada") == "node-a")
        path = prepared.path("resourceclaims", claim)
        await world.until(lambda: bool(world.watch.snapshot.claims[ObjectKey(prepared.namespace, claim)].owner_uids))
        assert len(consumers(world, claim)) == 2
        assert not world.watch.snapshot.pods[placeholder].is_deleted
        owners = (await prepared.admin.get(path))["metadata"]["ownerReferences"]
        assert [each["name"] for each in owners] == ["ada"]
        may_run.set()
        await world.until(lambda: placeholder not in world.watch.snapshot.pods, what="the placeholder goes")


async def test_nothing_is_left_when_nobody_comes(prepared: ClusterUnderTest) -> None:
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, kept(FULL)) as world:
        world.reservations.lasting = timedelta(seconds=2)
        world.policy = replace(world.policy, grace=replace(world.policy.grace, orphan=timedelta(seconds=1)))
        placeholder, claim = await reserved(world, FULL)
        await until_kept_anew(world, placeholder, claim)


async def test_a_start_that_fails_takes_its_claim_along(prepared: ClusterUnderTest) -> None:
    """The hub deletes the claim, and has no right to change who is among its consumers."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, kept(FULL)) as world:
        placeholder, claim = await reserved(world, FULL)
        await prepared.admin.delete(prepared.path("resourceclaims", claim))
        await until_kept_anew(world, placeholder, claim)


async def until_kept_anew(world: PlaceholderWorld, placeholder: ObjectKey, claim: str) -> None:
    await world.until(lambda: placeholder not in world.watch.snapshot.pods, what="the placeholder goes")
    await world.until(lambda: not is_there(world, claim), what="the claim goes")
    gpu = shape(WHOLE, cpu=str(FULL))
    await world.until(lambda: len(world.warm(gpu)) == 1, what="its device is kept anew")


async def test_a_server_whose_room_was_taken_starts_elsewhere(prepared: ClusterUnderTest) -> None:
    """By somebody whom nobody expected, and of its own rank; the scheduler gives it another device."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, kept(FULL)) as world:
        _, claim = await reserved(world, FULL)
        before = device_of(world, claim)
        # Nothing may be preempted for it, and less than one CPU is left when the placeholder has gone.
        await prepared.publish(user_pod("eve", {}, cpu="2900m", ready=False))
        await world.until(lambda: node_of(world, "eve") == "node-a")
        await prepared.publish(user_pod("eva", {}, cpu="4500m", ready=False))
        await world.until(lambda: node_of(world, "eva") == "node-a")
        await prepared.publish(*node("node-b", whole("gpu-1")))
        await world.until(lambda: names.IMAGES_READY in world.watch.snapshot.nodes["node-b"].node.labels)
        # What would be kept there is in nobody's way here.
        world.policy = replace(world.policy, replicas={shape(WHOLE, cpu=str(FULL)).id: ReplicaRange(0, 0)})
        await world.until(lambda: not world.reconciler.view().placeholders)
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu=str(FULL))
        await world.until(lambda: node_of(world, "ada") == "node-b")
        await world.until(lambda: device_of(world, claim) not in (None, before))


@pytest.mark.parametrize("cpu", [BESIDE, FULL], ids=["beside", "full"])
async def test_nothing_needs_a_service_that_ends(prepared: ClusterUnderTest, cpu: int) -> None:
    """The server gets the device; nothing but pods holds the claim, so nothing hangs when it is deleted."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, kept(cpu)) as world:
        _, claim = await reserved(world, cpu)
    left = await prepared.admin.get(prepared.path("resourceclaims", claim))
    assert [each["resource"] for each in left["status"]["reservedFor"]] == ["pods"]
    # Where there is no room for both, the scheduler preempts the placeholder.
    await prepared.publish(user_pod("ada", {"gpu": {"resourceClaimName": claim}}, cpu=str(cpu)))
    await prepared.wait_running("ada")


async def test_what_goes_for_a_server_is_replaced_whatever_else_has_gone(prepared: ClusterUnderTest) -> None:
    """It costs nothing of what may be made in a storm, as nothing that goes for users does."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, kept(BESIDE)) as world:
        placeholder, claim = await reserved(world, BESIDE)
        world.policy = replace(world.policy, renewal=Renewal(per_second=1e-6, whole_in=timedelta(days=1)))
        memory = world.reconciler.planner_state
        world.reconciler.planner_state = replace(memory, creations=replace(memory.creations, spent=50.0))
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu=str(BESIDE))
        await world.until(lambda: placeholder not in world.watch.snapshot.pods, what="the placeholder goes")
        await prepared.publish(*node("node-b", whole("gpu-1")))
        gpu, _ = kept(BESIDE)
        await world.until(lambda: len(world.warm(gpu)) == 1)
        assert world.reconciler.planner_state.creations.spent <= 50.1
