"""A hub is moved to DRASpawner, and back, while servers of users run."""

from __future__ import annotations

import pytest
from kubespawner import KubeSpawner

from dra_spawner.spawner import DRASpawner
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable
from tests.integration.faulty_hub import hub_behind_proxy
from tests.integration.warm_placeholders import SHARE
from tests.spawner.hub_side import HubSide, asked_at_the_start

OBJECTS = ("pods", "resourceclaims", "resourceclaimtemplates")


@pytest.mark.promise("A hub can be moved to DRASpawner, and back, while servers of users run.")
@pytest.mark.parametrize(("before", "after"), [(KubeSpawner, DRASpawner), (DRASpawner, KubeSpawner)])
async def test_running_servers_go_on(embedded_cluster: ClusterUnderTest, before, after):
    async with hub_behind_proxy(embedded_cluster) as (_, side):
        await embedded_cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
        hubs = []
        for base in (before, after):
            hubs.append(HubSide(side.kubeconfig, embedded_cluster.namespace, base))
            hubs[-1].spawner_config.port = side.spawner_config.port
            hubs[-1].db = hubs[0].db
        (old, new), claims = hubs, {"device_claims": SHARE}
        (old if before is DRASpawner else new).config.DRASpawner.update(claims)
        await old.user("ada").spawn("", {})
        await before._stop_all_reflectors()

        user = new.user("ada")
        assert isinstance(user.spawner, after)
        assert await asked_at_the_start(user.spawner) is None
        for _ in range(2):
            await user.stop("")
            for plural in OBJECTS:
                await embedded_cluster.wait_gone(embedded_cluster.path(plural))
            await user.spawn("", {})
        await user.stop("")
        await after._stop_all_reflectors()
