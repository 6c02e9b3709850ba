"""Limits of all hubs: services of several hubs share one number, without any communication."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.targets.limits import Limit
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.examples import example_count
from tests.placeholders.planner.objects import GPU, PLAIN, SHARE, gpu_claim
from tests.placeholders.planner.world import HubService, World, policy_for, run_together

EIGHT = Limit("gpus", devices=8, all_hubs=True)


def hubs(
    *targets: int, limit: Limit = EIGHT, shape: Shape = GPU, gpus: int = 20, memory: str = ""
) -> tuple[World, list[HubService]]:
    """Hubs with a target each and the same limit, on one node."""
    world = World(policy_for())
    world.node("a", "100", gpus=gpus, memory=memory)
    policies = [policy_for((shape, target, 50), limits=(limit,)) for target in targets]
    return world, [HubService(world, policy, f"hub-{number}", "dra-spawner") for number, policy in enumerate(policies)]


def test_the_second_hub_gets_the_rest_of_the_first_and_shows_it() -> None:
    world, (first, second) = hubs(5, 6)
    run_together(world, [first], 10)
    run_together(world, [first, second])
    assert [first.count, second.count] == [5, 3]
    sentence = second.last.limited[GPU.id].sentence("gpu-slice")
    assert sentence == (
        "Placeholders of gpu-slice: 6 are wanted, 3 are allowed by the limit 'gpus' (8 devices, of all hubs); other "
        "hubs have devices (hub-0/dra-spawner: 5)."
    )
    assert not first.last.limited
    assert second.made == 3, "none in vain"


@pytest.mark.parametrize(
    ("limit", "shape", "expected"),
    [
        pytest.param(Limit("l", placeholders=4, all_hubs=True), PLAIN, "placeholders (hub-0/dra-spawner: 3)", id="number"),
        pytest.param(
            Limit("l", capacity={"memory": Quantity.parse("40Gi")}, all_hubs=True),
            SHARE,
            "memory (hub-0/dra-spawner: 30Gi)",
            id="capacity",
        ),
    ],
)  # fmt: skip
def test_other_bounds(limit: Limit, shape: Shape, expected: str) -> None:
    world, (first, second) = hubs(3, 3, limit=limit, shape=shape, memory="80Gi")
    run_together(world, [first], 10)
    run_together(world, [first, second])
    assert [first.count, second.count] == [3, 1]
    assert expected in second.last.limited[shape.id].because


def test_a_device_that_two_hubs_share_counts_once() -> None:
    world, services = hubs(3, 3, limit=Limit("l", devices=9, all_hubs=True), shape=SHARE, gpus=1, memory="80Gi")
    run_together(world, services, 30)
    for each in services:
        each.policy = replace(each.policy, limits=(Limit("l", devices=1, all_hubs=True),))
    run_together(world, services)
    assert [each.count for each in services] == [3, 3]


def test_without_the_setting_only_own_placeholders_count() -> None:
    world, services = hubs(8, 8, limit=replace(EIGHT, all_hubs=False))
    run_together(world, services)
    assert [each.count for each in services] == [8, 8]


def test_two_hubs_of_one_namespace() -> None:
    world, (first, second) = hubs(5, 5)
    second = HubService(world, second.policy, first.namespace, "two-gpus")
    run_together(world, [first], 10)
    run_together(world, [first, second])
    assert [first.count, second.count] == [5, 3]
    assert "(hub-0/dra-spawner: 5)" in second.last.limited[GPU.id].because


def test_the_surplus_of_simultaneous_creations_is_deleted_once() -> None:
    world, services = hubs(6, 6)
    world.grace = timedelta(seconds=7)
    run_together(world, services)
    assert sum(each.count for each in services) == 8
    assert sum(each.made for each in services) == 12
    assert {each.cause for service in services for each in service.ended()} == {Cause.SURPLUS}
    run_together(world, services, 600, every=5)
    assert sum(each.made for each in services) == 12, "none is created again"


@pytest.mark.parametrize("index", range(3))
def test_a_service_that_sees_a_node_later_ends_none_in_vain(index: int) -> None:
    world, (first, second) = hubs(3, 3, limit=replace(EIGHT, devices=5))
    creations = first.decisions(), second.decisions()
    first.carry_out_all(creations[0])
    world.pass_time(seconds=1)
    second.carry_out_all(creations[1])
    world.schedule()
    key = sorted(first.view().placeholders)[index]
    seen = world.snapshot.pods[key]
    world.snapshot.put(replace(seen, node_name=""))
    late = first.decisions()
    world.snapshot.put(seen)
    in_time = second.decisions()
    first.carry_out_all(late)
    second.carry_out_all(in_time)
    assert [first.count, second.count] == [3, 2]
    run_together(world, (first, second))
    assert first.made + second.made == 6, "none is created again"


@pytest.mark.parametrize("index", range(3))
def test_a_service_that_decides_twice_ends_those_that_other_hubs_count_on(index: int) -> None:
    world, (first, second) = hubs(3, 3, limit=replace(EIGHT, devices=3))
    for service, decisions in [(each, each.decisions()) for each in (first, second)]:
        service.carry_out_all(decisions)
    world.schedule()
    # All have come at the same moment, so their uids decide: one of the first hub goes, and two of the second.
    one, two = sorted(first.view().placeholders), sorted(second.view().placeholders)
    for number, key in enumerate([one.pop(index), *two, *one]):
        world.snapshot.put(replace(world.snapshot.pods[key], uid=f"{number}"))
    world.pass_time(seconds=60)  # Until the budget allows deletions.
    late = second.decisions()
    for _ in range(2):
        first.decide()
    second.carry_out_all(late)
    assert [first.count, second.count] == [2, 1]
    run_together(world, (first, second))
    assert first.made + second.made == 6, "none is created again"


def test_a_lowered_limit_ends_the_newest() -> None:
    world, (first, second) = hubs(4, 4)
    run_together(world, [first], 10)
    run_together(world, [first, second])
    for each in (first, second):
        each.policy = replace(each.policy, limits=(replace(EIGHT, devices=5),))
    run_together(world, [first, second], 120)
    assert [first.count, second.count] == [4, 1]


def test_freed_capacity_goes_to_the_hub_that_has_less() -> None:
    """Also if both services see it at the same moment: no placeholder is created in vain."""
    world, (first, second) = hubs(8, 8)
    run_together(world, [first], 10)
    for number in range(4):
        victim = min(first.view().placeholders)
        world.remove_pod(victim)
        run_together(world, [first, second], 30)
        assert [first.count, second.count] == [7 - number, 1 + number]
    # Now both have the same number.
    assert not first.ended()
    assert not second.ended()
    second.policy = replace(second.policy, replicas={})
    world.remove_pod(min(second.view().placeholders))
    run_together(world, [first, second], 30)
    assert first.count + second.count == 8, "a hub that has more waits only a few seconds"


def test_placeholders_that_do_not_count_do_not_wait() -> None:
    world, (first, second) = hubs(1, 1)
    run_together(world, [first, second], 5)
    first.policy = policy_for((GPU, 1, 50), (PLAIN, 2, 50), limits=(EIGHT,))
    run_together(world, [first, second], 1)
    assert first.count == 3


def test_placeholders_for_servers_of_another_hub_cost_none_here() -> None:
    world, (first, second) = hubs(8, 0, gpus=8)
    run_together(world, [first, second], 30)
    for number in range(3):
        world.user(f"ada-{number}", {"gpu": gpu_claim()}, namespace=second.namespace)
    run_together(world, [first, second], 5)
    assert second.count > 0, "they ask for nodes"
    assert not first.ended(Cause.SURPLUS)


EXAMPLES = 12
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("target"), st.integers(0, 2), st.integers(0, 6)),
        st.tuples(st.just("user"), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("rounds"), st.booleans(), st.integers(1, 8)),
        st.tuples(st.just("lost"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.just("limit"), st.integers(1, 9), st.just(0)),
    ),
    max_size=10,
)


@settings(max_examples=example_count(EXAMPLES))
@given(steps=STEPS, grace=st.sampled_from((0, 3)))
def test_the_sum_never_stays_above_the_limit_and_nothing_flaps(steps: list[tuple[str, int, int]], grace: int) -> None:
    world, services = hubs(3, 3, 3)
    world.grace = timedelta(seconds=grace)
    most = 8
    for number, (kind, one, two) in enumerate(steps):
        match kind:
            case "target":
                services[one].policy = replace(services[one].policy, replicas=policy_for((GPU, two, 50)).replicas)
            case "user":
                world.user(f"u-{number}", {"gpu": gpu_claim()}, namespace=services[one].namespace)
            case "lost":
                there = sorted(services[one].view().placeholders)
                if there:
                    world.remove_pod(there[two % len(there)])
            case "limit":
                most = one
                for each in services:
                    each.policy = replace(each.policy, limits=(replace(EIGHT, devices=most),))
            case _:
                run_together(world, services, two, at_once=bool(one))
    run_together(world, services, 60, every=2)
    assert sum(each.count for each in services) <= most
    wanted = sum(replicas.min for each in services for replicas in each.policy.replicas.values())
    assert sum(each.count for each in services) == min(wanted, most), "no capacity stays unused"
    before = [(each.made, len(each.ended())) for each in services]
    run_together(world, services, 60, every=5)
    assert [(each.made, len(each.ended())) for each in services] == before
