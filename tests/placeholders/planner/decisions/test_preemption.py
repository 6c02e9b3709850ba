"""Placeholders with devices are preempted for users: the fewest, in time, and only where that helps."""

from __future__ import annotations

import pytest

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder, LabelPod
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.objects import GPU, NAMESPACE, SHARE, gpu_claim, share_claim, user_shape
from tests.placeholders.planner.world import hub


@pytest.mark.promise("A placeholder that holds a device makes way for a user at once.")
def test_a_placeholder_that_holds_the_device_is_preempted() -> None:
    """kube-scheduler would not preempt it (fact 1 of the design)."""
    world = hub((GPU, 1, 5), nodes="a", gpus=1)
    assert world.placeholders_on("a") == 1
    world.user("ada", {"gpu": gpu_claim()})
    world.schedule()
    assert "ada" in world.pending
    world.settle()
    assert world.node_of("ada") == "a"
    assert [each.pod for each in world.ended(Cause.PREEMPTED)] == [ObjectKey(NAMESPACE, "ada")]


def test_who_is_over_a_budget_comes_last() -> None:
    world = hub((GPU, 1, 1), nodes="a", gpus=1)
    world.user("borrower", {"gpu": gpu_claim()}, labels={names.BEHIND: names.TRUE})
    world.settle()
    assert world.node_of("borrower") == "a", "nobody else waits, so the device is borrowed"
    world.leave("borrower")
    world.settle()
    for name, labels in (("borrower-2", {names.BEHIND: names.TRUE}), ("ada", {})):
        world.user(name, {"gpu": gpu_claim()}, labels=labels)
    world.decide()
    ended = world.ended(Cause.PREEMPTED)[-1]
    assert ended.pod == ObjectKey(NAMESPACE, "ada"), "although the other waits longer"


@pytest.mark.promise("No placeholder is preempted where that would not help.")
def test_no_placeholder_is_preempted_if_that_would_not_help() -> None:
    world = hub((GPU, 1, 5), nodes="a", gpus=1)
    world.user("greedy", {"gpu": gpu_claim(count=2)})
    world.run(minutes=5)
    assert "greedy" in world.pending
    assert not world.ended(Cause.PREEMPTED)


@pytest.mark.promise("The fewest placeholders are preempted.")
def test_the_fewest_placeholders_are_preempted() -> None:
    """A share of 10 GiB fits without one of the two placeholders, whichever it is; the other stays."""
    world = hub((SHARE, 2, 5), nodes="a", gpus=1, memory="20Gi")
    assert world.placeholders_on("a") == 2
    world.user("ada", {"gpu": share_claim("10Gi")})
    world.schedule()
    world.decide()
    assert len(world.ended(Cause.PREEMPTED)) == 1


def test_two_placeholders_are_preempted_for_a_whole_device() -> None:
    world = hub((SHARE, 2, 5), nodes="a", gpus=1, memory="20Gi")
    world.user("ada", {"gpu": share_claim("20Gi")})
    world.settle()
    assert world.node_of("ada") == "a"
    assert len(world.ended(Cause.PREEMPTED)) == 2


def test_of_equal_nodes_the_one_with_users_is_chosen() -> None:
    world = hub((GPU, 2, 5), nodes="ab", gpus=1)
    world.user("first", cpu="2")
    world.settle()
    busy = world.node_of("first")
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    assert world.node_of("ada") == busy


def test_no_second_preemption_for_a_pod_within_its_grace() -> None:
    """Another pod may use the freed device before the scheduler comes to the first pod: no cascade."""
    world = hub((GPU, 3, 5), nodes="abc", gpus=1)
    world.user("ada", {"gpu": gpu_claim()})
    world.schedule()
    world.decide()
    assert len(world.ended(Cause.PREEMPTED)) == 1
    # Another pod gets the device before the scheduler places ada.
    freed = world.ended(Cause.PREEMPTED)[0].reason.split("node ")[1].split()[0]
    world.user("thief", {"gpu": gpu_claim()}, nodeSelector={"kubernetes.io/hostname": freed})
    thief = world.snapshot.pods[ObjectKey(NAMESPACE, "thief")]
    assert world.snapshot.place(thief) == freed
    world.decide()
    world.pass_time(seconds=5)
    world.decide()
    assert len(world.ended(Cause.PREEMPTED)) == 1
    world.pass_time(seconds=6)
    world.decide()
    assert len(world.ended(Cause.PREEMPTED)) == 2
    assert {each.label for each in world.actions(LabelPod)} == {names.PREEMPTED_AT}


def test_a_placeholder_with_an_extended_resource_is_preempted() -> None:
    shape = user_shape(extended=1)
    world = hub((shape, 1, 5), nodes="a", gpus=1)
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    assert world.node_of("ada") == "a"
    assert len(world.ended(Cause.PREEMPTED)) == 1


def test_a_device_freed_for_a_user_is_not_taken_by_a_pending_placeholder() -> None:
    """The scheduler might place it first, so it is deleted and not created again until the user has the device."""
    large = user_shape({"gpu": share_claim("20Gi")})
    world = hub((SHARE, 1, 1), (large, 2, 2), nodes="a", gpus=1, memory="40Gi")
    of_large = {key for key, each in world.view().placeholders.items() if each.shape == large.id}
    assert [each.shape for each in world.view().placeholders.values() if each.is_pending] == [large.id]
    world.user("ada", {"gpu": share_claim("25Gi")})
    decided = world.decide()
    gone = {each.key for each in decided.actions if isinstance(each, DeletePlaceholder)}
    assert gone == of_large, "one is preempted, and the pending one does not get the device"
    assert not [each for each in decided.actions if isinstance(each, CreatePlaceholder)]
    world.settle()
    assert world.node_of("ada") == "a"
    assert len(world.pending_placeholders) == 2
