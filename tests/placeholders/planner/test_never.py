"""The service says "no node will ever fit" only where it is certain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, gpu_claim, user_shape
from tests.placeholders.planner.world import World

TWO = user_shape({"gpu": gpu_claim(count=2)})
EXTENDED = user_shape(extended=1)
THREE_EXTENDED = user_shape(extended=3)


def hub(**nodes: int) -> World:
    """Nodes of one kind, with the number of devices of each."""
    world = World(Policy(shapes={each.id: each for each in (PLAIN, GPU, TWO)}, node_kinds_complete=True))
    for name, gpus in nodes.items():
        world.node(name, gpus=gpus, labels={"node.kubernetes.io/instance-type": "large"})
    world.settle()
    return world


def placement(world: World, shape: Shape, drivers: Mapping[str, frozenset[str]] | None = None) -> Placement:
    found = find_placement(
        world.view(), world.policy, shape, NAMESPACE, world.planner_state.drivers if drivers is None else drivers
    )
    assert found.reason
    return found


def use(world: World, *nodes: str) -> None:
    for name in nodes:
        world.user(f"on-{name}", {"gpu": gpu_claim()}, nodeSelector={"kubernetes.io/hostname": name})
    world.settle()
    assert not world.pending


@pytest.mark.parametrize(
    "shape", [TWO, THREE_EXTENDED, user_shape(cpu="11"), user_shape(nodeSelector={"zone": "nowhere"})]
)
def test_no_kind_of_node_has_what_it_needs(shape: Shape) -> None:
    assert placement(hub(a=1, b=1), shape).state is AvailabilityState.NEVER


def test_the_driver_of_one_node_is_down_and_the_other_is_full() -> None:
    world = hub(a=1, b=1)
    world.lose_slice("a")
    use(world, "b")
    found = placement(world, GPU, {})
    assert (found.state, found.reason) == (AvailabilityState.WAITS, "it fits on one more node like b")


@pytest.mark.parametrize("shape", [GPU, EXTENDED], ids=["claim", "extended resource"])
@pytest.mark.parametrize("restarted", [False, True])
def test_the_driver_is_down_everywhere(shape: Shape, restarted: bool) -> None:
    """After a restart of the service no object shows that the devices ever existed."""
    world = hub(a=1)
    world.lose_slice("a")
    assert placement(world, shape, {} if restarted else None).state is AvailabilityState.WAITS


def with_a_small_node() -> World:
    world = hub(a=2)
    world.node("small", gpus=1, labels={"node.kubernetes.io/instance-type": "small"})
    world.settle()
    return world


def test_the_driver_is_down_on_all_nodes_of_the_kind_that_would_do() -> None:
    world = with_a_small_node()
    world.lose_slice("a")
    assert placement(world, TWO).state is AvailabilityState.WAITS


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pool_that_is_incomplete(restarted: bool) -> None:
    world = with_a_small_node()
    (before,) = [each for each in world.snapshot.slices.values() if each.name == "a-gpus"]
    world.snapshot.put(replace(before, resource_slice_count=2))
    assert placement(world, TWO, {} if restarted else None).state is AvailabilityState.WAITS


@pytest.mark.parametrize("is_ready", [True, False])
def test_the_only_node_of_its_kind_is_lost(is_ready: bool) -> None:
    """The last known state of the node may be old."""
    world = hub(a=1)
    state = world.snapshot.nodes["a"]
    world.snapshot.put(replace(state.node, is_ready=is_ready))
    expected = AvailabilityState.NEVER if is_ready else AvailabilityState.WAITS
    assert placement(world, TWO).state is expected


def test_nodes_of_one_kind_differ() -> None:
    """The server does not fit on the first node by name, but on another one."""
    world = hub(a=1, b=2)
    use(world, "b")
    expected = "it fits on one more node like b, but not on one like a, which is of the same kind"
    assert placement(world, TWO).reason == expected
    # Whatever their names.
    world = hub(b=1, a=2)
    use(world, "a")
    assert "like a, but not on one like b," in placement(world, TWO).reason


def test_zones_of_one_kind_differ() -> None:
    world = World(Policy(shapes={PLAIN.id: PLAIN}, node_kinds_complete=True))
    for zone in "abc":
        world.node(f"in-{zone}", labels={"node.kubernetes.io/instance-type": "large", "zone": zone})
        world.user(f"in-{zone}", cpu="10", nodeSelector={"zone": zone}, requires_ready=False)
    world.settle()
    found = placement(world, user_shape(nodeSelector={"zone": "c"}))
    assert found.reason == "it fits on one more node like in-c"


def test_with_too_many_kinds_of_nodes_the_answer_is_not_known() -> None:
    world = World(Policy(shapes={PLAIN.id: PLAIN}, node_kinds_complete=True))
    for number in range(51):
        world.node(f"node-{number:02}", labels={"node.kubernetes.io/instance-type": "large", "rack": str(number)})
    assert placement(world, user_shape(cpu="11")).state is AvailabilityState.WAITS
    world.remove_node("node-50")
    assert placement(world, user_shape(cpu="11")).state is AvailabilityState.NEVER
