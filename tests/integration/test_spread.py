"""Where pods may go that must be spread evenly: the real scheduler agrees with our model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.under_test import ClusterUnderTest
from tests.integration.node_choices import pod, refusals

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
    chance = random.Random(seed)

    def candidates() -> Iterator[dict[str, Any]]:
        for step in range(STEPS):
            candidate = pod(f"pod-{step}", chance)
            if chance.random() < 0.7:
                candidate["spec"]["topologySpreadConstraints"] = [spread(chance)]
            yield candidate

    refused = await refusals(real_cluster, chance, candidates())
    assert sum("topology spread" in message for message in refused) > 1
