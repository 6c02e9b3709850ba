"""kube-controller-manager evicts placeholders for a taint of their device, which their claims tolerate for a moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dra_spawner.placeholders.planner.round import DenialCause
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import claim_spec, node, prepare, shape
from tests.placeholders.controller.world import PlaceholderWorld, at_work

TAINT = {"key": "example.com/worn", "value": "yes", "effect": "NoExecute"}
TOLERATED = {"key": "example.com/worn", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
ANY_EFFECT = {"key": "example.com/worn", "operator": "Exists"}


@asynccontextmanager
async def wanted(cluster: ClusterUnderTest, toleration: Any, *devices: Any) -> AsyncIterator[PlaceholderWorld]:
    """A service that wants one placeholder, and a node with devices."""
    claim = claim_spec()
    claim["devices"]["requests"][0]["exactly"]["tolerations"] = [toleration]
    await prepare(cluster, *node("node-a", *devices))
    async with at_work(cluster, (shape({"gpu": claim}), ReplicaRange(1, 1))) as world:
        yield world


@pytest.mark.parametrize("toleration", [TOLERATED, ANY_EFFECT], ids=["for a second", "any effect"])
async def test_the_taint_ends_them(real_cluster: ClusterUnderTest, toleration: dict[str, object]) -> None:
    """Another device could be kept, but the scheduler gives the tainted one away first. A toleration without an effect does not help."""
    devices = {**whole("gpu-0"), "taints": [TAINT]}, whole("gpu-1")
    async with wanted(real_cluster, toleration, *devices) as world:
        await world.until(lambda: bool(world.reconciler.planner_state.creations.lost.of_shape), what="it is evicted")


async def test_none_is_created_where_no_device_can_be_kept(real_cluster: ClusterUnderTest) -> None:
    async with wanted(real_cluster, TOLERATED, {**whole("gpu-0"), "taints": [TAINT]}) as world:

        def causes() -> list[DenialCause]:
            latest = world.reconciler.latest
            return [each.cause for each in latest.limited.values()] if latest is not None else []

        await world.until(lambda: causes() == [DenialCause.TAINT], what="it is denied")
        assert not [each for each in world.decisions.newest(100) if each.decision.kind == "create-placeholder"]
