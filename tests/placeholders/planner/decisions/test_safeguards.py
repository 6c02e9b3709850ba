"""Each safeguard prevents rebalancing, and is reported with its rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder, Hold
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decide import decide
from dra_spawner.placeholders.planner.decisions.rebalancing import should_rebalance
from dra_spawner.placeholders.planner.decisions.safeguards import hold_reason, safeguard_of
from dra_spawner.placeholders.planner.targets.limits import quota_of
from dra_spawner.placeholders.planner.targets.policy import DeletionOrder, Policy, ReplicaRange, Tokens
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind, Knowledge
from tests.all_of_them import all_of_them
from tests.placeholders.planner.counted_quota import PRIORITY_CLASS, quota
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, gpu_claim, user_shape
from tests.placeholders.planner.world import World, hub, policy_for
from tests.presence import present

HUGE = user_shape(cpu="1000")


@pytest.fixture
def world() -> World:
    """Placeholders beside users, and a new, empty node to which they should be rebalanced."""
    world = World(Policy(shapes={PLAIN.id: PLAIN}, replicas={PLAIN.id: ReplicaRange(4, 8, floor=0)}))
    world.node("a")
    world.settle()
    world.users(4)
    world.settle()
    world.node("b")
    for _ in range(100):
        if world.is_ready("b") and should_rebalance(world.view(), world.policy):
            break
        # With an empty bucket the placeholders stay until the test brings about a safeguard.
        world.planner_state = replace(world.planner_state, tokens=Tokens(-1000.0, world.now))
        world.decide()
        world.schedule()
        world.pass_time(seconds=1)
    world.planner_state = replace(world.planner_state, tokens=Tokens(5.0, world.now))
    return world


def fails(world: World) -> None:
    world.problem = "the API server fails"


def is_stale(world: World) -> None:
    world.stale = timedelta(seconds=61)


def is_observing(world: World) -> None:
    world.policy = replace(world.policy, observing_because="an administrator observes")


def pending_user(world: World) -> None:
    world.user("large", cpu="1000")


def pending_placeholder(world: World) -> None:
    world.policy = replace(
        world.policy,
        shapes={**world.policy.shapes, HUGE.id: HUGE},
        replicas={**world.policy.replicas, HUGE.id: ReplicaRange(1, 1)},
    )
    world.create_placeholder(HUGE)


@pytest.mark.parametrize(
    ("bring_about", "rule", "reason", "holds_everything"),
    [
        (fails, Hold.API, "nothing is decided: the API server fails", True),
        (is_stale, Hold.STALE, "nothing is decided: the view of the cluster is 61 seconds old", True),
        (is_observing, Hold.OBSERVING, "nothing is decided: an administrator observes", True),
        (pending_user, Hold.USERS_PENDING, "no placeholder is evicted while a user's server is pending", False),
        (pending_placeholder, Hold.PENDING, "no placeholder is evicted while one is pending", False),
    ],
    ids=["api", "stale", "observing", "users-pending", "pending"],
)
def test_each_safeguard_has_its_rule(
    world: World, bring_about: Callable[[World], None], rule: Hold, reason: str, holds_everything: bool
) -> None:
    assert safeguard_of(world.view(), world.policy) is None
    bring_about(world)
    safeguard = safeguard_of(world.view(), world.policy)
    assert safeguard is not None
    assert (safeguard.rule, safeguard.reason, safeguard.holds_everything) == (rule, reason, holds_everything)
    assert hold_reason(world.view(), world.policy) == (reason if holds_everything else "")
    should = set(should_rebalance(world.view(), world.policy))
    assert should
    decided = decide(world.view(), world.policy, world.planner_state)
    assert {key: decided.denied.get(key) for key in should} == dict.fromkeys(should, rule)
    assert not [each for each in decided.actions if isinstance(each, DeletePlaceholder)]


def test_while_a_kind_cannot_be_followed_nothing_is_evicted_and_placements_go_on(world: World) -> None:
    for kind in Kind:
        view = View(world.snapshot, world.now, namespaces={NAMESPACE}, knowledge={kind: Knowledge.UNKNOWN})
        safeguard = present(safeguard_of(view, world.policy))
        reason = f"no placeholder is evicted while changes of kind {kind} cannot be followed"
        assert (safeguard.rule, safeguard.reason, safeguard.holds_everything) == (Hold.STALE, reason, False)
        decided = decide(view, world.policy, world.planner_state)
        assert not [each for each in decided.actions if isinstance(each, DeletePlaceholder)]
        assert hold_reason(view, world.policy) == ""
        absent = View(world.snapshot, world.now, namespaces={NAMESPACE}, knowledge={kind: Knowledge.ABSENT})
        assert safeguard_of(absent, world.policy) is None, "no placeholder has a claim"


def surplus(world: World) -> None:
    world.set_replicas(GPU, 1, 1)


def outdated(world: World) -> None:
    world.policy = policy_for((PLAIN, 0, 1))


def user_without_node(world: World) -> None:
    world.policy = policy_for((GPU, 3, 3), (HUGE, 0, 1))
    world.user("ada", cpu="1000", labels={names.SHAPE: HUGE.id})


def user_without_device(world: World) -> None:
    world.user("ada", {"gpu": gpu_claim(count=2)})


def user_of_another_hub(world: World) -> None:
    world.user("ada", {"gpu": gpu_claim(count=2)}, namespace="hub-b")
    world.pass_time(seconds=10)


def eviction(world: World) -> None:
    pod = world.warm(GPU)[0].pod
    world.policy = replace(world.policy, orders=(DeletionOrder(ObjectKey.of(pod), pod.uid, "", "a person"),))


def release(world: World) -> None:
    pod = world.warm(GPU)[0]
    world.reserve(pod.claims[0], "ada")
    world.policy = replace(world.policy, orders=(DeletionOrder(pod.key, pod.pod.uid, "ada", "a person"),))


def drained(world: World) -> None:
    world.policy = replace(world.policy, drained={"a": "a person"})


def filled_quota(world: World) -> None:
    world.quotas = lambda: (quota_of(quota({"pods": "3"}, {"pods": "3"}), PRIORITY_CLASS),)


def effects(world: World, seconds: int) -> set[Cause | type[Action]]:
    """What rounds do with placeholders, one each second, while the scheduler does nothing."""
    world.log.clear()
    for _ in range(seconds):
        world.decide()
        world.pass_time(seconds=1)
    found = [each for _, each in world.log if isinstance(each, CreatePlaceholder | DeletePlaceholder)]
    return {each.cause if isinstance(each, DeletePlaceholder) else type(each) for each in found}


@all_of_them(
    "bring_about, effect",
    [
        (surplus, Cause.SURPLUS),
        (outdated, Cause.OUTDATED),
        (user_without_node, CreatePlaceholder),
        (user_without_device, Cause.PREEMPTED),
        (user_of_another_hub, Cause.PREEMPTED),
        (eviction, Cause.EVICTED),
        (release, Cause.EXPIRED),
        (drained, Cause.DRAIN),
        (filled_quota, Cause.QUOTA),
    ],
)
def test_while_a_kind_cannot_be_followed_no_placeholder_ends_and_none_comes_for_a_server(
    bring_about: Callable[[World], None], effect: Cause | type[Action]
) -> None:
    """What would be decided waits until all is known, and is decided then."""
    for kind in (*Kind, None):
        world = hub((GPU, 3, 3), nodes=("a",), gpus=4)
        bring_about(world)
        world.knowledge = {kind: Knowledge.UNKNOWN} if kind is not None else {}
        world.knows_quotas = kind is not None or bring_about is not filled_quota
        if kind is not None or bring_about is filled_quota:
            assert effects(world, 8) == set(), kind
        world.knowledge, world.knows_quotas = {}, True
        assert effect in effects(world, 8), kind


def test_placeholders_are_evicted_one_after_the_other(world: World) -> None:
    going = should_rebalance(world.view(), world.policy)[0]
    view = View(world.snapshot, world.now, namespaces={NAMESPACE}, ending={going})
    safeguard = safeguard_of(view, world.policy)
    assert safeguard is not None
    assert (safeguard.rule, safeguard.reason) == (
        Hold.TERMINATING,
        "no placeholder is evicted while one is terminating",
    )


def test_without_a_safeguard_placeholders_are_rebalanced(world: World) -> None:
    decided = decide(world.view(), world.policy, world.planner_state)
    assert Cause.REBALANCE in {each.cause for each in decided.actions if isinstance(each, DeletePlaceholder)}


def test_every_rule_has_its_words() -> None:
    assert all(rule.because for rule in Hold)
