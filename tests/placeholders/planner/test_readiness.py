"""The label that says that users' servers may go to a node: it goes at once, and comes back last, and not for a moment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dra_spawner import names
from dra_spawner.placeholders.controller.reconciler import in_order
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, LabelNode
from dra_spawner.placeholders.planner.cluster_index import ClusterIndex
from dra_spawner.placeholders.planner.planner_state import PlannerState, ReadinessLabel
from dra_spawner.placeholders.planner.readiness import decide_readiness
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind
from tests.placeholders.planner.device_hub import hub, placement
from tests.placeholders.planner.objects import GPU, gpu_slice, user_shape
from tests.placeholders.planner.world import World


def ready_node() -> World:
    world = hub((GPU, 1, 5))
    world.node("a", gpus=1, labels={"node.kubernetes.io/instance-type": "gpu-node"})
    world.settle()
    assert world.is_ready("a")
    return world


def lose_images(world: World, node: str) -> None:
    obj = world.objects["Node", ObjectKey("", node)]
    obj["status"]["images"] = []
    world.apply(obj)


def lose_devices(world: World, node: str) -> None:
    """As while its driver is restarted."""
    world.snapshot.forget(Kind.RESOURCE_SLICE, ObjectKey("", gpu_slice(node, 1, "")["metadata"]["name"]))


def written(world: World) -> list[str | None]:
    """The label's values, one after the other; None where it was removed."""
    return [each.value for each in world.actions(LabelNode) if each.label == names.IMAGES_READY]


def test_the_label_goes_at_once_and_comes_back_when_all_is_there_and_stays() -> None:
    world = ready_node()
    lose_images(world, "a")
    lose_devices(world, "a")
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
    assert written(world) == [names.TRUE, None, names.TRUE]


def test_what_comes_and_goes_changes_the_label_once() -> None:
    world = ready_node()
    for _ in range(20):
        lose_devices(world, "a")
        world.run(minutes=10 / 60)
        world.slice("a", 1)
        world.run(minutes=10 / 60)
    assert written(world) == [names.TRUE, None]


def test_a_node_of_no_kind_is_to_have_what_it_had() -> None:
    """Where no cloud labels nodes with their kind."""
    world = hub((GPU, 1, 5))
    kind = world.policy.readiness.kind_label
    world.node("a", gpus=1, labels={kind: ""})
    world.node("b", labels={kind: ""})
    world.settle()
    lose_devices(world, "a")
    world.run(minutes=2)
    assert not world.is_ready("a")
    assert world.is_ready("b"), "it never had any"
    world.slice("a", 1)
    world.run(minutes=2)
    assert world.is_ready("a")


def test_a_node_that_comes_again_owes_nothing() -> None:
    """One of the same name may be another machine; and what is remembered does not grow with nodes that are gone."""
    world = hub((GPU, 1, 5))
    kind = world.policy.readiness.kind_label
    world.node("a", gpus=1, labels={kind: ""})
    world.settle()
    assert world.planner_state.drivers
    world.remove_node("a")
    world.settle()
    assert not world.planner_state.drivers


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
    lose_images(world, "a")
    decided = world.decide().actions
    values = [each.value for each in decided if isinstance(each, LabelNode) and each.label == names.IMAGES_READY]
    assert values == [None, names.TRUE]


def test_it_is_closed_before_anything_is_made() -> None:
    """Else the scheduler may send a server there meanwhile."""
    closed = LabelNode("a", names.IMAGES_READY, None, "x")
    opened = LabelNode("b", names.IMAGES_READY, names.TRUE, "x")
    made = CreatePlaceholder(GPU.id, "x")
    assert in_order([], [opened, made, closed]) == [[(closed,)], [(opened,), (made,)]]


def test_the_label_stays_where_servers_are() -> None:
    """A kubelet that restarts would end them (tests/node/test_readiness.py)."""
    world = ready_node()
    world.user("ada")
    world.settle()
    lose_images(world, "a")
    world.run(minutes=1)
    assert written(world) == [names.TRUE, names.LATE]
    world.leave("ada")
    world.run(minutes=1)
    assert written(world) == [names.TRUE, names.LATE, None], "nobody needs it"


def test_what_is_late_for_servers_is_ready_again_when_nothing_is_missing() -> None:
    world = ready_node()
    world.user("ada")
    world.settle()
    lose_images(world, "a")
    world.run(minutes=1)
    world.pull("a")
    world.run(minutes=5)
    assert written(world) == [names.TRUE, names.LATE, names.TRUE]


def test_what_is_late_long_enough_stays() -> None:
    world = ready_node()
    world.user("ada")
    world.settle()
    lose_images(world, "a")
    world.run(minutes=20, every_seconds=30)
    world.leave("ada")
    world.run(minutes=5, every_seconds=30)
    assert written(world) == [names.TRUE, names.LATE], "better slow than never"


def test_servers_go_first_where_nothing_is_missing() -> None:
    """Also where others are busier."""
    world = ready_node()
    world.node("b", gpus=1)
    world.run(minutes=2)
    world.user("ada", nodeSelector={"kubernetes.io/hostname": "a"})
    world.settle()
    plain = user_shape()
    assert placement(world, plain).node == "a"
    lose_images(world, "a")
    world.settle()
    assert placement(world, plain).node == "b"


class OtherHub:
    """The service of another hub with the same nodes, which needs an image that they have not."""

    def __init__(self, world: World) -> None:
        self.world = world
        rules = replace(world.policy.readiness, images=frozenset(("theirs:1",)))
        self.policy = replace(world.policy, readiness=rules)
        self.index = ClusterIndex()
        self.planner_state = PlannerState.fresh(world.now)

    def decide(self) -> None:
        view = self.world.view(self.index)
        actions, self.planner_state = decide_readiness(view, self.policy, self.planner_state)
        for each in actions:
            self.world.log.append((self.world.now, each))
            self.world.carry_out(each)


@pytest.mark.parametrize("sees_each_change", [True, False])
def test_two_hubs_do_not_quarrel_about_a_node(sees_each_change: bool) -> None:
    world = ready_node()
    theirs = OtherHub(world)

    def theirs_too() -> None:
        theirs.decide()
        if sees_each_change:
            theirs.decide()

    world.run(minutes=10, each_round=theirs_too)
    assert world.is_ready("a"), "for our users it is"
    assert len(written(world)) < 10, "in 10 minutes with 120 rounds of each"
    before = written(world)
    world.run(minutes=30, each_round=theirs_too)
    assert written(world) == before
    # The label is still ours to remove.
    lose_images(world, "a")
    world.decide()
    theirs.decide()
    assert not world.is_ready("a")


def test_a_label_of_others_stays() -> None:
    world = ready_node()
    lose_images(world, "a")
    world.decide()
    world.decide()
    assert written(world) == [names.TRUE, None]
    world.carry_out(LabelNode("a", names.IMAGES_READY, names.TRUE, "another service found it ready"))
    world.run(minutes=30)
    assert written(world) == [names.TRUE, None]
    assert world.is_ready("a")


@pytest.mark.parametrize(
    ("before", "value", "is_others"),
    [
        pytest.param(ReadinessLabel(None, names.TRUE), names.TRUE, False, id="what we wrote"),
        pytest.param(ReadinessLabel(None, None), names.TRUE, True, id="what another wrote"),
        pytest.param(ReadinessLabel(names.LATE, names.LATE), names.TRUE, True, id="another value"),
        pytest.param(ReadinessLabel(names.TRUE, None), names.TRUE, False, id="our removal failed"),
        pytest.param(ReadinessLabel(names.TRUE, None, 2), names.TRUE, True, id="our removal was undone again and again"),
        pytest.param(ReadinessLabel(names.TRUE, names.TRUE, 0, True), names.TRUE, True, id="it stays another's"),
        pytest.param(ReadinessLabel(names.TRUE, names.TRUE, 0, True), None, False, id="until it is gone"),
    ],
)  # fmt: skip
def test_whose_label_it_is(before: ReadinessLabel, value: str | None, is_others: bool) -> None:
    assert before.now(value).is_others is is_others
