"""What `dra-spawner try` made at a hub is removed, however the command ends."""

from __future__ import annotations

import asyncio
import io

import pytest
from aiohttp import web

from dra_spawner import names
from dra_spawner.commands.trying.try_command import TryOptions, run_try
from tests.local_server import serving


class ClosedPipe(io.StringIO):
    """Standard output whose reader has gone, as with ``| head -1``."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


async def test_a_new_user_is_deleted_although_nobody_reads_the_output() -> None:
    asked: list[str] = []
    options: list[object] = []

    async def hub(request: web.Request) -> web.StreamResponse:
        asked.append(f"{request.method} {request.path.removeprefix('/hub/api/')}")
        match request.method, request.path:
            case "GET", "/hub/api/user":
                return web.json_response({"kind": "service", "name": "tester"})
            case "POST", "/hub/api/users/trial":
                return web.json_response({}, status=201)
            case "POST", _:
                options.append(await request.json())
                return web.json_response({"message": "no such choice"}, status=400)
            case "DELETE", _:
                return web.Response(status=204)
        return web.json_response({}, status=404)

    async with serving(hub) as url:
        given = TryOptions(url, "token", ("gpu",), user="trial", timeout_seconds=60)
        with pytest.raises(BrokenPipeError):
            await asyncio.to_thread(run_try, given, ClosedPipe(), io.StringIO())
    assert asked.count("POST users/trial") == 1
    assert asked[-1] == "DELETE users/trial"
    assert options == [{"profile": "gpu", names.TRIAL_OPTION: "true"}], "the hub knows that it is nobody's demand"
