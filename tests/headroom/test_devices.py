"""Placeholders that hold devices: handed over, out of the way in time, and never in a user's way for long."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner.headroom import labels
from dra_spawner.headroom.actions import Cause, CreatePlaceholder, EndPlaceholder, LabelPod, ReserveClaim
from dra_spawner.headroom.placement import PlacementKind, find_placement
from dra_spawner.headroom.policy import Headroom, Policy
from dra_spawner.headroom.shapes import Shape
from dra_spawner.headroom.view import Reservation
from dra_spawner.simulator.claims import ObjectKey
from tests.headroom.world import GPU, NAMESPACE, PLAIN, SHARE, World, gpu_claim, share_claim, user_shape


def hub(*shapes: tuple[Shape, int, int]) -> World:
    return World(
        Policy(
            shapes={shape.id: shape for shape, _, _ in shapes},
            headroom={shape.id: Headroom(minimum, maximum) for shape, minimum, maximum in shapes},
        )
    )


def ended(world: World, cause: Cause) -> list[EndPlaceholder]:
    return [each for each in world.actions(EndPlaceholder) if each.cause is cause]


def placement(world: World, shape: Shape):
    return find_placement(world.view(), world.policy, shape, NAMESPACE)


def test_a_placeholder_that_holds_the_device_makes_way() -> None:
    """kube-scheduler would not preempt it (fact 1 of the design)."""
    world = hub((GPU, 1, 5))
    world.node("a", gpus=1)
    world.settle()
    assert world.placeholders_on("a") == 1
    world.user("ada", {"gpu": gpu_claim()})
    world.schedule()
    assert "ada" in world.pending
    world.settle()
    assert world.where("ada") == "a"
    assert [each.pod for each in ended(world, Cause.YIELD)] == [ObjectKey(NAMESPACE, "ada")]


def test_no_placeholder_goes_if_that_would_not_help() -> None:
    world = hub((GPU, 1, 5))
    world.node("a", gpus=1)
    world.settle()
    world.user("greedy", {"gpu": gpu_claim(count=2)})
    world.run(minutes=5)
    assert "greedy" in world.pending
    assert not ended(world, Cause.YIELD)


def test_the_fewest_go() -> None:
    """A share of 10 GiB fits without one of the two placeholders, whichever; the other stays."""
    world = hub((SHARE, 2, 5))
    world.node("a", gpus=1, memory="20Gi")
    world.settle()
    assert world.placeholders_on("a") == 2
    world.user("ada", {"gpu": share_claim("10Gi")})
    world.schedule()
    world.decide()
    assert len(ended(world, Cause.YIELD)) == 1


def test_two_go_for_a_whole_device() -> None:
    world = hub((SHARE, 2, 5))
    world.node("a", gpus=1, memory="20Gi")
    world.settle()
    world.user("ada", {"gpu": share_claim("20Gi")})
    world.settle()
    assert world.where("ada") == "a"
    assert len(ended(world, Cause.YIELD)) == 2


def test_of_equal_nodes_the_one_with_users() -> None:
    world = hub((GPU, 2, 5))
    world.node("a", gpus=1)
    world.node("b", gpus=1)
    world.settle()
    world.user("first", cpu="2")
    world.settle()
    busy = world.where("first")
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    assert world.where("ada") == busy


def test_never_twice_for_the_same_pod_within_its_grace() -> None:
    """What is free now may be taken by another before the scheduler comes to the pod: no cascade."""
    world = hub((GPU, 3, 5))
    for name in "abc":
        world.node(name, gpus=1)
    world.settle()
    world.user("ada", {"gpu": gpu_claim()})
    world.schedule()
    world.decide()
    assert len(ended(world, Cause.YIELD)) == 1
    # Somebody else takes the place before the scheduler gets there.
    freed = ended(world, Cause.YIELD)[0].reason.split("node ")[1].split()[0]
    world.user("thief", {"gpu": gpu_claim()}, nodeSelector={"kubernetes.io/hostname": freed})
    thief = world.snapshot.pods[ObjectKey(NAMESPACE, "thief")]
    assert world.snapshot.place(thief) == freed
    world.decide()
    world.pass_time(seconds=5)
    world.decide()
    assert len(ended(world, Cause.YIELD)) == 1
    world.pass_time(seconds=6)
    world.decide()
    assert len(ended(world, Cause.YIELD)) == 2
    assert {each.label for each in world.actions(LabelPod)} == {labels.YIELDED_AT}


def test_hand_over_of_a_warm_claim() -> None:
    world = hub((GPU, 1, 5))
    world.node("a", gpus=1)
    world.settle()
    found = placement(world, GPU)
    assert found.kind is PlacementKind.WARM
    (claim,) = found.placeholder.claims
    device = world.snapshot.claims[claim].claim.status.devices
    world.reserve(claim, "ada", world.now + timedelta(seconds=30))
    world.user("ada", claim_names={"gpu": claim.name})
    world.settle()
    assert world.where("ada") == "a"
    assert world.snapshot.claims[claim].claim.status.devices == device, "never given back in between"
    assert len(ended(world, Cause.HANDED_OVER)) == 1
    assert not ended(world, Cause.YIELD)


def test_hand_over_on_a_full_node_frees_cpu_without_losing_the_claim() -> None:
    world = hub((user_shape({"gpu": gpu_claim()}, cpu="6"), 1, 1))
    world.node("a", cpu="10", gpus=1)
    world.settle()
    (kept,) = world.view().placeholders.values()
    claim = kept.claims[0]
    device = world.snapshot.claims[claim].claim.status.devices
    world.reserve(claim, "ada", world.now + timedelta(seconds=30))
    gates = [{"name": labels.HAND_OVER_GATE}]
    world.user("ada", claim_names={"gpu": claim.name}, cpu="6", schedulingGates=gates)
    world.schedule()
    world.decide()
    assert [each.pod.name for each in world.actions(ReserveClaim)] == ["ada"]
    world.decide()
    world.decide()
    world.schedule()
    assert world.where("ada") == "a"
    assert world.snapshot.claims[claim].claim.status.devices == device


def test_a_reserved_claim_is_given_to_nobody_else() -> None:
    world = hub((GPU, 1, 5))
    world.node("a", gpus=1)
    world.settle()
    (kept,) = world.view().placeholders.values()
    world.reserve(kept.claims[0], "ada", world.now + timedelta(seconds=30))
    assert placement(world, GPU).kind is PlacementKind.SCALE_UP
    world.user("bob", {"gpu": gpu_claim()})
    world.settle()
    assert "bob" in world.pending
    assert kept.key in world.view().placeholders


def test_a_placeholder_goes_with_its_claim() -> None:
    """The hub deletes what was kept for a start that has failed; the claim is there until nobody uses it."""
    world = hub((GPU, 1, 5))
    world.node("a", gpus=1)
    world.settle()
    (kept,) = world.view().placeholders.values()
    world.reserve(kept.claims[0], "ada", world.now + timedelta(seconds=30))
    world.snapshot.put(replace(world.snapshot.claims[kept.claims[0]], is_deleted=True))
    world.settle()
    assert [each.key for each in ended(world, Cause.BROKEN)] == [kept.key]
    (anew,) = world.view().placeholders.values()
    assert anew.claims != kept.claims


def test_a_reservation_expires() -> None:
    world = hub((GPU, 1, 5))
    world.node("a", gpus=1)
    world.settle()
    (kept,) = world.view().placeholders.values()
    world.reserve(kept.claims[0], "ada", world.now + timedelta(seconds=30))
    world.pass_time(seconds=31)
    world.settle()
    found = placement(world, GPU)
    assert found.kind is PlacementKind.WARM
    assert found.placeholder.claims != kept.claims, "who comes late must not find another's device"
    assert [each.key for each in ended(world, Cause.EXPIRED)] == [kept.key]


def test_the_warm_slot_is_made_again() -> None:
    world = hub((GPU, 1, 5))
    world.node("a", gpus=2)
    world.settle()
    (kept,) = world.view().placeholders.values()
    world.user("ada", claim_names={"gpu": kept.claims[0].name})
    world.settle()
    assert world.where("ada") == "a"
    assert world.placeholders_on("a") == 1
    assert len(world.actions(CreatePlaceholder)) == 2


def test_a_pending_placeholder_beside_each_user_that_waits_for_a_node() -> None:
    world = hub((GPU, 0, 5))
    world.node("a", gpus=1)
    world.settle()
    for name in ("ada", "bob", "cy"):
        world.user(name, {"gpu": gpu_claim()})
    world.settle()
    waiting = [name for name in world.pending if name.startswith("placeholder")]
    assert len(waiting) == 2
    # A cold node takes one of them; its user waits for the images, and no further node is asked for.
    world.node("b", gpus=1, images=())
    world.run(minutes=2)
    assert len([name for name in world.pending if name.startswith("placeholder")]) == 1
    world.pull("b")
    world.run(minutes=1)
    assert len(world.pending) == 2, "one user and the placeholder beside it"


def test_who_has_no_head_room_may_ask_for_a_node_too() -> None:
    """Its pod requires a label that a node that is yet to come has not: without a placeholder none would come."""
    world = hub((PLAIN, 1, 5))
    world.policy = replace(world.policy, shapes={**world.policy.shapes, GPU.id: GPU})
    world.node("a", gpus=1)
    world.settle()
    for name in ("ada", "bob", "cy"):
        world.user(name, {"gpu": gpu_claim()})
    world.settle()
    assert len([each for each in world.view().placeholders.values() if each.shape == GPU.id and each.is_pending]) == 2
    world.leave("bob")
    world.leave("cy")
    world.run(minutes=1)
    assert not [each for each in world.view().placeholders.values() if each.shape == GPU.id]


def test_a_node_is_not_ready_before_its_devices_are_published() -> None:
    world = hub((GPU, 1, 5))
    kind = {"node.kubernetes.io/instance-type": "gpu-node"}
    world.node("a", gpus=1, **kind)
    world.settle()
    world.node("b", **kind)
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
        ({"gpu": gpu_claim()}, PlacementKind.FRESH),
        ({"gpu": gpu_claim(count=2)}, PlacementKind.FRESH),
        ({"gpu": gpu_claim(count=3)}, PlacementKind.SCALE_UP),
    ],
    ids=["one", "two", "three"],
)
def test_placement_without_placeholders(claims: dict, kind: PlacementKind) -> None:
    world = hub((PLAIN, 0, 0))
    world.node("a", gpus=2)
    world.settle()
    assert placement(world, user_shape(claims)).kind is kind


def test_placement_never() -> None:
    world = World(Policy(shapes={PLAIN.id: PLAIN}, node_kinds_are_all=True))
    world.node("a", gpus=2)
    world.settle()
    assert placement(world, user_shape({"gpu": gpu_claim(count=3)})).kind is PlacementKind.NEVER


def test_users_fill_the_truly_busiest_node() -> None:
    """States of the discussion: the right node has more users, the left one more placeholders."""
    world = hub((PLAIN, 3, 5))
    world.node("left", cpu="5")
    world.settle()
    world.node("right", cpu="5")
    world.user("one", nodeSelector={"kubernetes.io/hostname": "right"}, requires_ready=False)
    world.user("two", nodeSelector={"kubernetes.io/hostname": "right"}, requires_ready=False)
    world.settle()
    assert world.picture("left", "right") == "PPP++ UU+++"
    world.policy = Policy(shapes={PLAIN.id: PLAIN}, headroom={})
    assert placement(world, user_shape(cpu="500m")).node == "right"


def test_several_users_of_one_shape_at_once() -> None:
    world = hub((GPU, 3, 6))
    world.node("a", gpus=3)
    world.settle()
    for name in ("ada", "bob", "cy", "dee"):
        world.user(name, {"gpu": gpu_claim()})
    world.schedule()
    world.decide()
    assert len(ended(world, Cause.YIELD)) == 3
    assert [each.needs_node for each in world.last.waiting] == [False, False, False, True]


def test_a_pod_whose_claim_is_not_seen_yet_asks_for_no_node() -> None:
    """The watch of pods may be ahead of that of claims."""
    world = hub((GPU, 1, 5))
    world.node("a", gpus=1)
    world.settle()
    world.user("ada", claim_names={"gpu": "not-there-yet"})
    world.log.clear()
    world.settle()
    assert world.log == []
    (told,) = world.last.waiting
    assert not told.needs_node
    assert "not-there-yet" in told.reason


def test_devices_as_extended_resources_count_and_are_kept() -> None:
    """No claim can be handed over then, so the placeholder makes way for the one it was promised to, and for no other."""
    shape = user_shape(extended=1)
    world = hub((shape, 1, 5))
    world.node("a", gpus=1)
    world.settle()
    assert world.placeholders_on("a") == 1
    found = placement(world, shape)
    assert found.kind is PlacementKind.WARM
    promised = {found.placeholder.key: Reservation("ada", world.now + timedelta(seconds=30))}
    world.promised = promised
    world.user("bob", {"gpu": gpu_claim()})
    world.run(minutes=0.2)
    assert "bob" in world.pending, "what is promised to another is not for bob"
    world.leave("bob")
    world.user("ada", extended=1)
    world.settle()
    assert world.where("ada") == "a"
    gone = ended(world, Cause.YIELD)
    assert {each.pod.name for each in gone} == {"ada"}
    # And the one that waited beside bob, which would have taken the device.
    assert [each.key == found.placeholder.key for each in gone] == [True, False]


def test_a_placeholder_with_an_extended_resource_makes_way() -> None:
    shape = user_shape(extended=1)
    world = hub((shape, 1, 5))
    world.node("a", gpus=1)
    world.settle()
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    assert world.where("ada") == "a"
    assert len(ended(world, Cause.YIELD)) == 1


def test_a_claim_is_left_to_the_scheduler_while_it_binds_the_pod() -> None:
    """Who writes to the claim at the same time makes it try again a second later."""
    world = hub((GPU, 1, 1))
    world.node("a", gpus=1)
    world.settle()
    (kept,) = world.view().placeholders.values()
    world.reserve(kept.claims[0], "ada", world.now + timedelta(seconds=30))
    world.user("ada", claim_names={"gpu": kept.claims[0].name})
    world.decide()
    assert not world.actions(ReserveClaim)
    assert kept.key in world.view().placeholders
    world.schedule()
    world.decide()
    assert [each.pod.name for each in world.actions(ReserveClaim)] == ["ada"]


def test_a_scheduler_that_does_not_come_to_a_pod_is_not_waited_for() -> None:
    world = hub((GPU, 1, 1))
    world.node("a", gpus=1)
    world.settle()
    (kept,) = world.view().placeholders.values()
    world.user("ada", claim_names={"gpu": kept.claims[0].name})
    world.pass_time(seconds=4)
    world.decide()
    assert [each.pod.name for each in world.actions(ReserveClaim)] == ["ada"]


def test_room_beside_is_promised_to_one_only() -> None:
    """Else the scheduler preempts a placeholder whose claim is not its user's yet."""
    shape = user_shape({"gpu": gpu_claim()}, cpu="3")
    world = hub((shape, 2, 2))
    world.node("a", cpu="10", gpus=2)
    world.settle()
    first = placement(world, shape)
    assert first.fits_beside
    world.reserve(first.placeholder.claims[0], "ada", world.now + timedelta(seconds=30))
    second = placement(world, shape)
    assert second.kind is PlacementKind.WARM
    assert not second.fits_beside


def test_a_placeholder_that_has_failed_goes_and_another_comes() -> None:
    """The kubelet ends pods where a node is short of something, and leaves them as objects."""
    world = hub((GPU, 2, 2))
    world.node("a", gpus=2)
    world.settle()
    failed, healthy = world.view().placeholders
    world.snapshot.put(replace(world.snapshot.pods[failed], phase="Failed"))
    world.settle()
    (end,) = ended(world, Cause.BROKEN)
    assert (end.key, end.reason) == (failed, "it has ended by itself (Failed)")
    assert failed not in world.snapshot.pods
    assert healthy in world.view().placeholders
    world.pass_time(seconds=5)
    world.settle()
    assert len(world.view().warm(GPU.id)) == 2


def test_a_placeholder_that_has_failed_takes_no_users_claim_along() -> None:
    world = hub((GPU, 1, 1))
    world.node("a", gpus=1)
    world.settle()
    (failed,) = world.view().placeholders.values()
    claim = world.snapshot.claims[failed.claims[0]]
    world.snapshot.put(replace(claim, owner_uids=(failed.pod.uid,)))
    world.user("ada", claim_names={"gpu": claim.key.name})
    world.snapshot.put(replace(world.snapshot.pods[failed.key], phase="Failed"))
    world.decide()
    assert not ended(world, Cause.BROKEN)
    ada = world.snapshot.pods[ObjectKey(NAMESPACE, "ada")]
    tracked = world.snapshot.claims[claim.key]
    world.snapshot.put(replace(tracked, owner_uids=(failed.pod.uid, ada.uid)))
    world.decide()
    assert [each.key for each in ended(world, Cause.BROKEN)] == [failed.key]


def test_a_placeholder_without_its_claim_goes_after_a_while() -> None:
    """Somebody took the claim for a leftover; the pod would wait for it for ever."""
    world = hub((GPU, 1, 1))
    world.settle()
    (kept,) = world.view().placeholders.values()
    world.snapshot.remove_claim(kept.claims[0])
    world.pass_time(seconds=50)
    world.settle()
    assert not ended(world, Cause.BROKEN), "the claim may only not be seen yet"
    world.pass_time(seconds=20)
    world.settle()
    (end,) = ended(world, Cause.BROKEN)
    assert (end.key, end.reason) == (kept.key, f"claim {kept.claims[0].name} is gone")
    world.node("a", gpus=1)
    world.settle()
    assert len(world.view().warm(GPU.id)) == 1


def test_what_becomes_free_for_a_user_is_not_taken_by_a_placeholder_that_waits() -> None:
    """The scheduler may come to that first: it is in nobody's queue until the user has the place."""
    large = user_shape({"gpu": share_claim("20Gi")})
    world = hub((SHARE, 1, 1), (large, 2, 2))
    world.node("a", gpus=1, memory="40Gi")
    world.settle()
    of_large = {key for key, each in world.view().placeholders.items() if each.shape == large.id}
    assert [each.shape for each in world.view().placeholders.values() if each.is_pending] == [large.id]
    world.user("ada", {"gpu": share_claim("25Gi")})
    decided = world.decide()
    gone = {each.key for each in decided.actions if isinstance(each, EndPlaceholder)}
    assert gone == of_large, "one makes way, and the one that waits does not come in between"
    assert not [each for each in decided.actions if isinstance(each, CreatePlaceholder)]
    world.settle()
    assert world.where("ada") == "a"
    assert len([each for each in world.view().placeholders.values() if each.is_pending]) == 2


def test_a_server_that_finds_no_place_where_placeholders_do_fills_no_cluster_with_them() -> None:
    """Its volume is elsewhere, or somebody has made it larger after its shape was told."""
    world = hub((PLAIN, 1, 50))
    world.policy = replace(world.policy, shapes={**world.policy.shapes, GPU.id: GPU})
    world.node("a", gpus=8)
    world.settle()
    for name, shape, claims in (("ada", PLAIN, {}), ("eve", GPU, {"gpu": gpu_claim()})):
        world.user(name, claims, nodeSelector={"zone": "elsewhere"})
        world._label("Pod", ObjectKey(NAMESPACE, name), {labels.SHAPE: shape.id})
    world.run(minutes=5)
    assert sorted(name for name in world.pending if not name.startswith("placeholder")) == ["ada", "eve"]
    assert len(world.view().placeholders_of_shape[PLAIN.id]) == 2, "one is kept, one was made beside ada"
    assert len(world.view().placeholders_of_shape[GPU.id]) == 1


def test_new_placeholders_wait_until_a_place_is_handed_over() -> None:
    """They would go through the same scheduler at the same time."""
    world = hub((GPU, 1, 5))
    world.node("a", gpus=2)
    world.settle()
    (kept,) = world.view().placeholders.values()
    made = len(world.actions(CreatePlaceholder))
    world.reserve(kept.claims[0], "ada", world.now + world.policy.grace.promise)
    world.decide()
    assert len(world.actions(CreatePlaceholder)) == made, "its pod is about to come"
    world.user("ada", claim_names={"gpu": kept.claims[0].name})
    world.decide()
    assert len(world.actions(CreatePlaceholder)) == made, "its pod is about to be bound"
    world.schedule()
    world.decide()
    assert len(world.actions(CreatePlaceholder)) == made + 1


@pytest.mark.parametrize("came", [pytest.param(False, id="no-pod"), pytest.param(True, id="stuck-pod")])
def test_new_placeholders_do_not_wait_for_long(came: bool) -> None:
    world = hub((GPU, 1, 5))
    world.node("a", gpus=2)
    world.settle()
    (kept,) = world.view().placeholders.values()
    made = len(world.actions(CreatePlaceholder))
    world.reserve(kept.claims[0], "ada", world.now + world.policy.grace.promise)
    if came:
        world.user("ada", claim_names={"gpu": kept.claims[0].name}, nodeSelector={"no": "such"})
    world.decide()
    assert len(world.actions(CreatePlaceholder)) == made
    world.pass_time(seconds=6)
    world.decide()
    assert len(world.actions(CreatePlaceholder)) == made + 1


def test_a_claim_that_was_taken_over_at_a_gate_goes_with_its_pod() -> None:
    world = hub((user_shape({"gpu": gpu_claim()}, cpu="6"), 1, 1))
    world.node("a", cpu="10", gpus=1)
    world.settle()
    (kept,) = world.view().placeholders.values()
    claim = kept.claims[0]
    world.snapshot.put(replace(world.snapshot.claims[claim], owner_uids=()))  # as the promise leaves it
    world.reserve(claim, "ada", world.now + timedelta(seconds=30))
    gates = [{"name": labels.HAND_OVER_GATE}]
    world.user("ada", claim_names={"gpu": claim.name}, cpu="6", schedulingGates=gates)
    world.decide()
    ada = world.snapshot.pods[ObjectKey(NAMESPACE, "ada")]
    assert not ada.gates, "reserved, its placeholder gone and let in, all in one round"
    assert world.snapshot.claims[claim].is_reserved_for(ada)
    assert kept.key not in world.snapshot.pods
    world.schedule()
    world.decide()
    assert world.snapshot.claims[claim].owner_uids == (ada.uid,)
