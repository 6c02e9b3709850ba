"""A service that starts while the API server is away: what it does not know is not shown as none, free or zero."""

from __future__ import annotations

import aiohttp
import pytest
from kubernetes_asyncio.client import ApiClient
from prometheus_client import generate_latest

from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.service.application import DRASpawnerService
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.metrics.placeholder_metrics import register_placeholders
from tests.service.open_service import whole_service

_PAGES = ("", "nodes", "placeholders", "calendar", "classes", "what-if", "audit")
_OF_NOTHING = (
    "There are no nodes",
    "No server waits",
    "0 servers wait",
    "No users are announced",
    "No choice has placeholders",
    "has published no choice",
    "Nothing is set",
    "000 seconds old",
)
_COUNTED = (
    "placeholders{",
    "servers{",
    "pending_servers",
    "longest_pending",
    "placeholder_claims",
    "nodes_with",
    "devices",
)


@pytest.fixture
def unread() -> ServiceContext:
    service = DRASpawnerService(placeholders={"gpu": {"min": 1}}, namespace="hub")
    context = service.new_context()
    api = KubernetesApi(ApiClient.__new__(ApiClient))
    watch = ClusterWatch(api)
    controller = service.new_controller(api, watch, context.decisions)
    context.follow(watch, controller)
    register_placeholders(context.registry, controller)
    return context


async def test_nothing_is_said_to_be_nothing(unread: ServiceContext) -> None:
    assert unread.readiness().reasons[0] == "The cluster is not read completely yet."
    async with whole_service(unread) as url, aiohttp.ClientSession() as session:

        async def text(address: str, status: int) -> str:
            async with session.get(url + address) as answer:
                assert answer.status == status, address
                return await answer.text()

        for page in _PAGES:
            shown = await text(page, 200)
            assert [each for each in _OF_NOTHING if each in shown] == [], page
        for address in ("nodes", "node-summaries", "pending-servers", "placeholders", "profiles", "settings", "audit"):
            assert "The cluster is not read completely yet." in await text(f"api/{address}", 503)
    metrics = generate_latest(unread.registry).decode()
    counted = tuple(f"dra_spawner_{each}" for each in _COUNTED)
    assert [line for line in metrics.splitlines() if line.startswith(counted)] == []
