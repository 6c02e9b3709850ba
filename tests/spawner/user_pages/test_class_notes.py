"""What a teacher reads on the hub's home page of the own classes, whatever the service says."""

from __future__ import annotations

import logging
import re
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH

from dra_spawner import names
from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.user_pages import class_notes
from dra_spawner.spawner.user_pages.hub_templates import extend_templates
from tests.all_of_them import all_of_them
from tests.spawner.hub_side import end_hub_side
from tests.spawner.service_stand_in import ServiceStandIn, service_of_the_hub

HUBS = FileSystemLoader(f"{DATA_FILES_PATH}/templates")
EVIL = "<script>alert(1)</script>"


def news(user: Any, name: Any = "Physics", sentence: Any = "60 of 60 prepared", **more: Any) -> Any:
    begins = "Mon 2036-11-24 14:00 CET"
    return {"user": user, "name": name, "begins": begins, "sentence": sentence, "is_problem": False, **more}


async def home(user: str = "ada", *servers: Any) -> str:
    """The page, as JupyterHub renders it."""
    environment = Environment(
        loader=ChoiceLoader([PrefixLoader({"templates": HUBS}), HUBS]), autoescape=True, enable_async=True
    )
    extend_templates({"jinja2_env": environment}, logging.getLogger("hub"))
    own = SimpleNamespace(
        name="", display_name="", active=False, ready=False, state={}, placeholder_service="dra-spawner"
    )
    groups = [SimpleNamespace(name="physics"), SimpleNamespace(name=EVIL)]
    reader = SimpleNamespace(
        groups=groups,
        name=user,
        all_spawners=lambda include_default=True: iter([own, *servers]),
        server_url=str,
        spawner=own,
    )
    return await environment.get_template("home.html").render_async(
        user=reader,
        default_server=own,
        static_url=lambda name, **_: name,
        logo_url="/logo",
        services=[],
        base_url="/hub/",
        parsed_scopes=[],
    )


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"items": [news("ada"), news("eve", "Chemistry")]}, ["text-center", "Physics", "60 of 60 prepared"]),
        ({"items": [news("ada", sentence="No: a quota is full.", is_problem=True)]}, ["alert", "No: a quota is full."]),
        ({"items": [news("ada", EVIL, EVIL)]}, ["&lt;script&gt;"]),
        ({"items": [news(["ada"]), 7, {"user": "ada", "name": {"a": 1}}]}, []),
        ({"items": "none"}, None),
        ([1], None),
    ],
    ids=["own class", "problem", "hostile text", "strange items", "no list", "no object"],
)
async def test_the_home_page_tells_of_own_classes(answer: Any, shown: list[str] | None) -> None:
    async with ServiceStandIn().listening() as service:
        service.class_news = answer
        with service_of_the_hub(service.url):
            text = await home()
    await end_hub_side()
    assert ('aria-label="Your classes"' in text) is (shown is not None)
    part = text[text.index("Your classes") :].partition("</div>")[0] if shown is not None else ""
    assert [each for each in shown or () if each not in part] == []
    assert EVIL not in text
    assert "Chemistry" not in text
    assert shown is None or 'href="/services/dra-spawner/classes"' in part


async def test_a_service_that_is_away_hides_no_page() -> None:
    for url in ("http://127.0.0.1:1", ""):
        with service_of_the_hub(url):
            assert "Your classes" not in await home()
        await end_hub_side()


async def test_members_of_a_group_read_of_its_classes_and_others_do_not() -> None:
    shown = [
        news("eve", "Biology", "Choose “A GPU”.", group="physics"),
        news("eve", EVIL, EVIL, group=EVIL),
        news("eve", "Gone", "It is cancelled.", group="physics", is_problem=True),
        *(news("eve", f"Lab {number}", group="physics") for number in range(5)),
    ]
    hidden = [
        news("eve", "Chemistry", group="chemistry"),
        news("ada", "Own", group="physics"),
        news("ada", "Odd", group=["physics"]),
        news("eve", "Latin", group=""),
        news("eve", "Greek"),
    ]
    async with ServiceStandIn().listening() as service:
        service.class_news = {"items": [*hidden, *shown]}
        with service_of_the_hub(service.url):
            text = await home()
    await end_hub_side()
    part = text[text.index("Your classes") :].partition("</div>")[0]
    assert "Your class <strong>Biology</strong>, Mon 2036-11-24 14:00 CET: Choose “A GPU”." in part
    assert "&lt;script&gt;" in part
    assert 'alert-warning">Your class <strong>Gone</strong>' in part
    assert "href" not in part, "no address that its readers may not open"
    assert (part.count("<p"), EVIL in text) == (5, False)
    assert not [each["name"] for each in hidden if str(each["name"]) in part]


def server(shape: str | None, *, runs: bool, pending: str | None = None) -> SimpleNamespace:
    """An active server; without a shape it has no pod yet, and with an empty one its pod tells none."""
    labels = {names.SHAPE: shape} if shape else {}
    pod = {"metadata": {"labels": labels}} if shape is not None else None
    page = SimpleNamespace(record=ServerRecord())
    for name in ("trouble", "idle_note", "kept_note", "device_note", "begin_device_look"):
        setattr(page, name, "" if name == "trouble" else lambda: None)
    parts = SimpleNamespace(server=SimpleNamespace(pod=lambda: pod), home=page)
    return SimpleNamespace(name="lab", display_name="", active=True, ready=runs, pending=pending, state={}, _dra=parts)


@all_of_them(
    "servers, said",
    {
        "none": ([], "Choose it."),
        "ordered just now": ([server(None, runs=False, pending="spawn")], "It begins."),
        "its pod tells no choice": ([server("", runs=False, pending="spawn")], "It begins."),
        "starts": ([server("gpu", runs=False, pending="spawn")], "It starts."),
        "runs": ([server("cpu", runs=True), server("gpu", runs=True)], "You have it."),
        "another starts": ([server("cpu", runs=False, pending="spawn")], "You have another."),
        "one without devices runs": ([server("", runs=True)], "You have another."),
        "stops": ([server("gpu", runs=True, pending="stop")], "Choose it."),
    },
)
async def test_a_member_reads_what_is_so_of_the_own_server(servers: list[Any], said: str) -> None:
    own = {
        "shape": "gpu",
        "has": "You have it.",
        "begins": "It begins.",
        "starts": "It starts.",
        "other": "You have another.",
    }
    lab = news("eve", "Lab", "Choose it.", group="physics", is_problem=True, own_server=own)
    later = news("eve", "Later", "Choose that.", group="physics")
    async with ServiceStandIn().listening() as service:
        service.class_news = {"items": [lab, later]}
        with service_of_the_hub(service.url):
            text = await home("ada", *servers)
    await end_hub_side()
    part = text[text.index("Your classes") :].partition("</div>")[0]
    assert re.findall(r"CET: ([^<]*)</p>", part) == [said, "Choose that."]
    assert ("alert" in part) == (said not in ("You have it.", "It begins.", "It starts."))


async def test_a_failure_of_the_service_is_not_taken_for_no_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [100.0]
    monkeypatch.setattr(class_notes, "monotonic", lambda: times[-1])
    async with ServiceStandIn().listening() as service:
        with service_of_the_hub(service.url):
            service.class_news = {"items": [news("ada")]}
            assert "Physics" in await home()
            service.class_news = lambda: web.json_response({"detail": "No."}, status=503)
            times.append(200.0)
            assert "Physics" in await home()
            times.append(500.0)
            assert "Physics" not in await home(), "what is known is old"
    await end_hub_side()


async def test_the_home_page_says_what_is_so_when_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many loads at once are one question."""
    times = [100.0]
    monkeypatch.setattr(class_notes, "monotonic", lambda: times[-1])
    async with ServiceStandIn().listening() as service:
        with service_of_the_hub(service.url):
            for at, sentence, shown in ((100.0, "one", "one"), (101.0, "two", "one"), (102.5, "two", "two")):
                times.append(at)
                service.class_news = {"items": [news("ada", sentence=f"Sentence {sentence}.")]}
                assert f"Sentence {shown}." in await home(), at
    await end_hub_side()
