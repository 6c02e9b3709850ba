"""Limits of an administrator: each kind, its scope, the placeholders that count, and the exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder
from dra_spawner.placeholders.planner.limited_targets import DenialCause
from dra_spawner.placeholders.planner.limits import Limit, resolved_limits
from dra_spawner.placeholders.planner.placement import PlacementKind
from dra_spawner.placeholders.planner.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.published_shapes import PublishedShapes, policy_with
from dra_spawner.placeholders.planner.shapes import Shape
from tests.placeholders.planner.device_hub import ended, hub, placement
from tests.placeholders.planner.objects import (
    EXTENDED_RESOURCE,
    GPU,
    PLAIN,
    SHARE,
    gpu_claim,
    gpu_slice,
    share_claim,
    user_shape,
)
from tests.placeholders.planner.world import World

PAIR = user_shape({"gpu": gpu_claim(count=2)})
#: Consumes 15Gi, as shares have steps of 5Gi.
TWELVE = user_shape({"gpu": share_claim("12Gi")})
CLASS = "gpu.example.com"
A100 = 'device.attributes["gpu.example.com"].model == "a100"'


def memory(amount: str) -> Mapping[str, Quantity]:
    return {"memory": Quantity.parse(amount)}


def limited(*shapes: tuple[Shape, int], limits: tuple[Limit, ...]) -> World:
    """A hub with targets and limits, and without nodes."""
    world = hub(*((shape, wanted, 50) for shape, wanted in shapes))
    world.policy = replace(world.policy, limits=limits)
    return world


def numbers(world: World, *shapes: Shape) -> list[int]:
    """Placeholders of each shape."""
    return [len(world.view().placeholders_of_shape.get(shape.id, ())) for shape in shapes]


def denied(world: World, shape: Shape) -> tuple[str, int, int]:
    """The cause, and the numbers of wanted and allowed placeholders."""
    denial = world.last.limited[shape.id]
    return denial.cause.value, denial.wanted, denial.allowed


# --- what is limited -------------------------------------------------------------------------------------------------


def test_a_number_of_placeholders() -> None:
    world = limited((GPU, 4), (PLAIN, 2), limits=(Limit("few", placeholders=3, shapes=frozenset((GPU.id,))),))
    world.node("a", gpus=6)
    world.run(minutes=1)
    assert numbers(world, GPU, PLAIN) == [3, 2]
    assert denied(world, GPU) == ("limit", 4, 3)
    sentence = world.last.limited[GPU.id].sentence("gpu-slice")
    assert sentence == "Placeholders of gpu-slice: 4 are wanted, 3 are allowed by the limit 'few' (3 placeholders)."
    assert PLAIN.id not in world.last.limited
    world.policy = replace(world.policy, limits=())
    world.run(minutes=1)
    assert numbers(world, GPU) == [4]
    assert not world.last.limited


def test_devices_of_a_class() -> None:
    """Shapes take turns, and each counts as many as it asks for."""
    limits = (Limit("gpus", devices=4, device_class=CLASS),)
    world = limited((GPU, 3), (PAIR, 3), limits=limits)
    world.node("a", "20", gpus=12)
    world.run(minutes=1)
    assert numbers(world, GPU, PAIR) == [2, 1]
    assert str(limits[0]) == "limit 'gpus' (4 devices of gpu.example.com)"
    assert {denied(world, each) for each in (GPU, PAIR)} == {("limit", 3, 2), ("limit", 3, 1)}


def test_devices_of_other_classes_do_not_count() -> None:
    world = limited((GPU, 3), limits=(Limit("nics", devices=0, device_class="nic.example.com"),))
    world.node("a", gpus=3)
    world.run(minutes=1)
    assert numbers(world, GPU) == [3]


def test_before_the_first_node_the_requests_count() -> None:
    world = limited((PAIR, 3), limits=(Limit("gpus", devices=5),))
    world.run(minutes=1)
    assert numbers(world, PAIR) == [2]


def test_a_summed_capacity_counts_the_consumption_of_shares() -> None:
    """Three placeholders of 12Gi would be 36Gi; with the steps of the devices they consume 45Gi."""
    world = limited((TWELVE, 4), limits=(Limit("memory", capacity=memory("40Gi"), device_class=CLASS),))
    world.node("a", gpus=2, memory="80Gi")
    world.run(minutes=1)
    assert numbers(world, TWELVE) == [2]
    assert len(world.actions(CreatePlaceholder)) == 2, "none was created in vain"
    sentence = "limit 'memory' (40Gi of memory of gpu.example.com)"
    assert sentence in world.last.limited[TWELVE.id].sentence("")


def test_a_summed_capacity_before_the_first_node() -> None:
    """Without known devices three are created; later, one of them is too many, as they consume more."""
    world = limited((TWELVE, 4), limits=(Limit("memory", capacity=memory("40Gi")),))
    world.run(minutes=1)
    assert numbers(world, TWELVE) == [3]
    world.node("a", gpus=2, memory="80Gi")
    world.run(minutes=5)
    assert numbers(world, TWELVE) == [2]
    assert len(world.actions(CreatePlaceholder)) == 3, "it does not go on and on"


def test_a_whole_device_counts_with_all_of_its_capacity() -> None:
    world = limited((GPU, 4), limits=(Limit("memory", capacity=memory("100Gi")),))
    world.node("a")
    item = gpu_slice("a", 4, "")
    for device in item["spec"]["devices"]:
        device["capacity"] = {"memory": {"value": "40Gi"}}
    world.apply(item)
    world.run(minutes=1)
    assert numbers(world, GPU) == [2]


def test_a_shared_device_counts_once() -> None:
    world = limited((SHARE, 4), limits=())
    world.node("a", gpus=1, memory="40Gi")
    world.run(minutes=1)
    assert numbers(world, SHARE) == [4]
    world.policy = replace(world.policy, limits=(Limit("one", devices=1),))
    world.run(minutes=2)
    assert numbers(world, SHARE) == [4], "four shares of one device are one device"
    world.policy = replace(world.policy, limits=(Limit("none", devices=0),))
    world.run(minutes=2)
    assert numbers(world, SHARE) == [0]


def test_shares_fill_all_devices_that_the_limit_allows() -> None:
    """The next share is expected on its own device, until it is on a device that another share uses."""
    world = limited((SHARE, 20), limits=(Limit("two", devices=2),))
    world.node("a", "40", gpus=4, memory="40Gi")
    world.run(minutes=5)
    view = world.view()
    held = {each.id for claim in view.warm_claims() for each in claim.claim.status.devices or ()}
    assert len(held) == 2
    assert numbers(world, SHARE)[0] >= 5, "the first device is full"


def test_a_selector_picks_the_devices_that_count() -> None:
    of_a100 = user_shape({"gpu": gpu_claim(selectors=[{"cel": {"expression": A100}}])})
    others = user_shape({"gpu": gpu_claim(selectors=[{"cel": {"expression": f"!({A100})"}}])})
    world = limited((of_a100, 3), (others, 3), limits=(Limit("a100", devices=1, selector=A100),))
    models(world, "a", {"gpu-0": "a100", "gpu-1": "a100", "gpu-2": "t4", "gpu-3": "t4", "gpu-4": "t4"})
    world.run(minutes=1)
    assert numbers(world, of_a100, others) == [1, 3]
    sentence = "limit 'a100' (1 device that its selector selects)"
    assert sentence in world.last.limited[of_a100.id].sentence("")


def test_a_request_that_may_get_such_a_device_counts_until_it_has_another() -> None:
    world = limited((GPU, 3), limits=(Limit("a100", devices=1, selector=A100),))
    models(world, "a", {"gpu-0": "t4", "gpu-1": "t4", "gpu-2": "t4", "gpu-3": "a100"})
    world.run(minutes=2)
    assert numbers(world, GPU) == [3]


def test_a_selector_that_fails_on_a_device_does_not_select_it() -> None:
    world = limited((GPU, 2), limits=(Limit("a100", devices=0, selector=A100),))
    world.node("a", gpus=2)  # without attributes
    world.run(minutes=1)
    assert numbers(world, GPU) == [2]


def models(world: World, node: str, devices: Mapping[str, str]) -> None:
    """A node with devices of the given models."""
    world.node(node)
    item = gpu_slice(node, len(devices), "")
    for device, (name, model) in zip(item["spec"]["devices"], devices.items(), strict=True):
        device |= {"name": name, "attributes": {"model": {"string": model}}}
    world.apply(item)


def test_alternatives_count_as_the_one_that_counts_most() -> None:
    requests: list[dict[str, Any]] = [
        {"name": "one", "deviceClassName": CLASS, "count": 1},
        {"name": "three", "deviceClassName": CLASS, "count": 3},
    ]
    either = user_shape({"gpu": {"devices": {"requests": [{"name": "gpu", "firstAvailable": requests}]}}})
    world = limited((either, 3), limits=(Limit("gpus", devices=3),))
    world.run(minutes=1)
    assert numbers(world, either) == [1]
    world.node("a", gpus=9)
    world.run(minutes=1)
    assert numbers(world, either) == [1], "one device of three is in use, and the next request may use three"


def test_extended_resources_count_as_the_devices_behind_them() -> None:
    shape = user_shape(extended=2)
    assert shape.containers[0]["requests"][EXTENDED_RESOURCE] == "2"
    world = limited((shape, 4), limits=(Limit("gpus", devices=5, device_class=CLASS),))
    world.node("a", gpus=10)
    world.run(minutes=1)
    assert numbers(world, shape) == [2]


# --- scopes ----------------------------------------------------------------------------------------------------------


def test_of_a_group_of_profiles_and_of_the_cluster() -> None:
    published = PublishedShapes({"gpu": GPU, "pair": PAIR, "plain": PLAIN, "plain/size=large": PAIR})
    replicas = {"gpu": ReplicaRange(4, 9), "pair": ReplicaRange(4, 9), "plain": ReplicaRange(4, 9)}
    limits = (
        Limit("teaching", placeholders=3, profiles=("gpu", "pair")),
        Limit("all", placeholders=6),
        Limit("typo", placeholders=1, profiles=("gup",)),
    )
    policy, problems = policy_with(Policy(limits=limits), published, replicas)
    assert problems == ["limit 'typo': the hub publishes no choice of profile gup"]
    world = World(policy)
    world.node("a", "40", gpus=20)
    world.run(minutes=1)
    assert numbers(world, GPU, PAIR, PLAIN) == [2, 1, 3]
    assert "'teaching'" in world.last.limited[GPU.id].because
    assert "'all'" in world.last.limited[PLAIN.id].because


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        pytest.param("a", {"1", "2", "3"}, id="all choices of a profile"),
        pytest.param("a/x=1", {"2"}, id="one choice"),
        pytest.param("a/y=2,x=1", {"3"}, id="options in another order"),
        pytest.param("a/x=9", set(), id="no such choice"),
        pytest.param("c", set(), id="no such profile"),
    ],
)
def test_the_shapes_of_a_profile(profile: str, expected: set[str]) -> None:
    shapes = {"a": "1", "a/x=1": "2", "a/x=1,y=2": "3", "b": "4"}
    (limit,), problems = resolved_limits((Limit("l", profiles=(profile,)),), shapes)
    assert limit.shapes == expected
    assert bool(problems) is not bool(expected)
    assert [limit.applies_to(shape) for shape in ("1", "4", "")] == ["1" in expected, False, False]


def test_of_all_when_no_profile_is_named() -> None:
    (limit,), _ = resolved_limits((Limit("l"),), {})
    assert limit.applies_to("anything")


# --- users are not limited -------------------------------------------------------------------------------------------


def test_placeholders_for_pending_servers_are_not_limited() -> None:
    world = limited((GPU, 3), limits=(Limit("none", placeholders=0),))
    world.node("a", gpus=1)
    for name in ("ada", "bob", "cy"):
        world.user(name, {"gpu": gpu_claim()})
    world.run(minutes=2)
    assert numbers(world, GPU) == [2], "one user has the device"
    for name in "bc":
        world.node(name, gpus=1)
    world.run(minutes=5)
    assert not world.pending
    assert numbers(world, GPU) == [0]


def test_placeholders_for_pending_servers_come_on_top_of_limits() -> None:
    world = limited((GPU, 4), limits=(Limit("two", devices=2),))
    world.user("ada", {"gpu": gpu_claim(count=1)})
    world.run(minutes=1)
    # One placeholder is for Ada, and two are for the target.
    assert numbers(world, GPU) == [3]
    assert denied(world, GPU) == ("limit", 4, 3)


def test_a_handed_over_claim_counts_no_longer() -> None:
    world = limited((GPU, 1), limits=(Limit("one", devices=1),))
    world.node("a", gpus=2)
    world.run(minutes=1)
    found = placement(world, GPU)
    assert found.kind is PlacementKind.WARM
    world.user("ada", claim_names={"gpu": world.reservation(found, "ada")})
    world.run(minutes=1)
    assert world.where("ada") == "a"
    assert len(world.view().warm(GPU.id)) == 1
    assert not world.last.limited


def test_servers_do_not_count() -> None:
    world = limited((GPU, 2), limits=(Limit("two", devices=2, placeholders=2),))
    world.node("a", gpus=9)
    for number in range(5):
        world.user(f"user-{number}", {"gpu": gpu_claim()})
    world.run(minutes=1)
    assert numbers(world, GPU) == [2]


# --- a limit that is lowered -----------------------------------------------------------------------------------------


def test_placeholders_above_a_lowered_limit_go_warm_ones_last() -> None:
    world = limited((GPU, 4), limits=())
    world.node("a", gpus=3)
    world.run(minutes=1)
    warm = {each.key for each in world.view().warm(GPU.id)}
    assert (len(warm), numbers(world, GPU)) == (3, [4])
    world.policy = replace(world.policy, limits=(Limit("three", devices=3),))
    world.run(minutes=1)
    assert {each.key for each in world.view().warm(GPU.id)} == warm
    (first,) = ended(world, Cause.SURPLUS)
    assert first.reason == "no more than 3 are allowed by the limit 'three' (3 devices)"
    world.policy = replace(world.policy, limits=(Limit("one", devices=1, device_class=CLASS),))
    world.run(minutes=1)
    assert numbers(world, GPU) == [1]
    assert [each.reason for each in ended(world, Cause.SURPLUS)[1:]] == [
        "no more than 1 are allowed by the limit 'one' (1 device of gpu.example.com)"
    ] * 2
    made = len(world.actions(CreatePlaceholder))
    world.run(minutes=10)
    assert len(world.actions(CreatePlaceholder)) == made


def test_while_placeholders_terminate_no_more_go() -> None:
    """Their devices are not free yet, so none is created; but no further placeholder is deleted for them."""
    world = limited((GPU, 6), limits=())
    world.grace = timedelta(seconds=7)
    world.node("a", gpus=6)
    world.run(minutes=1)
    world.policy = replace(world.policy, limits=(Limit("four", devices=4),))
    world.run(minutes=2, every_seconds=1)
    assert len(ended(world, Cause.SURPLUS)) == 2
    assert numbers(world, GPU) == [4]
    world.policy = replace(world.policy, limits=(Limit("five", devices=5),))
    world.run(minutes=1)
    assert len(world.actions(CreatePlaceholder)) == 6 + 1


def test_placeholders_of_a_shape_with_pending_users_stay() -> None:
    """One of them may be the placeholder that was created for a user."""
    world = limited((GPU, 2), limits=())
    world.node("a", gpus=6)
    world.run(minutes=1)
    world.refused["ada"] = "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity."
    world.user("ada", {"gpu": gpu_claim()})
    world.run(minutes=1)
    assert [each.needs_node for each in world.last.pending] == [True]
    there = numbers(world, GPU)
    world.policy = replace(world.policy, limits=(Limit("none", placeholders=0),))
    world.run(minutes=1)
    assert numbers(world, GPU) == there
    world.leave("ada")
    world.run(minutes=2)
    assert numbers(world, GPU) == [0]


def test_a_reserved_placeholder_stays() -> None:
    world = limited((GPU, 1), limits=())
    world.node("a", gpus=1)
    world.run(minutes=1)
    world.reservation(placement(world, GPU), "ada")
    world.policy = replace(world.policy, limits=(Limit("none", devices=0),))
    world.decide()
    assert numbers(world, GPU) == [1]
    world.run(minutes=2)
    assert numbers(world, GPU) == [0], "its server never came"
    assert not ended(world, Cause.SURPLUS)


def test_the_cause_is_a_closed_vocabulary() -> None:
    assert {each.value for each in DenialCause if each.is_resumable} == {"autoscaler", "failures"}
