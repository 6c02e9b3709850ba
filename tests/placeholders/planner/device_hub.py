"""A hub with placeholders of given shapes, and helpers that many tests use."""

from __future__ import annotations

from typing import Any

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.placement import Placement, find_placement
from dra_spawner.placeholders.planner.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.shapes import Shape
from tests.placeholders.planner.objects import NAMESPACE
from tests.placeholders.planner.world import World


def policy_for(*shapes: tuple[Shape, int, int], **more: Any) -> Policy:
    """The least and the most placeholders of each shape."""
    replicas = {shape.id: ReplicaRange(minimum, maximum) for shape, minimum, maximum in shapes}
    return Policy(**{"shapes": {shape.id: shape for shape, _, _ in shapes}, "replicas": replicas, **more})


def hub(*shapes: tuple[Shape, int, int], **policy: Any) -> World:
    """A cluster without nodes, with the least and the most placeholders of each shape."""
    return World(policy_for(*shapes, **policy))


def made(world: World) -> int:
    """The number of created placeholders."""
    return len(world.actions(CreatePlaceholder))


def ended(world: World, *causes: Cause) -> list[DeletePlaceholder]:
    """Deletions of placeholders for one of the causes."""
    return [each for each in world.actions(DeletePlaceholder) if each.cause in causes]


def placement(world: World, shape: Shape) -> Placement:
    return find_placement(world.view(), world.policy, shape, NAMESPACE)
