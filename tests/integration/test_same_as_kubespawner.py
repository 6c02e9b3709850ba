"""A hub of today gets the same from DRASpawner as from KubeSpawner: on a cluster, over the whole life of its servers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kubespawner import KubeSpawner

from dra_spawner.spawner import DRASpawner
from tests.cluster.fake_runtime import OneAddress
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import node_with, priority_class
from tests.integration.hub_endings import DIFFERENCES, node_for, outcomes
from tests.integration.lived_patterns import life, serving_all
from tests.spawner import hub_form_patterns
from tests.spawner.hub_patterns import PATTERNS, Pattern
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of
from tests.spawner.side_by_side import differences

assert hub_form_patterns, "it adds patterns"

BASES = (KubeSpawner, DRASpawner)


async def test_configurations_of_public_hubs(embedded_cluster: ClusterUnderTest, tmp_path: Path) -> None:
    cluster = embedded_cluster
    await cluster.start_kubelet(fake=True, addresses=OneAddress("127.0.0.1"))
    classes = [priority_class("hub-default-priority", 0), priority_class("p", 1)]
    await cluster.publish(*node_with("node-a"), *classes)
    rows = {name: pattern for name, pattern in PATTERNS.items() if not pattern.internal_ssl}
    lives: dict[type, list[dict[str, Any]]] = {}
    async with serving_all() as port:
        for base in BASES:
            with kubernetes_of(cluster.hub_kubeconfig):
                side, limit = HubSide(cluster.hub_kubeconfig, cluster.namespace, base), asyncio.Semaphore(4)

                async def lived(
                    name: str,
                    pattern: Pattern,
                    base: type = base,
                    side: HubSide = side,
                    limit: asyncio.Semaphore = limit,
                ) -> dict[str, Any]:
                    directory = tmp_path / base.__name__ / name
                    directory.mkdir(parents=True)
                    async with limit:
                        return await life(cluster, side, pattern, base, directory, port)

                lives[base] = await asyncio.gather(*(lived(*row) for row in rows.items()))
                await end_hub_side()
    found = [
        f"{name}: {each}"
        for name, kube, dra in zip(rows, *lives.values(), strict=True)
        for each in differences(rows[name].differs, kube, dra)
    ]
    assert found == [], "\n".join(found)


async def test_every_way_in_which_a_start_can_end(cluster: ClusterUnderTest) -> None:
    await cluster.publish(node_for("node-a", "everybody"))
    kube, dra = [await outcomes(cluster, base) for base in BASES]
    found = [
        f"{name}: {each}" for name in kube for each in differences(DIFFERENCES.get(name, {}), kube[name], dra[name])
    ]
    assert found == [], "\n".join(found)
