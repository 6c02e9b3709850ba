"""The placeholder goes when its place is promised, before its user's pod is there, and nothing is lost by it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

import pytest
from kubernetes_asyncio.client import ApiClient

from dra_spawner.cluster.api import KubernetesApi
from dra_spawner.cluster.errors import KubernetesError, RequestTarget
from dra_spawner.cluster.leader import NotLeading
from dra_spawner.headroom import labels, placement
from dra_spawner.headroom.actions import Action, PromiseEnd, ReleaseClaim, ReserveClaim
from dra_spawner.headroom.placeholder_objects import PlaceholderSettings
from dra_spawner.headroom.policy import Headroom, Renewal
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
    await world.until(lambda: kept.key not in world.watch.snapshot.pods, what="the placeholder goes")
    return promise.claims["gpu"]


async def until_kept_anew(world: PlaceholderWorld, claim: str) -> None:
    await world.until(lambda: not is_there(world, claim), what="the claim goes")
    await world.until(lambda: len(world.warm(GPU)) == 1, what="its device is kept anew")


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


async def test_all_claims_of_a_promise_are_held(prepared: ClusterUnderTest) -> None:
    """None is anybody's when the placeholder has gone."""
    claims = {"gpu": WHOLE["gpu"], "more": WHOLE["gpu"]}
    two = shape(claims)
    await prepared.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with at_work(prepared, (two, Headroom(1, 1))) as world:
        await world.until(lambda: len(world.warm(two)) == 1)
        (kept,) = world.warm(two)
        names = dict((await world.promises.place(two, prepared.namespace, "ada")).claims)
        assert list(names) == ["gpu", "more"]
        await world.until(lambda: kept.key not in world.watch.snapshot.pods, what="the placeholder goes")
        devices = {name: device_of(world, name) for name in names.values()}
        assert len(set(devices.values())) == 2
        promise = [[(labels.PROMISE_RESOURCE, "ada")]] * 2
        await world.until(lambda: [consumers(world, name) for name in names.values()] == promise)
        await world.named_user("ada", names, claims)
        await world.until(lambda: [consumers(world, name) for name in names.values()] == [[("pods", "ada")]] * 2)
        assert {name: device_of(world, name) for name in names.values()} == devices


async def test_nothing_is_left_when_nobody_comes(prepared: ClusterUnderTest) -> None:
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        world.promises.lasting = timedelta(seconds=2)
        world.policy = replace(world.policy, grace=replace(world.policy.grace, orphan=timedelta(seconds=1)))
        await until_kept_anew(world, await promised(world))


async def test_a_start_that_fails_takes_its_claim_along(prepared: ClusterUnderTest) -> None:
    """The hub deletes the claim, and has no right to change who is among its consumers."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        claim = await promised(world)
        await prepared.admin.delete(prepared.path("resourceclaims", claim))
        await until_kept_anew(world, claim)


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
        decisions = [each.decision for each in world.decisions.newest(100)]
        assert [each.code for each in decisions if each.kind == "release-claim"] == ["no-room"]


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


async def test_a_pod_that_is_a_consumer_already_starts_elsewhere_too(prepared: ClusterUnderTest) -> None:
    """As after a bind that has failed: the promise alone keeps the scheduler from giving up what the pod has."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        claim = await promised(world)
        key = ObjectKey(prepared.namespace, claim)
        await prepared.publish(user_pod("eve", {}, cpu="5", ready=False))
        await world.until(lambda: node_of(world, "eve") == "node-a")
        await prepared.publish(*node("node-b", whole("gpu-1")))
        await world.until(lambda: labels.IMAGES_READY in world.watch.snapshot.nodes["node-b"].node.labels)
        world.policy = replace(world.policy, headroom={GPU.id: Headroom(0, 0)})
        await world.until(lambda: not world.reconciler.view().placeholders)
        do = world.reconciler.carry_out.do
        world.reconciler.carry_out.do = nothing
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu="5")
        pod = await prepared.admin.get(prepared.path("pods", "ada"))
        await do(ReserveClaim(key, ObjectKey(prepared.namespace, "ada"), pod["metadata"]["uid"], "x"), {})
        world.reconciler.carry_out.do = do
        await world.until(lambda: node_of(world, "ada") == "node-b", 30)


async def nothing(action: Action, shapes: object) -> tuple[()]:
    return ()


async def test_devices_are_not_taken_from_who_came_meanwhile(prepared: ClusterUnderTest) -> None:
    """All consumers go only if they are still those that were seen."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        claim = await promised(world)
        tracked = world.watch.snapshot.claims[ObjectKey(prepared.namespace, claim)]
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu="5")
        await world.until(lambda: ("pods", "ada") in consumers(world, claim))
        stale = ReleaseClaim(tracked.key, tracked.claim.uid, PromiseEnd.EXPIRED, "x", tracked.consumers)
        assert await world.reconciler.carry_out.do(stale, {}) == ()
        status = (await prepared.admin.get(prepared.path("resourceclaims", claim)))["status"]
        assert status["allocation"]
        assert "ada" in [each["name"] for each in status["reservedFor"]]


async def test_the_placeholder_stays_while_another_waits_for_its_room(
    prepared: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes when its user's pod is there, and the claim is held from the promise on."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        await world.until(lambda: len(world.warm(GPU)) == 1)
        (kept,) = world.warm(GPU)
        monkeypatch.setattr(placement, "would_take_room", lambda view, placeholder: True)
        promise = await world.promises.place(GPU, prepared.namespace, "ada")
        claim = promise.claims["gpu"]
        await world.until(lambda: (labels.PROMISE_RESOURCE, "ada") in consumers(world, claim))
        assert kept.key in world.reconciler.view().placeholders
        await world.named_user("ada", {"gpu": claim}, WHOLE, cpu="5")
        await world.until(lambda: node_of(world, "ada") == "node-a")
        await world.until(lambda: kept.key not in world.watch.snapshot.pods)
        reserved = [each for each in world.decisions.newest(100) if each.decision.kind == "reserve-claim"]
        assert all(each.decision.outcome == "done" for each in reserved)


async def test_what_goes_with_a_promise_is_replaced_whatever_else_has_gone(prepared: ClusterUnderTest) -> None:
    """It costs nothing of what may be made in a storm, as nothing that goes for users does."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        await world.until(lambda: len(world.warm(GPU)) == 1)
        world.policy = replace(world.policy, renewal=Renewal(per_second=1e-6, whole_in=timedelta(days=1)))
        memory = world.reconciler._memory
        world.reconciler._memory = replace(memory, creations=replace(memory.creations, spent=50.0))
        await promised(world)
        await prepared.publish(*node("node-b", whole("gpu-1")))
        await world.until(lambda: len(world.warm(GPU)) == 1)
        assert world.reconciler._memory.creations.spent <= 50.1


async def test_nothing_is_promised_by_a_service_that_ends(prepared: ClusterUnderTest) -> None:
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, Headroom(1, 1))) as world:
        await world.until(lambda: len(world.warm(GPU)) == 1)
    with pytest.raises(NotLeading):
        await world.promises.place(GPU, prepared.namespace, "ada")


class MayNotBind(KubernetesApi):
    """Its account lacks the right; from Kubernetes 1.36 on that is refused as what makes no sense is."""

    async def patch(self, *_: Any, **__: Any) -> NoReturn:
        message = (
            'status.reservedFor: Forbidden: changing it requires resource="resourceclaims/binding", verb="patch" '
            'permission: User "x" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the '
            "cluster scope"
        )
        target = RequestTarget("patch", "ResourceClaim", "hub", "x")
        raise KubernetesError(target, status=422, reason="Invalid", message=message)


async def test_a_missing_right_to_release_is_told() -> None:
    api = MayNotBind(ApiClient.__new__(ApiClient))  # nothing is asked of it
    settings = PlaceholderSettings(namespace="hub")
    carry_out = CarryOut(api, settings, may_act=lambda: None, new_name=lambda each: each.id)
    with pytest.raises(KubernetesError, match="binding"):
        await carry_out.do(ReleaseClaim(ObjectKey("hub", "x"), "uid", PromiseEnd.KEPT, "x"), {})


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
        await world.until(lambda: ("pods", "ada") in consumers(world, claim))
