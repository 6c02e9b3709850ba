"""Placeholders are rebalanced to new nodes and drained from idle nodes, within budgets and never in vain."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder, LabelNode
from dra_spawner.placeholders.planner.decide import decide
from dra_spawner.placeholders.planner.planner_state import PlannerState
from dra_spawner.placeholders.planner.policy import Budget, Policy, ReplicaRange
from tests.placeholders.planner import device_hub
from tests.placeholders.planner.device_hub import ended
from tests.placeholders.planner.objects import GPU, PLAIN, user_shape
from tests.placeholders.planner.world import World


def hub(minimum: int, maximum: int = 20, **policy: object) -> World:
    return device_hub.hub((PLAIN, minimum, maximum), **policy)


def full_node(world: World, users: int = 6) -> None:
    world.node("a")
    world.settle()
    for number in range(users):
        world.user(f"user-{number}")
        world.schedule()
    world.settle()


def test_placeholders_are_rebalanced_to_a_new_empty_node() -> None:
    """Then there is capacity for new users on nodes with users."""
    world = hub(4)
    full_node(world)
    assert world.picture("a") == "UUUUUUPPPP"
    world.node("b")
    world.run(minutes=3)
    assert world.placeholders_on("b") >= 2, world.picture("a", "b")
    assert world.placeholders_on("a") + world.placeholders_on("b") == 4
    assert world.snapshot.nodes["b"].node.labels[names.ATTRACT] == "true"


def test_rebalancing_keeps_the_floor_of_warm_placeholders() -> None:
    world = hub(4)
    full_node(world)
    world.node("b")
    for _ in range(60):
        world.decide()
        warm = len(world.view().warm(PLAIN.id))
        assert warm >= 2, "half of the wanted placeholders stay"
        world.schedule()
        world.pass_time(seconds=1)


def test_no_rebalancing_to_a_node_without_images() -> None:
    world = hub(4)
    full_node(world)
    world.node("b", images=())
    world.run(minutes=10)
    assert not ended(world, Cause.REBALANCE)


def test_no_rebalancing_to_a_node_with_a_user() -> None:
    world = hub(4)
    full_node(world)
    world.node("b")
    world.user("early", nodeSelector={"kubernetes.io/hostname": "b"}, requires_ready=False)
    world.schedule()
    world.run(minutes=3)
    assert not ended(world, Cause.REBALANCE)


def test_no_rebalancing_if_the_scheduler_would_choose_another_node() -> None:
    """A third node is emptier than the new node; a replacement would go there, so nothing is evicted."""
    world = hub(4)
    full_node(world)
    world.node("b", cpu="2")
    world.node("big", cpu="2000")
    world.planner_state = replace(world.planner_state)
    world.run(minutes=5)
    rebalanced = ended(world, Cause.REBALANCE)
    where = Counter(each.reason.split("node ")[1].split(",")[0] for each in rebalanced)
    assert set(where) <= {"big"}, "the newest node by name attracts; nothing is rebalanced to the other"


def test_placeholders_settle_down() -> None:
    """Without a change in the cluster nothing is decided any more: zero writes."""
    world = hub(4)
    full_node(world)
    world.node("b")
    world.run(minutes=40)  # until the node is no longer new
    world.log.clear()
    world.run(minutes=30)
    assert world.log == []


def test_evictions_stay_within_the_bucket_in_any_storm() -> None:
    world = hub(20, 40, budget=Budget(per_second=0.1, burst=3, per_node=1))
    world.node("a", cpu="30")
    world.settle()
    for number in range(8):
        world.user(f"user-{number}")
    world.settle()
    begun = world.now
    for number in range(30):
        world.node(f"n{number}", cpu="30")
        for _ in range(5):
            world.schedule()
            world.decide()
            world.pass_time(seconds=1)
    seconds = (world.now - begun).total_seconds()
    assert len(ended(world, Cause.REBALANCE, Cause.DRAIN, Cause.SURPLUS)) <= 3 + 0.1 * seconds


def test_nothing_is_evicted_while_placeholders_are_pending() -> None:
    world = hub(4)
    full_node(world)
    world.user("one-more")
    world.settle()
    assert any(name.startswith("placeholder") for name in world.pending)
    world.node("b", cpu="0")
    world.run(minutes=5)
    assert not ended(world, Cause.REBALANCE, Cause.DRAIN)


def test_nothing_is_done_while_the_api_fails_or_the_view_is_stale() -> None:
    world = hub(4)
    full_node(world)
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
    assert ended(world, Cause.REBALANCE)


def test_an_idle_node_becomes_empty() -> None:
    """Two nodes, few users: the placeholders of the node without users go to the other node."""
    world = hub(3)
    full_node(world, 3)
    world.node("b")
    world.user("late", nodeSelector={"kubernetes.io/hostname": "b"}, requires_ready=False)
    world.settle()
    world.leave("late")
    world.pass_time(hours=2)  # the node is no longer new
    world.run(minutes=5)
    world.pass_time(minutes=5)
    world.run(minutes=15)
    draining = [name for name in "ab" if names.DRAINING in world.snapshot.nodes[name].node.labels]
    assert draining in ([], ["b"])
    assert world.placeholders_on("b") == 0, world.picture("a", "b")
    assert len(world.view().warm(PLAIN.id)) == 3


def test_a_node_with_a_user_is_never_drained_or_evicted_from_for_that() -> None:
    world = hub(3)
    full_node(world, 1)
    world.node("b")
    world.user("alone", nodeSelector={"kubernetes.io/hostname": "b"}, requires_ready=False)
    world.settle()
    world.pass_time(hours=2)
    world.run(minutes=40)
    assert not [each for each in world.actions(LabelNode) if each.label == names.DRAINING]
    assert not ended(world, Cause.DRAIN)


def test_a_new_node_and_one_that_was_just_left_are_not_drained() -> None:
    """Berkeley's fixes: a new node, or one that its user left a moment ago, must not be removed at once."""
    world = hub(2)
    full_node(world, 2)
    world.pass_time(hours=2)
    world.node("b")
    world.run(minutes=9)
    assert not [each for each in world.actions(LabelNode) if each.label == names.DRAINING and each.node == "b"]


def test_pending_placeholders_block_reduction() -> None:
    """Berkeley's race: a node is about to come for the pending placeholder, so none with a node is deleted."""
    world = hub(4, 8)
    full_node(world, 8)
    assert any(name.startswith("placeholder") for name in world.pending)
    world.policy = replace(world.policy, replicas={PLAIN.id: ReplicaRange(1, 8)})
    scheduled = {each.key for each in world.view().placeholders.values() if not each.is_pending}
    world.decide()
    assert scheduled <= set(world.view().placeholders)


def test_surplus_placeholders_are_deleted() -> None:
    world = hub(4, 8)
    full_node(world, 3)
    world.policy = replace(world.policy, replicas={PLAIN.id: ReplicaRange(1, 8)})
    world.run(minutes=2)
    assert len(world.view().placeholders) == 1


def test_placeholders_of_a_shape_without_a_profile_are_deleted() -> None:
    world = hub(2)
    full_node(world, 1)
    world.policy = Policy()
    world.settle()
    assert not world.view().placeholders
    assert {each.cause for each in world.actions(DeletePlaceholder)} == {Cause.OUTDATED}


def test_each_pending_server_asks_for_a_node_whatever_max_is() -> None:
    world = hub(2, 3)
    for number in range(10):
        world.user(f"user-{number}")
    world.run(minutes=1)
    assert len(world.view().placeholders) == 10
    assert len(world.actions(CreatePlaceholder)) == 10
    # They are deleted as soon as the servers need no more nodes.
    for number in range(10):
        world.leave(f"user-{number}")
    world.settle()
    assert len(world.view().placeholders) == 2


def test_placeholders_of_a_removed_node_are_replaced() -> None:
    world = hub(3)
    full_node(world, 1)
    world.remove_node("a")
    world.settle()
    assert len(world.view().placeholders) == 3
    assert len(world.pending) == 3


def test_the_floor_limits_evictions_where_no_budget_does() -> None:
    world = hub(4, budget=Budget(per_second=100, burst=100, per_node=100, max_pending=100))
    full_node(world)
    world.planner_state = replace(
        world.planner_state, tokens=world.planner_state.tokens.refilled(world.policy.budget, world.now)
    )
    world.node("b")
    world.decide()  # the label that attracts
    world.pass_time(seconds=10)
    world.decide()
    assert len(ended(world, Cause.REBALANCE)) == 2, "half of the four wanted stay warm"


def test_a_service_that_just_started_has_nothing_to_spend() -> None:
    world = hub(4)
    full_node(world)
    world.node("b")
    world.decide()
    world.planner_state = PlannerState.fresh(world.now)
    world.decide()
    assert not ended(world, Cause.REBALANCE)
    world.pass_time(seconds=1)
    world.decide()
    assert len(ended(world, Cause.REBALANCE)) == 1


def test_nothing_is_evicted_while_a_placeholder_of_another_shape_is_pending() -> None:
    big = user_shape(cpu="100")
    world = hub(4)
    full_node(world)
    world.policy = replace(
        world.policy,
        shapes={PLAIN.id: PLAIN, big.id: big},
        replicas={PLAIN.id: ReplicaRange(4, 20), big.id: ReplicaRange(1, 1)},
    )
    world.settle()
    world.node("b")
    world.run(minutes=3)
    assert not ended(world, Cause.REBALANCE)


def draining(world: World) -> list[str]:
    return [name for name, state in sorted(world.snapshot.nodes.items()) if names.DRAINING in state.node.labels]


def test_no_second_node_is_drained_while_the_first_has_placeholders() -> None:
    """Both nodes would count on the same capacity."""
    world = device_hub.hub((GPU, 2, 2), newest=timedelta(minutes=5))
    world.node("a", gpus=2)
    world.settle()
    world.node("b", gpus=1)
    world.node("c", gpus=1)
    for _ in range(240):
        world.schedule()
        world.decide()
        with_placeholders = [name for name in draining(world) if world.placeholders_on(name)]
        assert not with_placeholders or len(draining(world)) == 1, world.picture("a", "b", "c")
        world.pass_time(seconds=10)
    assert draining(world) == ["a"]
    assert len(world.view().warm(GPU.id)) == 2
    assert not world.placeholders_on("a")


def test_draining_ends_when_a_placeholder_fits_on_no_other_node() -> None:
    world = device_hub.hub((GPU, 2, 2))
    for name in "abc":
        world.node(name, gpus=1)
    world.settle()
    world.run(minutes=40, every_seconds=20)
    assert len(draining(world)) == 1
    world.remove_node(next(name for name in "abc" if world.placeholders_on(name)))
    world.run(minutes=1)
    assert draining(world) == []
    assert len(world.view().warm(GPU.id)) == 2


def test_a_node_is_not_drained_where_the_floor_keeps_all_placeholders() -> None:
    """No user would be sent to the node, but it would never become empty."""
    world = device_hub.hub((GPU, 1, 1))
    for name in "ab":
        world.node(name, gpus=1)
    world.settle()
    world.run(minutes=40, every_seconds=20)
    assert draining(world) == []
    world.policy = replace(world.policy, replicas={GPU.id: ReplicaRange(1, 1, floor=0)})
    (was,) = (each.node for each in world.view().placeholders.values())
    world.run(minutes=40, every_seconds=20)
    assert draining(world) == [was]
    assert not world.placeholders_on(was)


def test_surplus_placeholders_that_are_not_warm_are_deleted_first() -> None:
    """The warm one stays although it is the newest."""
    world = hub(2)
    world.node("without-images", cpu="2", images=())
    world.settle()
    world.policy = replace(world.policy, replicas={PLAIN.id: ReplicaRange(3, 8)})
    world.node("ready", cpu="1")
    world.settle()
    (warm,) = world.view().warm(PLAIN.id)
    world.policy = replace(world.policy, replicas={PLAIN.id: ReplicaRange(1, 8)})
    world.run(minutes=1)
    assert [each.key for each in world.view().placeholders.values()] == [warm.key]


def test_never_more_than_max_although_expired_placeholders_still_exist() -> None:
    """As without the right to delete pods: expired reservations stay."""
    world = device_hub.hub((GPU, 1, 2))
    world.node("a", gpus=4)
    world.settle()
    for number in range(2):
        (free,) = (each for each in world.view().placeholders.values() if each.reservation is None)
        world.reserve(free.claims[0], f"user-{number}", world.now + timedelta(seconds=30))
        if number == 0:
            world.run(minutes=0.2, every_seconds=1)
    assert len(world.view().placeholders) == 2
    world.pass_time(seconds=40)
    decided = decide(world.view(), world.policy, world.planner_state)
    assert {each.cause for each in decided.actions if isinstance(each, DeletePlaceholder)} == {Cause.EXPIRED}
    assert not [each for each in decided.actions if isinstance(each, CreatePlaceholder)]
    world.settle()
    assert len(world.view().warm(GPU.id)) == 1
