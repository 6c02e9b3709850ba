"""Clients that send slowly, too much, or never read, at the service as it runs: nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dra_spawner.placeholders.planner.targets.shape_definition import MAX_BYTES
from dra_spawner.service.http.api.placement_handler import MAX_BODY_BYTES
from tests.adversary.raw_client import RawClient, request
from tests.integration.service_process import ServiceProcess
from tests.polling import eventually

TOKEN = "0123456789abcdef" * 2
PLACEMENTS = "/api/placements"
LIMITS = {"header_seconds": 1, "body_seconds": 1, "answer_seconds": 1, "max_connections": 400}
#: All of a request may take 3 s; without these limits, 75 s.
CLOSED_WITHIN = 60.0
HUB = f"Authorization: token {TOKEN}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """It knows no cluster, and has a hub's token."""
    arguments = [f"--DRASpawnerService.{name}={value}" for name, value in LIMITS.items()]
    # With a kubeconfig that is named by an option it would end at once.
    environment = {"KUBECONFIG": "/nonexistent", "JUPYTERHUB_API_TOKEN": TOKEN}
    process = ServiceProcess(tmp_path_factory.mktemp("service"), *arguments, **environment)
    with process:
        yield process
        log = process.log.read_text()
        assert "Traceback" not in log
        assert TOKEN not in log


@pytest.fixture(autouse=True)
async def answers(service: ServiceProcess) -> AsyncIterator[None]:
    """Before and after each attack."""
    await is_alive(service)
    yield
    await is_alive(service)


async def is_alive(service: ServiceProcess) -> None:
    """It answers, be it later on a busy machine, where it closes connections whose request is not there in a second."""

    async def answers() -> bool:
        return (await service.answer("/healthz"))[0] == 200

    await eventually(answers, "it answers")


async def answered(service: ServiceProcess, sent: bytes) -> bytes:
    """All that the service sends after a request; again where it closed the connection before it had read the request."""

    async def answer() -> bytes:
        async with RawClient(service.url) as client:
            await client.send(sent)
            return await client.until_closed(CLOSED_WITHIN)

    found: bytes = await eventually(answer, "it answers")
    return found


def memory_bytes(service: ServiceProcess) -> int:
    assert service.process is not None
    status = Path(f"/proc/{service.process.pid}/status")
    if not status.exists():
        pytest.skip("the memory of a process is read from /proc")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
    assert found is not None
    return int(found[1]) * 1024


@contextlib.asynccontextmanager
async def clients(service: ServiceProcess, count: int) -> AsyncIterator[list[RawClient]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(RawClient(service.url)) for _ in range(count)]


async def test_headers_that_never_end(service: ServiceProcess) -> None:
    async with clients(service, 300) as many:
        for number, each in enumerate(many):
            await each.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * (number * 50))
        await is_alive(service)  # while they are there
        closed = await asyncio.gather(*(each.is_closed(CLOSED_WITHIN) for each in many))
        assert all(closed)
        assert not any(each.received for each in many)


async def test_headers_byte_by_byte(service: ServiceProcess) -> None:
    """Each byte is a sign of life, and no reason to wait longer."""
    async with RawClient(service.url) as client:
        closed = asyncio.create_task(client.is_closed(CLOSED_WITHIN))
        while not closed.done():
            await client.send(b"x")
            await asyncio.wait({closed}, timeout=0.1)
        assert await closed


async def test_a_connection_that_does_nothing(service: ServiceProcess) -> None:
    """Before its first request, or after one."""
    async with RawClient(service.url) as silent:
        assert await silent.until_closed(CLOSED_WITHIN) == b""
    assert (await answered(service, request("GET", "/healthz"))).startswith(b"HTTP/1.1 200 OK")


async def test_headers_without_end_are_not_buffered(service: ServiceProcess) -> None:
    before = memory_bytes(service)
    async with clients(service, 50) as many:
        for each in many:
            for _ in range(32):
                if not await each.send(b"X: " + b"y" * 2**15 + b"\r\n"):
                    break
        assert memory_bytes(service) - before < 25 * 2**20
        assert all(await asyncio.gather(*(each.is_closed(CLOSED_WITHIN) for each in many)))


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
async def test_bodies_of_strangers_are_not_read(service: ServiceProcess, chunked: bool) -> None:
    """100 of 1 MB took 84 MiB, which nobody gave back as long as the last byte did not come."""
    before = memory_bytes(service)
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {2**20}"
    start = b"100000\r\n" if chunked else b""
    async with clients(service, 100) as many:

        async def attack(client: RawClient) -> None:
            if await client.send(request("POST", PLACEMENTS, length, body=start)):
                await client.send(b"x" * (2**20 - 1))

        await asyncio.gather(*(attack(each) for each in many))
        assert memory_bytes(service) - before < 50 * 2**20
        assert all(await asyncio.gather(*(each.is_closed(CLOSED_WITHIN) for each in many)))


async def test_a_client_without_rights_is_refused_before_the_body(service: ServiceProcess) -> None:
    waits = request("POST", PLACEMENTS, "Content-Length: 100")
    chunks = request("POST", PLACEMENTS, "Transfer-Encoding: chunked")
    expects = request("POST", PLACEMENTS, "Content-Length: 100", "Expect: 100-continue")
    for each in (waits, chunks, expects):
        answer = await answered(service, each)
        assert answer.startswith(b"HTTP/1.1 401 "), answer


async def test_a_body_that_never_comes_from_an_authenticated_client(service: ServiceProcess) -> None:
    async with clients(service, 2) as (client, chunks):
        await client.send(request("POST", PLACEMENTS, HUB, "Content-Length: 100", body=b"{"))
        await chunks.send(request("POST", PLACEMENTS, HUB, "Transfer-Encoding: chunked", body=b"1\r\n{\r\n"))
        assert await client.until_closed(CLOSED_WITHIN) == b""
        assert await chunks.until_closed(CLOSED_WITHIN) == b""


async def test_the_biggest_body_is_accepted_and_no_bigger_one(service: ServiceProcess) -> None:
    """The cluster is not known, so a question that can be read is answered 503."""
    definition = b"\\\\\\u00e9" * (MAX_BYTES // 8)
    body = b'{"shape":"%s","pod":"p","namespace":"n","definition":"%s"}' % (b"0" * 16, definition)
    assert MAX_BYTES < len(body) <= MAX_BODY_BYTES
    good = request("POST", PLACEMENTS, HUB, f"Content-Length: {len(body)}", "Connection: close", body=body)
    assert (await answered(service, good)).startswith(b"HTTP/1.1 503 ")
    much = request("POST", PLACEMENTS, HUB, f"Content-Length: {MAX_BODY_BYTES + 1}")
    assert (await answered(service, much)).startswith(b"HTTP/1.1 400 ")
    chunks = request("POST", PLACEMENTS, HUB, "Transfer-Encoding: chunked", body=b"%x\r\n" % 2**40)
    assert (await answered(service, chunks)).startswith(b"HTTP/1.1 400 ")


async def test_nothing_is_unpacked(service: ServiceProcess) -> None:
    before = memory_bytes(service)
    bomb = gzip.compress(b'{"shape":' + b" " * 50 * 2**20)
    assert len(bomb) < MAX_BODY_BYTES
    headers = (HUB, "Content-Encoding: gzip", f"Content-Length: {len(bomb)}", "Connection: close")
    answer = await answered(service, request("POST", PLACEMENTS, *headers, body=bomb))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert memory_bytes(service) - before < 40 * 2**20


async def test_a_request_in_a_body_is_none(service: ServiceProcess) -> None:
    """A proxy and the service never see another number of requests."""
    hidden = request("GET", "/healthz")
    for headers in (
        ("Content-Length: 42",),
        ("Content-Length: 0", "Content-Length: 42"),
        ("Content-Length: 42", "Transfer-Encoding: chunked"),
        ("Content-Length: -1",),
        ("Content-Length: 4_2",),
        ("Transfer-Encoding: gzip, chunked",),
    ):
        async with RawClient(service.url) as client:
            await client.send(request("POST", PLACEMENTS, *headers, body=hidden))
            answer = await client.until_closed(CLOSED_WITHIN)
            assert answer.count(b"HTTP/1.1 ") <= 1, (headers, answer)
            assert b'"alive"' not in answer, headers


async def test_a_header_that_is_none_is_not_logged(service: ServiceProcess) -> None:
    """A browser's cookies, or a token, come with it."""
    for header in (f"{HUB}\x01", f"Cookie: service-dra-spawner={TOKEN}\x00"):
        assert (await answered(service, request("GET", PLACEMENTS, header))).startswith(b"HTTP/1.1 400 ")
    assert TOKEN not in service.log.read_text()


async def test_answers_that_nobody_reads(service: ServiceProcess) -> None:
    before = memory_bytes(service)
    wanted = request("GET", "/static/style.css") * 2_000
    async with RawClient(service.url, receive_bytes=4096) as client:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSED_WITHIN):
                # It reads no more requests while answers are not read, and ends it after a while.
                while await client.send(wanted):
                    pass
        assert not await client.send(b"x"), "it was ended"
        await is_alive(service)
    assert memory_bytes(service) - before < 40 * 2**20


async def test_more_connections_than_the_limit(service: ServiceProcess) -> None:
    """The oldest are closed, so that a probe is always answered."""
    most = LIMITS["max_connections"]
    async with clients(service, most) as early:
        # They stay for as long as they may.
        for each in early:
            await each.send(b"GET / HTTP/1.1\r\n")
        async with clients(service, most // 2) as late:
            assert all(await asyncio.gather(*(each.is_closed(CLOSED_WITHIN) for each in early[: most // 2])))
            for _ in range(20):
                await is_alive(service)
            assert len(late) == most // 2
