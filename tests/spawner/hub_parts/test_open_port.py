"""The wait for a server's port: it ends soon after the server listens, and never keeps a start from its end."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

from dra_spawner.spawner.hub_parts.open_port import until_it_listens, until_port_is_open
from tests.all_of_them import all_of_them
from tests.polling import PATIENCE_SECONDS
from tests.ports import free_port


async def test_it_ends_soon_after_the_server_listens() -> None:
    port = free_port()

    async def listen() -> tuple[asyncio.Server, float]:
        await asyncio.sleep(0.05)  # the first look finds nothing
        return await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port), time.monotonic()

    async with asyncio.TaskGroup() as tasks:
        server = tasks.create_task(listen())
        await until_port_is_open(f"http://127.0.0.1:{port}", 10 * PATIENCE_SECONDS)
        found = time.monotonic()
    listening, opened = server.result()
    listening.close()
    assert 0 <= found - opened < PATIENCE_SECONDS


@all_of_them(
    "url", ["http://server.example:8888", "http://[::1", "http://127.0.0.1", "http://127.0.0.1:99999", "", "None"]
)
async def test_what_is_no_address_is_not_waited_for(url: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await until_port_is_open(url, 10 * PATIENCE_SECONDS)


async def test_a_server_that_never_listens_is_left_to_the_hub() -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await until_port_is_open(f"http://127.0.0.1:{free_port()}", 0.3)


async def test_a_start_waits_only_where_jupyterhub_waits_for_its_server() -> None:
    """A start without a hub behind it ends when its pod runs, and half of its rest is left in any case."""
    port = free_port()
    for is_pending, rest, least in ((True, 0.8, 0.4), (False, 10 * PATIENCE_SECONDS, 0.0)):
        spawner = SimpleNamespace(_spawn_pending=is_pending, http_timeout=30)
        began = time.monotonic()
        await until_it_listens(spawner, f"http://127.0.0.1:{port}", rest)
        assert least <= round(time.monotonic() - began, 2) < PATIENCE_SECONDS
