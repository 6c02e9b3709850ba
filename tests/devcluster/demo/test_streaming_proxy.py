"""The demo's proxy as its own process, between a real client and a real target on the loopback."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from tests.local_server import serving_app
from tests.polling import PATIENCE_SECONDS, eventually
from tests.ports import free_port
from tests.presence import present

pytest.importorskip("configurable_http_proxy")

MEBIBYTE = 1024 * 1024
#: More than the 100 MB limit of tornado's client and server.
LARGE = 120
BLOCK = bytes(range(256)) * (MEBIBYTE // 256)
PACKED = gzip.compress(b"a page, packed by its server")


@dataclass
class Target:
    """The target of the proxy."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def page(self, _request: web.Request) -> web.Response:
        answer = web.Response(body=b"0123456789", content_type="text/plain")
        answer.headers.add("Set-Cookie", "a=1; Path=/")
        answer.headers.add("set-cookie", "b=2; Path=/")
        return answer

    async def unchanged(self, _request: web.Request) -> web.Response:
        return web.Response(status=304, headers={"ETag": '"v1"'})

    async def packed(self, request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "gzip"
        return web.Response(body=PACKED, headers={"Content-Encoding": "gzip"})

    async def events(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        try:
            await answer.write(b"data: first\n\n")
            await self.go_on.wait()
            await answer.write(b"data: last\n\n")
        except asyncio.CancelledError:
            self.left.set()
            raise
        return answer

    async def large(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        if "length" in request.query:
            answer.content_length = LARGE * MEBIBYTE
        await answer.prepare(request)
        for _ in range(LARGE):
            await answer.write(BLOCK)
        return answer

    async def cut(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        if "length" in request.query:
            answer.content_length = 10 * MEBIBYTE
        await answer.prepare(request)
        await answer.write(BLOCK)
        present(request.transport).close()
        return answer

    async def upload(self, request: web.Request) -> web.Response:
        count, digest = 0, hashlib.sha256()
        async for chunk in request.content.iter_any():
            count += len(chunk)
            digest.update(chunk)
        return web.Response(text=f"{count} {digest.hexdigest()}")

    async def echo(self, request: web.Request) -> web.Response:
        return web.Response(text=request.raw_path)

    def application(self) -> web.Application:
        application = web.Application()
        for name in ("page", "unchanged", "packed", "events", "large", "cut"):
            application.router.add_get(f"/{name}", getattr(self, name))
        application.router.add_put("/upload", self.upload)
        application.router.add_get("/echo/{rest:.*}", self.echo)
        return application


@pytest.fixture
async def target() -> AsyncIterator[tuple[Target, str]]:
    target = Target()
    async with serving_app(target.application(), handler_cancellation=True) as url:
        yield target, url
        target.go_on.set()


@pytest.fixture
async def proxied(target) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that sends its requests to the target through the proxy."""
    port, api_port = free_port(), free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dra_spawner.devcluster.demo.streaming_proxy"),
        *("--ip", "127.0.0.1", "--port", str(port), "--api-ip", "127.0.0.1", "--api-port", str(api_port)),
        *("--default-target", target[1], "--log-level", "ERROR"),
        env={**os.environ, "CONFIGPROXY_AUTH_TOKEN": "only-for-this-test"},
    )
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", auto_decompress=False) as session:
            await until_it_answers(session)
            yield session
    finally:
        process.terminate()
        await process.wait()


async def until_it_answers(session: aiohttp.ClientSession) -> None:
    async def answers() -> bool:
        try:
            async with session.get("/_chp_healthz"):
                return True
        except aiohttp.ClientConnectionError:
            return False

    await eventually(answers, "the proxy answers")


async def test_head_returns_the_content_length_of_get(proxied):
    async with proxied.head("/page") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Length"] == "10"
        assert answer.content_type == "text/plain"
        assert await answer.read() == b""


async def test_a_path_arrives_as_it_was_asked_for(proxied):
    """Names of devices and of choices have slashes, and are one part of an address."""
    for path in ("/echo/a%2Fb%3Dc/drain?x=%2F", "/echo/%C3%A4%20%25", "/echo/plain", "/echo/user@host/~x"):
        async with proxied.get(URL(path, encoded=True)) as answer:
            assert await answer.text() == path


async def test_each_cookie_arrives(proxied):
    async with proxied.get("/page") as answer:
        assert await answer.read() == b"0123456789"
        assert answer.headers.getall("Set-Cookie") == ["a=1; Path=/", "b=2; Path=/"]


async def test_not_modified_has_its_tag_and_no_body(proxied):
    async with proxied.get("/unchanged", headers={"If-None-Match": '"v1"'}) as answer:
        assert (answer.status, answer.headers["ETag"], await answer.read()) == (304, '"v1"', b"")


async def test_a_packed_body_stays_packed(proxied):
    async with proxied.get("/packed", headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert await answer.read() == PACKED


async def test_an_event_arrives_before_the_end_of_the_answer(proxied, target):
    async with asyncio.timeout(PATIENCE_SECONDS), proxied.get("/events") as answer:
        assert answer.content_type == "text/event-stream"
        assert await answer.content.readuntil(b"\n\n") == b"data: first\n\n"
        target[0].go_on.set()
        assert await answer.content.read() == b"data: last\n\n"


async def test_the_target_is_left_when_the_client_goes(proxied, target):
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with proxied.get("/events") as answer:
            assert await answer.content.readuntil(b"\n\n") == b"data: first\n\n"
            answer.close()
        await target[0].left.wait()


@pytest.mark.parametrize("path", ["/large", "/large?length"], ids=["chunked", "with its length"])
async def test_a_large_download_is_complete(proxied, path):
    count, digest = 0, hashlib.sha256()
    async with proxied.get(path) as answer:
        assert answer.status == 200
        async for chunk in answer.content.iter_any():
            count += len(chunk)
            digest.update(chunk)
    assert (count, digest.digest()) == (LARGE * MEBIBYTE, hashlib.sha256(BLOCK * LARGE).digest())


@pytest.mark.parametrize("path", ["/cut", "/cut?length"], ids=["chunked", "with its length"])
async def test_an_answer_that_is_cut_is_an_error_for_the_client(proxied, path):
    async with proxied.get(path) as answer:
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_large_upload_is_complete(proxied):
    async def blocks() -> AsyncIterator[bytes]:
        for _ in range(LARGE):
            yield BLOCK

    async with proxied.put("/upload", data=blocks()) as answer:
        seen = await answer.text()
    assert seen == f"{LARGE * MEBIBYTE} {hashlib.sha256(BLOCK * LARGE).hexdigest()}"
