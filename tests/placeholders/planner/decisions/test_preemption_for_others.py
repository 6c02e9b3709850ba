"""A server needs the device of another hub's placeholder: that hub's service preempts it if that surely helps."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.targets.policy import Policy
from tests.placeholders.planner.objects import GPU, Json, gpu_claim
from tests.placeholders.planner.world import HubService, World, policy_for, run_together

ONE = {"gpu": gpu_claim()}
TWO = {"gpu": gpu_claim(count=2)}


def hubs(*targets: int, gpus: int = 2) -> tuple[World, list[HubService]]:
    """Hubs that start one after the other, with a target each, on one node."""
    world = World(Policy())
    world.node("a", "100", gpus=gpus)
    found: list[HubService] = []
    for number, target in enumerate(targets):
        found.append(HubService(world, policy_for((GPU, target, 50)), f"hub-{number}", "dra-spawner"))
        run_together(world, found, 10)
    return world, found


def preempted(service: HubService) -> list[str]:
    """Reasons of its preemptions."""
    return [each.reason for each in service.ended(Cause.PREEMPTED)]


@pytest.mark.parametrize("grace", [0, 7, 14])
def test_a_server_of_another_hub_gets_the_device_of_a_placeholder(grace: int) -> None:
    world, (ours, theirs) = hubs(2, 0)
    world.grace = timedelta(seconds=grace)
    world.user("ada", ONE, namespace=theirs.namespace)
    run_together(world, (ours, theirs), 4)
    assert world.node_of("ada", theirs.namespace) == "", "its own service comes first"
    run_together(world, (ours, theirs), 10 + grace)
    assert world.node_of("ada", theirs.namespace) == "a"
    (why,) = preempted(ours)
    assert why == "hub-1/ada, a server of another hub, fits on node a without it"
    run_together(world, (ours, theirs), 120, every=5)
    assert len(preempted(ours)) == 1
    assert ours.count == 2, "another one is pending"


def test_also_for_a_hub_without_a_service() -> None:
    world, (ours, theirs) = hubs(2, 0)
    world.user("ada", TWO, namespace=theirs.namespace)
    run_together(world, [ours], 10)
    assert world.node_of("ada", theirs.namespace) == "a"
    assert len(preempted(ours)) == 2


@pytest.mark.parametrize("grace", [0, 14])
def test_its_own_hub_comes_first(grace: int) -> None:
    world, (ours, theirs) = hubs(1, 1)
    world.grace = timedelta(seconds=grace)
    world.user("ada", ONE, namespace=theirs.namespace)
    run_together(world, (ours, theirs), 60)
    assert world.node_of("ada", theirs.namespace) == "a"
    assert not preempted(ours)
    assert preempted(theirs)


@pytest.mark.parametrize("claims", [{"gpu": gpu_claim(count=3)}, {"gpu": gpu_claim(deviceClassName="other")}, {}])
def test_no_placeholder_is_preempted_where_that_does_not_help(claims: dict[str, Json]) -> None:
    world, (ours, theirs) = hubs(2, 0)
    world.user("ada", claims, namespace=theirs.namespace, cpu="1" if claims else "1000")
    run_together(world, (ours, theirs), 60, every=5)
    assert not preempted(ours)


def test_few_are_preempted_for_a_server_that_the_scheduler_refuses() -> None:
    world, (ours, theirs) = hubs(2, 0)
    world.refused["ada"] = "its volume is elsewhere"
    world.user("ada", ONE, namespace=theirs.namespace)
    run_together(world, (ours, theirs), 1200, every=5)
    assert len(preempted(ours)) == 5, "after 5, 15, 55, 215 and 855 seconds"
    assert ours.count == 2


def test_one_of_several_hubs_helps() -> None:
    world, (first, second, theirs) = hubs(1, 1, 0)
    world.user("ada", ONE, namespace=theirs.namespace)
    run_together(world, (first, second, theirs), 60)
    assert world.node_of("ada", theirs.namespace) == "a"
    assert (len(preempted(first)), len(preempted(second))) == (1, 0)


def test_none_is_preempted_for_a_pending_placeholder_of_a_third_hub() -> None:
    world, (ours, third, theirs) = hubs(2, 1, 0)
    assert [each.is_pending for each in third.view().placeholders.values()] == [True]
    world.user("ada", ONE, namespace=theirs.namespace)
    run_together(world, (ours,), 60, every=5)
    assert not preempted(ours)


def test_a_reserved_placeholder_stays() -> None:
    world, (ours, theirs) = hubs(1, 0, gpus=1)
    placeholder = ours.only
    world.reserve(placeholder.claims[0], "bob", world.now.replace(year=2030))
    world.user("ada", ONE, namespace=theirs.namespace)
    run_together(world, (ours,), 60, every=5)
    assert not preempted(ours)


def test_servers_of_several_hubs_are_helped_one_after_the_other() -> None:
    world, (ours, theirs, third) = hubs(4, 0, 0, gpus=4)
    for name, service in (("ada", theirs), ("bob", third), ("cy", theirs)):
        world.user(name, ONE, namespace=service.namespace)
    run_together(world, (ours, theirs, third), 60)
    assert not [name for name in world.pending if not name.startswith("placeholder")]
    assert len(preempted(ours)) == 3
