"""Devices that nobody can count on: no placement is promised there, and nothing is decided by their figures."""

from __future__ import annotations

from dataclasses import replace

from dra_spawner import names
from dra_spawner.dra.model.devices import Attribute, AttributeKind
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import PlaceholderState
from dra_spawner.placeholders.planner.actions import CreatePlaceholder
from dra_spawner.placeholders.planner.answers.outlook import BusyServers, Supply, find_outlook
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from tests.placeholders.planner.objects import GPU, NAMESPACE, SHARE, gpu_claim
from tests.placeholders.planner.world import World, policy_for


def hub() -> World:
    """Node a with a server on one of its two GPUs, and a warm placeholder on the other one."""
    world = World(policy_for((GPU, 1, 1)))
    world.node("a", gpus=2, memory="40Gi", labels={names.IMAGES_READY: names.TRUE})
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    return world


def withdraw(world: World, *devices: str) -> None:
    """The driver does not publish these devices any more."""
    (item,) = world.snapshot.slices.values()
    left = tuple(each for each in item.devices if each.id.device not in devices)
    world.snapshot.put(replace(item, devices=left))


def test_a_placeholder_whose_device_is_gone_is_not_warm() -> None:
    world = hub()
    (placeholder,) = world.view().placeholders.values()
    assert placeholder.state is PlaceholderState.WARM
    assert world.placement(GPU).state is AvailabilityState.READY
    world.lose_slice("a")
    (placeholder,) = world.view().placeholders.values()
    assert placeholder.state is PlaceholderState.STARTING
    assert world.placement(GPU).state is not AvailabilityState.READY
    assert NodesBusyness(world.view()).of("a").figure is None


def test_no_placement_counts_on_a_pool_with_a_missing_device() -> None:
    """The scheduler would still give the free GPU away, and the simulator still says so."""
    world = World(policy_for((GPU, 0, 0), (SHARE, 0, 0)))
    world.node("a", gpus=3, memory="40Gi", labels={names.IMAGES_READY: names.TRUE})
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    assert world.placement(GPU).state is AvailabilityState.FREE
    (claim,) = world.snapshot.claims.values()
    (device,) = claim.claim.status.devices or ()
    withdraw(world, device.id.device)
    view, found = world.view(), world.placement(GPU)
    assert (found.state, found.node, found.like) == (AvailabilityState.WAITS, "", "a")
    (why,) = view.doubts_of("a").pools.values()
    assert why == found.doubt == f"device {device.id.device} of claim {claim.key} is not published any more"
    world.user("bob", {"gpu": gpu_claim()})
    world.settle()
    assert world.node_of("bob") == "a"


def test_a_whole_device_beside_its_parts_is_not_free() -> None:
    world = World(policy_for((GPU, 0, 0)))
    world.node("a", gpus=2, memory="40Gi", labels={names.IMAGES_READY: names.TRUE})
    (item,) = world.snapshot.slices.values()
    whole, part = item.devices
    for name, device in (("uuid", whole), ("parentUUID", part)):
        described = device.description
        attributes = {**described.attributes, name: Attribute(AttributeKind.STRING, "GPU-1")}
        item = replace(
            item,
            devices=tuple(
                replace(each, description=replace(described, attributes=attributes)) if each is device else each
                for each in item.devices
            ),
        )
    world.snapshot.put(item)
    found = world.placement(GPU)
    assert found.state is not AvailabilityState.FREE
    view = world.view()
    assert view.doubts_of("a").because(whole.id)
    outlook = find_outlook(view, world.policy, GPU, NAMESPACE, found, Supply(), lambda: BusyServers(view))
    assert outlook.state is not AvailabilityState.FREE


def test_new_placeholders_avoid_nodes_with_missing_devices() -> None:
    world = hub()
    world.node("b", gpus=2, memory="40Gi", labels={names.IMAGES_READY: names.TRUE})
    world.lose_slice("a")
    world.policy = policy_for((GPU, 2, 2))
    created = [each for each in world.decisions().actions if isinstance(each, CreatePlaceholder)]
    assert created
    assert {each.avoid for each in created} == {("a",)}
