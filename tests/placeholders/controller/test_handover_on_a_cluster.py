"""Handover on both clusters: a server beside its placeholder, in place of it, or on another node."""

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

#: A node has 8 CPUs: a server of 3 CPUs fits beside a placeholder, and one of 5 does not.
BESIDE, FULL = 3, 5


def consumers(world: PlaceholderWorld, claim: str) -> list[tuple[str, str]]:
    found = world.watch.snapshot.claims.get(ObjectKey(world.cluster.namespace, claim))
    return [(each.resource, each.name) for each in found.consumers] if found is not None else []


def is_there(world: PlaceholderWorld, claim: str) -> bool:
    return ObjectKey(world.cluster.namespace, claim) in world.watch.snapshot.claims


async def reserved(world: PlaceholderWorld, cpu: int) -> tuple[ObjectKey, str]:
    """The key of the reserved placeholder, and the name of its claim."""
    gpu = shape(WHOLE, cpu=str(cpu))
    await world.until(lambda: len(world.warm(gpu)) == 1)
    (placeholder,) = world.warm(gpu)
    reservation = await world.reservations.place(gpu, world.cluster.namespace, "ada")
    return placeholder.key, reservation.claims["gpu"]


def gpu_replicas(cpu: int) -> tuple[Shape, ReplicaRange]:
    return shape(WHOLE, cpu=str(cpu)), ReplicaRange(1, 1)


@pytest.mark.parametrize("cpu", [BESIDE, FULL], ids=["beside", "full"])
async def test_the_server_has_the_very_device(prepared: ClusterUnderTest, cpu: int) -> None:
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, gpu_replicas(cpu)) as world:
        placeholder, claim = await reserved(world, cpu)
        device = device_of(world, claim)
        allocated = watch_allocations(world, claim)
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu=str(cpu))
        await world.until(lambda: placeholder not in world.watch.snapshot.pods, what="the placeholder is deleted")
        await world.until(lambda: consumers(world, claim) == [("pods", "ada")])
        await world.until(lambda: node_of(world, "ada") == "node-a")
        assert device_of(world, claim) == device
        assert allocated == {True}, "always allocated in between"
        path = prepared.path("resourceclaims", claim)
        owners = (await prepared.admin.get(path))["metadata"]["ownerReferences"]
        assert [each["name"] for each in owners] == ["ada"]
        await prepared.admin.delete(prepared.path("pods", "ada"), grace_period_seconds=0)
        # The tests' control plane has no garbage collector.
        await prepared.admin.delete(path, missing_ok=True)
        await world.until(lambda: not is_there(world, claim), what="the claim is deleted with its pod")
        gpu, _ = gpu_replicas(cpu)
        await world.until(lambda: len(world.warm(gpu)) == 1, what="a new one is warm")


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
    """Images are pulled, volumes attached and devices prepared first, which may take minutes."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, gpu_replicas(BESIDE)) as world:
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
        await world.until(lambda: len(consumers(world, claim)) == 2)
        assert not world.watch.snapshot.pods[placeholder].is_deleted
        owners = (await prepared.admin.get(path))["metadata"]["ownerReferences"]
        assert [each["name"] for each in owners] == ["ada"]
        may_run.set()
        await world.until(lambda: placeholder not in world.watch.snapshot.pods, what="the placeholder is deleted")


async def test_an_expired_reservation_is_replaced_by_a_warm_placeholder(prepared: ClusterUnderTest) -> None:
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, gpu_replicas(FULL)) as world:
        world.reservations.lasting = timedelta(seconds=2)
        world.policy = replace(world.policy, grace=replace(world.policy.grace, orphan=timedelta(seconds=1)))
        placeholder, claim = await reserved(world, FULL)
        await until_warm_again(world, placeholder, claim)


async def test_a_failed_start_ends_the_placeholder_and_its_claim(prepared: ClusterUnderTest) -> None:
    """The hub deletes the claim, and has no right to change the claim's consumers."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, gpu_replicas(FULL)) as world:
        placeholder, claim = await reserved(world, FULL)
        await prepared.admin.delete(prepared.path("resourceclaims", claim))
        await until_warm_again(world, placeholder, claim)


async def until_warm_again(world: PlaceholderWorld, placeholder: ObjectKey, claim: str) -> None:
    await world.until(lambda: placeholder not in world.watch.snapshot.pods, what="the placeholder is deleted")
    await world.until(lambda: not is_there(world, claim), what="the claim is deleted")
    gpu = shape(WHOLE, cpu=str(FULL))
    await world.until(lambda: len(world.warm(gpu)) == 1, what="a placeholder has the device again")


async def test_a_server_without_capacity_starts_on_another_node(prepared: ClusterUnderTest) -> None:
    """An unexpected pod of the same priority uses the CPU. The scheduler gives the server another device."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, gpu_replicas(FULL)) as world:
        _, claim = await reserved(world, FULL)
        before = device_of(world, claim)
        # No pod may be preempted for the server, and less than one CPU is left without the placeholder.
        await prepared.publish(user_pod("eve", {}, cpu="2900m", ready=False))
        await world.until(lambda: node_of(world, "eve") == "node-a")
        await prepared.publish(user_pod("eva", {}, cpu="4500m", ready=False))
        await world.until(lambda: node_of(world, "eva") == "node-a")
        await prepared.publish(*node("node-b", whole("gpu-1")))
        await world.until(lambda: names.IMAGES_READY in world.watch.snapshot.nodes["node-b"].node.labels)
        # A placeholder on node-b would only be in the way of this test.
        world.policy = replace(world.policy, replicas={shape(WHOLE, cpu=str(FULL)).id: ReplicaRange(0, 0)})
        await world.until(lambda: not world.reconciler.view().placeholders)
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu=str(FULL))
        await world.until(lambda: node_of(world, "ada") == "node-b")
        await world.until(lambda: device_of(world, claim) not in (None, before))


@pytest.mark.parametrize("cpu", [BESIDE, FULL], ids=["beside", "full"])
async def test_a_handover_completes_without_the_service(prepared: ClusterUnderTest, cpu: int) -> None:
    """The server gets the device. Only pods are consumers of the claim, so its deletion does not hang."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, gpu_replicas(cpu)) as world:
        _, claim = await reserved(world, cpu)
    left = await prepared.admin.get(prepared.path("resourceclaims", claim))
    assert [each["resource"] for each in left["status"]["reservedFor"]] == ["pods"]
    # On the full node the scheduler preempts the placeholder.
    await prepared.publish(user_pod("ada", {"gpu": {"resourceClaimName": claim}}, cpu=str(cpu)))
    await prepared.wait_running("ada")


async def test_a_handed_over_placeholder_is_replaced_whatever_else_was_deleted(prepared: ClusterUnderTest) -> None:
    """A handover does not count in the creation budget for storms, like any deletion for users."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, gpu_replicas(BESIDE)) as world:
        placeholder, claim = await reserved(world, BESIDE)
        world.policy = replace(world.policy, renewal=Renewal(per_second=1e-6, whole_in=timedelta(days=1)))
        memory = world.reconciler.planner_state
        world.reconciler.planner_state = replace(memory, creations=replace(memory.creations, spent=50.0))
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu=str(BESIDE))
        await world.until(lambda: placeholder not in world.watch.snapshot.pods, what="the placeholder is deleted")
        await prepared.publish(*node("node-b", whole("gpu-1")))
        gpu, _ = gpu_replicas(BESIDE)
        await world.until(lambda: len(world.warm(gpu)) == 1)
        assert world.reconciler.planner_state.creations.spent <= 50.1
