"""The limit of connections, and the connection that ends when there is one more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tornado.gen import with_timeout
from tornado.httputil import HTTPInputError
from tornado.web import Application, RequestHandler

from dra_spawner.service.http.requests.limited_server import LimitedServer, ServerLimits
from tests.adversary.raw_client import RawClient, request
from tests.local_server import serving_tornado
from tests.polling import eventually

SECONDS = 30.0


class _Hello(RequestHandler):
    def get(self) -> None:
        self.finish("hello")


class Running:
    def __init__(self, server: _Counting, url: str) -> None:
        self.server = server
        self.url = url

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[RawClient]:
        """A client that the server has seen."""
        before = self.server.accepted
        async with RawClient(self.url) as client:
            await eventually(lambda: self.server.accepted > before, "the server sees the client", SECONDS)
            yield client


class _Counting(LimitedServer):
    accepted = 0

    def handle_stream(self, *arguments: object) -> None:
        self.accepted += 1
        super().handle_stream(*arguments)  # type: ignore[arg-type]


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    server = _Counting(Application([("/", _Hello)]), limits=ServerLimits(connections=3, header_seconds=600.0))
    async with serving_tornado(server) as url:
        yield Running(server, url)
    assert server.open_connections == 0


async def hello(client: RawClient) -> None:
    before = len(client.received)
    assert await client.send(request("GET", "/"))
    while not client.received[before:].endswith(b"hello"):
        assert await client.read_some()


async def test_the_connection_that_was_quiet_the_longest_ends(running: Running) -> None:
    async with running.client() as first, running.client() as second, running.client() as third:
        await hello(first)
        await hello(second)
        # The third has not asked yet; the first asks again.
        await hello(first)
        async with running.client() as fourth:
            assert await third.until_closed(SECONDS) == b""
            async with running.client() as fifth:
                assert await second.is_closed(SECONDS)
                for each in (first, fourth, fifth):
                    await hello(each)
                assert running.server.open_connections == 3


async def test_a_new_client_is_answered_at_the_limit(running: Running) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(20):
            await hello(await stack.enter_async_context(running.client()))
            assert running.server.open_connections <= 3


async def test_a_closed_connection_is_forgotten(running: Running) -> None:
    async with running.client() as first, running.client():
        await hello(first)
        assert running.server.open_connections == 2
    await eventually(lambda: not running.server.open_connections, "both are forgotten", SECONDS)


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [
        pytest.param(HTTPInputError("chunked body too large"), False, id="a client's invalid body"),
        pytest.param(ValueError("a defect"), True, id="a defect"),
    ],
)
async def test_a_body_that_is_invalid_after_its_time_is_no_error_of_the_server(
    running: Running, error: Exception, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    body = asyncio.get_running_loop().create_future()
    with caplog.at_level(logging.ERROR, "tornado.application"):
        with pytest.raises(TimeoutError):
            await with_timeout(timedelta(0), body)
        body.set_exception(error)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert ("after timeout" in caplog.text) is is_logged
