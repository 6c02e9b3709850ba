"""What the hub tells of servers, and what is no such answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from dra_spawner.service.idle.hub_reports import HubReports, NotStopped, ReportsUnknown
from dra_spawner.simulator.model.claims import ObjectKey
from tests.all_of_them import all_of_them
from tests.local_server import serving

TIME = "2026-03-02T09:00:00+00:00"
IDLE = {"kernels": [{"execution_state": "idle", "last_activity": TIME}], "terminals": [], "connections": 0}
SERVER: dict[str, Any] = {
    "user": "ada", "server": "", "namespace": "hub", "pod": "jupyter-ada", "started": TIME, "ready": True, "pending": None,
    "age_seconds": 3.5, "activity": IDLE,
}  # fmt: skip


def reports(url: str) -> HubReports:
    return HubReports(f"{url}/hub/api", "token")


@all_of_them("changed, is_settled, problem", {
    "as it is": ({}, True, ""),
    "groups": ({"groups": ["maths", 3, "x" * 256]}, True, ""),
    "it stops": ({"pending": "stop"}, False, ""),
    "it starts": ({"ready": False}, False, ""),
    "no report": ({"activity": None, "age_seconds": None}, True, "it has not reported"),
    "a report without an age": ({"age_seconds": None}, True, "it has not reported"),
    "a report of nonsense": ({"activity": {**IDLE, "kernels": "none"}}, True, "its report has no list of kernels"),
})  # fmt: skip
async def test_a_server(changed: dict[str, Any], is_settled: bool, problem: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert (request.path, request.headers["Authorization"]) == ("/hub/dra-spawner/activity", "token token")
        return web.json_response({"version": 1, "servers": [{**SERVER, **changed}]})

    async with serving(answer) as url:
        (found,) = (await reports(url).read()).items()
    assert found[0] == ObjectKey("hub", "jupyter-ada")
    assert found[1].is_settled == is_settled
    assert found[1].groups == (("maths",) if "groups" in changed else ()), "older hubs tell none"
    assert isinstance(found[1].activity, str) == bool(problem)
    assert not problem or problem in str(found[1].activity)


@all_of_them("body, status, says", {
    "no JSON": ("<html>", 200, "the hub does not answer with JSON"),
    "deep": ("[" * 100_000, 200, "the hub does not answer with JSON"),
    "huge": (" " * (17 * 2**20), 200, "the hub answers with more than 16 MiB"),
    "another version": (json.dumps({"version": 2, "servers": []}), 200, "hub and service may have different versions"),
    "no list": (json.dumps({"version": 1, "servers": {}}), 200, "hub and service may have different versions"),
    "a server that is a text": (json.dumps({"version": 1, "servers": ["ada"]}), 200, "a server that is not understood"),
    "no user": (json.dumps({"version": 1, "servers": [{**SERVER, "user": 1}]}), 200, "a server that is not understood"),
    "an older hub": ("", 404, "the hub has no dra-spawner, or an older one"),
    "no right": ("", 403, "needs the scope read:servers"),
    "a failure": ("", 500, "the hub answers with status 500"),
    "a redirect": ("", 302, "the hub answers with status 302"),
})  # fmt: skip
async def test_what_is_not_understood_is_not_known(body: str, status: int, says: str) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body, status=status, headers={"Location": "/else"} if status == 302 else {})

    async with serving(answer) as url:
        with pytest.raises(ReportsUnknown, match=says):
            await reports(url).read()


async def test_stops_and_their_refusals() -> None:
    asked: list[str] = []
    statuses = iter((204, 202, 404, 500))

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(f"{request.method} {request.raw_path}")
        return web.Response(status=next(statuses))

    async with serving(answer) as url:
        hub = reports(url)
        await hub.stop("ada", "")
        await hub.stop("a/b", "x y")
        with pytest.raises(NotStopped, match="delete:servers"):
            await hub.stop("ada", "")
        with pytest.raises(NotStopped, match="status 500"):
            await hub.stop("ada", "")
    assert asked[:2] == ["DELETE /hub/api/users/ada/server", "DELETE /hub/api/users/a%2Fb/servers/x%20y"]
    with pytest.raises(NotStopped, match="has not answered"):
        await hub.stop("ada", "")
