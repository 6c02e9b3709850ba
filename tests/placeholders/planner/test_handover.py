"""Warm claims are reserved, handed over, and replaced."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import AddConsumer
from dra_spawner.placeholders.planner.placement import PlacementKind
from dra_spawner.placeholders.planner.view import Placeholder
from tests.placeholders.planner.objects import GPU, gpu_claim
from tests.placeholders.planner.world import World, hub
from tests.presence import present


def world_with_placeholder(*, most: int = 5, gpus: int = 1) -> tuple[World, Placeholder]:
    world = hub((GPU, 1, most), nodes="a", gpus=gpus)
    placeholder = world.only
    return world, placeholder


def test_handover_of_a_warm_claim() -> None:
    world = hub((GPU, 1, 5), nodes="a", gpus=1)
    found = world.placement(GPU)
    assert found.kind is PlacementKind.WARM
    (claim,) = present(found.placeholder).claims
    device = world.snapshot.claims[claim].claim.status.devices
    world.reserve(claim, "ada", world.now + timedelta(seconds=30))
    world.user("ada", claim_names={"gpu": claim.name})
    world.settle()
    assert world.node_of("ada") == "a"
    assert world.snapshot.claims[claim].claim.status.devices == device, "never given back in between"
    assert len(world.ended(Cause.HANDED_OVER)) == 1
    assert not world.ended(Cause.PREEMPTED)


def test_a_reserved_claim_is_given_to_no_other_server() -> None:
    world, placeholder = world_with_placeholder()
    world.reserve(placeholder.claims[0], "ada", world.now + timedelta(seconds=30))
    assert world.placement(GPU).kind is PlacementKind.SCALE_UP
    world.user("bob", {"gpu": gpu_claim()})
    world.settle()
    assert "bob" in world.pending
    assert placeholder.key in world.view().placeholders


def test_a_placeholder_is_deleted_with_its_claim() -> None:
    """The hub deletes the claim of a failed start; the claim exists until its last consumer is gone."""
    world, placeholder = world_with_placeholder()
    world.reserve(placeholder.claims[0], "ada", world.now + timedelta(seconds=30))
    world.snapshot.put(replace(world.snapshot.claims[placeholder.claims[0]], is_deleted=True))
    world.settle()
    assert [each.key for each in world.ended(Cause.BROKEN)] == [placeholder.key]
    (anew,) = world.view().placeholders.values()
    assert anew.claims != placeholder.claims


def test_a_reservation_expires() -> None:
    world, placeholder = world_with_placeholder()
    world.reserve(placeholder.claims[0], "ada", world.now + timedelta(seconds=30))
    world.pass_time(seconds=31)
    world.settle()
    found = world.placement(GPU)
    assert found.kind is PlacementKind.WARM
    assert present(found.placeholder).claims != placeholder.claims, "a late pod must not find the device of another"
    assert [each.key for each in world.ended(Cause.EXPIRED)] == [placeholder.key]


def test_a_handed_over_placeholder_is_replaced() -> None:
    world, placeholder = world_with_placeholder(gpus=2)
    world.user("ada", claim_names={"gpu": placeholder.claims[0].name})
    world.settle()
    assert world.node_of("ada") == "a"
    assert world.placeholders_on("a") == 1
    assert world.made == 2


def test_a_claim_is_left_to_the_scheduler_while_it_binds_the_pod() -> None:
    """A concurrent write to the claim would make the scheduler try again a second later."""
    world, placeholder = world_with_placeholder(most=1)
    world.reserve(placeholder.claims[0], "ada", world.now + timedelta(seconds=30))
    world.user("ada", claim_names={"gpu": placeholder.claims[0].name})
    world.decide()
    assert not world.actions(AddConsumer)
    assert placeholder.key in world.view().placeholders
    world.schedule()
    world.decide()
    assert [each.pod.name for each in world.actions(AddConsumer)] == ["ada"]


def test_a_slow_scheduler_does_not_delay_a_handover_for_ever() -> None:
    world, placeholder = world_with_placeholder(most=1)
    world.user("ada", claim_names={"gpu": placeholder.claims[0].name})
    world.pass_time(seconds=16)
    world.decide()
    assert [each.pod.name for each in world.actions(AddConsumer)] == ["ada"]


def test_new_placeholders_wait_for_a_handover() -> None:
    """They would compete for the same scheduler at the same time."""
    world, placeholder = world_with_placeholder(gpus=2)
    made = world.made
    world.reserve(placeholder.claims[0], "ada", world.now + world.policy.grace.reservation)
    world.decide()
    assert world.made == made, "its pod is about to come"
    world.user("ada", claim_names={"gpu": placeholder.claims[0].name})
    world.decide()
    assert world.made == made, "its pod is about to be bound"
    world.schedule()
    world.decide()
    assert world.made == made + 1


@pytest.mark.parametrize("came", [pytest.param(False, id="no-pod"), pytest.param(True, id="stuck-pod")])
def test_new_placeholders_do_not_wait_for_long(came: bool) -> None:
    world, placeholder = world_with_placeholder(gpus=2)
    made = world.made
    world.reserve(placeholder.claims[0], "ada", world.now + world.policy.grace.reservation)
    if came:
        world.user("ada", claim_names={"gpu": placeholder.claims[0].name}, nodeSelector={"no": "such"})
    world.decide()
    assert world.made == made
    world.pass_time(seconds=11)
    world.decide()
    assert world.made == made + 1
