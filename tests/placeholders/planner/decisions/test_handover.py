"""Warm claims are reserved, handed over beside the placeholder or in place of it, and replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import AddConsumer, CreatePlaceholder, DeleteClaim, DeletePlaceholder
from dra_spawner.placeholders.planner.answers.placement import Placement
from dra_spawner.placeholders.planner.cluster.view import Placeholder
from dra_spawner.placeholders.planner.decisions.safeguards import safeguard_of
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.objects import GPU, NAMESPACE, gpu_claim, user_shape
from tests.placeholders.planner.world import World, hub
from tests.presence import present

BIG = user_shape({"gpu": gpu_claim()}, cpu="6")
PLAIN = user_shape(cpu="6")
ADA = ObjectKey(NAMESPACE, "ada")
NO_CAPACITY = "0/1 nodes are available: 1 Insufficient cpu."


def world_with_placeholder(*, most: int = 5, gpus: int = 1) -> tuple[World, Placeholder]:
    world = hub((GPU, 1, most), nodes="a", gpus=gpus)
    placeholder = world.only
    return world, placeholder


@pytest.mark.promise("A claim that is reserved for one server is given to no other.")
def test_a_reserved_claim_is_given_to_no_other_server() -> None:
    world, placeholder = world_with_placeholder()
    world.reserve(placeholder.claims[0], "ada")
    assert world.placement(GPU).state is AvailabilityState.WAITS
    world.user("bob", {"gpu": gpu_claim()})
    world.settle()
    assert "bob" in world.pending
    assert placeholder.key in world.view().placeholders


def test_a_placeholder_is_deleted_with_its_claim() -> None:
    """The hub deletes the claim of a failed start; the claim exists until its last consumer is gone."""
    world, placeholder = world_with_placeholder()
    world.reserve(placeholder.claims[0], "ada")
    world.snapshot.put(replace(world.snapshot.claims[placeholder.claims[0]], is_deleted=True))
    world.settle()
    assert [each.key for each in world.ended(Cause.BROKEN)] == [placeholder.key]
    (anew,) = world.view().placeholders.values()
    assert anew.claims != placeholder.claims


def test_a_claim_is_left_to_the_scheduler_while_it_binds_the_pod() -> None:
    """A concurrent write to the claim would make the scheduler try again a second later."""
    world, placeholder = world_with_placeholder(most=1)
    world.reserve(placeholder.claims[0], "ada")
    world.user("ada", claim_names={"gpu": placeholder.claims[0].name})
    world.decide()
    assert not world.actions(AddConsumer)
    assert placeholder.key in world.view().placeholders
    world.schedule()
    world.decide()
    assert [each.pod.name for each in world.actions(AddConsumer)] == ["ada"]


def test_a_slow_scheduler_does_not_delay_a_handover_for_ever() -> None:
    world, placeholder = world_with_placeholder(most=1)
    world.user("ada", claim_names={"gpu": placeholder.claims[0].name})
    world.pass_time(seconds=16)
    world.decide()
    assert [each.pod.name for each in world.actions(AddConsumer)] == ["ada"]


def test_new_placeholders_wait_for_a_handover() -> None:
    """They would compete for the same scheduler at the same time."""
    world, placeholder = world_with_placeholder(gpus=2)
    made = world.made
    world.reserve(placeholder.claims[0], "ada", world.now + world.policy.grace.reservation)
    world.decide()
    assert world.made == made, "its pod is about to come"
    world.user("ada", claim_names={"gpu": placeholder.claims[0].name})
    world.decide()
    assert world.made == made, "its pod is about to be bound"
    world.schedule()
    world.decide()
    assert world.made == made + 1


@pytest.mark.parametrize("came", [pytest.param(False, id="no-pod"), pytest.param(True, id="stuck-pod")])
def test_new_placeholders_do_not_wait_for_long(came: bool) -> None:
    world, placeholder = world_with_placeholder(gpus=2)
    made = world.made
    world.reserve(placeholder.claims[0], "ada", world.now + world.policy.grace.reservation)
    if came:
        world.user("ada", claim_names={"gpu": placeholder.claims[0].name}, nodeSelector={"no": "such"})
    world.decide()
    assert world.made == made
    world.pass_time(seconds=11)
    world.decide()
    assert world.made == made + 1


# --- step by step: beside the placeholder, or in place of it where both do not fit ------------------------------------


def one_node(cpu: str) -> World:
    """A node with a placeholder and its GPU: with 10 CPUs it is full."""
    return hub((BIG, 1, 1), (PLAIN, 0, 0), nodes="a", cpu=cpu, gpus=1)


def reserved(world: World, shape: Shape = BIG) -> tuple[Placement, ObjectKey]:
    found = world.placement(shape)
    assert found.state is AvailabilityState.READY
    return found, ObjectKey(NAMESPACE, world.reservation(found, "ada"))


def create_pod(world: World, claim: ObjectKey) -> None:
    world.user("ada", claim_names={"gpu": claim.name}, cpu="6")


def refuse(world: World) -> None:
    """The scheduler has looked at the pod, and reports that it does not fit."""
    world.refused["ada"] = NO_CAPACITY


@pytest.mark.promise("A placeholder stays until the containers of the user's server run.")
def test_the_placeholder_stays_until_the_containers_run() -> None:
    """A kubelet may lose a pod that joins a claim while its last consumer ends, however long the start takes."""
    world = one_node("20")
    found, claim = reserved(world)
    device = world.snapshot.claims[claim].claim.status.devices
    world.slow.add("ada")
    create_pod(world, claim)
    world.run(minutes=20)
    assert world.node_of("ada") == "a"
    assert present(found.placeholder).key in world.view().placeholders
    assert not world.actions(DeletePlaceholder)
    assert world.snapshot.pods[ADA].uid in world.snapshot.claims[claim].owner_uids, "it is deleted with its pod"
    world.slow.clear()
    world.run(minutes=1)
    assert [each.key for each in world.ended(Cause.HANDED_OVER)] == [present(found.placeholder).key]
    assert world.snapshot.claims[claim].claim.status.devices == device, "never given back in between"
    assert [each.name for each in world.snapshot.claims[claim].consumers] == ["ada"]
    assert not world.ended(Cause.PREEMPTED)


def test_on_a_full_node_the_pod_is_a_consumer_first() -> None:
    world = one_node("10")
    found, claim = reserved(world)
    device = world.snapshot.claims[claim].claim.status.devices
    refuse(world)
    create_pod(world, claim)
    actions = world.decide().actions
    kinds = [type(each) for each in actions if isinstance(each, AddConsumer | DeletePlaceholder)]
    assert kinds == [AddConsumer, DeletePlaceholder]
    (reserve,) = world.actions(AddConsumer)
    assert (reserve.claim, reserve.pod, reserve.owner, reserve.consumer) == (claim, ADA, True, True)
    assert present(found.placeholder).key not in world.snapshot.pods
    world.refused.clear()
    world.settle()
    assert world.node_of("ada") == "a"
    assert world.snapshot.claims[claim].claim.status.devices == device
    assert [each.name for each in world.snapshot.claims[claim].consumers] == ["ada"]


@pytest.mark.parametrize("cpu", ["10", "20"])
def test_the_placeholder_stays_until_the_scheduler_finds_no_capacity(cpu: str) -> None:
    """Until then the scheduler may bind the pod beside the placeholder at any moment."""
    world = one_node(cpu)
    found, claim = reserved(world)
    create_pod(world, claim)
    world.pass_time(minutes=5)
    world.decide()
    assert present(found.placeholder).key in world.view().placeholders
    assert [each.pod for each in world.actions(AddConsumer)] == [ADA], "the devices are the pod's, whatever comes"


@pytest.mark.parametrize("is_bound", [False, True])
def test_the_claim_of_a_preempted_placeholder_is_handed_over(is_bound: bool) -> None:
    """The scheduler may be faster: it preempts for CPU and memory."""
    world = one_node("20")
    found, claim = reserved(world)
    create_pod(world, claim)
    if is_bound:
        world.schedule()
    world.snapshot.put(replace(world.snapshot.pods[present(found.placeholder).key], is_deleted=True))
    world.decide()
    (reserve,) = world.actions(AddConsumer)
    assert (reserve.claim, reserve.pod, reserve.consumer) == (claim, ADA, not is_bound)


@pytest.mark.parametrize("shape", [PLAIN, BIG], ids=["plain", "device"])
def test_no_other_server_is_sent_to_a_reserved_placeholder(shape: Shape) -> None:
    world = one_node("10")
    reserved(world)
    assert world.placement(shape).state is AvailabilityState.WAITS


def test_an_expired_reservation_is_replaced_by_a_warm_placeholder() -> None:
    world = one_node("10")
    found, claim = reserved(world)
    world.pass_time(seconds=31)
    world.run(minutes=3)
    assert [each.key for each in world.ended(Cause.EXPIRED)] == [present(found.placeholder).key]
    assert claim not in world.snapshot.claims
    assert [each.claim for each in world.actions(DeleteClaim)] == [claim]
    warm = world.placement(BIG)
    assert warm.state is AvailabilityState.READY
    assert claim not in present(warm.placeholder).claims, "a late pod must not find the device of another"


def test_a_pod_without_its_reserved_claim_gets_the_device() -> None:
    """The pod was created without the answer, which came too late."""
    world = one_node("10")
    _, claim = reserved(world)
    world.pass_time(seconds=5)
    world.user("ada", {"gpu": gpu_claim()}, cpu="6")
    world.run(minutes=0.2)
    assert world.node_of("ada") == "a", "long before the reservation expires"
    assert not world.snapshot.claims[claim].claim.is_allocated


def test_a_failed_pod_gets_no_warm_claim() -> None:
    """For example, the kubelet refused the pod; the hub may create a pod of this name again."""
    world = one_node("20")
    found, claim = reserved(world)
    world.slow.add("ada")
    create_pod(world, claim)
    world.schedule()
    world.fail(ADA)
    world.decide()
    assert not world.actions(DeletePlaceholder)
    world.pass_time(seconds=31)
    world.decide()
    assert [each.key for each in world.ended(Cause.EXPIRED)] == [present(found.placeholder).key]


def test_a_pod_without_capacity_is_the_only_consumer_of_its_claim() -> None:
    """The scheduler releases a claim with one consumer, and places the pod on another node."""
    world = one_node("13")
    found, claim = reserved(world)
    world.user("eve", cpu="6")
    world.schedule()
    refuse(world)
    create_pod(world, claim)
    world.decide()
    assert present(found.placeholder).key not in world.snapshot.pods
    assert [each.name for each in world.snapshot.claims[claim].consumers] == ["ada"]


def test_no_node_is_asked_for_during_a_handover() -> None:
    world = one_node("10")
    found, claim = reserved(world)
    create_pod(world, claim)
    world.decide()
    (pending,) = world.last.pending
    assert pending.reason == f"gets the devices of {present(found.placeholder).key} on node a"
    assert not pending.needs_node
    assert not [each for each in world.actions(CreatePlaceholder) if each.for_pending_pod == ADA]


def test_all_claims_are_handed_over_before_the_placeholder_is_deleted() -> None:
    two = user_shape({"gpu": gpu_claim(), "more": gpu_claim()}, cpu="6")
    world = hub((two, 1, 1), (PLAIN, 0, 0), nodes="a", cpu="10", gpus=2)
    placeholder = world.only
    reserved(world, two)
    names = dict(zip(("gpu", "more"), (each.name for each in placeholder.claims), strict=True))
    refuse(world)
    world.user("ada", claim_names=names, cpu="6")
    world.decide()
    kinds = [type(each).kind for _, each in world.log if isinstance(each, AddConsumer | DeletePlaceholder)]
    assert kinds == ["add-consumer", "add-consumer", "delete-placeholder"]
    assert sorted(each.claim for each in world.actions(AddConsumer)) == sorted(placeholder.claims)


def test_two_pods_may_name_one_warm_claim() -> None:
    world = one_node("10")
    _, claim = reserved(world)
    create_pod(world, claim)
    world.user("bob", claim_names={"gpu": claim.name}, cpu="6")
    decided = world.decide()
    assert {each.pod.name for each in decided.pending} == {"ada", "bob"}


def test_a_terminating_placeholder_on_a_lost_node_is_no_safeguard() -> None:
    """Only its kubelet could report that its containers have ended."""
    world = one_node("10")
    placeholder = world.only
    world.snapshot.put(replace(placeholder.pod, is_deleted=True))
    assert present(safeguard_of(world.view(), world.policy)).rule == "terminating"
    obj = world.objects["Node", ObjectKey("", "a")]
    obj["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    obj["spec"]["taints"] = [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]
    world.snapshot.apply(obj)
    assert safeguard_of(world.view(), world.policy) is None
