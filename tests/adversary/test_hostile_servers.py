"""Servers that an administrator named, and others write: where they send us, and how much they answer."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from dra_spawner.history.imports.http_source import get_json
from dra_spawner.history.imports.imported_rows import SourceError
from dra_spawner.scale_ahead.calendars.calendar_download import read_location
from dra_spawner.scale_ahead.calendars.ical_text import MAX_BYTES, CalendarUnreadable
from tests.history.redirecting_server import Server, two_servers
from tests.scale_ahead.calendars import calendar_server
from tests.scale_ahead.calendars.calendar_server import TEXT, served


@pytest.fixture
async def server() -> AsyncIterator[calendar_server.Server]:
    async with served() as found:
        yield found


async def test_what_is_no_calendar_or_too_large(server: calendar_server.Server) -> None:
    for path, problem in {
        "endless": f"it has more than {MAX_BYTES} bytes",
        "bomb": f"it has more than {MAX_BYTES} bytes",
        "part": "its server sends only a part of it",
        "no-gzip": "its server sends bytes that are not compressed by gzip",
        "brotli": "its server compresses it by another method than gzip",
        "empty": "its server answers with status 204",
    }.items():
        with pytest.raises(CalendarUnreadable) as refused:
            await read_location(f"{server.url}/{path}.ics")
        assert str(refused.value) == problem
    with pytest.raises(aiohttp.ClientResponseError):
        await read_location(f"{server.url}/missing.ics")


async def test_no_redirect_leads_elsewhere(server: calendar_server.Server) -> None:
    async with served() as internal:
        port = internal.url.rpartition(":")[2]
        for target in (
            f"{internal.url}/good.ics",
            f"http://localhost:{port}/good.ics",
            f"http://[::1]:{port}/good.ics",
            f"//localhost:{port}/good.ics",
            "http://169.254.169.254/latest/meta-data",
            "http://10.0.0.1/",
            "file:///etc/passwd",
            "https://[bad/",
        ):
            server.targets = {"/moved.ics": target}
            with pytest.raises(CalendarUnreadable, match="its server redirects to an") as refused:
                await read_location(f"{server.url}/moved.ics")
            assert port not in str(refused.value)
        assert not internal.asked
    server.targets = {"/moved.ics": "/moved.ics"}
    with pytest.raises(CalendarUnreadable, match="redirects more than 5 times"):
        await read_location(f"{server.url}/moved.ics")


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fe80::1", "fd00:ec2::254", "0.0.0.0"])  # fmt: skip
async def test_a_name_that_leads_to_this_machine(
    server: calendar_server.Server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the domain of a calendar may change where it leads. An administrator may write the address itself."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    async def resolve(*_: object, **__: object) -> list[aiohttp.abc.ResolveResult]:
        return [{"hostname": "x", "host": address, "port": int(port), "family": family, "proto": 0, "flags": 0}]

    port = server.url.rpartition(":")[2]
    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", resolve)
    with pytest.raises(CalendarUnreadable, match="the name of its server leads to this machine"):
        await read_location(f"http://calendar.example.com:{port}/good.ics")
    if address == "127.0.0.1":
        assert await read_location(f"http://localhost:{port}/good.ics") == TEXT


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    with two_servers() as made:
        yield made


def test_a_token_goes_to_the_named_server_only(servers: tuple[Server, Server]) -> None:
    named, other = servers
    url = f"http://{named.address}/hub/api/users"
    assert get_json(url, {"Authorization": "token abc"}) == []
    for target in (f"http://localhost:{other.server_port}/", f"http://{other.address}/", f"http://{named.address}/x"):
        named.target = target
        with pytest.raises(SourceError, match="answered 302, a redirect, which is not followed"):
            get_json(url, {"Authorization": "token abc"})
    assert not other.asked
    assert {path for path, _ in named.asked} == {"/hub/api/users"}
