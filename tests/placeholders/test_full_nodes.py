"""A place on a full node is promised: the placeholder goes before its user's pod is there, and nothing is lost by it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from dra_spawner.cluster.errors import KubernetesError, RequestTarget
from dra_spawner.headroom import labels
from dra_spawner.headroom.policy import Headroom
from dra_spawner.placeholders.carry_out import CarryOut
from dra_spawner.simulator.claims import ObjectKey
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.test_reconciler import WHOLE, device_of, node, node_of, prepared
from tests.placeholders.world import PlaceholderWorld, at_work, shape, user_pod

__all__ = ["prepared"]

GPU = shape(WHOLE, cpu="5")


def consumers(world: PlaceholderWorld, claim: str) -> list[tuple[str, str]]:
    found = world.watch.snapshot.claims.get(ObjectKey(world.cluster.namespace, claim))
    return [(each.resource, each.name) for each in found.consumers] if found is not None else []


def is_there(world: PlaceholderWorld, claim: str) -> bool:
    return ObjectKey(world.cluster.namespace, claim) in world.watch.snapshot.claims


async def promised(world: PlaceholderWorld) -> str:
    """Name of the claim; its placeholder has gone."""
    await world.until(lambda: len(world.warm(GPU)) == 1)
    (kept,) = world.warm(GPU)
    promise = await world.promises.place(GPU, world.cluster.namespace, "ada")
    assert not promise.placement.fits_beside
    await world.until(lambda: kept.key not in world.watch.snapshot.pods, what="the placeholder goes")
    return promise.claims["gpu"]


async def test_nothing_is_left_of_a_promise_that_was_kept(prepared: ClusterUnderTest) -> None:
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        claim = await promised(world)
        device = device_of(world, claim)
        # The claim controller has seen that the placeholder is gone by now, or leaves alone what it does not know.
        await world.until(lambda: (labels.PROMISE_RESOURCE, "ada") in consumers(world, claim))
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu="5")
        await world.until(lambda: consumers(world, claim) == [("pods", "ada")], what="the promise is gone")
        assert (node_of(world, "ada"), device_of(world, claim)) == ("node-a", device)
        path = prepared.path("resourceclaims", claim)
        await world.until(lambda: bool(world.watch.snapshot.claims[ObjectKey(prepared.namespace, claim)].owner_uids))
        owners = (await prepared.admin.get(path))["metadata"]["ownerReferences"]
        assert [each["name"] for each in owners] == ["ada"]
        await prepared.admin.delete(prepared.path("pods", "ada"), grace_period_seconds=0)
        # Nobody collects garbage on the control plane that tests have.
        await prepared.admin.delete(path, missing_ok=True)
        await world.until(lambda: not is_there(world, claim), what="the claim goes with its pod")
        await world.until(lambda: len(world.warm(GPU)) == 1, what="a new one is kept")


async def test_nothing_is_left_when_nobody_comes(prepared: ClusterUnderTest) -> None:
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        world.promises.lasting = timedelta(seconds=2)
        world.policy = replace(world.policy, grace=replace(world.policy.grace, orphan=timedelta(seconds=1)))
        claim = await promised(world)
        await world.until(lambda: not is_there(world, claim), what="the claim goes")
        await world.until(lambda: len(world.warm(GPU)) == 1, what="its device is kept anew")


async def test_a_start_that_fails_takes_its_claim_along(prepared: ClusterUnderTest) -> None:
    """The hub deletes the claim, and has no right to change who is among its consumers."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        claim = await promised(world)
        await prepared.admin.delete(prepared.path("resourceclaims", claim))
        await world.until(lambda: not is_there(world, claim), what="the claim goes")
        await world.until(lambda: len(world.warm(GPU)) == 1, what="its device is kept anew")


async def test_a_pod_whose_room_was_taken_starts_elsewhere(prepared: ClusterUnderTest) -> None:
    """By somebody whom nobody expected; the scheduler gives it another device as soon as no promise binds it."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        claim = await promised(world)
        before = device_of(world, claim)
        await prepared.publish(user_pod("eve", {}, cpu="5", ready=False))
        await world.until(lambda: node_of(world, "eve") == "node-a")
        await prepared.publish(*node("node-b", whole("gpu-1")))
        await world.until(lambda: labels.IMAGES_READY in world.watch.snapshot.nodes["node-b"].node.labels)
        # What would be kept there is in nobody's way here.
        world.policy = replace(world.policy, headroom={GPU.id: Headroom(0, 0)})
        await world.until(lambda: not world.reconciler.view().placeholders)
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu="5")
        await world.until(lambda: node_of(world, "ada") == "node-b")
        assert device_of(world, claim) not in (None, before)
        kinds = [each.decision.kind for each in world.decisions.newest(100)]
        assert "release-claim" in kinds


async def test_a_service_that_ends_leaves_no_promise(prepared: ClusterUnderTest) -> None:
    """The pod gets its device all the same; and nothing holds a claim that is deleted."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        claim = await promised(world)
        await world.until(lambda: (labels.PROMISE_RESOURCE, "ada") in consumers(world, claim))
        device = device_of(world, claim)
    left = await prepared.admin.get(prepared.path("resourceclaims", claim))
    assert "reservedFor" not in left["status"]
    assert left["status"]["allocation"]["devices"]["results"][0]["device"] == device[0].id.device
    await prepared.publish(user_pod("ada", {"gpu": {"resourceClaimName": claim}}, cpu="5"))
    await prepared.wait_running("ada")


class MayNotHold(CarryOut):
    """Its account lacks the right."""

    async def hold(self, claim: ObjectKey, uid: str, pod: str) -> None:
        target = RequestTarget("patch", "ResourceClaim", claim.namespace, claim.name)
        raise KubernetesError(target, status=403, reason="Forbidden", message="no")


async def test_a_promise_that_cannot_be_held_is_kept_all_the_same(prepared: ClusterUnderTest) -> None:
    """The placeholder stays until its user's pod is there."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        await world.until(lambda: len(world.warm(GPU)) == 1)
        (kept,) = world.warm(GPU)
        world.reconciler.carry_out.__class__ = MayNotHold
        promise = await world.promises.place(GPU, prepared.namespace, "ada")
        claim = promise.claims["gpu"]
        assert "no" in promise.problem
        assert kept.key in world.watch.snapshot.pods
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu="5")
        await world.until(lambda: node_of(world, "ada") == "node-a")
        assert consumers(world, claim)[-1] == ("pods", "ada")
