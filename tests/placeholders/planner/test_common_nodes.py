"""Nodes that several hubs share: their services do not undo each other's labels again and again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.actions import LabelNode
from dra_spawner.placeholders.planner.amounts.planner_state import TrackedLabel
from dra_spawner.placeholders.planner.decide import Decisions
from dra_spawner.placeholders.planner.decisions.draining import decide_draining
from dra_spawner.placeholders.planner.decisions.readiness import decide_readiness
from dra_spawner.placeholders.planner.round import Decision, Round
from dra_spawner.placeholders.planner.targets.policy import Policy
from tests.placeholders.planner.objects import GPU
from tests.placeholders.planner.world import HubService, World, hub


def ready_node() -> World:
    return hub((GPU, 1, 5), nodes="a", gpus=1, labels={"node.kubernetes.io/instance-type": "gpu-node"})


class OtherHub(HubService):
    """The service of another hub with the same nodes: one part of its decisions."""

    def __init__(self, world: World, part: Decision, policy: Policy) -> None:
        super().__init__(world, policy)
        self.part = part
        self.log = world.log

    def take_part(self) -> None:
        round_ = Round(self.view(), self.policy, self.planner_state)
        round_.decide((self.part,))
        self.planner_state = round_.state
        self.carry_out_all(Decisions(round_.actions, (), self.planner_state))


@pytest.mark.parametrize("sees_each_change", [True, False])
def test_two_hubs_do_not_quarrel_about_a_node(sees_each_change: bool) -> None:
    """One hub needs an image that the node lacks."""
    world = ready_node()
    rules = replace(world.policy.readiness, images=frozenset(("theirs:1",)))
    theirs = OtherHub(world, decide_readiness, replace(world.policy, readiness=rules))

    def theirs_too() -> None:
        theirs.take_part()
        if sees_each_change:
            theirs.take_part()

    world.run(minutes=10, each_round=theirs_too)
    assert world.is_ready("a"), "for our users it is"
    assert len(world.written(names.IMAGES_READY)) < 10, "in 10 minutes with 120 rounds of each"
    before = world.written(names.IMAGES_READY)
    world.run(minutes=30, each_round=theirs_too)
    assert world.written(names.IMAGES_READY) == before
    # Our service may still remove the label.
    world.pull("a", images=())
    world.decide()
    assert world.written(names.IMAGES_READY) == [*before, None]


def test_a_label_of_others_stays() -> None:
    world = ready_node()
    world.pull("a", images=())
    world.decide()
    world.decide()
    assert world.written(names.IMAGES_READY) == [names.TRUE, None]
    world.carry_out(LabelNode("a", names.IMAGES_READY, names.TRUE, "another service found it ready"))
    world.run(minutes=30)
    assert world.written(names.IMAGES_READY) == [names.TRUE, None]
    assert world.is_ready("a")


@pytest.mark.parametrize("began_later", [True, False])
def test_an_order_to_drain_is_ended_by_the_service_that_has_it(began_later: bool) -> None:
    world = ready_node()
    theirs = OtherHub(world, decide_draining, replace(world.policy, drained={}))
    if not began_later:
        theirs.take_part()
    published = world.policy
    world.policy = replace(published, drained={"a": "set by service x"})
    world.run(minutes=5, each_round=theirs.take_part)
    labels = world.written(names.DRAINING)
    assert labels[-1] == names.ORDERED
    assert len(labels) <= (7 if began_later else 1)
    world.policy = published
    world.run(minutes=1, each_round=theirs.take_part)
    assert world.written(names.DRAINING) == [*labels, None]


def test_each_service_labels_its_newest_node() -> None:
    """Servers of the other hub may run on older nodes only."""
    world = ready_node()
    world.pass_time(seconds=1)
    world.node("b", gpus=1, labels={"node.kubernetes.io/instance-type": "gpu-node"})
    world.settle()
    before = world.written(names.ATTRACT)
    assert [name for name, _ in world.view().nodes_labelled(names.ATTRACT)] == ["b"]
    world.carry_out(LabelNode("a", names.ATTRACT, names.TRUE, "the newest node of theirs"))
    world.run(minutes=1)
    assert world.written(names.ATTRACT) == before
    # After a restart the service does not know the owner of the label, until the label is written again.
    world.restart()
    world.settle()
    world.carry_out(LabelNode("a", names.ATTRACT, names.TRUE, "the newest node of theirs"))
    world.run(minutes=1)
    assert world.written(names.ATTRACT) == [*before, None]


@pytest.mark.parametrize(
    ("before", "value", "is_others"),
    [
        pytest.param(TrackedLabel(None, names.TRUE), names.TRUE, False, id="our own value"),
        pytest.param(TrackedLabel(None, None), names.TRUE, True, id="the value of another service"),
        pytest.param(TrackedLabel(names.LATE, names.LATE), names.TRUE, True, id="another value"),
        pytest.param(TrackedLabel(names.TRUE, None), names.TRUE, False, id="our removal failed"),
        pytest.param(TrackedLabel(names.TRUE, None, 2), names.TRUE, True, id="our removal was undone again and again"),
        pytest.param(TrackedLabel(names.TRUE, names.TRUE, 0, True), names.TRUE, True, id="it stays another's"),
        pytest.param(TrackedLabel(names.TRUE, names.TRUE, 0, True), None, False, id="until it is gone"),
    ],
)  # fmt: skip
def test_the_owner_of_a_label(before: TrackedLabel, value: str | None, is_others: bool) -> None:
    assert before.now(value).is_others is is_others
