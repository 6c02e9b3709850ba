"""A hub whose placeholders hold devices, and what is asked of it again and again."""

from __future__ import annotations

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import DeletePlaceholder
from dra_spawner.placeholders.planner.placement import find_placement
from dra_spawner.placeholders.planner.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.shapes import Shape
from tests.placeholders.planner.world import NAMESPACE, World


def hub(*shapes: tuple[Shape, int, int]) -> World:
    return World(
        Policy(
            shapes={shape.id: shape for shape, _, _ in shapes},
            replicas={shape.id: ReplicaRange(minimum, maximum) for shape, minimum, maximum in shapes},
        )
    )


def ended(world: World, cause: Cause) -> list[DeletePlaceholder]:
    return [each for each in world.actions(DeletePlaceholder) if each.cause is cause]


def placement(world: World, shape: Shape):
    return find_placement(world.view(), world.policy, shape, NAMESPACE)
