"""Placeholders with devices: placements, nodes that become ready, and failed placeholders."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.cluster.view import Reservation
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, gpu_claim, user_shape
from tests.placeholders.planner.world import hub
from tests.presence import present


def test_each_user_that_needs_a_node_has_a_pending_placeholder() -> None:
    world = hub((GPU, 0, 5), nodes="a", gpus=1)
    world.users(("ada", "bob", "cy"), {"gpu": gpu_claim()})
    world.settle()
    pending = [name for name in world.pending if name.startswith("placeholder")]
    assert len(pending) == 2
    # A cold node fits one placeholder; its user waits for the images, and no further node is asked for.
    world.node("b", gpus=1, images=())
    world.run(minutes=2)
    assert len([name for name in world.pending if name.startswith("placeholder")]) == 1
    world.pull("b")
    world.run(minutes=1)
    assert len(world.pending) == 2, "one user and its placeholder"


def test_a_server_without_placeholders_may_ask_for_a_node_too() -> None:
    """Its pod requires a label that a future node lacks: without a placeholder no node would come."""
    world = hub((PLAIN, 1, 5))
    world.policy = replace(world.policy, shapes={**world.policy.shapes, GPU.id: GPU})
    world.node("a", gpus=1)
    world.settle()
    world.users(("ada", "bob", "cy"), {"gpu": gpu_claim()})
    world.settle()
    assert len([each for each in world.view().placeholders.values() if each.shape == GPU.id and each.is_pending]) == 2
    world.leave("bob")
    world.leave("cy")
    world.run(minutes=1)
    assert not [each for each in world.view().placeholders.values() if each.shape == GPU.id]


def test_a_node_is_not_ready_before_its_devices_are_published() -> None:
    world = hub((GPU, 1, 5))
    kind = {"node.kubernetes.io/instance-type": "gpu-node"}
    world.node("a", gpus=1, labels=kind)
    world.settle()
    world.node("b", labels=kind)
    world.settle()
    assert world.is_ready("a")
    assert not world.is_ready("b")
    world.slice("b", 1)
    world.settle()
    assert world.is_ready("b")


def test_a_node_is_ready_after_the_deadline_whatever_it_lacks() -> None:
    world = hub((PLAIN, 1, 5))
    world.node("a", images=())
    world.run(minutes=14)
    assert not world.is_ready("a")
    world.run(minutes=2)
    assert world.is_ready("a")


@pytest.mark.parametrize(
    ("claims", "kind"),
    [
        ({"gpu": gpu_claim()}, AvailabilityState.FREE),
        ({"gpu": gpu_claim(count=2)}, AvailabilityState.FREE),
        ({"gpu": gpu_claim(count=3)}, AvailabilityState.WAITS),
    ],
    ids=["one", "two", "three"],
)
def test_placement_without_placeholders(claims: dict, kind: AvailabilityState) -> None:
    world = hub((PLAIN, 0, 0), nodes="a", gpus=2)
    assert world.placement(user_shape(claims)).state is kind


def test_several_users_of_one_shape_at_once() -> None:
    world = hub((GPU, 3, 6), nodes="a", gpus=3)
    world.users(("ada", "bob", "cy", "dee"), {"gpu": gpu_claim()})
    world.schedule()
    world.decide()
    assert len(world.ended(Cause.PREEMPTED)) == 3
    assert [each.needs_node for each in world.last.pending] == [False, False, False, True]


def test_a_pod_whose_claim_is_not_seen_yet_asks_for_no_node() -> None:
    """The watch of pods may be ahead of the watch of claims."""
    world = hub((GPU, 1, 5), nodes="a", gpus=1)
    world.user("ada", claim_names={"gpu": "not-there-yet"})
    world.log.clear()
    world.settle()
    assert world.log == []
    (pending,) = world.last.pending
    assert not pending.needs_node
    assert "not-there-yet" in pending.reason


def test_devices_as_extended_resources_count_and_are_reserved() -> None:
    """Without a handover, the placeholder is preempted for the server it is reserved for, and for no other."""
    shape = user_shape(extended=1)
    world = hub((shape, 1, 5), nodes="a", gpus=1)
    assert world.placeholders_on("a") == 1
    found = world.placement(shape)
    assert found.state is AvailabilityState.READY
    reserved = {present(found.placeholder).key: Reservation("ada", world.now + timedelta(seconds=30))}
    world.reserved = reserved
    world.user("bob", {"gpu": gpu_claim()})
    world.run(minutes=0.2)
    assert "bob" in world.pending, "the placeholder is reserved for another server"
    world.leave("bob")
    world.user("ada", extended=1)
    world.settle()
    assert world.node_of("ada") == "a"
    gone = world.ended(Cause.PREEMPTED)
    assert {present(each.pod).name for each in gone} == {"ada"}
    # The other one was pending for bob, and would have got the device.
    assert [each.key == present(found.placeholder).key for each in gone] == [True, False]


def test_a_failed_placeholder_is_replaced() -> None:
    """The kubelet ends pods where a node lacks a resource, and leaves them as objects."""
    world = hub((GPU, 2, 2), nodes="a", gpus=2)
    failed, healthy = world.view().placeholders
    world.fail(failed)
    world.settle()
    (end,) = world.ended(Cause.BROKEN)
    assert (end.key, end.reason) == (failed, "the kubelet ended it (phase Failed)")
    assert failed not in world.snapshot.pods
    assert healthy in world.view().placeholders
    world.pass_time(seconds=5)
    world.settle()
    assert len(world.warm(GPU)) == 2


def test_a_failed_placeholder_leaves_the_claim_of_a_user() -> None:
    world = hub((GPU, 1, 1), nodes="a", gpus=1)
    (failed,) = world.view().placeholders.values()
    claim = world.snapshot.claims[failed.claims[0]]
    world.snapshot.put(replace(claim, owner_uids=(failed.pod.uid,)))
    world.user("ada", claim_names={"gpu": claim.key.name})
    world.fail(failed.key)
    world.decide()
    assert not world.ended(Cause.BROKEN)
    ada = world.snapshot.pods[ObjectKey(NAMESPACE, "ada")]
    tracked = world.snapshot.claims[claim.key]
    world.snapshot.put(replace(tracked, owner_uids=(failed.pod.uid, ada.uid)))
    world.decide()
    assert [each.key for each in world.ended(Cause.BROKEN)] == [failed.key]


def test_a_placeholder_without_its_claim_is_deleted_after_a_while() -> None:
    """A user or a program deleted the claim; the pod would be pending for ever."""
    world = hub((GPU, 1, 1))
    world.settle()
    placeholder = world.only
    world.snapshot.remove_claim(placeholder.claims[0])
    world.pass_time(seconds=50)
    world.settle()
    assert not world.ended(Cause.BROKEN), "the claim may only not be seen yet"
    world.pass_time(seconds=20)
    world.settle()
    (end,) = world.ended(Cause.BROKEN)
    assert (end.key, end.reason) == (placeholder.key, f"claim {placeholder.claims[0].name} is gone")
    world.node("a", gpus=1)
    world.settle()
    assert len(world.warm(GPU)) == 1


def test_a_server_that_fits_nowhere_creates_one_placeholder() -> None:
    """Its volume is in another zone, or a user has enlarged it after its shape was published."""
    world = hub((PLAIN, 1, 50))
    world.policy = replace(world.policy, shapes={**world.policy.shapes, GPU.id: GPU})
    world.node("a", gpus=8)
    world.settle()
    for name, shape, claims in (("ada", PLAIN, {}), ("eve", GPU, {"gpu": gpu_claim()})):
        world.user(name, claims, nodeSelector={"zone": "elsewhere"})
        world.relabel("Pod", ObjectKey(NAMESPACE, name), {names.SHAPE: shape.id})
    world.run(minutes=5)
    assert sorted(name for name in world.pending if not name.startswith("placeholder")) == ["ada", "eve"]
    assert world.number(PLAIN) == 2, "one is the target, one was created for ada"
    assert world.number(GPU) == 1
