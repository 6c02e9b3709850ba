"""Hub and service on a real control plane a part of which is killed, and comes back with its data.

Shorter outages of more kinds, before the embedded cluster: test_api_outages.py.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.cluster.accounts import service_kubeconfig
from tests.cluster.background import BackgroundLoop
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import namespace_on
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.handover_hub import PROFILE, Hub, Json, messages, prepare
from tests.polling import eventually

#: Lets the service lose its Lease soon.
_LEASE_SECONDS = 3


@pytest.fixture
def plane(control_plane_path: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    with ControlPlane(control_plane_path, tmp_path / "plane", client_qps=500) as plane:
        yield plane


@pytest.fixture
async def cluster(
    plane: ControlPlane, background_loop: BackgroundLoop, tmp_path: Path
) -> AsyncIterator[ClusterUnderTest]:
    async with namespace_on(plane, background_loop, tmp_path / "cluster", clears=False) as cluster:
        await prepare(cluster)
        try:
            yield cluster
        finally:
            await cluster.stop_kubelet()


async def servers_of(hub: Hub, user: str) -> dict[str, str]:
    """What each server of a user does: "ready", "stop", "spawn", "check", or "" for none of them."""
    _, model = await hub.request("GET", f"/users/{user}")
    return {name: "ready" if each["ready"] else each["pending"] or "" for name, each in model["servers"].items()}


async def readiness(hub: Hub) -> Json:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{hub.service_url}/services/dra-spawner/readyz") as answer,
    ):
        return await answer.json()


async def warm_placeholders(hub: Hub) -> set[str]:
    """Names of the warm ones; one that was handed over may still be there."""
    headers = await hub.administrator_headers()
    url = f"{hub.url}/services/dra-spawner/api/placeholders"
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
        return {each["name"] for each in (await answer.json())["items"] if each["state"] == "warm"}


@pytest.mark.parametrize(
    ("component", "state"),
    [
        ("kube-apiserver", "standby"),
        ("kube-apiserver", "old data"),
        ("etcd", "standby"),
        ("kube-apiserver", "new hub"),
    ],
)
async def test_an_outage_ends_no_server_and_hides_no_end(
    plane: ControlPlane, cluster: ClusterUnderTest, component: str, state: str
) -> None:
    async with Hub(cluster, await service_kubeconfig(cluster), lease_seconds=_LEASE_SECONDS) as hub:
        await hub.until_warm()
        for user, server in (("ada", ""), ("ada", "two"), ("bob", "")):
            await hub.spawn(user, PROFILE, server)
            await hub.until_ready(user, server)
        await hub.until_warm()
        before = await warm_placeholders(hub)
        environment = await hub.server_environment("ada")

        plane.end(component)
        assert (await hub.request("DELETE", "/users/bob/server"))[0] in (202, 204)
        await hub.spawn("carol", PROFILE)
        assert "The cluster does not answer" in messages(await hub.progress("carol"))[-1]
        assert await servers_of(hub, "bob") == {"": "stop"}
        if state == "new hub":
            service = await hub.service_process()
            await hub.lose()
            os.kill(service, signal.SIGKILL)
            await hub.come_back()
            assert await servers_of(hub, "bob") == {"": "check"}
        else:

            async def is_so() -> bool:
                found = await readiness(hub)
                return found["role"] == "standby" if state == "standby" else "s old" in str(found["reasons"])

            await eventually(is_so, "the service says so")
            assert await servers_of(hub, "ada") == {"": "ready", "two": "ready"}
        plane.start_again(component)

        await cluster.admin.delete(cluster.path("pods", "jupyter-ada--two"), grace_period_seconds=0)

        async def is_noticed() -> bool:
            return await servers_of(hub, "ada") == {"": "ready"}

        await eventually(is_noticed, "the hub notices the end of one server, and of no other")
        await hub.until_warm()
        assert await warm_placeholders(hub) == before
        assert await hub.server_environment("ada") == environment
        if state == "new hub":
            assert await servers_of(hub, "bob") == {"": "ready"}, "a stop that the old hub has not carried out"
            await hub.stop_server("bob")

        async def is_stopped() -> bool:
            return await servers_of(hub, "bob") == {}

        await eventually(is_stopped, "the server that was stopped is gone")
        await hub.spawn("carol", PROFILE)
        await hub.until_ready("carol")
        for user in ("ada", "carol"):
            await hub.stop_server(user)
        await hub.only_placeholders_are_left()
