"""Figures of classes with a cluster: before, during and after a class, after a restart, and messages about a No."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler

from dra_spawner import names
from dra_spawner.scale_ahead.calendars.class_limits import read_class_limits
from dra_spawner.service.ahead.class_messages import ClassMessages, read_message_target
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.http.classes import class_handlers, classes_page
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.local_server import serving, serving_tornado
from tests.log_messages import log_messages
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.ports import free_port
from tests.service.open_service import open_to_all
from tests.service.replica import Replica, publish_settings, replica, server_objects, set_up

GPU = shape(WHOLE)
OPEN = (
    ("classes", open_to_all(class_handlers.ClassesHandler)),
    ("classes-page", open_to_all(classes_page.ClassesPage)),
)
#: Users of a class about which the webhook takes no message.
REFUSED = 40
SETTINGS: dict[str, Any] = {"placeholders": {"gpu-whole": {"min": 2, "max": 2}}, "scale_ahead": "act"}


def class_at(begins: datetime, users: int) -> dict[str, Any]:
    return {"name": "Lab", "choice": "gpu-whole", "users": users, "begins": f"{begins:%Y-%m-%d %H:%M}", "minutes": 60}


def runner_of(service: Replica) -> ScaleAheadRunner:
    assert service.context.scale_ahead is not None
    return service.context.scale_ahead


async def set_out(cluster: ClusterUnderTest) -> None:
    await set_up(cluster, {"gpu-whole": GPU}, *node("n1", whole("gpu-0"), whole("gpu-1")))
    await publish_settings(cluster)


def skip(service: Replica, real: Callable[[], datetime], time: timedelta) -> None:
    """Let figures of classes be asked for later: no class begins while a test waits."""
    service.controller.now = lambda: real() + time


async def sentence(service: Replica, part: str = "next") -> str:
    (found,) = (await service.get_json("classes"))["items"]
    return str(found[part]["sentence"])


async def test_before_during_and_after_a_class(embedded_cluster: ClusterUnderTest) -> None:
    await set_out(embedded_cluster)
    async with replica(embedded_cluster, more=OPEN, **SETTINGS) as service:
        await service.until_warm(GPU, 2)
        real = service.controller.now
        begins = real() + timedelta(minutes=2)
        status, made, _ = await service.send("POST", "classes", class_at(begins, 2))
        assert (status, made["by"]) == (201, "user ada"), made
        figures = runner_of(service).class_figures
        await figures.store()
        template, trial = server_objects("trial", GPU, WHOLE)
        trial["metadata"]["labels"][names.TRIAL] = names.TRUE
        await embedded_cluster.publish(template, trial)
        await service.until(lambda: bool(service.controller.view().users_of_node), "a server of `try` runs")
        skip(service, real, timedelta(minutes=4))
        assert await sentence(service) == "0 of 2 have a server", "it is nobody who came"
        skip(service, real, timedelta(0))
        await embedded_cluster.admin.delete(embedded_cluster.path("pods", "trial"))
        await service.until_warm(GPU, 2)
        assert (await sentence(service)).startswith("2 of 2 prepared, ready since "), await service.get("classes")
        await service.start(GPU, "ada", WHOLE, await service.place(GPU, "ada"))
        await service.until(lambda: len(service.controller.view().users) == 1, "the server is seen")
        await service.until(lambda: bool(service.controller.view().users_of_node), "it has a node")
        skip(service, real, timedelta(minutes=4))
        await service.until(
            lambda: figures.progress(figures_of(service))[figures_of(service)[0]].came == 1, "it is counted"
        )
        await embedded_cluster.publish(*server_objects("ben", GPU, WHOLE), *server_objects("cleo", GPU, WHOLE))
        await service.until(lambda: len(service.controller.view().users) == 3, "all are seen")

        def one_waits() -> bool:
            found = figures.progress(figures_of(service))[figures_of(service)[0]]
            return (found.running, found.waiting) == (2, 1)

        await service.until(one_waits, "one has no device")
        skip(service, real, timedelta(minutes=5))
        assert (await sentence(service)).startswith("2 of 2 have a server, 1 waits"), await service.get("classes")
        skip(service, real, timedelta(minutes=60))
        await figures.store()
        skip(service, real, timedelta(hours=2))
        assert (await sentence(service, "last")).startswith("2 came, the longest waited ")
    async with replica(embedded_cluster, more=OPEN, **SETTINGS) as service:
        await service.until(lambda: bool(service.controller.overrides.present.entries), "the class is read")
        skip(service, service.controller.now, timedelta(hours=2))
        assert (await sentence(service, "last")).startswith("2 came, the longest waited "), "it is kept"


def figures_of(service: Replica) -> list[Any]:
    controller = service.controller
    return list(controller.scale_ahead.calendars.occurrences(controller.now(), timedelta(days=1)))


async def test_a_webhook_that_is_away_or_slow_is_told_without_its_address(embedded_cluster: ClusterUnderTest) -> None:
    release = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    await set_out(embedded_cluster)
    async with serving(hang) as slow, replica(embedded_cluster, more=OPEN, **SETTINGS) as service:
        await service.until_warm(GPU, 2)
        runner, begins = runner_of(service), service.controller.now() + timedelta(days=3)
        assert (await service.send("POST", "classes", class_at(begins, 50)))[0] == 201
        await runner.class_rehearsals.refresh()
        await runner.class_figures.store()
        for url, seconds, says in (
            (slow, 0.1, "does not answer within 0.1 s"),
            (f"http://127.0.0.1:{free_port()}/secret", 60, "cannot be reached (ClientConnectorError)"),
        ):
            target = read_message_target({"url": url, "timeout_seconds": seconds})
            messages = ClassMessages(service.controller, target, runner.classes.owner_of_time)
            await messages.send()
            assert messages.problems() == (f"Messages about classes cannot be sent: the webhook {says}.",)
        release.set()


async def test_a_message_says_once_that_a_verdict_is_no(
    embedded_cluster: ClusterUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    got: list[Any] = []
    statuses = [503, 503, 500, 204, 204]

    class Hook(RequestHandler):
        def post(self) -> None:
            got.append(json.loads(self.request.body))
            self.set_status(400 if got[-1]["users"] == REFUSED else statuses.pop(0))

    await set_out(embedded_cluster)
    async with (
        serving_tornado(HTTPServer(Application([("/hook", Hook)]))) as url,
        replica(embedded_cluster, more=OPEN, **SETTINGS) as service,
    ):
        service.context.class_limits = read_class_limits({"*": {"users": 900}})
        await service.until_warm(GPU, 2)
        runner, begins = runner_of(service), service.controller.now() + timedelta(days=3)
        assert (await service.send("POST", "classes", class_at(begins, 50)))[0] == 201
        await runner.class_rehearsals.refresh()
        await runner.class_figures.store()
        target = read_message_target({"url": f"{url}/hook"})
        messages = ClassMessages(service.controller, target, runner.classes.owner_of_time)
        for _ in range(3):
            await messages.send()
        assert messages.problems() == ("Messages about classes cannot be sent: the webhook answers with status 500.",)
        await messages.send()
        await messages.send()
        assert (len(got), messages.problems()) == (4, ())
        failed = "Messages about classes cannot be sent: error=the webhook answers with status"
        again = "Messages about classes are sent again."
        assert log_messages(caplog, ClassMessages.__module__) == [f"{failed} 503", f"{failed} 500", again]
        assert got[1]["verdict"].startswith("No: 48 of 50 users"), got
        assert {key: got[1][key] for key in ("event", "class", "choice", "choice_title", "users", "announced_by")} == {
            "event": "verdict-turned-to-no",
            "class": "Lab",
            "choice": "gpu-whole",
            "choice_title": "gpu-whole",
            "users": 50,
            "announced_by": "user ada",
        }
        page = await service.get("classes-page")
        assert 'role="alert"' in page.partition("<dialog")[0]
        assert "No: 48 of 50 users" in page
        (entry,) = (await service.get_json("forecasts"))["expected"]
        assert (entry["added_by"], entry["rehearsal"]["is_possible"]) == ("user ada", False)
        calendar = await service.get("calendar-page")
        assert "added by ada" in calendar
        assert "<small>rehearsed " in calendar

        for hours, users in ((-2, REFUSED), (-1, 60)):
            written = class_at(begins + timedelta(hours=hours), users)
            assert (await service.send("POST", "classes", written))[0] == 201
        await runner.class_rehearsals.refresh()
        await runner.class_figures.store()
        got.clear()
        for _ in range(3):
            await messages.send()
        assert [each["users"] for each in got] == [REFUSED, 60, REFUSED, REFUSED], "it keeps no other back"
        assert messages.problems() == ("Messages about classes cannot be sent: the webhook answers with status 400.",)
