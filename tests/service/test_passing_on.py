"""A question that a standby passes on, by a Lease that others may have written."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dra_spawner.cluster.api import resource_path
from dra_spawner.web.context import Role
from dra_spawner.web.replica_signature import ReplicaSignatures
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.world import shape
from tests.service.replica import TOKEN, WHOLE, Replica, node, prepare, publish_shapes, replica

GPU = shape(WHOLE)
LEASES = "coordination.k8s.io/v1"


class Stranger:
    """A server that somebody entered as the leader's address.

    Attributes
    ----------
    got
        Header and body of each request.
    answers
        What it answers: status, body and headers.
    """

    def __init__(self) -> None:
        self.url = ""
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: tuple[int, bytes, dict[str, str]] = (200, b"{}", {})

    async def handle(self, request: web.Request) -> web.Response:
        self.got.append((dict(request.headers), await request.read()))
        status, body, headers = self.answers
        return web.Response(status=status, body=body, headers=headers, content_type="application/json")


@pytest.fixture
async def stranger() -> AsyncIterator[Stranger]:
    found = Stranger()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    yield found
    await runner.cleanup()


async def lead_as(cluster: ClusterUnderTest, url: str) -> None:
    """A Lease that somebody holds for an hour, and who is said to answer there."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    lease = {
        "metadata": {"name": "dra-spawner", "annotations": {"hub.jupyter.org/leader-url": url}},
        "spec": {**spec, "leaseTransitions": 0},
    }
    await cluster.admin.create(resource_path(LEASES, "leases", cluster.namespace), lease)


def question(cluster: ClusterUnderTest, pod: str = "ada") -> dict[str, str]:
    return {"shape": GPU.id, "pod": pod, "namespace": cluster.namespace}


async def until_standby(service: Replica) -> None:
    await service.until(lambda: service.context.role is Role.STANDBY, "it stands by")


async def test_a_stranger_learns_nothing_and_is_not_believed(
    embedded_cluster: ClusterUnderTest, stranger: Stranger
) -> None:
    cluster = embedded_cluster
    await lead_as(cluster, stranger.url)
    forged = {"kind": "never", "node": "", "reason": "go away", "claims": {}, "until": None, "gates": []}
    async with replica(cluster, headroom={"gpu-whole": {"min": 1}}, lease_seconds=3600.0) as standby:
        await until_standby(standby)
        for status, headers in (
            (200, {}),
            (200, {"X-DRA-Spawner-Answer": "0" * 64}),
            (404, {}),
            (302, {"Location": "/"}),
        ):
            stranger.answers = (status, json.dumps(forged).encode(), headers)
            found, answer = await standby.ask(question(cluster))
            assert (found, answer["message"]) == (503, "This replica does not lead; another does.")
        assert len(stranger.got) == 4
        for headers, body in stranger.got:
            assert TOKEN not in str(headers)
            assert TOKEN.encode() not in body
            assert headers["Authorization"].startswith("DRA-Spawner-Replica ")
        # The question goes on, and nothing else of what came with it.
        assert set(json.loads(body)) == {"shape", "pod", "namespace"}


async def test_what_a_stranger_got_opens_nothing(embedded_cluster: ClusterUnderTest, stranger: Stranger) -> None:
    """The leader answers it once at most, and nothing else for it."""
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    headroom = {"gpu-whole": {"min": 2}}
    async with replica(cluster, headroom=headroom, replica_url=stranger.url) as leader:
        await leader.until_warm(GPU, 2)
        async with replica(cluster, headroom=headroom) as standby:
            await until_standby(standby)
            assert (await standby.ask(question(cluster)))[0] == 503
        ((headers, body),) = stranger.got
        signed = headers["Authorization"]
        other = json.dumps(question(cluster, "eve")).encode()
        assert (await send(leader, signed, other))[0] == 401
        assert (await send(leader, signed, body, path="api/profiles"))[0] in (401, 405, 503)
        first, answer = await send(leader, signed, body)
        assert (first, answer["kind"]) == (200, "warm"), "the real thing, late, is answered"
        again, refused = await send(leader, signed, body)
        assert again == 401
        assert refused["message"].startswith("No replica of this service has just signed this")
        promised = [each.reservation.pod for each in leader.placeholders().values() if each.reservation]
        assert promised == ["ada"]


async def test_what_was_passed_on_is_not_passed_on_again(
    embedded_cluster: ClusterUnderTest, stranger: Stranger
) -> None:
    cluster = embedded_cluster
    await lead_as(cluster, stranger.url)
    body = json.dumps(question(cluster)).encode()
    async with replica(cluster, headroom={"gpu-whole": {"min": 1}}, lease_seconds=3600.0) as standby:
        await until_standby(standby)
        signed = ReplicaSignatures(TOKEN).sign_question("POST", "/api/placements", body)
        status, answer = await send(standby, f"DRA-Spawner-Replica {signed}", body)
        assert (status, answer["message"]) == (503, "This replica does not lead; another does.")
    assert stranger.got == []


async def send(service: Replica, authorization: str, body: bytes, path: str = "api/placements") -> tuple[int, Any]:
    headers = {"Authorization": authorization}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{service.url}/{path}", data=body) as answer,
    ):
        return answer.status, await answer.json()


async def test_a_standby_passes_on_what_only_the_leader_answers(cluster: ClusterUnderTest) -> None:
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    headroom = {"gpu-whole": {"min": 1, "max": 1}}
    async with replica(cluster, headroom=headroom) as leader:
        await leader.until_warm(GPU, 1)
        async with replica(cluster, headroom=headroom) as standby:
            await until_standby(standby)
            status, unknown = await standby.ask({**question(cluster), "shape": "0" * 16})
            assert (status, unknown["kind"]) == (404, "unknown")
            answer = await standby.place(GPU, "ada")
            assert (answer["kind"], answer["node"]) == ("warm", "node-a")
            assert len(answer["claims"]) == 1
