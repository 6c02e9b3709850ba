"""Limits of an administrator: each kind, its scope, the placeholders that count, and the exceptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.round import DenialCause
from dra_spawner.placeholders.planner.targets.limits import Limit, resolved_limits
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, policy_with
from dra_spawner.placeholders.planner.targets.shapes import Shape
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
from tests.placeholders.planner.world import World, hub

PAIR = user_shape({"gpu": gpu_claim(count=2)})
#: Consumes 15Gi, as shares have steps of 5Gi.
TWELVE = user_shape({"gpu": share_claim("12Gi")})
EXTENDED = user_shape(extended=2)
CLASS = "gpu.example.com"
A100 = 'device.attributes["gpu.example.com"].model == "a100"'
OF_A100 = user_shape({"gpu": gpu_claim(selectors=[{"cel": {"expression": A100}}])})
OF_OTHERS = user_shape({"gpu": gpu_claim(selectors=[{"cel": {"expression": f"!({A100})"}}])})
ONE = {"gpu": gpu_claim()}

Nodes = Callable[[World], None]


def memory(amount: str) -> Mapping[str, Quantity]:
    return {"memory": Quantity.parse(amount)}


def limited(*shapes: tuple[Shape, int], limits: tuple[Limit, ...], **node: Any) -> World:
    """A hub with targets and limits, and a node if anything is said about it; a minute has passed then."""
    world = hub(*((shape, wanted, 50) for shape, wanted in shapes), policy={"limits": limits})
    if node:
        world.node("a", **node)
        world.run(minutes=1)
    return world


def limit(world: World, *limits: Limit, minutes: float = 1) -> None:
    world.policy = replace(world.policy, limits=limits)
    world.run(minutes=minutes)


def numbers(world: World, *shapes: Shape) -> list[int]:
    return [world.number(each) for each in shapes]


def denied(world: World, shape: Shape) -> tuple[str, int, int]:
    """The cause, and the numbers of wanted and allowed placeholders."""
    denial = world.last.limited[shape.id]
    return denial.cause.value, denial.wanted, denial.allowed


# --- what is limited -------------------------------------------------------------------------------------------------


@pytest.mark.promise("A limit of placeholders holds.")
def test_a_number_of_placeholders() -> None:
    few = Limit("few", placeholders=3, shapes=frozenset((GPU.id,)))
    world = limited((GPU, 4), (PLAIN, 2), limits=(few,), gpus=6)
    assert numbers(world, GPU, PLAIN) == [3, 2]
    assert denied(world, GPU) == ("limit", 4, 3)
    sentence = world.last.limited[GPU.id].sentence("gpu-slice")
    assert sentence == "Placeholders of gpu-slice: 4 are wanted, 3 are allowed by the limit 'few' (3 placeholders)."
    assert PLAIN.id not in world.last.limited
    limit(world)
    assert numbers(world, GPU) == [4]
    assert not world.last.limited


def no_node(world: World) -> None:
    """The requests count before the first node."""


def node(**kind: Any) -> Nodes:
    return lambda world: world.node("a", **kind)


def devices(*devices: Mapping[str, Any]) -> Nodes:
    """A node with devices of such attributes or capacities."""

    def nodes(world: World) -> None:
        world.node("a")
        item = gpu_slice("a", len(devices), "")
        for device, fields in zip(item["spec"]["devices"], devices, strict=True):
            device |= fields
        world.apply(item)

    return nodes


LARGE = {"capacity": {"memory": {"value": "40Gi"}}}
AN_A100, A_T4 = ({"attributes": {"model": {"string": model}}} for model in ("a100", "t4"))
Row = tuple[str, list[tuple[Shape, int]], Limit, Nodes, list[int]]
ROWS: tuple[Row, ...] = (
    ("a class, where shapes take turns", [(GPU, 3), (PAIR, 3)], Limit("l", devices=4, device_class=CLASS), node(cpu="20", gpus=12), [2, 1]),
    ("another class", [(GPU, 3)], Limit("l", devices=0, device_class="nic.example.com"), node(gpus=3), [3]),
    ("before the first node", [(PAIR, 3)], Limit("l", devices=5), no_node, [2]),
    ("shares: 15Gi each", [(TWELVE, 4)], Limit("l", capacity=memory("40Gi"), device_class=CLASS), node(gpus=2, memory="80Gi"), [2]),
    ("a whole device with all its capacity", [(GPU, 4)], Limit("l", capacity=memory("100Gi")), devices(*[LARGE] * 4), [2]),
    ("selected devices", [(OF_A100, 3), (OF_OTHERS, 3)], Limit("l", devices=1, selector=A100), devices(*[AN_A100] * 2, *[A_T4] * 3), [1, 3]),
    ("a selector that fails on a device", [(GPU, 2)], Limit("l", devices=0, selector=A100), node(gpus=2), [2]),
    ("extended resources", [(EXTENDED, 4)], Limit("l", devices=5, device_class=CLASS), node(gpus=10), [2]),
)  # fmt: skip


def test_what_counts() -> None:
    """No placeholder is created in vain."""
    found = {}
    for name, shapes, most, nodes, _ in ROWS:
        world = limited(*shapes, limits=(most,))
        nodes(world)
        world.run(minutes=1)
        found[name] = numbers(world, *(shape for shape, _ in shapes)), world.made
    assert found == {name: (expected, sum(expected)) for name, *_, expected in ROWS}
    assert EXTENDED.containers[0]["requests"][EXTENDED_RESOURCE] == "2"


def test_a_request_that_may_get_such_a_device_counts_until_it_has_another() -> None:
    world = limited((GPU, 3), limits=(Limit("a100", devices=1, selector=A100),))
    devices(*[A_T4] * 3, AN_A100)(world)
    world.run(minutes=2)
    assert numbers(world, GPU) == [3]


def test_a_denial_names_the_limit() -> None:
    rows = (
        (Limit("gpus", devices=4, device_class=CLASS), "limit 'gpus' (4 devices of gpu.example.com)"),
        (Limit("memory", capacity=memory("40Gi"), device_class=CLASS), "limit 'memory' (40Gi of memory of gpu.example.com)"),
        (Limit("a100", devices=1, selector="true"), "limit 'a100' (1 device that its selector selects)"),
    )  # fmt: skip
    for most, sentence in rows:
        world = limited((TWELVE, 9), limits=(most,), gpus=9, memory="40Gi")
        assert str(most) == sentence
        assert sentence in world.last.limited[TWELVE.id].sentence("")
    world = limited((GPU, 3), (PAIR, 3), limits=(Limit("gpus", devices=4),), cpu="20", gpus=12)
    assert {denied(world, each) for each in (GPU, PAIR)} == {("limit", 3, 2), ("limit", 3, 1)}


def test_a_summed_capacity_before_the_first_node() -> None:
    """Without known devices three are created; later, one of them is too many, as they consume more."""
    world = limited((TWELVE, 4), limits=(Limit("memory", capacity=memory("40Gi")),))
    world.run(minutes=1)
    assert numbers(world, TWELVE) == [3]
    world.node("a", gpus=2, memory="80Gi")
    world.run(minutes=5)
    assert numbers(world, TWELVE) == [2]
    assert world.made == 3, "it does not go on and on"


def test_a_shared_device_counts_once() -> None:
    world = limited((SHARE, 4), limits=(), gpus=1, memory="40Gi")
    assert numbers(world, SHARE) == [4]
    limit(world, Limit("one", devices=1), minutes=2)
    assert numbers(world, SHARE) == [4], "four shares of one device are one device"
    limit(world, Limit("none", devices=0), minutes=2)
    assert numbers(world, SHARE) == [0]


def test_shares_fill_all_devices_that_the_limit_allows() -> None:
    """The next share is expected on its own device, until it is on a device that another share uses."""
    world = limited((SHARE, 20), limits=(Limit("two", devices=2),), cpu="40", gpus=4, memory="40Gi")
    world.run(minutes=4)
    held = {each.id for claim in world.view().warm_claims for each in claim.claim.status.devices or ()}
    assert len(held) == 2
    assert world.number(SHARE) >= 5, "the first device is full"


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


# --- scopes ----------------------------------------------------------------------------------------------------------


def test_of_a_group_of_profiles_and_of_the_cluster() -> None:
    published = PublishedShapes({"gpu": GPU, "pair": PAIR, "plain": PLAIN, "plain/size=large": PAIR})
    limits = (
        Limit("teaching", placeholders=3, profiles=("gpu", "pair")),
        Limit("all", placeholders=6),
        Limit("typo", placeholders=1, profiles=("gup",)),
    )
    replicas = dict.fromkeys(("gpu", "pair", "plain"), ReplicaRange(4, 9))
    policy, problems = policy_with(Policy(limits=limits), published, replicas)
    assert problems == ["limit 'typo': the hub publishes no choice of profile gup"]
    world = World(policy)
    world.node("a", "40", gpus=20)
    world.run(minutes=1)
    assert numbers(world, GPU, PAIR, PLAIN) == [2, 1, 3]
    assert "'teaching'" in world.last.limited[GPU.id].because
    assert "'all'" in world.last.limited[PLAIN.id].because


def test_the_shapes_of_a_profile() -> None:
    """All choices of a profile, one choice, options in another order, no such choice, no such profile."""
    shapes = {"a": "1", "a/x=1": "2", "a/x=1,y=2": "3", "b": "4"}
    expected = {"a": {"1", "2", "3"}, "a/x=1": {"2"}, "a/y=2,x=1": {"3"}, "a/x=9": set(), "c": set()}
    resolved = {name: resolved_limits((Limit("l", profiles=(name,)),), shapes) for name in expected}
    assert {name: set(limit.shapes or ()) for name, ((limit,), _) in resolved.items()} == expected
    for name, ((found,), problems) in resolved.items():
        assert bool(problems) is not bool(expected[name]), name
        assert [found.applies_to(shape) for shape in ("1", "4", "")] == ["1" in expected[name], False, False], name
    (of_all,), _ = resolved_limits((Limit("l"),), {})
    assert of_all.applies_to("anything")


# --- users are not limited -------------------------------------------------------------------------------------------


def test_placeholders_for_pending_servers_are_not_limited() -> None:
    world = limited((GPU, 3), limits=(Limit("none", placeholders=0),))
    world.node("a", gpus=1)
    world.users(("ada", "bob", "cy"), ONE)
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
    world = limited((GPU, 1), limits=(Limit("one", devices=1),), gpus=2)
    found = world.placement(GPU)
    assert found.state is AvailabilityState.READY
    world.user("ada", claim_names={"gpu": world.reservation(found, "ada")})
    world.run(minutes=1)
    assert world.node_of("ada") == "a"
    assert len(world.warm(GPU)) == 1
    assert not world.last.limited


def test_servers_do_not_count() -> None:
    world = limited((GPU, 2), limits=(Limit("two", devices=2, placeholders=2),))
    world.node("a", gpus=9)
    world.users(5, ONE)
    world.run(minutes=1)
    assert numbers(world, GPU) == [2]


# --- a limit that is lowered -----------------------------------------------------------------------------------------


def test_placeholders_above_a_lowered_limit_go_warm_ones_last() -> None:
    world = limited((GPU, 4), limits=(), gpus=3)
    warm = {each.key for each in world.warm(GPU)}
    assert (len(warm), numbers(world, GPU)) == (3, [4])
    limit(world, Limit("three", devices=3))
    assert {each.key for each in world.warm(GPU)} == warm
    limit(world, Limit("one", devices=1, device_class=CLASS))
    assert numbers(world, GPU) == [1]
    assert [each.reason for each in world.ended(Cause.SURPLUS)] == [
        "no more than 3 are allowed by the limit 'three' (3 devices)",
        *["no more than 1 are allowed by the limit 'one' (1 device of gpu.example.com)"] * 2,
    ]
    made = world.made
    world.run(minutes=10)
    assert world.made == made


def test_while_placeholders_terminate_no_more_go() -> None:
    """Their devices are not free yet, so none is created; but no further placeholder is deleted for them."""
    world = limited((GPU, 6), limits=())
    world.grace = timedelta(seconds=7)
    world.node("a", gpus=6)
    world.run(minutes=1)
    world.policy = replace(world.policy, limits=(Limit("four", devices=4),))
    world.run(minutes=2, every_seconds=1)
    assert len(world.ended(Cause.SURPLUS)) == 2
    assert numbers(world, GPU) == [4]
    limit(world, Limit("five", devices=5))
    assert world.made == 6 + 1


def test_placeholders_of_a_shape_with_pending_users_stay() -> None:
    """One of them may be the placeholder that was created for a user."""
    world = limited((GPU, 2), limits=(), gpus=6)
    world.refused["ada"] = "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity."
    world.user("ada", ONE)
    world.run(minutes=1)
    assert [each.needs_node for each in world.last.pending] == [True]
    there = numbers(world, GPU)
    limit(world, Limit("none", placeholders=0))
    assert numbers(world, GPU) == there
    world.leave("ada")
    world.run(minutes=2)
    assert numbers(world, GPU) == [0]


def test_a_reserved_placeholder_stays() -> None:
    world = limited((GPU, 1), limits=(), gpus=1)
    world.reservation(world.placement(GPU), "ada")
    world.policy = replace(world.policy, limits=(Limit("none", devices=0),))
    world.decide()
    assert numbers(world, GPU) == [1]
    world.run(minutes=2)
    assert numbers(world, GPU) == [0], "its server never came"
    assert not world.ended(Cause.SURPLUS)


def test_the_cause_is_a_closed_vocabulary() -> None:
    assert {each.value for each in DenialCause if each.is_resumable} == {"autoscaler", "failures"}
