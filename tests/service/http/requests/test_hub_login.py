"""A hub that does not answer, or answers badly: callers of the service soon get an error that says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.requests import authentication
from dra_spawner.service.http.requests.hub_login import BoundedHubOAuth
from dra_spawner.service.web_settings import WebSettings
from tests.adversary.raw_client import RawClient, request
from tests.service.open_service import web_service

SENTENCE = "JupyterHub did not answer the question who you are."


@contextlib.asynccontextmanager
async def service_of(hub_url: str) -> AsyncIterator[str]:
    """The address of a service that asks this hub."""
    hub_auth = BoundedHubOAuth(api_url=hub_url, api_token="t", oauth_client_id="service-dra-spawner")
    context = ServiceContext(WebSettings("/", hub_auth), DecisionLog(), max_staleness_seconds=60)
    async with web_service(context) as url:
        yield url


async def ask(url: str, path: str = "/api/nodes") -> tuple[bytes, bytes]:
    """First line and body of the answer to a program with a token."""
    async with RawClient(url) as client:
        await client.send(request("GET", path, "Authorization: token abc", "Connection: close"))
        head, _, body = (await client.until_closed(60)).partition(b"\r\n\r\n")
        return head.split(b"\r\n")[0], body


@pytest.fixture
def silent() -> Iterator[str]:
    """It takes connections, and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/hub/api"


async def test_a_hub_that_says_nothing(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "HUB_SECONDS", 0.1)
    async with service_of(silent) as url:
        first, body = await ask(url)
        assert first == b"HTTP/1.1 502 Bad Gateway"
        assert json.loads(body)["detail"] == SENTENCE
        first, page = await ask(url, "/")
        assert first == b"HTTP/1.1 502 Bad Gateway"
        assert SENTENCE.encode() in page


async def test_a_hub_that_is_not_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        hub_url = f"http://127.0.0.1:{unused.getsockname()[1]}/hub/api"
        async with service_of(hub_url) as url:
            first, body = await ask(url)
            assert first == b"HTTP/1.1 502 Bad Gateway"
            assert json.loads(body)["detail"] == SENTENCE
            assert hub_url.encode() not in body


async def test_a_hub_that_is_broken() -> None:
    answers = [b"HTTP/1.1 500 No\r\n\r\n", b"HTTP/1.1 404 No\r\n\r\n"]

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers[0])
        await writer.drain()
        writer.close()

    hub = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with hub, service_of(f"http://127.0.0.1:{hub.sockets[0].getsockname()[1]}/hub/api") as url:
        while answers:
            first, body = await ask(url)
            assert (first, json.loads(body)["detail"]) == (b"HTTP/1.1 502 Bad Gateway", SENTENCE), answers[0]
            answers.pop(0)


async def test_a_script_is_not_sent_to_the_login(silent: str) -> None:
    """It could not follow, and JupyterHub sets one more cookie for each login that begins."""
    async with service_of(silent) as url:
        for header, answer in (("X-XSRFToken: t", b"401 Unauthorized"), ("Accept: text/html", b"302 Found")):
            async with RawClient(url) as client:
                await client.send(request("GET", "/", header, "Connection: close"))
                head = await client.until_closed(60)
                assert head.startswith(b"HTTP/1.1 " + answer)
                assert (b"oauth-state" in head) == (answer == b"302 Found")
