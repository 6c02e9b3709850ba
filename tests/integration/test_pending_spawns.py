"""A real hub's pending spawns: counted from the click, until a reservation or a pod shows them in the cluster."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from dra_spawner.placeholders.planner.spawn_counts import KnownServers
from dra_spawner.service.hub_spawns import HubSpawns, known_servers
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.handover_hub import prepare
from tests.integration.hub_process import ROOT, HubProcess
from tests.polling import eventually
from tests.service.replica import Replica, replica

SHARE = {"profile": "gpu-slice"}
WHOLE = {"profile": "gpu-whole"}
SCOPES = yaml.safe_load((ROOT / "helm-values" / "full.yaml").read_text())["hub"]["loadRoles"]["dra-spawner-service"]
#: Servers do not get their pods before a file exists. The hub answers at once that they are on their way.
MORE = """
import asyncio
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


@dataclass
class _World:
    hub: HubProcess
    service: Replica
    file: Path

    def spawns(self, token: str) -> HubSpawns:
        controller = self.service.controller
        return HubSpawns(
            f"{self.hub.url}/hub/api", token * 4, lambda: controller.published, lambda: known_servers(controller)
        )


@contextlib.asynccontextmanager
async def hub_beside_service(cluster: ClusterUnderTest) -> AsyncIterator[_World]:
    """A hub whose servers wait for a file, and a service with one placeholder for its shares."""
    await prepare(cluster)
    file = cluster.directory / "go"
    more = MORE.format(file=str(file), tokens=TOKENS)
    placeholders = {"gpu-slice": {"min": 1}}
    async with (
        HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, more) as hub,
        replica(cluster, placeholders=placeholders) as service,
    ):
        await service.until(lambda: "gpu-slice" in service.controller.published.shapes, "the hub's choices")
        try:
            yield _World(hub, service, file)
        finally:
            file.touch()


async def test_spawns_count_until_the_cluster_shows_them(embedded_cluster: ClusterUnderTest) -> None:
    async with hub_beside_service(embedded_cluster) as world:
        hub, service, spawns = world.hub, world.service, world.spawns(COUNTS)
        for user, options in (("ada", SHARE), ("bob", SHARE), ("cem", WHOLE)):
            status, _ = await hub.spawn(user, options)
            assert status == 202
        await spawns.refresh()
        assert spawns.problems() == ()
        assert (spawns.pending("gpu-slice"), spawns.pending("gpu-whole")) == (2, 1)
        assert spawns.pending_of_profile("gpu-slice") == 2

        shape = service.controller.published.shapes["gpu-slice"]
        await service.until_warm(shape, 1)
        assert (await service.place(shape, "jupyter-ada"))["kind"] == "warm"
        await service.until(lambda: spawns.pending("gpu-slice") == 1, "the reserved placeholder stands for a spawn")

        world.file.touch()

        # The hub is not asked again: the pods show it.
        await service.until(lambda: spawns.pending("gpu-slice") == 0, "the pods stand for all")
        for user in ("ada", "bob"):
            await hub.until_ready(user)
        alone = HubSpawns(
            f"{hub.url}/hub/api", COUNTS * 4, lambda: service.controller.published, lambda: KnownServers()
        )

        async def ready_ones_do_not_count() -> bool:
            await alone.refresh()
            return alone.pending("gpu-slice") == 0

        await eventually(ready_ones_do_not_count, "the hub says that they run")


async def test_without_the_scopes_nothing_counts_and_a_sentence_says_why(embedded_cluster: ClusterUnderTest) -> None:
    async with hub_beside_service(embedded_cluster) as world:
        await world.hub.spawn("ada", SHARE)
        for token in ("only-lists", "may-nothing", "unknown"):
            spawns = world.spawns(token)
            await spawns.refresh()
            (problem,) = spawns.problems()
            assert "needs the scopes list:users and read:servers" in problem, token
            assert spawns.pending("gpu-slice") == 0
