"""Calendars of servers: what is downloaded, and where redirects may lead."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dra_spawner.scale_ahead.calendars.calendar_download import LocationReader, read_location
from tests.scale_ahead.calendars.calendar_server import TEXT, Server, served


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with served() as found:
        yield found


async def test_a_calendar_is_downloaded_once_if_its_server_says_that_it_is_unchanged(server: Server) -> None:
    assert await read_location(f"{server.url}/good.ics") == TEXT
    assert await read_location(f"{server.url}/gzip.ics") == TEXT
    reader = LocationReader()
    for _ in range(3):
        assert await reader(f"{server.url}/tagged.ics") == TEXT


async def test_a_redirect_leads_to_the_same_server(server: Server) -> None:
    url = server.url.replace("://", "://anna:secret@")
    server.targets = {"/moved.ics": "/there.ics", "/there.ics": f"{server.url}/good.ics"}
    assert await read_location(f"{url}/moved.ics") == TEXT
    assert [path for path, _ in server.asked] == ["/moved.ics", "/there.ics", "/good.ics"]
    assert len({user for _, user in server.asked if user.startswith("Basic ")}) == 1
