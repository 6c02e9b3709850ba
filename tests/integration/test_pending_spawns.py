"""A real hub's pending spawns: counted from the click, until a reservation or a pod shows them in the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from dra_spawner.placeholders.planner.targets.spawn_counts import KnownServers
from dra_spawner.service.ahead.hub_spawns import HubSpawns, known_servers
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.handover_hub import prepare
from tests.integration.hub_process import ROOT, HubProcess
from tests.polling import eventually
from tests.service.replica import replica

SHARE = {"profile": "gpu-slice"}
WHOLE = {"profile": "gpu-whole"}
SCOPES = yaml.safe_load((ROOT / "helm-values" / "full.yaml").read_text())["hub"]["loadRoles"]["dra-spawner-service"]
#: Servers do not get their pods before a file exists. The hub answers at once that they are on their way.
MORE = """
import asyncio
import pytest
from pathlib import Path
async def wait_for_the_file(spawner):
    while not Path({file!r}).exists():
        await asyncio.sleep(0.05)
c.Spawner.pre_spawn_hook = wait_for_the_file
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 0}}
for name, scopes in {tokens!r}.items():
    c.JupyterHub.services.append({{"name": name, "api_token": name * 4}})
    if scopes:
        c.JupyterHub.load_roles.append({{"name": name, "services": [name], "scopes": scopes}})
"""
#: The hub publishes its choices where a service has this name; without an address it is asked nothing.
COUNTS = "dra-spawner"
TOKENS = {COUNTS: SCOPES["scopes"], "only-lists": ["list:users"], "may-nothing": []}


@pytest.mark.promise("Servers that are being started count as demand at once.")
async def test_spawns_count_until_the_cluster_shows_them(embedded_cluster: ClusterUnderTest) -> None:
    """A hub whose servers wait for a file, and a service with one placeholder for its shares."""
    cluster = embedded_cluster
    await prepare(cluster)
    file = cluster.directory / "go"
    more = MORE.format(file=str(file), tokens=TOKENS)
    async with (
        HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, more) as hub,
        replica(cluster, placeholders={"gpu-slice": {"min": 1}}) as service,
    ):
        controller = service.controller

        def spawns_seen_with(token: str, known: Callable[[], KnownServers]) -> HubSpawns:
            return HubSpawns(f"{hub.url}/hub/api", token * 4, lambda: controller.published, known)

        await service.until(lambda: "gpu-slice" in controller.published.shapes, "the hub's choices")
        spawns = spawns_seen_with(COUNTS, lambda: known_servers(controller))
        for user, options in (("ada", SHARE), ("bob", SHARE), ("cem", WHOLE)):
            status, _ = await hub.spawn(user, options)
            assert status == 202
        await spawns.refresh()
        assert spawns.problems() == ()
        assert (spawns.pending("gpu-slice"), spawns.pending("gpu-whole")) == (2, 1)

        # Without the scopes nothing counts, and a sentence says why.
        for token in ("only-lists", "may-nothing", "unknown"):
            blind = spawns_seen_with(token, lambda: known_servers(controller))
            await blind.refresh()
            (problem,) = blind.problems()
            assert "needs the scopes list:users and read:servers" in problem, token
            assert blind.pending("gpu-slice") == 0

        shape = controller.published.shapes["gpu-slice"]
        await service.until_warm(shape, 1)
        assert (await service.place(shape, "jupyter-ada"))["state"] == "ready"
        await service.until(lambda: spawns.pending("gpu-slice") == 1, "the reserved placeholder stands for a spawn")

        file.touch()

        # The hub is not asked again: the pods show it.
        await service.until(lambda: spawns.pending("gpu-slice") == 0, "the pods stand for all")
        for user in ("ada", "bob"):
            await hub.until_ready(user)
        alone = spawns_seen_with(COUNTS, KnownServers)

        async def ready_ones_do_not_count() -> bool:
            await alone.refresh()
            return alone.pending("gpu-slice") == 0

        await eventually(ready_ones_do_not_count, "the hub says that they run")
