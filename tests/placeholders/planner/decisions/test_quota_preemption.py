"""Where a quota has no capacity for users' servers, few placeholders are deleted, and not created again at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder
from dra_spawner.placeholders.planner.cluster.view import AwaitedServer
from dra_spawner.placeholders.planner.targets.limits import Quota, needed_amounts, quota_of
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from tests.examples import example_count
from tests.placeholders.planner.counted_quota import CLAIMS, DEVICES, PRIORITY_CLASS, Counting, quota
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, Json, gpu_claim, user_shape
from tests.placeholders.planner.world import World, hub

PAIR = user_shape({"gpu": gpu_claim(count=2)})
TEMPLATES = "count/resourceclaimtemplates.resource.k8s.io"
OF_PLACEHOLDERS = {
    "scopeSelector": {
        "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": [PRIORITY_CLASS]}]
    }
}


def full(*shapes: tuple[Shape, int, int], gpus: int = 20) -> World:
    """A hub whose placeholders are all warm."""
    world = hub(*shapes)
    world.node("a", "40", gpus=gpus)
    world.run(minutes=1)
    assert [world.number(shape) for shape, _, _ in shapes] == [least for _, least, _ in shapes]
    world.log.clear()
    return world


def again(world: World) -> None:
    """Run a round, and another one when its result has lasted for a second."""
    world.run(minutes=1 / 30, every_seconds=1)


def count(world: World, hard: Mapping[str, str], **spec: Any) -> None:
    """A quota comes, and has its effect."""
    Counting(world, hard, **spec)
    again(world)


def awaited(world: World, shape: Shape, name: str = "ada", *, has_claims: bool = False) -> AwaitedServer:
    found = AwaitedServer(ObjectKey(NAMESPACE, name), shape, world.now, has_claims)
    world.awaited.append(found)
    return found


@pytest.mark.parametrize(
    ("hard", "left"),
    [
        pytest.param({"pods": "4"}, 3, id="pods"),
        pytest.param({"requests.cpu": "3500m"}, 2, id="cpu"),
        pytest.param({CLAIMS: "4"}, 3, id="claims"),
        pytest.param({DEVICES: "3"}, 2, id="devices of a class"),
        pytest.param({"pods": "4", DEVICES: "3"}, 2, id="two resources"),
        pytest.param({TEMPLATES: "0"}, 6, id="a resource that placeholders do not use"),
        pytest.param({"services": "0"}, 6, id="a resource that no object uses"),
        pytest.param({"pods": "7"}, 6, id="capacity enough"),
    ],
)
def test_a_lowered_quota_has_capacity_for_one_server_at_once(hard: dict[str, str], left: int) -> None:
    world = full((GPU, 6, 9))
    count(world, hard)
    assert world.number(GPU) == left
    world.run(minutes=30)
    assert world.number(GPU) == left
    assert len(world.ended(Cause.QUOTA)) == 6 - left
    assert not world.actions(CreatePlaceholder), "none is created to be deleted again"
    if left < 6:
        reason = world.ended(Cause.QUOTA)[0].reason
        assert reason.startswith("ResourceQuota 'q' (at most ")
        assert reason.endswith(" has no capacity for one more server")


def test_the_newest_and_the_least_useful_are_deleted_first() -> None:
    world = full((GPU, 3, 9), gpus=3)
    old = set(world.view().placeholders)
    world.policy = replace(world.policy, replicas={GPU.id: replace(world.policy.replicas[GPU.id], min=5)})
    world.run(minutes=1)
    assert world.number(GPU) == 5
    count(world, {"pods": "4"})
    assert set(world.view().placeholders) == old, "the two without a node are gone"
    for key in old - {min(old)}:
        world.snapshot.put(replace(world.snapshot.pods[key], created="2020-01-01T00:00:00Z"))
    world.run(minutes=0.2)
    count(world, {"pods": "3"})
    assert set(world.view().placeholders) == old - {min(old)}


def test_users_that_fill_a_quota_are_never_refused() -> None:
    """`Counting` asserts it for each user; a placeholder is deleted for each, and created again when a user leaves."""
    world = full((GPU, 6, 9))
    Counting(world, {"pods": "8"})
    for step in range(8):
        world.user(f"user-{step}", {"gpu": gpu_claim()})
        world.run(minutes=0.2, every_seconds=1)
        assert world.number(GPU) == min(6, max(8 - (step + 1) - 1, 0))
    assert len(world.ended(Cause.QUOTA)) == 6
    assert not world.actions(CreatePlaceholder)
    for step in range(3):
        world.leave(f"user-{step}")
        world.run(minutes=0.2, every_seconds=1)
    assert world.number(GPU) == 2
    assert len(world.ended(Cause.QUOTA)) == 6


def test_a_handover_in_a_full_quota_costs_no_other_placeholder() -> None:
    world = full((GPU, 3, 9))
    Counting(world, {"pods": "4"})
    found = world.placement(GPU)
    claim = world.reservation(found, "ada")
    awaited(world, GPU, has_claims=True)
    world.run(minutes=0.1, every_seconds=1)
    world.slow.add("ada")
    world.user("ada", claim_names={"gpu": claim})
    world.run(minutes=0.5, every_seconds=1)
    assert (world.number(GPU), world.ended(Cause.QUOTA)) == (3, [])
    # The start takes long, and the next user needs the capacity.
    world.run(minutes=1, every_seconds=1)
    assert (world.number(GPU), len(world.ended(Cause.QUOTA))) == (2, 1)
    world.slow.clear()
    world.run(minutes=1)
    assert len(world.ended(Cause.HANDED_OVER)) == 1
    assert world.number(GPU) == 2, "of four pods one is a server, and one more fits"
    assert len(world.ended(Cause.QUOTA)) == 1


# --- servers that are about to start ----------------------------------------------------------------------------------


def test_a_server_whose_pod_does_not_come_gets_capacity() -> None:
    """Its shape has no placeholders, so no capacity was left for it."""
    world = full((GPU, 4, 9), (PAIR, 0, 9))
    Counting(world, {DEVICES: "5"})
    awaited(world, PAIR)
    again(world)
    assert not world.ended(Cause.QUOTA), "its pod may come at once"
    world.run(minutes=1, every_seconds=1)
    (action,) = world.ended(Cause.QUOTA)
    assert action.pod == ObjectKey(NAMESPACE, "ada")
    assert action.reason == (
        f"ResourceQuota 'q' (at most 5 of {DEVICES}) has no capacity for hub/ada, which is about to start"
    )
    assert not world.actions(CreatePlaceholder), "the user may try again"
    world.user("ada", {"gpu": gpu_claim(count=2)})
    world.run(minutes=1, every_seconds=1)
    assert (world.number(GPU), len(world.ended(Cause.QUOTA))) == (2, 2), "one more server fits"


def test_a_pending_server_whose_claims_do_not_come_gets_capacity() -> None:
    """Kubernetes creates claims from templates after the pod."""
    world = full((GPU, 4, 9), (PAIR, 0, 9))
    Counting(world, {DEVICES: "5", TEMPLATES: "1"})
    world.refused["ada"] = "waiting for the claim"
    world.user("ada", {"gpu": gpu_claim(count=2)})
    world.run(minutes=1, every_seconds=1)
    (action,) = world.ended(Cause.QUOTA)
    assert (action.pod, action.reason) == (
        ObjectKey(NAMESPACE, "ada"),
        f"ResourceQuota 'q' (at most 5 of {DEVICES}) has no capacity for the claims of hub/ada",
    )
    assert not world.actions(CreatePlaceholder)


def test_placeholders_come_back_if_the_user_does_not() -> None:
    world = full((GPU, 4, 9), (PAIR, 0, 9))
    Counting(world, {DEVICES: "5"})
    awaited(world, PAIR)
    world.run(minutes=2)
    assert world.number(GPU) == 3
    world.awaited.clear()
    world.run(minutes=1)
    assert world.number(GPU) == 4
    assert len(world.ended(Cause.QUOTA)) == 1


def test_each_of_several_servers_gets_capacity() -> None:
    world = full((GPU, 6, 9))
    Counting(world, {"pods": "7"})
    for name in ("ada", "bob", "cy"):
        awaited(world, GPU, name)
    world.run(minutes=0.2, every_seconds=1)
    assert sorted(str(each.pod) for each in world.ended(Cause.QUOTA)) == ["hub/bob", "hub/cy"], "one server fitted"


def test_a_server_with_warm_claims_needs_no_others() -> None:
    world = full((GPU, 4, 9), (PAIR, 0, 9))
    count(world, {DEVICES: "4", "pods": "40"})
    assert len(world.ended(Cause.QUOTA)) == 1, "for one more server"
    awaited(world, PAIR, has_claims=True)
    world.run(minutes=1)
    assert len(world.ended(Cause.QUOTA)) == 1


def test_no_placeholder_is_deleted_if_that_does_not_help() -> None:
    world = full((GPU, 4, 9))
    Counting(world, {DEVICES: "5", TEMPLATES: "0"})
    awaited(world, user_shape({"gpu": gpu_claim(count=6)}))
    awaited(world, user_shape({"gpu": gpu_claim(count=2)}), "bob")
    world.run(minutes=1)
    assert not world.ended(Cause.QUOTA), "six devices are more than the quota has, and no placeholder frees a template"


def test_as_few_placeholders_as_help_are_deleted() -> None:
    """A placeholder without devices would free a pod; but one with devices is needed anyway."""
    world = full((PLAIN, 3, 9), (GPU, 3, 9))
    for shape in (GPU, PLAIN):  # placeholders without devices are the newest, and would be the first
        for placeholder in list(world.view().placeholders_of_shape[shape.id]):
            world.remove_pod(placeholder.key)
            world.create_placeholder(shape)
        world.pass_time(seconds=10)
    world.run(minutes=1)
    world.log.clear()
    count(world, {"pods": "7", DEVICES: "4"})
    assert not world.ended(Cause.QUOTA)
    count(world, {"pods": "6", DEVICES: "3"})
    assert [(each.cause, "pods" in each.reason) for each in world.ended(Cause.QUOTA)] == [(Cause.QUOTA, False)]


# --- placeholders that stay -------------------------------------------------------------------------------------------


def test_a_placeholder_for_a_pending_server_stays() -> None:
    """Without the placeholder the autoscaler adds no node."""
    world = hub((GPU, 0, 9))
    world.users(("ada", "bob"), {"gpu": gpu_claim()})
    world.run(minutes=0.2, every_seconds=1)
    assert world.number(GPU) == 2
    Counting(world, {"pods": "4"})
    world.run(minutes=1)
    assert (world.number(GPU), world.ended(Cause.QUOTA)) == (2, [])


@pytest.mark.parametrize(("pods", "left"), [("0", 0), ("1", 0), ("2", 1)])
def test_an_exceeded_quota_is_respected_again(pods: str, left: int) -> None:
    world = full((GPU, 6, 9))
    Counting(world, {"pods": pods})
    world.run(minutes=5)
    assert (world.number(GPU), len(world.ended(Cause.QUOTA))) == (left, 6 - left)


def test_a_quota_for_placeholders_alone_is_respected() -> None:
    world = full((PLAIN, 6, 9))
    count(world, {"pods": "4"}, **OF_PLACEHOLDERS)
    assert world.number(PLAIN) == 4
    assert {each.reason for each in world.ended(Cause.QUOTA)} == {"ResourceQuota 'q' (at most 4 of pods) is exceeded"}
    world.run(minutes=30)
    assert (world.number(PLAIN), len(world.ended(Cause.QUOTA))) == (4, 2)


def test_resources_that_are_not_counted_yet_are_ignored() -> None:
    world = full((GPU, 6, 9))
    world.quotas = lambda: (quota_of(quota({"pods": "100", "memory": "1Ti"}, {"pods": "6"}), ""),)
    world.run(minutes=1)
    assert not world.ended(Cause.QUOTA)


def test_a_quota_that_is_late_costs_no_second_placeholder() -> None:
    """The quota counts a placeholder for two seconds after its end; rounds go on meanwhile."""
    world = full((GPU, 6, 9))
    past: list[int] = []

    def late() -> tuple[Quota, ...]:
        past.append(len(world.snapshot.pods))
        used = past[max(len(past) - 20, 0)]
        return (quota_of(quota({"pods": "6"}, {"pods": str(Quantity(used * NANO_PER_UNIT))}), ""),)

    world.quotas = late
    for _ in range(100):
        world.decide()
        world.pass_time(seconds=0.1)
    assert (world.number(GPU), len(world.ended(Cause.QUOTA))) == (5, 1)


def test_a_momentary_shortage_is_ignored() -> None:
    """A quota counts a claim before the watch of claims shows it."""
    world = full((GPU, 4, 9))
    world.quotas = lambda: (quota_of(quota({DEVICES: "5"}, {DEVICES: "5"}), ""),)
    for _ in range(9):
        world.decide()
        world.pass_time(seconds=0.1)
    world.quotas = lambda: (quota_of(quota({DEVICES: "5"}, {DEVICES: "4"}), ""),)
    world.run(minutes=1)
    assert not world.ended(Cause.QUOTA)


def test_a_placeholder_that_is_terminating_is_as_good_as_gone() -> None:
    world = full((GPU, 6, 9))
    victim = next(iter(world.view().placeholders.values()))
    world.snapshot.put(replace(victim.pod, is_deleted=True))
    Counting(world, {"pods": "6"})
    world.run(minutes=1)
    assert not world.ended(Cause.QUOTA)
    world.remove_pod(victim.key)
    world.run(minutes=1)
    assert (world.number(GPU), world.ended(Cause.QUOTA)) == (5, [])


def test_a_deletion_that_was_refused_is_decided_again() -> None:
    world = full((GPU, 6, 9))
    Counting(world, {"pods": "6"})
    before = dict(world.objects)
    view = world.view()
    again(world)
    (action,) = world.ended(Cause.QUOTA)
    pod = view.placeholders[action.key].pod
    for key in view.placeholders[action.key].claims:
        world.apply(before["ResourceClaim", key])
    world.apply(before["Pod", action.key])
    world.snapshot.put(pod)
    again(world)
    assert [each.key for each in world.ended(Cause.QUOTA)].count(action.key) == 2


def test_nothing_is_deleted_on_hold() -> None:
    world = full((GPU, 6, 9))
    Counting(world, {"pods": "6"})
    world.stale = timedelta(hours=1)
    world.run(minutes=1)
    assert not world.ended(Cause.QUOTA)


SEEDS = 4


@pytest.mark.parametrize("seed", range(example_count(SEEDS)))
def test_no_shape_is_created_and_deleted_in_turn(seed: int) -> None:
    """Users come and go, and a quota changes: after each event a shape is created or deleted, never both."""
    random = Random(seed)
    world = full((PLAIN, 3, 9), (GPU, 4, 9), (PAIR, 2, 9), gpus=40)
    counting = Counting(world, {})
    users: list[str] = []
    for step in range(20):
        event = random.choice(["quota", "comes", "comes", "leaves"]) if step else "quota"
        before = {key: each.shape for key, each in world.view().placeholders.items()}
        world.log.clear()
        if event == "quota":
            counting.hard = {"pods": str(random.randrange(6, 20)), DEVICES: str(random.randrange(4, 16))}
        elif event == "leaves" and users:
            world.leave(users.pop(random.randrange(len(users))))
        elif event == "comes":
            claims: dict[str, Json] = random.choice([{}, {"gpu": gpu_claim()}, {"gpu": gpu_claim(count=2)}])
            # The API server refuses its pod at first, unless the quota has capacity; the user tries again.
            if not admits(world, claims):
                awaited(world, user_shape(claims), f"user-{step}")
                world.run(minutes=0.2, every_seconds=1)
            if admits(world, claims):
                users.append(f"user-{step}")
                world.user(users[-1], claims)
            world.awaited.clear()
        world.run(minutes=0.5, every_seconds=2)
        created = {each.shape for each in world.actions(CreatePlaceholder)}
        gone = {before[each.key] for each in world.ended(Cause.QUOTA) if each.key in before}
        assert len(world.ended(Cause.QUOTA)) == sum(each.key in before for each in world.ended(Cause.QUOTA)), (
            "a new one is deleted"
        )
        assert not created & gone, (step, event, counting.hard)
    assert users


def admits(world: World, claims: Mapping[str, Json]) -> bool:
    """Whether the API server would accept a server's pod and claims."""
    view = world.view()
    return all(
        each.left.get(resource, amount) >= amount
        for each in view.quotas
        for resource, amount in needed_amounts(user_shape(claims), view.snapshot.classes, each, for_server=True).items()
    )


def test_old_figures_of_a_quota_end_no_placeholder() -> None:
    """While the quota cannot be followed it never shows that a placeholder has ended, so all of them would go."""
    world = full((GPU, 6, 6))
    known = quota_of(quota({"pods": "6"}, {"pods": "6"}), PRIORITY_CLASS)
    world.quotas = lambda: (known,)
    world.knows_quotas = False
    world.run(minutes=2, every_seconds=1)
    assert world.number(GPU) == 6
    world.knows_quotas = True
    again(world)
    assert world.number(GPU) == 5
