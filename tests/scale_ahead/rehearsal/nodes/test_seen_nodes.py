"""A cluster that is scaled to zero: earlier nodes show the capacity of new nodes of their kinds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply, described_supplies, supplies_of_known_kinds
from dra_spawner.scale_ahead.rehearsal.nodes.seen_nodes import SeenNodes
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, Rehearsal, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.rehearse import rehearse
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import NAMESPACE, SHARE, user_shape
from tests.placeholders.planner.simulated_cluster import START
from tests.placeholders.planner.world import World

LEAD = timedelta(minutes=10)
KIND = names.INSTANCE_TYPE
READY = {names.IMAGES_READY: names.TRUE}


def hub(*nodes: str, **more: Any) -> World:
    """Nodes that are open to users and run eight servers with a share each."""
    world = World(Policy(shapes={SHARE.id: SHARE}))
    for name in nodes:
        world.node(name, **{"gpus": 2, "memory": "40Gi", "labels": READY, **more})
    return world


def seen_in(world: World) -> SeenNodes:
    found = SeenNodes(KIND)
    found.look(world.view())
    return found


def supplies(world: World, seen: SeenNodes, **leads: timedelta) -> tuple[NodeSupply, ...]:
    known = {kind: (lead,) for kind, lead in leads.items()}
    return supplies_of_known_kinds(world.view(), KIND, LEAD, seen=known, past=seen.found(world.now))


def answer(world: World, given: tuple[NodeSupply, ...], users: int = 20, **more: Any) -> Rehearsal:
    expected = ExpectedUsers("gpu-slice", more.pop("shape", SHARE), users, world.now + timedelta(hours=1))
    return rehearse(expected, world.view(), NAMESPACE, given, RehearsalSettings(kinds_are_all=False, **more))


def test_a_cluster_without_nodes_is_proved_with_the_last_one() -> None:
    world = hub("a", "b")
    seen = seen_in(world)
    for name in ("a", "b"):
        world.remove_node(name)
    world.pass_time(hours=3)
    found = answer(world, supplies(world, seen))
    assert found.verdict == "Yes: 20 users can start at 13:00; 3 nodes of g2 are ordered at 12:45."
    assert [(each.slots, each.template_node) for each in found.orders] == [((8, 8, 4), "a")]
    messages = [each.message for each in found.problems]
    assert messages[0] == "new nodes of g2 are assumed to be like a, which was last seen at 2026-03-02 09:00"
    assert not any("no node has image" in each for each in messages), "the last one had it"
    assert [(each.name, each.nodes) for each in supplies(world, seen)] == [("g2", ())]


def test_without_seen_nodes_the_answer_is_not_known() -> None:
    world = hub()
    found = answer(world, supplies(world, SeenNodes(KIND)))
    assert [each.code for each in found.problems if each.blocks] == [ProblemCode.NOT_KNOWN]
    # The history knows that there were such nodes, and how long they took.
    found = answer(world, supplies(world, SeenNodes(KIND), a100=timedelta(minutes=7)))
    assert found.verdict == (
        "Not known whether 20 of 20 users can start at 10:00: no node of a100 is present, so its capacity is unknown."
    )


def test_a_present_node_counts_before_one_of_the_past() -> None:
    """The kind has fewer devices now."""
    world = hub("old")
    seen = seen_in(world)
    world.remove_node("old")
    world.node("new", gpus=1, memory="40Gi", labels={KIND: "g2", **READY})
    (order,) = answer(world, supplies(world, seen)).orders
    assert (order.template_node, order.slots) == ("new", (4, 4, 4, 4))


def test_an_incomplete_node_does_not_hide_the_capacity_of_its_kind() -> None:
    world = hub("old")
    seen = seen_in(world)
    world.remove_node("old")
    world.node("new", labels={KIND: "g2"})
    (order,) = answer(world, supplies(world, seen)).orders
    assert (order.template_node, order.nodes) == ("old", 3)
    assert answer(world, supplies(world, SeenNodes(KIND))).lacking == 20


def test_distinct_nodes_of_a_kind_are_remembered() -> None:
    world = hub()
    for zone in "abcdefg":
        world.node(f"in-{zone}", cpu="2", labels={KIND: "std", "zone": zone, **READY})
        world.node(f"also-in-{zone}", cpu="2", labels={KIND: "std", "zone": zone, **READY})
    seen = seen_in(world)
    assert [each.name for each in seen.found(world.now)] == [f"also-in-{zone}" for zone in "abcde"]
    for name in list(world.snapshot.nodes):
        world.remove_node(name)
    (order,) = answer(world, supplies(world, seen), 4, shape=user_shape(nodeSelector={"zone": "d"})).orders
    assert (order.template_node, order.nodes) == ("also-in-d", 2)


def test_nodes_are_looked_at_again_after_ten_minutes() -> None:
    world = hub("a")
    seen = seen_in(world)
    world.remove_node("a")
    world.node("b", gpus=4, memory="40Gi", labels={KIND: "g2", **READY})
    world.pass_time(minutes=9)
    seen.look(world.view())
    assert [each.name for each in seen.found(world.now)] == ["a"]
    world.pass_time(minutes=1)
    seen.look(world.view())
    assert [each.name for each in seen.found(world.now)] == ["b", "a"], "the newest first"


def test_a_kind_that_is_gone_for_two_weeks_is_forgotten() -> None:
    world = hub("a")
    seen = seen_in(world)
    assert seen.found(START + timedelta(days=14))
    assert not seen.found(START + timedelta(days=14, seconds=1))


def test_only_so_many_kinds_are_remembered() -> None:
    """A label that differs on every node makes each a kind of its own."""
    world = hub()
    for number in range(60):
        world.node(f"n{number}", labels={KIND: f"kind-{number}", **READY})
    assert len(seen_in(world).found(world.now)) == 50


@all_of_them("label", [{}, {names.IMAGES_READY: names.LATE}])
def test_nodes_that_are_not_open_to_users_are_not_remembered(label: dict[str, str]) -> None:
    assert not seen_in(hub("a", labels=label)).found(START)


def test_nodes_without_the_label_of_kinds() -> None:
    world = hub("a", "b", labels={KIND: "", **READY})
    seen = seen_in(world)
    assert [(each.name, each.nodes) for each in supplies(world, seen)] == [("the kind of a", ("a", "b"))]
    for name in ("a", "b"):
        world.remove_node(name)
    (order,) = answer(world, supplies(world, seen)).orders
    assert (order.supply.name, order.template_node) == ("the kind of a", "a")


def test_a_described_kind_is_proved_with_a_node_of_the_past() -> None:
    world = hub("a", labels={"pool": "gpu", **READY})
    seen = seen_in(world)
    world.remove_node("a")
    kinds = [NodeKind("gpu", 10, (LEAD,), max_nodes=9, labels=(("pool", "gpu"),)), NodeKind("other", 4, (LEAD,))]
    leads = {"g2": (timedelta(minutes=6),)}
    gpu, other = described_supplies(world.view(), kinds, "gpu-slice", KIND, leads, seen.found(world.now))
    assert ([each.name for each in gpu.past], gpu.lead, other.past) == (["a"], timedelta(minutes=6), ())
    (order,) = answer(world, (gpu, other)).orders
    assert (order.template_node, order.slots) == ("a", (8, 8, 4)), "not ten, as described"
    without = replace(gpu, past=())
    assert answer(world, (without, other)).verdict.startswith("Yes, if a node of gpu runs 10 servers: ")
