"""The placeholder that is reserved for a server, as a pure decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import IllegalEvent, PlaceholderState
from dra_spawner.placeholders.planner.actions import ReservedClaim
from dra_spawner.placeholders.planner.answers.placement import find_placement
from dra_spawner.placeholders.planner.answers.reservation import decide_reservation
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN
from tests.placeholders.planner.world import World, hub

ADA = ObjectKey(NAMESPACE, "ada")
LASTING = timedelta(seconds=30)


def world_with(shape: Shape, count: int = 1) -> World:
    return hub((shape, count, count), nodes="a", gpus=2)


def test_a_warm_placeholder_is_reserved_with_its_claims_as_they_were_seen() -> None:
    world = world_with(GPU)
    view = world.view()
    view.version_of = lambda kind, key: f"version of {key.name}"
    (placeholder,) = view.warm(GPU.id)
    action = decide_reservation(view, find_placement(view, world.policy, GPU, NAMESPACE), ADA, LASTING)
    assert action is not None
    (claim,) = placeholder.claims
    assert action.claims == (ReservedClaim("gpu", claim, f"version of {claim.name}"),)
    assert (action.placeholder, action.node, action.shape, action.pod) == (placeholder.key, "a", GPU.id, ADA)
    assert (action.since, action.until) == (world.now, world.now + LASTING)
    assert action.subject == f"Pod {ADA}"
    until = f"{world.now + LASTING:%H:%M:%S} UTC"
    assert (
        action.reason
        == f"placeholder {placeholder.key.name} on node a is reserved for it, with its devices, until {until}"
    )


def test_without_devices_nothing_is_written() -> None:
    world = world_with(PLAIN, 4)
    view = world.view()
    placement = find_placement(view, world.policy, PLAIN, NAMESPACE)
    if placement.state is AvailabilityState.FREE:
        world.user("big", cpu="6")
        world.settle()
        view = world.view()
        placement = find_placement(view, world.policy, PLAIN, NAMESPACE)
    assert placement.state is AvailabilityState.READY
    action = decide_reservation(view, placement, ADA, LASTING)
    assert action is not None
    assert action.claims == ()
    assert "devices" not in action.reason


def test_free_capacity_is_not_reserved() -> None:
    world = world_with(GPU, 0)
    view = world.view()
    placement = find_placement(view, world.policy, GPU, NAMESPACE)
    assert placement.state is AvailabilityState.FREE
    assert decide_reservation(view, placement, ADA, LASTING) is None


@pytest.mark.parametrize("state", sorted({*PlaceholderState} - {PlaceholderState.WARM}))
def test_no_other_placeholder_is_reserved(state: PlaceholderState) -> None:
    world = world_with(GPU)
    view = world.view()
    placement = find_placement(view, world.policy, GPU, NAMESPACE)
    assert placement.placeholder is not None
    placement = replace(placement, placeholder=replace(placement.placeholder, state=state))
    with pytest.raises(IllegalEvent):
        decide_reservation(view, placement, ADA, LASTING)
