"""What teachers and members of a group read of a class: no key of a choice, and only what they may know."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.scale_ahead.calendars.class_limits import read_class_limits
from dra_spawner.scale_ahead.calendars.class_progress import own_server_sentences
from dra_spawner.service.http.api import calendar_entry_handlers
from dra_spawner.service.http.classes import class_handlers, class_news, classes_page, request_handlers
from dra_spawner.service.http.classes.class_feed import calendar_lines
from dra_spawner.service.http.classes.class_json import nearest_times
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape
from tests.service.open_service import open_to_all
from tests.service.replica import Replica, publish_settings, publish_shapes, replica

GPU = shape(WHOLE)
SLUG, TITLE = "zz-key", "A whole GPU"
ANSWERS = {
    "classes": class_handlers.ClassesHandler,
    "classes/{id}": class_handlers.ClassHandler,
    "class-rehearsals": class_handlers.ClassRehearsalsHandler,
    "class-requests": request_handlers.ClassRequestsHandler,
    "page": classes_page.ClassesPage,
    "news": class_news.ClassNewsHandler,
    "entries/{id}": calendar_entry_handlers.CalendarEntryHandler,
}
PEOPLE = {"ada": names.ANNOUNCE_SCOPE, "root": names.OPERATE_SCOPE}
OPEN = tuple(
    (f"{user}/{address}", open_to_all(handler, user, scope))
    for user, scope in PEOPLE.items()
    for address, handler in ANSWERS.items()
)


def lab(begins: datetime, users: int, name: str = "Lab", **more: Any) -> dict[str, Any]:
    begin = f"{begins:%Y-%m-%d %H:%M}"
    return {"name": name, "choice": SLUG, "users": users, "begins": begin, "minutes": 60, "group": "physics", **more}


def sentences(found: Any) -> Iterator[str]:
    """All texts of an answer but the key itself."""
    if isinstance(found, dict):
        for name, each in found.items():
            if name != "choice":
                yield from sentences(each)
    elif isinstance(found, list):
        for each in found:
            yield from sentences(each)
    elif isinstance(found, str):
        yield found


async def read_by_people(service: Replica) -> list[str]:
    """What a teacher reads on the page and gets from the API, what the feed says, and what the hub shows on *Home*."""
    page = html.unescape(re.sub(r"<[^>]*>", " ", await service.get("ada/page")))
    answers = [await service.get_json(f"{address}") for address in ("ada/classes", "ada/class-requests", "root/news")]
    runner, now = service.context.scale_ahead, service.controller.now()
    assert runner is not None
    times = [each for added in runner.added.items for each in nearest_times(added.entry, now) if each is not None]
    feed = calendar_lines([(each, runner.class_figures.outcome_of(each)) for each in times], now)
    return [page, *sentences(answers), "".join(feed)]


@pytest.mark.parametrize("mode", ["act", "advise"])
async def test_no_sentence_has_the_key_of_a_choice(embedded_cluster: ClusterUnderTest, mode: str) -> None:
    await prepare(embedded_cluster, *node("n1", whole("gpu-0"), whole("gpu-1")))
    none = {
        "requests": [
            {
                "name": "d",
                "exactly": {
                    "deviceClassName": "gpu.example.com",
                    "selectors": [{"cel": {"expression": "device.driver == 'other'"}}],
                },
            }
        ]
    }
    shapes = {SLUG: GPU, f"{SLUG}-odd": shape({"gpu": {"devices": none}})}
    titles = {SLUG: TITLE, f"{SLUG}-odd": "No such GPU"}
    await publish_shapes(embedded_cluster, shapes, titles=titles)
    await publish_settings(embedded_cluster)
    settings: dict[str, Any] = {"placeholders": {SLUG: {"min": 2, "max": 2}}, "scale_ahead": mode}
    read: list[str] = []
    async with replica(embedded_cluster, more=OPEN, **settings) as service:
        service.context.class_limits = read_class_limits({"*": {"users": 60, "choices": [SLUG, f"{SLUG}-odd"]}})
        await service.until_warm(GPU, 2)
        begins = service.controller.now() + timedelta(minutes=90)
        for written in (
            lab(begins, 2),
            lab(begins + timedelta(hours=3), 50, "Large"),
            lab(begins, 2, "Odd", choice=f"{SLUG}-odd"),
        ):
            status, made, _ = await service.send("POST", "ada/classes", written)
            assert status == 201, made
        for refused in (lab(begins, 2, choice=f"{SLUG}-gone"), lab(begins, 800)):
            for address in ("classes", "class-rehearsals", "class-requests"):
                read += sentences((await service.send("POST", f"ada/{address}", refused))[1])
        runner = service.context.scale_ahead
        assert runner is not None
        await runner.class_rehearsals.refresh()
        await runner.class_figures.store()
        read += await read_by_people(service)
        read += sentences((await service.send("POST", "ada/class-rehearsals", lab(begins, 5)))[1])
        told = {each["name"]: each for each in (await service.get_json("root/news"))["items"] if each["group"]}
        own = {each["name"]: each for each in (await service.get_json("root/news"))["items"] if not each["group"]}
        choose = f"Choose “{TITLE}” when you start your server."
        assert "no device of the cluster fits this choice" in own["Odd"]["sentence"]
        wait = "Perhaps not all can start at the same time, and some have to wait."
        assert (told["Large"]["sentence"], told["Large"]["is_problem"]) == (f"{wait} {choose}", True)
        if mode == "act":
            assert own["Lab"]["sentence"].startswith("2 of 2 prepared, ready since "), own
            assert told["Lab"]["sentence"] == f"{choose} Everything is prepared."
        else:
            nothing = "2 servers are prepared at present, for anyone and not for this class"
            assert own["Lab"]["sentence"] == nothing
            assert told["Lab"]["sentence"] == choose, "nothing is prepared for it"
            assert "their servers are prepared before" not in await service.get("ada/page")
            (first, *_) = (each["next"] for each in (await service.get_json("ada/classes"))["items"])
            assert (first["prepared"], first["ready_at"]) == (0, None)
        assert not any("own_server" in each for each in told.values()), "nobody comes yet"
        skip_to = service.controller.now
        service.controller.now = lambda: skip_to() + timedelta(minutes=90)
        items = (await service.get_json("root/news"))["items"]
        (now,) = (each for each in items if each["group"] and each["name"] == "Lab")
        assert now["own_server"] == {"shape": GPU.id, **own_server_sentences(TITLE)}
        service.controller.now = skip_to
        text = json.dumps([each["sentence"] for each in told.values()])
        assert not any(each in text for each in ("50", "No:", "Yes:", "2 of 2")), "figures are its teacher's"

        ids = {each["name"]: each["id"] for each in (await service.get_json("ada/classes"))["items"]}
        moved = lab(begins + timedelta(hours=1), 2)
        assert (await service.send("PUT", f"ada/classes/{ids['Lab']}", moved))[0] == 200
        assert (await service.send("DELETE", f"root/classes/{ids['Large']}"))[0] == 204
        items = (await service.get_json("root/news"))["items"]
        notices = [(each["user"], each["group"], each["name"], each["sentence"]) for each in items[:3]]
        at = f"{begins + timedelta(hours=1):%a %Y-%m-%d %H:%M} UTC"
        assert notices[0][3].startswith(f"It does not take place then. It is on {at}"), notices
        assert [each[:3] for each in notices] == [
            ("ada", "physics", "Lab"),
            *(("ada", g, "Large") for g in ("physics", "")),
        ]
        assert {each[3] for each in notices[1:]} == {"It is cancelled."}
        await publish_shapes(embedded_cluster, {"other": shape({})}, titles={"other": "No GPU"})
        await service.until(lambda: set(service.controller.published.shapes) == {"other"}, "the choice is gone")
        read += await read_by_people(service)
    assert [each for each in read if SLUG in each] == []
    assert any("a choice that is offered no longer" in each for each in read)
