"""The states in the discussion of zero-to-jupyterhub#1414, its demands and thought experiment; Berkeley's fixes of 2026.

``U`` is a user, ``P`` a placeholder, ``+`` a free slot; nodes have five slots.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.objects import PLAIN, preferring
from tests.placeholders.planner.world import World, hub


def drawn(*nodes: str, minimum: int | None = None, **policy: object) -> World:
    """A world in a state of the discussion, on old nodes that are ready."""
    least = sum(node.count("P") for node in nodes) if minimum is None else minimum
    replicas = {PLAIN.id: ReplicaRange(least, 20)}
    world = World(Policy(shapes={PLAIN.id: PLAIN}, replicas={}, **policy))  # type: ignore[arg-type]
    names = "abcdefgh"[: len(nodes)]
    for name in names:
        world.node(name, cpu="5")
    world.settle()
    world.pass_time(hours=3)
    world.settle()
    for name, node in zip(names, nodes, strict=True):
        for number in range(node.count("U")):
            world.user(f"user-{name}{number}", nodeSelector={"kubernetes.io/hostname": name})
        for number in range(node.count("P")):
            placeholder(world, name, number)
    world.schedule()
    world.policy = replace(world.policy, replicas=replicas)
    assert world.picture(*names) == " ".join(nodes)
    return world


def placeholder(world: World, node: str, number: int) -> None:
    """A placeholder on just this node."""
    world.create_placeholder(PLAIN)
    key = max((each.key for each in world.view().placeholders.values() if each.is_pending), key=lambda key: key.name)
    assert world.snapshot.schedule(world.snapshot.pods[key], node).fits


def come(world: World, name: str = "new") -> str:
    """A user comes as the spawner does it: asks for a placement, and prefers that node. Returns the pod's node."""
    found = world.placement(PLAIN)
    world.user(name, affinity=preferring(found.node))
    world.schedule()
    return world.node_of(name)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("PPP++", "UU+++"),
        ("UPPP+", "UU+++"),
        ("PPP++", "UUP++"),
        ("UPPP+", "UUUP+"),
        ("P++++", "UU+++"),
        pytest.param("PPP++", "UP+++", id="one user, although the other node is fuller"),
    ],
)
def test_users_go_where_most_users_are(left: str, right: str) -> None:
    """ "We should schedule U to the right, in all examples": placeholders do not count."""
    world = drawn(left, right)
    assert come(world) == "b"
    assert not world.preempted


def test_the_next_users_fill_the_same_node_until_it_is_full() -> None:
    world = drawn("PPP++", "UU+++")
    assert [come(world, f"new-{number}") for number in range(3)] == ["b", "b", "b"]
    assert not world.preempted
    assert world.picture("a", "b") == "PPP++ UUUUU"


def test_a_placeholder_is_preempted_only_where_nothing_is_free() -> None:
    world = drawn("UUUPP", "UUUUU")
    found = world.placement(PLAIN)
    assert (found.state, found.node) == (AvailabilityState.READY, "a")
    assert come(world) == "a"
    assert len(world.preempted) == 1
    world.settle()
    assert len(world.pending) == 1, "the placeholder that asks for a node"


def test_little_used_so_that_a_node_can_go() -> None:
    """State 1: low average utilization, and all pods fit on one node less if placeholders are evicted."""
    world = drawn("UU+++", "PPP++")
    world.run(minutes=30)
    assert world.picture("a", "b") == "UUPPP +++++"
    assert world.users_on("a") == 2
    assert {each.cause for each in world.actions(DeletePlaceholder)} == {Cause.EMPTYING}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param("UU+++", "UPP++", id="a user on each node"),
        pytest.param("UUUU+", "PPP++", id="no capacity on the other node"),
    ],
)
def test_not_drained(left: str, right: str) -> None:
    """Users are never evicted; placeholders stay, as an eviction would gain nothing."""
    world = drawn(left, right)
    world.run(minutes=30)
    assert world.picture("a", "b") == f"{left} {right}"
    assert not world.ended()
    assert not world.written(names.DRAINING)


def test_a_node_that_still_pulls_gets_placeholders_and_no_users() -> None:
    """State 2: the pods do not fit on one node less, and the pre-puller of one node has not finished yet."""
    world = drawn("UUUPP")
    world.set_replicas(PLAIN, 4, 20)
    world.decide()
    world.node("b", cpu="5", images=())
    world.settle()
    assert world.picture("a", "b") == "UUUPP PP+++"
    assert [come(world, f"new-{number}") for number in range(2)] == ["a", "a"]
    world.settle()
    assert world.picture("a", "b") == "UUUUU PPPP+"
    # Without a free slot on a ready node the next user waits for the images, not for a new node.
    world.user("late")
    world.settle()
    assert "late" in world.pending
    assert world.last.pending[0].reason == "fits on node b, which is not ready for users yet"
    assert not [each for each in world.actions(CreatePlaceholder) if each.for_pending_pod]
    world.pull("b")
    world.settle()
    assert world.node_of("late") == "b"


def test_a_pending_user_gets_the_slot_of_a_user_that_leaves() -> None:
    """Event 3: first a pending user, then a pending placeholder."""
    world = drawn("UUUUU", minimum=1)
    world.settle()
    world.user("waits")
    world.settle()
    assert len(world.pending) >= 2
    world.leave("user-a0")
    world.settle()
    assert world.node_of("waits") == "a"
    world.leave("user-a1")
    world.settle()
    assert world.picture("a") == "UUUUP"


def test_pending_placeholders_get_the_fresh_node_before_users() -> None:
    """Event 2: the node is ready for pods, but not yet for users; the users' higher priority does not help."""
    world = drawn("UUUUU", minimum=2)
    world.settle()
    world.user("waits")
    world.settle()
    world.node("b", cpu="5", images=())
    world.settle()
    assert world.users_on("b") == 0
    assert world.placeholders_on("b") >= 2


# --- Berkeley's fixes of 2026 ------------------------------------------------------------------------------------------


def test_the_last_user_may_come_back() -> None:
    """Both of two nodes were drained when a user left quickly; now each node is left alone for a while."""
    world = drawn("UPP++", "U++++")
    world.settle()
    world.leave("user-a0")
    world.leave("user-b0")
    world.run(minutes=9)
    assert not world.written(names.DRAINING)


def test_a_node_in_each_zone_does_not_go_and_come_for_ever() -> None:
    """A scale-up adds one node for each zone: idle nodes are removed once, and no new node is asked for."""
    world = drawn("UUUUU", minimum=2)
    world.settle()
    for name in "bcd":
        world.node(name, cpu="5")
    world.run(minutes=90)
    world.log.clear()
    world.run(minutes=120)
    assert world.log == []
    used = [name for name in "bcd" if world.placeholders_on(name)]
    assert len(used) == 1, world.picture("a", "b", "c", "d")


def test_a_new_leader_drains_nothing_at_first() -> None:
    """Berkeley's scaler forgot its grace periods at a restart; here a new leader is careful instead."""
    world = drawn("UU+++", "PPP++")
    world.restart()
    world.run(minutes=9)
    assert not world.written(names.DRAINING)
    assert not world.actions(DeletePlaceholder)


@pytest.mark.parametrize("count", [-3, 0])
def test_counts_that_make_no_sense_ask_for_nothing(count: int) -> None:
    """A wrong calendar led to negative counts."""
    world = drawn("UU+++")
    world.set_replicas(PLAIN, count, count)
    world.settle()
    assert not world.view().placeholders


def test_cordoned_nodes_are_no_capacity() -> None:
    """Cordoned nodes counted as free, so too few were wanted."""
    world = drawn("UUUUU", "+++++", minimum=2)
    obj = world.objects["Node", ObjectKey("", "b")]
    obj["spec"]["unschedulable"] = True
    world.apply(obj)
    world.settle()
    assert len(world.pending) == 2, "placeholders are pending, so a node is asked for"
    assert world.placeholders_on("b") == 0


def test_grace_is_measured_from_the_last_user_not_from_the_node() -> None:
    world = drawn("UU+++", "UPP++")
    world.run(minutes=5)
    world.leave("user-b0")
    world.run(minutes=9.5)
    assert names.DRAINING not in world.snapshot.nodes["b"].node.labels
    world.run(minutes=2)
    assert world.snapshot.nodes["b"].node.labels.get(names.DRAINING) == names.EMPTYING
    assert world.policy.grace.freed_node == timedelta(minutes=10)


# --- the thought experiment: ten slots a node, five placeholders -------------------------------------------------------


def test_the_thought_experiment() -> None:
    world = hub((PLAIN, 5, 20), nodes="a")
    for number in range(7):
        world.user(f"user-{number}")
        world.schedule()
    world.settle()
    # 1: pending placeholders ask for a node.
    assert (world.picture("a"), len(world.pending)) == ("UUUUUUUPPP", 2)
    # 3: a user comes while the node is on its way.
    world.user("first")
    world.settle()
    assert (world.node_of("first"), world.picture("a"), len(world.pending)) == ("a", "UUUUUUUUPP", 3)
    # 4 and 5: users stay away from a node without the image, and placeholders go there.
    world.pass_time(minutes=5)
    world.node("b", images=())
    world.settle()
    assert world.picture("a", "b") == "UUUUUUUUPP PPP+++++++"
    world.user("second")
    world.settle()
    assert world.node_of("second") == "a", "not on the node that still pulls"
    assert not world.is_ready("b")
    # 6 and 7: once the image is there, users fill the busiest node first.
    world.pull("b")
    world.settle()
    assert world.is_ready("b")
    assert (world.users_on("a"), world.users_on("b")) == (9, 0)
