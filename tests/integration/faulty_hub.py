"""A hub's side whose requests to the cluster go through a proxy that can fail them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import web

from dra_spawner.devcluster.kubelet.pod_addresses import OneAddress
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable
from tests.local_server import serving
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

TEMPLATES = "resourceclaimtemplates"
LEFT_BEHIND = ("pods", "resourceclaims", TEMPLATES)


@contextlib.asynccontextmanager
async def hub_behind_proxy(
    cluster: ClusterUnderTest, proxy_class: Callable[..., FaultProxy] = FaultProxy, **kubelet_options: Any
) -> AsyncIterator[tuple[FaultProxy, HubSide]]:
    """The proxy, and the hub's side behind it; pods only pretend to run, and all servers answer at once."""
    await cluster.start_kubelet(fake=True, addresses=OneAddress("127.0.0.1"), **kubelet_options)
    async with serving(_answer) as url, proxy_class(cluster.url, cluster.certificate_authority) as proxy:
        kubeconfig = cluster.hub_kubeconfig_for(proxy.url)
        with kubernetes_of(kubeconfig):
            side = HubSide(kubeconfig, cluster.namespace)
            side.spawner_config.port = int(url.rpartition(":")[2])
            try:
                yield proxy, side
            finally:
                proxy.heal()
                await end_hub_side()


async def _answer(_: web.Request) -> web.Response:
    """The answer of every user's server."""
    return web.json_response({}, headers={"X-JupyterHub-Version": "5"})


def without_patience(side: HubSide) -> None:
    """Let servers to come wait for an answer of the cluster for five seconds only: for requests that have none."""
    side.spawner_config.k8s_api_request_timeout = 5
    side.spawner_config.k8s_api_request_retry_timeout = 20


class Faulty:
    """A hub's side whose requests go through a proxy that can fail them."""

    def __init__(self, cluster: ClusterUnderTest, proxy: FaultProxy, side: HubSide) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.side = side
        self.user = side.user("ada")

    async def spawn(self) -> BaseException | None:
        """Start as JupyterHub does; the error if it failed."""
        try:
            await self.user.spawn("", {})
        except Exception as error:
            return error
        return None

    async def stop(self) -> None:
        await self.user.stop("")

    async def nothing_is_left(self) -> None:
        for plural in LEFT_BEHIND:
            await self.cluster.wait_gone(self.cluster.path(plural))

    def requests(self, *, verbs=("create", "get", "patch", "delete", "update")) -> list[str]:
        return [f"{r.verb} {r.resource}" for r in self.proxy.requests if r.verb in verbs]


@contextlib.asynccontextmanager
async def faulty_on(cluster: ClusterUnderTest, **kubelet_options: Any) -> AsyncIterator[Faulty]:
    """A hub's side on a cluster with one node and a shareable GPU."""
    async with hub_behind_proxy(cluster, **kubelet_options) as (proxy, side):
        await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
        config = side.spawner_config
        config.start_timeout = 90
        config.device_claims = {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "10Gi"}}}
        yield Faulty(cluster, proxy, side)
