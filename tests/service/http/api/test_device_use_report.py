"""Who used the devices: a page and JSON from a real database, for administrators."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dra_spawner.fairness.budget_settings import read_budgets
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.records import Launch
from dra_spawner.history.settings import HistorySettings
from dra_spawner.history.user_names import UserNameMode
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.history_recording import HistoryRecording
from dra_spawner.service.http.api.history_report_handlers import UseHandler, UsePage
from dra_spawner.service.web_settings import WebSettings
from tests.local_server import get, serving
from tests.service.open_service import open_to_all, web_service
from tests.service.unstarted_watch import unstarted_controller

EVIL = "<script>alert(1)</script>"
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
GPU = "gpu.example.com"
BUDGETS = read_budgets({
    "policy": [
        {"limit": {"value": 5}, "window": 7, "scope": {"group": ["maths"]}},
        {"resource": "memory", "limit": {"value": 1}},
    ],
    "prices": {GPU: 2},
})  # fmt: skip


class Context(ServiceContext):
    """With a hub at an address."""

    hub_url = ""

    def _hub(self) -> tuple[str, str]:
        return self.hub_url, "secret"


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[Context]:
    found = Context(WebSettings("/"), DecisionLog(), 60, budgets=BUDGETS, now=lambda: NOW)
    settings = HistorySettings(f"sqlite:///{tmp_path / 'history.sqlite'}", user_names=UserNameMode.PLAIN)
    found.history = HistoryRecording(settings, unstarted_controller(), DecisionLog())
    found.history.recorder.resume(threaded=False)
    found.history.recorder.work()
    database = found.history.recorder.database
    assert database is not None

    def launch(uid: str, user: str, hours: float) -> Launch:
        asked = NOW - timedelta(days=2)
        more: Any = {"bound": asked, "ended": asked + timedelta(hours=hours), "devices": {GPU: 0.5}}
        return Launch(uid, asked, "gpu", "gpu/half", user, **more)

    database.add(
        (launch("1", EVIL, 12), launch("2", "bob", 4), Launch("3", NOW - timedelta(days=1), user="old", bound=NOW))
    )
    yield found
    database.close()


async def test_the_page_and_its_json(context: Context) -> None:
    async def hub(request: web.Request) -> web.Response:
        assert (request.path, request.headers["Authorization"]) == ("/hub/api/groups", "token secret")
        return web.json_response([{"name": "maths", "users": [EVIL]}])

    async with serving(hub) as address, web_service(context, *pages()) as url:
        context.hub_url = f"{address}/hub/api"
        status, text = await get(f"{url}/api/use")
        assert status == 200
        found = json.loads(text)
        assert found["deviceHours"] == {
            "byUser": {EVIL: 6, "bob": 2}, "byGroup": {"maths": 6}, "byChoice": {"gpu/half": 8},
        }  # fmt: skip
        assert (found["costByUser"], found["launchesWithUnknownDevices"]) == ({EVIL: 12, "bob": 4}, 1)
        assert [(each["subject"], each["isOver"]) for each in found["budgets"]] == [(EVIL, True)]
        status, page = await get(f"{url}/use")
    assert status == 200
    assert EVIL not in page
    for words in (
        "They held 8.0 device-hours",
        "5.0 h in 7 days",
        "over budget",
        "Nothing is enforced.",
        "memory is not",
    ):
        assert words in page, words


async def test_a_hub_that_does_not_tell_its_groups(context: Context) -> None:
    async def hub(request: web.Request) -> web.Response:
        return web.json_response({"status": 403, "message": "Missing scopes"}, status=403)

    async with serving(hub) as address, web_service(context, *pages()) as url:
        context.hub_url = f"{address}/hub/api"
        status, page = await get(f"{url}/use")
    assert status == 200, "the rest is known"
    assert "Groups are not known: the hub does not tell them to the service." in page
    assert "secret" not in page


async def test_without_a_history(context: Context) -> None:
    context.history = None
    async with web_service(context, *pages()) as url:
        status, text = await get(f"{url}/api/use")
    assert status == 503
    assert "history" in json.loads(text)["detail"]


def pages() -> tuple[Any, ...]:
    return ("use", open_to_all(UsePage, "")), ("api/use", open_to_all(UseHandler, ""))
