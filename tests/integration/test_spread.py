"""Where pods may go that must be spread evenly: the real scheduler agrees with our model."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.cluster.under_test import ClusterUnderTest
from tests.integration.test_node_choice import expectation, nodes, pod

STEPS = 50


def spread(chance: random.Random) -> dict[str, Any]:
    """A constraint that must be satisfied."""
    labels = chance.choice(({"app": "web"}, {"app": "db"}, {"team": "red"}, {}))
    constraint: dict[str, Any] = {
        "topologyKey": chance.choice(("zone", "kubernetes.io/hostname")),
        "maxSkew": chance.choice((1, 1, 2)),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    if chance.random() < 0.2:
        constraint["minDomains"] = chance.choice((2, 4))
    if chance.random() < 0.3:
        constraint["nodeAffinityPolicy"] = chance.choice(("Honor", "Ignore"))
    if chance.random() < 0.3:
        constraint["nodeTaintsPolicy"] = chance.choice(("Honor", "Ignore"))
    if chance.random() < 0.2 and "team" not in labels:
        constraint["matchLabelKeys"] = ["team"]
    return constraint


@pytest.mark.parametrize("seed", [2, 3])
async def test_spreading(real_cluster: ClusterUnderTest, seed: int):
    cluster, chance = real_cluster, random.Random(seed)
    await cluster.start_kubelet(fake=True, events=False)
    await cluster.publish(*nodes(chance))
    refused = 0
    for step in range(STEPS):
        name = f"pod-{step}"
        candidate = pod(name, chance)
        if chance.random() < 0.7:
            candidate["spec"]["topologySpreadConstraints"] = [spread(chance)]
        expected = await expectation(cluster, candidate)
        await cluster.publish(candidate)
        decided = await cluster.wait_for(
            cluster.path("pods", name),
            lambda obj: any(each["type"] == "PodScheduled" for each in obj["status"].get("conditions") or []),
        )
        found = decided["spec"].get("nodeName")
        what = f"step {step}: {candidate['spec']}"
        if found is None:
            (condition,) = (each for each in decided["status"]["conditions"] if each["type"] == "PodScheduled")
            assert (expected.best, expected.message) == ([], condition["message"]), what
            refused += "topology spread" in condition["message"]
        else:
            assert found in expected.best, what
        if found is None or chance.random() < 0.3:
            await cluster.admin.delete(cluster.path("pods", name))
            await cluster.wait_gone(cluster.path("pods", name))
    assert refused > 1
