"""A question that a standby passes on, by a Lease that others may have written."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from dra_spawner.kube.api import resource_path
from dra_spawner.service.context import Role
from dra_spawner.service.http.replica_signature import ReplicaSignatures
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.world import shape
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


def authority(service: Replica) -> str:
    return urlsplit(service.url).netloc


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
    forged = {"kind": "never", "node": "", "reason": "go away", "claims": {}, "until": None}
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}, lease_seconds=3600.0) as standby:
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
        # A long answer is not read to its end.
        stranger.answers = (200, b"x" * 2**20, {})
        assert (await standby.ask(question(cluster)))[0] == 503
        assert len(stranger.got) == 5
        for headers, body in stranger.got:
            assert TOKEN not in str(headers)
            assert TOKEN.encode() not in body
            assert headers["Authorization"].startswith("DRA-Spawner-Replica ")
        # The question goes on, and nothing else of what came with it.
        assert set(json.loads(body)) == {"shape", "pod", "namespace"}


async def test_what_a_stranger_got_opens_nothing(embedded_cluster: ClusterUnderTest, stranger: Stranger) -> None:
    """It is signed for where the stranger is: the leader does not answer it, nor anything else for it."""
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    placeholders = {"gpu-whole": {"min": 2}}
    async with replica(cluster, placeholders=placeholders, lease_seconds=3600.0) as leader:
        await leader.until_warm(GPU, 2)
        path = resource_path(LEASES, "leases", cluster.namespace, "dra-spawner")
        await cluster.admin.patch(path, {"metadata": {"annotations": {"hub.jupyter.org/leader-url": stranger.url}}})
        async with replica(cluster, placeholders=placeholders) as standby:
            await until_standby(standby)
            assert (await standby.ask(question(cluster)))[0] == 503
            assert (await standby.get_json("placeholders"))["items"] != []
        headers, body = next(each for each in stranger.got if each[1])
        signed = headers["Authorization"]
        for path, method in (("api/placements", "POST"), ("api/placeholders", "GET"), ("api/profiles", "GET")):
            for headers, _ in stranger.got:
                status, refused = await send(leader, headers["Authorization"], body, path, method)
                assert status in (401, 503), refused
        assert (await send(leader, signed, body))[0] == 401
        reserved = await leader.get_json("placeholders")
        assert [each["reserved_for"] for each in reserved["items"] if each["reserved_for"]] == []


async def test_a_question_for_the_leader_is_answered_once_and_with_its_body(
    embedded_cluster: ClusterUnderTest,
) -> None:
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    async with replica(cluster, placeholders={"gpu-whole": {"min": 2}}) as leader:
        await leader.until_warm(GPU, 2)
        body, other = (json.dumps(question(cluster, pod)).encode() for pod in ("ada", "eve"))
        sign = ReplicaSignatures(TOKEN).sign_question
        first = f"DRA-Spawner-Replica {sign('POST', authority(leader), '/api/placements', body)}"
        status, answer = await send(leader, first, other)
        assert (status, answer["message"]) == (401, "No replica of this service has signed this body.")
        assert (await send(leader, first, body))[0] == 401, "it was asked before"
        second = f"DRA-Spawner-Replica {sign('POST', authority(leader), '/api/placements', body)}"
        status, answer = await send(leader, second, body)
        assert (status, answer["kind"]) == (200, "warm")
        assert (await send(leader, second, body))[0] == 401
        reserved = await leader.get_json("placeholders")
        assert [each["reserved_for"] for each in reserved["items"] if each["reserved_for"]] == ["ada"]


async def test_what_was_passed_on_is_not_passed_on_again(
    embedded_cluster: ClusterUnderTest, stranger: Stranger
) -> None:
    cluster = embedded_cluster
    await lead_as(cluster, stranger.url)
    body = json.dumps(question(cluster)).encode()
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}, lease_seconds=3600.0) as standby:
        await until_standby(standby)
        signed = ReplicaSignatures(TOKEN).sign_question("POST", authority(standby), "/api/placements", body)
        status, answer = await send(standby, f"DRA-Spawner-Replica {signed}", body)
        assert (status, answer["message"]) == (503, "This replica does not lead; another does.")
    assert stranger.got == []


async def send(
    service: Replica, authorization: str, body: bytes, path: str = "api/placements", method: str = "POST"
) -> tuple[int, Any]:
    headers = {"Authorization": authorization} if authorization else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, f"{service.url}/{path}", data=body) as answer,
    ):
        return answer.status, await answer.json()


async def test_a_standby_passes_on_what_only_the_leader_answers(cluster: ClusterUnderTest) -> None:
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    placeholders = {"gpu-whole": {"min": 1, "max": 1}}
    async with replica(cluster, placeholders=placeholders) as leader:
        await leader.until_warm(GPU, 1)
        async with replica(cluster, placeholders=placeholders) as standby:
            await until_standby(standby)
            status, unknown = await standby.ask({**question(cluster), "shape": "0" * 16})
            assert (status, unknown["kind"]) == (404, "unknown")
            answer = await standby.place(GPU, "ada")
            assert (answer["kind"], answer["node"]) == ("warm", "node-a")
            assert len(answer["claims"]) == 1


async def test_a_standby_shows_what_the_leader_decided(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    placeholders = {"gpu-whole": {"min": 2, "max": 2}}
    async with replica(cluster, placeholders=placeholders) as leader:
        await leader.until_warm(GPU, 1)
        await leader.until(lambda: len(leader.placeholders()) == 2, "the other one waits for a node")
        async with replica(cluster, placeholders={"gpu-whole": {"min": 2, "max": 2}, "tpu": {"min": 1}}) as standby:
            await until_standby(standby)
            assert standby.context.decisions.count == 0
            for address in ("decisions", "decisions?kind=create-placeholder&limit=1", "waiting"):
                told, known = await standby.get_json(address), await leader.get_json(address)
                assert told == known, address
                assert told["incomplete_because"] == ""
            assert (await standby.get_json("decisions?limit=0"))["total"] >= 2
            kept = await standby.get_json("placeholders?limit=1")
            assert (len(kept["items"]), kept["total"], kept["stop"]["rule"]) == (1, 2, "pending")
            assert kept["items"][0]["decided_at"] is not None, "only who decided knows when"
            page = await standby.get("page")
            assert "create-placeholder" in page
            assert "replica: standby" in page
            assert "does not lead" not in page
            # Each replica's own problems, and the leader's.
            assert "placeholders of tpu" in page
            leader.controller._reservation_problem = "pods may not be patched"
            for text in (await standby.get("page"), await standby.get("status")):
                assert "nothing can be reserved: pods may not be patched" in text
                assert "placeholders of tpu" in text
            status, refused = await send(standby, "", b"", "decisions?limit=many", "GET")
            assert (status, refused["message"]) == (400, "limit must be a whole number from 0 to 1000.")


async def test_a_standby_whose_leader_does_not_answer_says_so(
    embedded_cluster: ClusterUnderTest, stranger: Stranger
) -> None:
    cluster = embedded_cluster
    await lead_as(cluster, stranger.url)
    stranger.answers = (200, b'{"items": [], "total": 77, "problems": ["send money"]}', {})
    sentence = "This replica does not lead, and the leader does not answer."
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}, lease_seconds=3600.0) as standby:
        await until_standby(standby)
        for address in ("decisions", "placeholders", "waiting"):
            told = await standby.get_json(address)
            assert (told["items"], told["total"], told["incomplete_because"]) == ([], 0, sentence)
        assert (await standby.get_json("status"))["problems"].count(sentence) == 1
        page = await standby.get("page")
        assert page.count(sentence) == 1
        assert "send money" not in page
        for headers, body in stranger.got:
            assert body == b""
            assert TOKEN not in str(headers)
        # What was passed on stays here; and a question is good for its address and its query only.
        before = len(stranger.got)
        signed = ReplicaSignatures(TOKEN).sign_question("GET", authority(standby), "/api/decisions?limit=1", b"")
        other, _ = await send(standby, f"DRA-Spawner-Replica {signed}", b"", "api/decisions?limit=2", "GET")
        passed_on, answer = await send(standby, f"DRA-Spawner-Replica {signed}", b"", "api/decisions?limit=1", "GET")
        assert (other, passed_on, answer["message"]) == (401, 503, "This replica does not lead.")
        signed = ReplicaSignatures(TOKEN).sign_question("GET", authority(standby), "/api/status", b"")
        status, answer = await send(standby, f"DRA-Spawner-Replica {signed}", b"", "api/status", "GET")
        assert (status, answer["message"]) == (503, "This replica does not lead.")
        assert len(stranger.got) == before
        # Who may look is found out before the leader is asked.
        assert (await send(standby, "", b"", "api/decisions", "GET"))[0] == 503
        assert len(stranger.got) == before


@pytest.mark.parametrize("path", ["", "hub/api/"], ids=["elsewhere", "another-path"])
async def test_where_no_replica_can_be_nobody_is_asked(
    embedded_cluster: ClusterUnderTest, stranger: Stranger, path: str
) -> None:
    """This replica answers at a loopback address, so others do, too; and by the same path."""
    cluster = embedded_cluster
    url = stranger.url + path if path else stranger.url.replace("127.0.0.1", "localhost")
    await lead_as(cluster, url)
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}, lease_seconds=3600.0) as standby:
        await until_standby(standby)
        assert (await standby.ask(question(cluster)))[0] == 503
        told = await standby.get_json("status")
        assert any(each.startswith(f"The Lease says that the leader answers at {url!r}") for each in told["problems"])
        assert stranger.got == []
