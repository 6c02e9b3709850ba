"""How many placeholders are created and deleted as a target that follows demand goes up and down."""

from __future__ import annotations

from dataclasses import replace

from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU
from tests.placeholders.planner.world import World, hub

DEMAND = "recent launches"


def world_with(replicas: ReplicaRange) -> World:
    world = hub((GPU, 0, 40))
    world.node("a", cpu="100", gpus=20)
    aim(world, replicas)
    return world


def aim(world: World, replicas: ReplicaRange, minutes: float = 1) -> None:
    world.policy = replace(world.policy, replicas={GPU.id: replicas})
    world.run(minutes, every_seconds=20)


def test_a_target_that_goes_up_and_down_by_one_changes_nothing() -> None:
    world = world_with(ReplicaRange(4, 40, because=DEMAND))
    for minute in range(60):
        aim(world, ReplicaRange(3 + minute % 2, 40, because=DEMAND))
    assert len(world.actions(CreatePlaceholder)) == 4
    assert not world.actions(DeletePlaceholder)
    aim(world, ReplicaRange(3, 40, because=DEMAND), minutes=11)
    assert (world.count, len(world.actions(DeletePlaceholder))) == (3, 1)


@all_of_them(
    "replicas, left",
    {
        "one less": (ReplicaRange(3, 40, because=DEMAND), 4),
        "two less": (ReplicaRange(2, 40, because=DEMAND), 2),
        "a person wants one less": (ReplicaRange(3, 40), 3),
        "a limit": (ReplicaRange(3, 3, because=DEMAND), 3),
    },
)
def test_what_is_deleted_at_once(replicas: ReplicaRange, left: int) -> None:
    world = world_with(ReplicaRange(4, 40, because=DEMAND))
    aim(world, replicas)
    assert world.count == left


def test_the_last_of_several_goes_with_the_others() -> None:
    """The budget lets five go at once. What is left of a fall by six is no target that goes up and down by one."""
    world = world_with(ReplicaRange(6, 40, because=DEMAND))
    aim(world, ReplicaRange(0, 40, because=DEMAND))
    assert (world.count, len(world.actions(DeletePlaceholder))) == (0, 6)
    aim(world, ReplicaRange(1, 40, because=DEMAND))
    aim(world, ReplicaRange(0, 40, because=DEMAND))
    assert world.count == 1, "later falls by one are damped again"
