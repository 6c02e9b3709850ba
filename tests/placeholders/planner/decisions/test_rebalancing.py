"""Placeholders are rebalanced to new nodes and drained from idle nodes, within budgets and never in vain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder, Hold
from dra_spawner.placeholders.planner.decide import decide
from dra_spawner.placeholders.planner.targets.policy import Budget
from dra_spawner.simulator.model.claims import ObjectKey
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, user_shape
from tests.placeholders.planner.world import World, hub


def busy(minimum: int, maximum: int = 20, *, users: int = 6, **policy: object) -> World:
    """A node with users and placeholders."""
    world = hub((PLAIN, minimum, maximum), policy=policy, nodes="a")
    for number in range(users):
        world.user(f"user-{number}")
        world.schedule()
    world.settle()
    return world


def strange_user(world: World, name: str, node: str) -> None:
    """A pod that runs on just this node, ready or not."""
    world.user(name, nodeSelector={"kubernetes.io/hostname": node}, requires_ready=False)
    world.schedule()


@pytest.mark.promise("A placeholder evicts itself only where its replacement lands on a new, empty node.")
def test_placeholders_are_rebalanced_to_a_new_empty_node() -> None:
    """Then there is capacity for new users on nodes with users."""
    world = busy(4)
    assert world.picture("a") == "UUUUUUPPPP"
    world.node("b")
    world.run(minutes=3)
    assert world.placeholders_on("b") >= 2, world.picture("a", "b")
    assert world.placeholders_on("a") + world.placeholders_on("b") == 4
    assert world.snapshot.nodes["b"].node.labels[names.ATTRACT] == "true"


def without_images(world: World) -> None:
    world.node("b", images=())


def with_a_user(world: World) -> None:
    world.node("b")
    strange_user(world, "early", "b")


def with_a_pod_of_others(world: World) -> None:
    world.node("b")
    strange_user(world, "batch", "b")
    world.relabel("Pod", ObjectKey(NAMESPACE, "batch"), {names.COMPONENT: "batch"})


def beside_a_full_hub(world: World) -> None:
    """A placeholder is pending: the next node is for it."""
    world.user("one-more")
    world.settle()
    assert world.pending_placeholders
    world.node("b", cpu="0")


def beside_a_pending_placeholder_of_another_shape(world: World) -> None:
    big = user_shape(cpu="100")
    world.policy = replace(world.policy, shapes={PLAIN.id: PLAIN, big.id: big})
    world.set_replicas(big, 1, 1)
    world.settle()
    world.node("b")


@pytest.mark.parametrize(
    "node",
    [
        without_images,
        with_a_user,
        with_a_pod_of_others,
        beside_a_full_hub,
        beside_a_pending_placeholder_of_another_shape,
    ],
)
def test_no_rebalancing_to_a_node(node: Callable[[World], None]) -> None:
    world = busy(4)
    node(world)
    world.run(minutes=10)
    assert not world.ended(Cause.REBALANCE, Cause.EMPTYING)


def test_no_rebalancing_if_the_scheduler_would_choose_another_node() -> None:
    """It avoids the new, empty node for its taint while an older one is as empty: replacements would go there."""
    world = busy(4)
    world.node("older", images=())
    world.run(minutes=1)
    (new,) = world.node_objects("new")
    world.apply(new | {"spec": {"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]}})
    world.decide()
    world.pull("older")
    world.run(minutes=5)
    assert world.labelled(names.ATTRACT) == ["new"]
    assert not world.ended(Cause.REBALANCE)
    assert Hold.LANDING in world.last.denied.values()
    assert world.placeholders_on("a") == 4


def test_the_newest_node_attracts_and_nothing_leaves_a_node_without_users() -> None:
    """Its name is not the last, and it is smaller. The older node may become empty."""
    world = hub((PLAIN, 3, 10), nodes="z", cpu="100", policy={"drain_below": -1.0})
    assert (world.labelled(names.ATTRACT), world.placeholders_on("z")) == (["z"], 3)
    world.pass_time(minutes=1)
    world.node("a")
    world.run(minutes=5)
    assert (world.labelled(names.ATTRACT), world.placeholders_on("z")) == (["a"], 3)
    assert not world.ended(Cause.REBALANCE)
    world.set_replicas(PLAIN, 5, 10)
    world.settle()
    assert world.placeholders_on("a") == 2, "where the scheduler sends new ones"


def test_the_floor_stays_and_is_the_reason() -> None:
    world = busy(4)
    world.set_replicas(PLAIN, 4, 20, floor=4)
    world.node("b")
    world.run(minutes=10)
    assert not world.ended(Cause.REBALANCE)
    assert set(world.last.denied.values()) == {Hold.FLOOR}
    world.set_replicas(PLAIN, 4, 20, floor=3)
    world.run(minutes=10)
    assert world.placeholders_on("b") >= 2, "one after the other was rebalanced"


@pytest.mark.promise("Placeholders settle down: there is no churn.")
def test_placeholders_settle_down() -> None:
    """Without a change in the cluster nothing is decided any more: zero writes."""
    world = busy(4)
    world.node("b")
    world.run(minutes=40)  # until the node is no longer new
    world.log.clear()
    world.run(minutes=30)
    assert world.log == []


@pytest.mark.promise("Evictions stay within their budget in any storm.")
def test_evictions_stay_within_the_bucket_in_any_storm() -> None:
    world = hub((PLAIN, 20, 40), policy={"budget": Budget(per_second=0.1, burst=3, per_node=1)}, nodes="a", cpu="30")
    world.users(8)
    world.settle()
    begun = world.now
    for number in range(30):
        world.node(f"n{number}", cpu="30")
        for _ in range(5):
            world.schedule()
            world.decide()
            world.pass_time(seconds=1)
    seconds = (world.now - begun).total_seconds()
    assert len(world.ended(Cause.REBALANCE, Cause.EMPTYING, Cause.SURPLUS)) <= 3 + 0.1 * seconds


def test_nothing_is_done_while_the_api_fails_or_the_view_is_stale() -> None:
    world = busy(4)
    world.node("b")
    world.log.clear()
    world.problem = "the API server does not answer"
    world.run(minutes=5)
    assert world.log == []
    world.problem, world.stale = "", timedelta(minutes=2)
    world.run(minutes=5)
    assert world.log == []
    assert "120 seconds old" in world.last.on_hold
    world.stale = timedelta(0)
    world.run(minutes=3)
    assert world.ended(Cause.REBALANCE)


def test_a_new_node_and_one_that_was_just_left_are_not_drained() -> None:
    """Berkeley's fixes: a new node, or one that its user left a moment ago, must not be removed at once."""
    world = busy(2, users=2)
    world.pass_time(hours=2)
    world.node("b")
    world.run(minutes=9)
    assert not world.written(names.DRAINING)


def test_pending_placeholders_block_reduction() -> None:
    """Berkeley's race: a node is about to come for the pending placeholder, so none with a node is deleted."""
    world = busy(4, 8, users=8)
    assert world.pending_placeholders
    world.set_replicas(PLAIN, 1, 8)
    scheduled = {each.key for each in world.view().placeholders.values() if not each.is_pending}
    world.decide()
    assert scheduled <= set(world.view().placeholders)


def test_each_pending_server_asks_for_a_node_whatever_max_is() -> None:
    world = hub((PLAIN, 2, 3))
    world.users(10)
    world.run(minutes=1)
    assert world.count == 10
    assert world.made == 10
    # They are deleted as soon as the servers need no more nodes.
    for number in range(10):
        world.leave(f"user-{number}")
    world.settle()
    assert world.count == 2


def test_placeholders_of_a_removed_node_are_replaced() -> None:
    world = busy(3, users=1)
    world.remove_node("a")
    world.settle()
    assert world.count == 3
    assert len(world.pending) == 3


def test_the_floor_limits_evictions_where_no_budget_does() -> None:
    world = busy(4, budget=Budget(per_second=100, burst=100, per_node=100, max_pending=100))
    world.planner_state = replace(
        world.planner_state, tokens=world.planner_state.tokens.refilled(world.policy.budget, world.now)
    )
    world.node("b")
    world.decide()  # the label that attracts
    world.pass_time(seconds=10)
    world.decide()
    assert len(world.ended(Cause.REBALANCE)) == 2, "half of the four wanted stay warm"


def test_a_service_that_just_started_has_nothing_to_spend() -> None:
    world = busy(4)
    world.node("b")
    world.decide()
    world.restart()
    world.decide()
    assert not world.ended(Cause.REBALANCE)
    world.pass_time(seconds=1)
    world.decide()
    assert len(world.ended(Cause.REBALANCE)) == 1


def test_no_second_node_is_drained_while_the_first_has_placeholders() -> None:
    """Both nodes would count on the same capacity."""
    world = hub((GPU, 2, 2), policy={"newest": timedelta(minutes=5)}, nodes="a", gpus=2)
    world.node("b", gpus=1)
    world.node("c", gpus=1)
    for _ in range(240):
        world.schedule()
        world.decide()
        with_placeholders = [name for name in world.labelled(names.DRAINING) if world.placeholders_on(name)]
        assert not with_placeholders or len(world.labelled(names.DRAINING)) == 1, world.picture("a", "b", "c")
        world.pass_time(seconds=10)
    assert world.labelled(names.DRAINING) == ["a"]
    assert len(world.warm(GPU)) == 2
    assert not world.placeholders_on("a")


def test_draining_ends_when_a_placeholder_fits_on_no_other_node() -> None:
    world = hub((GPU, 2, 2), nodes="abc", gpus=1)
    world.run(minutes=40, every_seconds=20)
    assert len(world.labelled(names.DRAINING)) == 1
    world.remove_node(next(name for name in "abc" if world.placeholders_on(name)))
    world.run(minutes=1)
    assert world.labelled(names.DRAINING) == []
    assert len(world.warm(GPU)) == 2


def test_a_node_is_not_drained_where_the_floor_keeps_all_placeholders() -> None:
    """No user would be sent to the node, but it would never become empty."""
    world = hub((GPU, 1, 1), nodes="ab", gpus=1)
    world.run(minutes=40, every_seconds=20)
    assert world.labelled(names.DRAINING) == []
    world.set_replicas(GPU, 1, 1, floor=0)
    (was,) = (each.node for each in world.view().placeholders.values())
    world.run(minutes=40, every_seconds=20)
    assert world.labelled(names.DRAINING) == [was]
    assert not world.placeholders_on(was)


def test_surplus_placeholders_that_are_not_warm_are_deleted_first() -> None:
    """The warm one stays although it is the newest."""
    world = hub((PLAIN, 2, 20), nodes=["without-images"], cpu="2", images=())
    world.set_replicas(PLAIN, 3, 8)
    world.node("ready", cpu="1")
    world.settle()
    (warm,) = world.warm(PLAIN)
    world.set_replicas(PLAIN, 1, 8)
    world.run(minutes=1)
    assert [each.key for each in world.view().placeholders.values()] == [warm.key]


def test_never_more_than_max_although_expired_placeholders_still_exist() -> None:
    """As without the right to delete pods: expired reservations stay."""
    world = hub((GPU, 1, 2), nodes="a", gpus=4)
    for number in range(2):
        (free,) = (each for each in world.view().placeholders.values() if each.reservation is None)
        world.reserve(free.claims[0], f"user-{number}", world.now + timedelta(seconds=30))
        if number == 0:
            world.run(minutes=0.2, every_seconds=1)
    assert world.count == 2
    world.pass_time(seconds=40)
    decided = decide(world.view(), world.policy, world.planner_state)
    assert {each.cause for each in decided.actions if isinstance(each, DeletePlaceholder)} == {Cause.EXPIRED}
    assert not [each for each in decided.actions if isinstance(each, CreatePlaceholder)]
    world.settle()
    assert len(world.warm(GPU)) == 1


@all_of_them("leaves_at", {"at that moment": 30, "a second later": 31, "later": 45})
def test_no_placeholder_goes_again_from_an_emptied_node_that_it_needed(leaves_at: int) -> None:
    """A class wants one more; it has waited for half a minute when a server stops on the other, full node."""
    world = hub((GPU, 2, 9), nodes="ab", cpu="9", gpus=4)
    world.settle()
    for name in ("ada", "bob"):
        world.user(name, GPU.claims, requires_ready=False)
        world.settle()
    world.set_replicas(GPU, 3, 9)
    world.settle()
    world.leave("ada")
    world.run(25)
    assert (world.labelled(names.DRAINING), world.placeholders_on("a"), world.placeholders_on("b")) == (["a"], 0, 3)
    world.set_replicas(GPU, 4, 9)
    for second in range(60):
        if second == leaves_at:
            world.leave("bob")  # before the scheduler sees it
        else:
            world.schedule()
        world.decide()
        world.schedule()
        world.pass_time(seconds=1)
    assert [each.reason for each in world.ended(Cause.EMPTYING)[1:]] == []
    assert len(world.warm(GPU)) == 4
