"""The label that admits users' servers to a node: it is removed at once, and comes back late and not for a moment."""

from __future__ import annotations

import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, LabelNode, in_order
from tests.placeholders.planner.objects import GPU, PLAIN, gpu_slice, user_shape
from tests.placeholders.planner.world import World, hub


def ready_node() -> World:
    world = hub((GPU, 1, 5), nodes="a", gpus=1, labels={"node.kubernetes.io/instance-type": "gpu-node"})
    assert world.is_ready("a")
    return world


def test_the_label_is_removed_at_once_and_comes_back_when_nothing_was_missing_for_a_while() -> None:
    world = ready_node()
    world.pull("a", images=())
    world.lose_slice("a")
    world.decide()
    assert not world.is_ready("a"), "the first round that sees it"
    world.slice("a", 1)
    world.run(minutes=2)
    assert not world.is_ready("a"), "the images are still missing"
    world.pull("a")
    settle = world.policy.readiness.settle.total_seconds()
    world.run(minutes=(settle - 10) / 60)
    assert not world.is_ready("a"), "it may be for a moment"
    world.run(minutes=20 / 60)
    assert world.is_ready("a")
    assert world.written(names.IMAGES_READY) == [names.TRUE, None, names.TRUE]


def test_devices_that_come_and_go_change_the_label_once() -> None:
    world = ready_node()
    for _ in range(20):
        world.lose_slice("a")
        world.run(minutes=10 / 60)
        world.slice("a", 1)
        world.run(minutes=10 / 60)
    assert world.written(names.IMAGES_READY) == [names.TRUE, None]


def test_a_node_without_a_kind_must_have_the_devices_that_it_had() -> None:
    """For clusters without labels of node kinds."""
    world = hub((GPU, 1, 5))
    kind = world.policy.readiness.kind_label
    world.node("a", gpus=1, labels={kind: ""})
    world.node("b", labels={kind: ""})
    world.settle()
    world.lose_slice("a")
    world.run(minutes=2)
    assert not world.is_ready("a")
    assert world.is_ready("b"), "it never had any"
    world.slice("a", 1)
    world.run(minutes=2)
    assert world.is_ready("a")


def test_a_node_that_comes_again_owes_nothing() -> None:
    """A node of the same name may be another machine; and the memory of removed nodes is bounded."""
    world = hub((GPU, 1, 5))
    kind = world.policy.readiness.kind_label
    world.node("a", gpus=1, labels={kind: ""})
    world.settle()
    assert world.planner_state.drivers
    world.remove_node("a")
    world.settle()
    assert not world.planner_state.drivers


@pytest.mark.promise("A node is open to users only while all its devices are published.")
def test_a_pool_of_which_a_part_is_missing_closes_the_node() -> None:
    world = ready_node()
    part = gpu_slice("a", 1, "")
    part["spec"]["pool"] |= {"generation": 2, "resourceSliceCount": 2}
    world.apply(part)
    world.decide()
    assert not world.is_ready("a")


def test_one_node_is_closed_before_another_is_opened() -> None:
    world = ready_node()
    world.node("b", gpus=1)
    world.pull("a", images=())
    decided = world.decide().actions
    values = [each.value for each in decided if isinstance(each, LabelNode) and each.label == names.IMAGES_READY]
    assert values == [None, names.TRUE]


def test_a_node_is_closed_before_anything_is_created() -> None:
    """Otherwise the scheduler might send a server to the node."""
    closed = LabelNode("a", names.IMAGES_READY, None, "x")
    opened = LabelNode("b", names.IMAGES_READY, names.TRUE, "x")
    made = CreatePlaceholder(GPU.id, "x")
    assert in_order([], [opened, made, closed]) == [[(closed,)], [(opened,), (made,)]]


@pytest.mark.promise("Readiness never strands a running server.")
def test_the_label_stays_where_servers_are() -> None:
    """A restart of the kubelet would end them (tests/node/test_readiness.py)."""
    world = ready_node()
    world.user("ada")
    world.settle()
    world.pull("a", images=())
    world.run(minutes=1)
    assert world.written(names.IMAGES_READY) == [names.TRUE, names.LATE]
    world.leave("ada")
    world.run(minutes=1)
    assert world.written(names.IMAGES_READY) == [names.TRUE, names.LATE, None], "no server needs it"


def test_a_late_node_is_ready_again_when_nothing_is_missing() -> None:
    world = ready_node()
    world.user("ada")
    world.settle()
    world.pull("a", images=())
    world.run(minutes=1)
    world.pull("a")
    world.run(minutes=5)
    assert world.written(names.IMAGES_READY) == [names.TRUE, names.LATE, names.TRUE]


def test_a_node_that_is_late_for_long_stays_late() -> None:
    world = ready_node()
    world.user("ada")
    world.settle()
    world.pull("a", images=())
    world.run(minutes=20, every_seconds=30)
    world.leave("ada")
    world.run(minutes=5, every_seconds=30)
    assert world.written(names.IMAGES_READY) == [names.TRUE, names.LATE], "better slow than never"


def test_servers_go_first_where_nothing_is_missing() -> None:
    """Also where other nodes are busier."""
    world = ready_node()
    world.node("b", gpus=1)
    world.run(minutes=2)
    world.user("ada", nodeSelector={"kubernetes.io/hostname": "a"})
    world.settle()
    plain = user_shape()
    assert world.placement(plain).node == "a"
    world.pull("a", images=())
    world.settle()
    assert world.placement(plain).node == "b"


def test_nodes_are_labelled_in_the_order_of_their_names_also_by_a_service_that_has_just_begun() -> None:
    world = hub((PLAIN, 1, 2))
    for name in "cba":
        world.node(name)
    world.decide()
    found = [each for each in world.last.actions if isinstance(each, LabelNode)]
    labels = [each.node for each in found if each.label == names.IMAGES_READY]
    assert labels == ["a", "b", "c"]
