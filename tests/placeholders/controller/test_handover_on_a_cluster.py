"""Handover on both clusters: a server beside its placeholder, in place of it, or on another node."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator

import pytest

from dra_spawner import names
from dra_spawner.devcluster.kubelet.container_runtime import ContainerLaunch, FakeContainer
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape, user_pod
from tests.placeholders.controller.world import PlaceholderWorld, at_work
from tests.polling import eventually
from tests.presence import present

#: A node has 8 CPUs: a server of 3 CPUs fits beside a placeholder, and one of 5 does not.
BESIDE, FULL = 3, 5


def consumers(world: PlaceholderWorld, claim: str) -> list[tuple[str, str]]:
    found = world.watch.snapshot.claims.get(world.key(claim))
    return [(each.resource, each.name) for each in found.consumers] if found is not None else []


def gpu(cpu: int) -> Shape:
    return shape(WHOLE, cpu=str(cpu))


@contextlib.asynccontextmanager
async def at_work_on(cluster: ClusterUnderTest, cpu: int) -> AsyncIterator[tuple[PlaceholderWorld, ObjectKey, str]]:
    """A reconciler on a node with one device, the key of its reserved placeholder, and the name of its claim."""
    await cluster.publish(*node("node-a", whole("gpu-0")))
    async with at_work(cluster, (gpu(cpu), ReplicaRange(1, 1))) as world:
        (placeholder,) = await world.until_warm(gpu(cpu))
        reservation = await world.reservations.place(gpu(cpu), cluster.namespace, "ada")
        assert reservation.placement.state is AvailabilityState.READY
        yield world, placeholder.key, reservation.claims["gpu"]


async def test_a_server_is_bound_after_a_placeholder_that_must_go_first(prepared: ClusterUnderTest) -> None:
    """Though both would fit: its driver has prepared the device for the placeholder. kube-scheduler and service race."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    wanted = gpu(BESIDE)
    drivers = {"gpu.example.com": PreparedFor.POD}
    async with at_work(prepared, (wanted, ReplicaRange(1, 1)), drivers_prepare_for=drivers) as world:
        (placeholder,) = await world.until_warm(wanted)
        (claim,) = placeholder.claims
        device = world.device_of(claim.name)
        seen = set[tuple[bool, bool]]()

        def note(_: object) -> None:
            seen.add((bool(world.node_of("ada")), placeholder.key in world.watch.snapshot.pods))

        world.watch.on_change(note)
        reservation = await world.placed_user("ada", wanted, WHOLE, cpu=str(BESIDE))
        assert reservation.placement.state is AvailabilityState.AFTER_PLACEHOLDER
        await world.until(lambda: world.node_of("ada") == "node-a")
        await world.until(lambda: consumers(world, claim.name) == [("pods", "ada")], what="she has its claim")
        assert (True, True) not in seen, "never both on the node"
        assert world.device_of(claim.name) == device
        await prepared.wait_running("ada")


async def until_gone(world: PlaceholderWorld, placeholder: ObjectKey) -> None:
    await world.until(lambda: placeholder not in world.watch.snapshot.pods, what="the placeholder is deleted")


@pytest.mark.parametrize("cpu", [BESIDE, FULL], ids=["beside", "full"])
async def test_the_server_has_the_very_device(prepared: ClusterUnderTest, cpu: int) -> None:
    """The claim always has a consumer, so no other pod gets the device in between."""
    async with at_work_on(prepared, cpu) as (world, placeholder, claim):
        device = world.device_of(claim)
        allocated = watch_allocations(world, claim)
        # Another pod is pending for just this device, and is created earlier.
        await world.user("eager", WHOLE, cpu="1")
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu=str(cpu))
        await until_gone(world, placeholder)
        await world.until(lambda: consumers(world, claim) == [("pods", "ada")])
        await world.until(lambda: world.node_of("ada") == "node-a")
        assert world.device_of(claim) == device
        assert allocated == {True}, "always allocated in between"
        assert not world.node_of("eager")
        path = prepared.path("resourceclaims", claim)
        owners = (await prepared.admin.get(path))["metadata"]["ownerReferences"]
        assert [each["name"] for each in owners] == ["ada"]
        await world.leave("eager")
        await world.leave("ada")
        # The tests' control plane has no garbage collector.
        await prepared.admin.delete(path, missing_ok=True)
        await world.until(lambda: world.key(claim) not in world.watch.snapshot.claims, what="the claim is deleted")
        await world.until_warm(gpu(cpu))


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
    async with at_work_on(prepared, BESIDE) as (world, placeholder, claim):
        runtime, may_run = present(prepared.fake_runtime), threading.Event()
        start = runtime.start

        async def start_later(launch: ContainerLaunch) -> FakeContainer:
            await eventually(may_run.is_set, "the container may run")
            return await start(launch)

        monkeypatch.setattr(runtime, "start", start_later)
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu=str(BESIDE))
        await world.until(lambda: bool(world.watch.snapshot.claims[world.key(claim)].owner_uids))
        await world.until(lambda: len(consumers(world, claim)) == 2)
        await world.until(lambda: world.node_of("ada") == "node-a")
        assert not world.watch.snapshot.pods[placeholder].is_deleted
        owners = (await prepared.admin.get(prepared.path("resourceclaims", claim)))["metadata"]["ownerReferences"]
        assert [each["name"] for each in owners] == ["ada"]
        may_run.set()
        await until_gone(world, placeholder)


@pytest.mark.parametrize("is_failed", [False, True], ids=["expired", "failed"])
async def test_an_unused_placeholder_and_its_claim_are_replaced(prepared: ClusterUnderTest, is_failed: bool) -> None:
    """When a start failed, the hub deletes the claim. It has no right to change the claim's consumers."""
    async with at_work_on(prepared, FULL) as (world, placeholder, claim):
        if is_failed:
            await prepared.admin.delete(prepared.path("resourceclaims", claim))
        else:
            await world.pass_time(seconds=35)
        await until_gone(world, placeholder)
        await world.pass_time(minutes=3)
        await world.until(lambda: world.key(claim) not in world.watch.snapshot.claims, what="the claim is deleted")
        await world.until_warm(gpu(FULL))


async def test_a_server_without_capacity_starts_on_another_node(prepared: ClusterUnderTest) -> None:
    """An unexpected pod of the same priority uses the CPU. The scheduler gives the server another device."""
    async with at_work_on(prepared, FULL) as (world, _, claim):
        before = world.device_of(claim)
        # No pod may be preempted for the server, and less than one CPU is left without the placeholder.
        for name, cpu in (("eve", "2900m"), ("eva", "4500m")):
            await world.pod(name, cpu=cpu)
            assert world.node_of(name) == "node-a"
        await prepared.publish(*node("node-b", whole("gpu-1")))
        await world.until(lambda: names.IMAGES_READY in world.watch.snapshot.nodes["node-b"].node.labels)
        # A placeholder on node-b would only be in the way of this test.
        world.set_replicas(gpu(FULL), 0, 0)
        await world.until(lambda: not world.reconciler.view().placeholders)
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu=str(FULL))
        await world.until(lambda: world.node_of("ada") == "node-b")
        await world.until(lambda: world.device_of(claim) not in (None, before))


@pytest.mark.parametrize("cpu", [BESIDE, FULL], ids=["beside", "full"])
async def test_a_handover_completes_without_the_service(prepared: ClusterUnderTest, cpu: int) -> None:
    """The server gets the device. Only pods are consumers of the claim, so its deletion does not hang."""
    async with at_work_on(prepared, cpu) as (_, _, claim):
        pass
    left = await prepared.admin.get(prepared.path("resourceclaims", claim))
    assert [each["resource"] for each in left["status"]["reservedFor"]] == ["pods"]
    # On the full node the scheduler preempts the placeholder.
    await prepared.publish(user_pod("ada", {"gpu": {"resourceClaimName": claim}}, cpu=str(cpu)))
    await prepared.wait_running("ada")
