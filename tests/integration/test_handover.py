"""Handovers as users have them: a real hub, and the real service as its child."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import aiohttp
import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.published_shapes import read_config_map
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.device_questions import server_tokens, told
from tests.integration.handover_hub import PROFILE, WANTED, Hub, Json, messages, prepare
from tests.polling import eventually


async def a_user_gets_a_warm_claim(hub: Hub) -> None:
    await hub.until_warm()
    warm_claims = {
        entry["resourceClaimName"] for pod in await hub.placeholders() for entry in pod["spec"]["resourceClaims"]
    }
    status, body = await hub.spawn("ada", PROFILE)
    assert status in (201, 202), body
    shown = messages(await hub.until_ready("ada"))
    claim = await hub.claim_of("ada")
    assert claim["metadata"]["name"] in warm_claims
    node = claim["status"]["allocation"]["devices"]["results"][0]["pool"]
    assert any(f"A device was reserved for you on node {node}." in each for each in shown) or status == 201
    environment = await hub.server_environment("ada")
    assert environment["DRA_CLAIM_GPU_DEVICE"].startswith(f"{node}/gpu-")
    assert environment["DRA_CLAIM_GPU_MEMORY"] == "10Gi"
    tokens = await server_tokens(hub.cluster)
    _, own = await told(hub, tokens["jupyter-ada"])
    assert (own["warm"], own["node"], own["devices"][0]["share"][0]["text"]) == (True, node, "10 GiB of 40 GiB")
    assert "together" not in own["devices"][0]["enforcement"]["sentence"]

    async def ended() -> list[str]:
        return [each["code"] for each in await hub.decisions() if each["kind"] == "delete-placeholder"]

    await eventually(ended, "the placeholder has ended", pause_seconds=0.5)
    await hub.until_warm()
    assert await ended() == ["handed-over"]
    await hub.stop_server("ada")
    await hub.only_placeholders_are_left()
    config_map = await hub.cluster.admin.get(hub.cluster.path("configmaps", names.SHAPES_CONFIG_MAP))
    published = read_config_map(config_map)
    assert (list(published.shapes), published.skipped) == (["gpu-slice", "gpu-whole"], {})
    assert "Published the shapes of profiles: choices=2 combinations=0 skipped=0" in hub.log.read_text()


SOON_OVER = "c.DRASpawnerService.reservation_seconds = 8\n"


async def start_ten(hub: Hub, meanwhile: Callable[[], Awaitable[None]] | None = None) -> list[Json]:
    """Start the servers of ten users at once; their claims. Each user gets a server of their own."""
    users = [f"user-{number}" for number in range(10)]
    for user in users:
        await hub.add_user(user)
    spawning = [asyncio.create_task(hub.spawn(user, PROFILE)) for user in users]
    if meanwhile is not None:
        await meanwhile()
    for status, body in await asyncio.gather(*spawning):
        assert status in (201, 202), body
    await asyncio.gather(*(hub.until_ready(user) for user in users))
    claims = [await hub.claim_of(user) for user in users]
    assert len({claim["metadata"]["uid"] for claim in claims}) == len(users)
    for user, claim in zip(users, claims, strict=True):
        assert claim["metadata"]["labels"].get(names.RESERVED_FOR, f"jupyter-{user}") == f"jupyter-{user}"
        assert f"jupyter-{user}" in [each["name"] for each in claim["status"]["reservedFor"]]
    await asyncio.gather(*(hub.stop_server(user) for user in users))
    return claims


async def ten_users_at_once_with_three_placeholders(hub: Hub) -> None:
    await hub.until_warm()
    claims = await start_ten(hub)
    assert len([claim for claim in claims if names.RESERVED_FOR in claim["metadata"]["labels"]]) >= WANTED
    await hub.only_placeholders_are_left()


@pytest.mark.promise("Ten users at once get warm claims, each claim once.")
async def test_users_get_warm_claims(cluster: ClusterUnderTest):
    await prepare(cluster)
    # The service leads to the end of the test, on a busy machine too.
    async with Hub(cluster, await service_kubeconfig(cluster), lease_seconds=60) as hub:
        await a_user_gets_a_warm_claim(hub)
        await ten_users_at_once_with_three_placeholders(hub)


@pytest.mark.promise("A service that is killed while it reserves loses no claim and gives none twice.")
async def test_a_service_is_killed_between_reservations(real_cluster: ClusterUnderTest):
    """Some claims are reserved by then. Later starts ask no service, or the next process."""
    await prepare(real_cluster)
    # The hub looks each second whether the service is alive.
    impatient = "c.DRASpawner.placement_wait_seconds = 2\nc.Spawner.poll_interval = 1\n"
    hub = Hub(real_cluster, await service_kubeconfig(real_cluster), impatient, lease_seconds=6, settings=SOON_OVER)
    async with hub:
        await hub.until_warm()
        process = await hub.service_process()

        async def kill() -> None:
            async def is_reserved() -> bool:
                return any(
                    names.RESERVED_FOR in each["metadata"]["labels"] for each in await hub.items("resourceclaims")
                )

            await eventually(is_reserved, "a claim is reserved")
            os.kill(process, signal.SIGKILL)

        await start_ten(hub, kill)
        assert await hub.service_process() != process
        await hub.only_placeholders_are_left()
        await hub.until_warm()


@pytest.mark.promise("A standby reserves nothing.")
async def test_a_standby_reserves_nothing(embedded_cluster: ClusterUnderTest):
    """Another replica leads: the standby answers so, and servers start with claims of their own."""
    cluster = embedded_cluster
    await prepare(cluster)
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "dra-spawner"},
        "spec": {
            "holderIdentity": "another",
            "leaseDurationSeconds": 3600,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        },
    }
    await cluster.admin.create(f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases", lease)
    async with Hub(cluster, await service_kubeconfig(cluster)) as hub:

        async def stands_by() -> bool:
            async with aiohttp.ClientSession() as session, session.get(f"{hub.service_url}/readyz") as answer:
                return "standby" in await answer.text()

        await eventually(stands_by, "the service stands by")
        status, body = await hub.spawn("ada", PROFILE)
        assert status in (201, 202), body
        await hub.until_ready("ada")
        pod = await cluster.admin.get(cluster.path("pods", "jupyter-ada"))
        assert "resourceClaimTemplateName" in pod["spec"]["resourceClaims"][0]
        assert names.IMAGES_READY not in str(pod["spec"])
        assert "it answers 503" in hub.log.read_text()
        await hub.stop_server("ada")
        await hub.only_placeholders_are_left()
