"""A pod that takes over a place is let in whatever other gates it has, and those are left to whoever put them there."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from dra_spawner.headroom import labels
from dra_spawner.headroom.actions import LabelPod, UngatePod
from dra_spawner.headroom.placeholder_objects import PlaceholderSettings
from dra_spawner.headroom.policy import Headroom
from dra_spawner.placeholders.carry_out import CarryOut
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.spawner import hand_over_gate
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.test_reconciler import WHOLE, node, node_of, prepared
from tests.placeholders.world import at_work, shape, user_pod

__all__ = ["prepared"]

OURS = labels.HAND_OVER_GATE
OTHER = "example.com/checked"
ORDERS = pytest.mark.parametrize("gates", [(OURS,), (OTHER, OURS), (OURS, OTHER)], ids="-".join)


def gates_of(pod: dict[str, Any]) -> list[str]:
    return [each["name"] for each in pod["spec"].get("schedulingGates") or ()]


@ORDERS
async def test_the_service_opens_its_gate(prepared: ClusterUnderTest, gates: tuple[str, ...]) -> None:
    gpu = shape(WHOLE, cpu="5")
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (gpu, Headroom(1, 1))) as world:
        await world.until(lambda: len(world.warm(gpu)) == 1)
        promise = await world.promises.place(gpu, prepared.namespace, "ada")
        assert promise.gates == (OURS,)
        await world.named_user("ada", promise.claims, WHOLE, cpu="5", gates=gates)
        key = ObjectKey(prepared.namespace, "ada")
        await world.until(lambda: key in world.watch.snapshot.pods)
        await world.until(lambda: OURS not in world.watch.snapshot.pods[key].gates)
        pod = await prepared.admin.get(prepared.path("pods", "ada"))
        assert gates_of(pod) == [each for each in gates if each == OTHER]
        if OTHER not in gates:
            await world.until(lambda: node_of(world, "ada") == "node-a")


async def test_what_is_open_or_gone_or_another_pod_is_left_as_it_is(prepared: ClusterUnderTest) -> None:
    (pod,) = await prepared.publish(user_pod("ada", {}, gates=(OURS, OTHER)))
    settings = PlaceholderSettings(namespace=prepared.namespace)
    do = CarryOut(prepared.admin, settings, may_act=lambda: None, new_name=lambda each: each.id).do
    key, uid = ObjectKey(prepared.namespace, "ada"), pod["metadata"]["uid"]
    assert await do(UngatePod(key, "another", "x"), {}) == ()
    assert await do(LabelPod(key, "another", labels.YIELDED_AT, "1", "x"), {}) == ()
    assert await do(UngatePod(ObjectKey(prepared.namespace, "gone"), uid, "x"), {}) == ()
    assert gates_of(await prepared.admin.get(prepared.path("pods", "ada"))) == [OURS, OTHER]
    assert await do(UngatePod(key, uid, "x"), {}) != ()
    opened = await prepared.admin.get(prepared.path("pods", "ada"))
    assert gates_of(opened) == [OTHER]
    assert await do(UngatePod(key, uid, "x"), {}) != ()
    again = await prepared.admin.get(prepared.path("pods", "ada"))
    assert again["metadata"]["resourceVersion"] == opened["metadata"]["resourceVersion"], "nothing is written"


@ORDERS
async def test_the_hub_opens_it_where_the_service_does_not(
    prepared: ClusterUnderTest, gates: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_over_gate, "PATIENCE_SECONDS", 0.0)
    (pod,) = await prepared.publish(user_pod("ada", {}, gates=gates))
    gate = hand_over_gate.HandOverGate(prepared.admin, logging.getLogger(__name__))
    assert await gate.is_closed(pod)
    pod = await prepared.admin.get(prepared.path("pods", "ada"))
    assert gates_of(pod) == [each for each in gates if each == OTHER]
    assert not await gate.is_closed(pod)
