"""Pages and answers of the web application, without a hub before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from dra_spawner.history.decision_log import Decision, DecisionLog
from dra_spawner.kube.cluster_watch import Change, ChangeType
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.api import handlers
from dra_spawner.service.http.pages import nodes_page
from dra_spawner.service.web_settings import WebSettings, cookie_secret
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.cluster.example_objects import gpu_class, gpu_slice
from tests.local_server import get
from tests.service.device_board import some_of_all
from tests.service.open_service import open_to_all, web_service
from tests.service.unstarted_watch import UnstartedWatch

EVIL = "<script>alert(1)</script>"


class Faulty(handlers.StatusHandler):
    async def get(self) -> None:
        raise RuntimeError("the password is secret")


@pytest.fixture
def context() -> ServiceContext:
    return ServiceContext(WebSettings("/"), DecisionLog(), max_staleness_seconds=60, node_pool_labels=("pool",))


@pytest.fixture
async def url(context: ServiceContext) -> AsyncIterator[str]:
    more = {"page": nodes_page.NodesPage, "decided": handlers.DecisionsHandler, "faulty": Faulty}
    async with web_service(context, *((name, open_to_all(each, EVIL)) for name, each in more.items())) as found:
        yield found


def filled() -> Any:
    watch = UnstartedWatch()
    labels = {"pool": EVIL}
    watch.put(Kind.NODE, {"kind": "Node", "metadata": {"name": "n1", "labels": labels}})
    watch.put(Kind.NODE, {"kind": "Node", "metadata": {"name": "n2"}, "spec": {"unschedulable": True}})
    watch.put(Kind.DEVICE_CLASS, gpu_class())
    for name in ("n1", "n2"):
        item = gpu_slice(name)
        item["spec"]["pool"]["resourceSliceCount"] = 1 if name == "n1" else 2
        watch.put(Kind.RESOURCE_SLICE, item)
    return watch


async def test_page_before_the_cluster_is_found(url: str, context: ServiceContext):
    context.startup_problem = f"The cluster cannot be found: {EVIL}\x1b[31m\x07\u202e\n\tgpü."
    status, text = await get(f"{url}/page")
    assert status == 200
    assert "The cluster is not found yet." in text
    assert "&lt;/script&gt;\ufffd[31m\ufffd\ufffd\n\tgpü." in text, "nothing hides text or turns it round"
    assert EVIL not in text


async def test_page_shows_known_and_unknown_devices(url: str, context: ServiceContext):
    context.follow(filled())
    status, text = await get(f"{url}/page")
    assert status == 200
    assert EVIL not in text, "foreign text in labels and names stays text"
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    assert "gpu-0: free 100 %" in text
    assert "cordoned" in text
    assert "unknown: pool gpu.example.com/n2: incomplete, generation 1 has 1 of 2 slices" in text


async def test_decisions_are_shown_with_their_reasons(url: str, context: ServiceContext):
    for number in range(3):
        at = datetime(2026, 11, 21, 12, 0, number, tzinfo=UTC)
        context.decisions.append(
            Decision(at, "preempted", f"Pod hub/p{number}", "A user waits for its device.", profile=f"gpu{number % 2}")
        )
    _, text = await get(f"{url}/decided?profile=gpu0&limit=1")
    assert json.loads(text) == {
        "items": [
            {
                "number": 3,
                "at": "2026-11-21T12:00:02+00:00",
                "kind": "preempted",
                "subject": "Pod hub/p2",
                "reason": "A user waits for its device.",
                "code": "",
                "node": "",
                "profile": "gpu0",
                "outcome": "",
                "details": {},
            }
        ],
        "continue": "Mw",
        "total": 3,
        "incomplete_because": "This replica does not lead, and no leader is known. "
        "Only the leader knows decisions and their reasons.",
    }
    _, text = await get(f"{url}/decided?profile=gpu0&limit=1&continue=Mw")
    answer = json.loads(text)
    assert ([each["number"] for each in answer["items"]], answer["continue"]) == ([1], "")
    _, text = await get(f"{url}/decided?after=2")
    assert [each["number"] for each in json.loads(text)["items"]] == [3]


async def test_the_text_of_an_unexpected_error_is_not_shown(url: str):
    status, text = await get(f"{url}/faulty")
    assert json.loads(text)["detail"] == "The service has failed. Its log has the cause."
    assert status == 500


async def test_without_a_hub_nobody_is_let_in(url: str):
    for path in ("/", "/api/nodes", "/api/decisions", "/api/status", "/metrics"):
        status, text = await get(url + path)
        assert status == 503, path
        assert "without a JupyterHub" in text
    assert (await get(f"{url}/static/style.css"))[0] == 200
    assert (await get(f"{url}/static/../settings.py"))[0] == 404


async def test_each_error_is_a_problem(url: str):
    expected = {("GET", path): 404 for path in ("nothing", "api/nodes/", "static/nothing.js", "static/")}
    expected |= {(method, "api/nodes"): 405 for method in ("POST", "OPTIONS", "TRACE", "STRANGE")}
    expected["POST", "static/style.css"] = 405
    found = {}
    for method, path in expected:
        async with aiohttp.ClientSession() as session, session.request(method, f"{url}/{path}") as answer:
            problem = json.loads(await answer.text())
            found[method, path] = answer.status
            assert answer.headers["Content-Type"] == "application/problem+json", (method, path)
            assert (problem["status"], problem["type"]) == (answer.status, "about:blank"), (method, path)
            assert problem["detail"].endswith("."), (method, path)
            assert ("Allow" in answer.headers) is (answer.status == 405), (method, path)
    assert found == expected


async def test_metrics_for_anybody(url: str, context: ServiceContext):
    context.web = WebSettings("/", authenticate_metrics=False)
    assert "dra_spawner_ready 0.0" in (await get(f"{url}/metrics"))[1]
    context.follow(filled())
    status, text = await get(f"{url}/metrics")
    assert status == 200
    assert "dra_spawner_staleness_seconds +Inf" in text
    assert "dra_spawner_nodes_with_unknown_utilization 1.0" in text
    escaped = EVIL
    assert f'dra_spawner_devices{{class="gpu.example.com",pool="{escaped}"}} 1.0' in text


async def test_series_of_devices_stay_when_the_devices_vanish(url: str, context: ServiceContext):
    context.web = WebSettings("/", authenticate_metrics=False)
    watch = some_of_all()
    assert isinstance(watch, UnstartedWatch)
    context.follow(watch)
    series = 'class="gpu.example.com",pool="whole"'
    _, text = await get(f"{url}/metrics")
    assert f"dra_spawner_missing_devices{{{series}}} 0.0" in text
    for name in list(watch.snapshot.slices):
        watch.snapshot.forget(Kind.RESOURCE_SLICE, ObjectKey("", name))
        watch.notify(Change(ChangeType.REMOVED, Kind.RESOURCE_SLICE, ObjectKey("", name), decides=True))
    _, text = await get(f"{url}/metrics")
    assert f"dra_spawner_devices{{{series}}} 0.0" in text
    assert 'dra_spawner_device_utilization_ratio{class="gpu.example.com",kind="share",pool="whole"} NaN' in text
    (missing,) = (line for line in text.splitlines() if line.startswith(f"dra_spawner_missing_devices{{{series}}}"))
    assert float(missing.split()[-1]) > 0


async def test_first_figures_are_computed_once_for_all_callers(context: ServiceContext):
    context.follow(filled())
    assert context.figures is not None
    await asyncio.gather(*(context.figures.refresh() for _ in range(3)))
    assert sum(each.devices for each in context.figures.by_class.values()) == 1


def test_cookies_outlive_a_restart():
    assert cookie_secret("token") == cookie_secret("token")
    assert cookie_secret("token") != cookie_secret("another")
    assert cookie_secret("") != cookie_secret("")
