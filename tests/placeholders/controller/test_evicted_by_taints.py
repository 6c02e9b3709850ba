"""kube-controller-manager evicts placeholders for a taint of their device, which their claims tolerate for a moment."""

from __future__ import annotations

from datetime import timedelta

from dra_spawner.placeholders.planner.policy import ReplicaRange
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import claim_spec, node, prepare, shape
from tests.placeholders.controller.world import at_work

TAINT = {"key": "example.com/worn", "value": "yes", "effect": "NoExecute"}
TOLERATED = {"key": "example.com/worn", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}


async def test_they_are_replaced_later_and_later(real_cluster: ClusterUnderTest) -> None:
    claim = claim_spec()
    claim["devices"]["requests"][0]["exactly"]["tolerations"] = [TOLERATED]
    of = shape({"gpu": claim})
    await prepare(real_cluster, *node("node-a", {**whole("gpu-0"), "taints": [TAINT]}))
    async with at_work(real_cluster, (of, ReplicaRange(1, 1))) as world:
        first = world.policy.renewal.first_delay

        def delay() -> timedelta:
            loss = world.reconciler.planner_state.creations.lost.of_shape.get(of.id)
            return loss.delay if loss is not None else timedelta(0)

        await world.until(lambda: delay() > 2 * first, what="they are replaced later and later")
        made = [each for each in world.decisions.newest(100) if each.decision.kind == "create-placeholder"]
        assert 3 <= len(made) <= 7, world.decisions.newest(20)
