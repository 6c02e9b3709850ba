"""What a server tells the hub about its kernels, when it does, and what it believes of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest

from dra_spawner.fairness.idle.samples import KernelState
from dra_spawner.fairness.idle.server_answers import read_activity
from dra_spawner.user_server.activity_reports import ActivityReports, activity_of_server, read_warning
from tests.all_of_them import all_of_them
from tests.set_clock import SetClock
from tests.user_server.hub_stand_in import hub_that

TIME = "2026-03-02T09:00:00+00:00"
WARNING = {"sentence": "It is idle.", "stops_at": TIME, "may_keep": True}


class Hub:
    """Takes reports."""

    def __init__(self) -> None:
        self.reports: list[Any] = []
        self.status = 200
        self.answer: Any = {"version": 1, "again_seconds": 30, "idle": None}

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        assert (handler.command, handler.path) == ("POST", "/base/hub/dra-spawner/activity")
        self.reports.append(json.loads(handler.rfile.read(int(handler.headers["Content-Length"]))))
        body = json.dumps(self.answer).encode()
        handler.send_response(self.status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


def activity(state: str = "idle") -> dict[str, Any]:
    return {"kernels": [{"execution_state": state, "last_activity": TIME}], "terminals": [], "connections": 1}


class World:
    def __init__(self, environment: Any) -> None:
        self.clock = SetClock(1000.0)
        self.now = activity()
        self.activity: Callable[[], Any] = lambda: self.now
        self.reports = ActivityReports(environment, lambda: self.activity(), self.clock)

    async def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            await self.reports.look()
            self.clock.now += 1


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def world(hub: Hub) -> Iterator[World]:
    with hub_that(hub) as environment:
        yield World(environment)


async def test_a_kernel_that_begins_to_compute_is_told_at_once(hub: Hub, world: World) -> None:
    await world.pass_seconds(20)
    assert len(hub.reports) == 1
    world.now = activity("busy")
    await world.pass_seconds(1)
    assert hub.reports[1:] == [activity("busy")]
    world.now = activity()
    await world.pass_seconds(29)
    assert len(hub.reports) == 2, "that it ended is told in time"
    await world.pass_seconds(61)
    assert len(hub.reports) == 5


async def test_the_warning_comes_and_goes_with_the_answers(hub: Hub, world: World) -> None:
    hub.answer["idle"] = WARNING
    await world.pass_seconds(1)
    assert world.reports.warning == WARNING
    hub.status = 503
    await world.pass_seconds(60)
    assert world.reports.warning == WARNING, "a hub that is away for a moment says nothing new"
    hub.status, hub.answer["idle"] = 200, None
    await world.pass_seconds(60)
    assert world.reports.warning is None


async def test_a_kernel_whose_begin_was_not_told_is_told_soon(hub: Hub, world: World) -> None:
    await world.pass_seconds(10)
    hub.status, world.now = 503, activity("busy")
    await world.pass_seconds(1)
    hub.status = 200
    await world.pass_seconds(6)
    assert hub.reports[1:] == [activity("busy")] * 2, "the hub was away for a moment"
    await world.pass_seconds(10)
    assert len(hub.reports) == 3
    world.now = activity()
    await world.pass_seconds(30)
    hub.status, world.now = 503, activity("busy")
    count = len(hub.reports)
    await world.pass_seconds(60)
    assert 6 <= len(hub.reports) - count <= 13, "a hub that is away is not asked each second"


async def test_where_nobody_asks_it_is_seldom_told(hub: Hub, world: World) -> None:
    hub.answer["again_seconds"] = 600
    await world.pass_seconds(10)
    world.now = activity("busy")
    await world.pass_seconds(500)
    assert len(hub.reports) == 1
    hub.status = 404
    await world.pass_seconds(4000)
    assert len(hub.reports) == 3, "an older hub is asked each hour"


async def test_a_server_whose_managers_fail_goes_on(hub: Hub, world: World) -> None:
    def fails() -> Any:
        raise RuntimeError("a gateway is away")

    world.activity = fails
    await world.pass_seconds(100)
    assert hub.reports == []


@all_of_them("answer, seconds", {
    "nothing": (None, 3600), "a text": ("soon", 3600), "no number": ({"again_seconds": "1"}, 3600),
    "too often": ({"again_seconds": -1}, 5), "never": ({"again_seconds": 1e300}, 3600), "true": ({"again_seconds": True}, 3600),
    "NaN": ({"again_seconds": float("nan")}, 3600),
})  # fmt: skip
def test_a_strange_hub_cannot_make_it_ask_often(answer: object, seconds: float) -> None:
    reports = ActivityReports({}, activity, SetClock(0.0))
    reports.take(answer, 0.0)
    assert reports.next_at == seconds


@all_of_them("found, sentence", {
    "none": (None, None), "a text": ("idle", None), "no sentence": ({"may_keep": True}, None),
    "control characters": ({"sentence": "a\x1b[2J\nb", "may_keep": "yes"}, "a [2J b"),
})  # fmt: skip
def test_a_strange_warning(found: object, sentence: str | None) -> None:
    read = read_warning(found)
    assert (read["sentence"] if read is not None else None) == sentence
    assert read is None or read["may_keep"] is False


def test_what_jupyter_says_is_what_the_hub_reads() -> None:
    models = {
        "a": {"execution_state": "busy", "last_activity": datetime(2026, 3, 2, 9, tzinfo=UTC), "connections": 2},
        "b": {"execution_state": "idle", "last_activity": "2026-03-02T09:00:00.000000Z", "connections": 1},
    }
    kernels = SimpleNamespace(list_kernel_ids=lambda: list(models), kernel_model=models.__getitem__)
    terminals = SimpleNamespace(list=lambda: [{"name": "1", "last_activity": "2026-03-02T09:00:00.000000Z"}])
    settings: dict[str, Any] = {"terminal_manager": terminals}
    server = SimpleNamespace(kernel_manager=kernels, web_app=SimpleNamespace(settings=settings))
    found = read_activity(json.loads(json.dumps(activity_of_server(server))))
    assert [each.state for each in found.kernels] == [KernelState.BUSY, KernelState.IDLE]
    assert (len(found.terminals), found.connections) == (1, 3)
    settings.clear()
    assert read_activity(activity_of_server(server)).terminals == ()
