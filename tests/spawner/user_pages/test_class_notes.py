"""What a teacher reads on the hub's home page of the own classes, whatever the service says."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH

from dra_spawner.spawner.user_pages.hub_templates import extend_templates
from tests.spawner.hub_side import end_hub_side
from tests.spawner.service_stand_in import ServiceStandIn, service_of_the_hub

HUBS = FileSystemLoader(f"{DATA_FILES_PATH}/templates")
EVIL = "<script>alert(1)</script>"


def news(user: Any, name: Any = "Physics", sentence: Any = "60 of 60 prepared", **more: Any) -> Any:
    begins = "Mon 2036-11-24 14:00 CET"
    return {"user": user, "name": name, "begins": begins, "sentence": sentence, "is_problem": False, **more}


async def home(user: str = "ada") -> str:
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
        groups=groups, name=user, all_spawners=lambda include_default=True: iter([own]), server_url=str, spawner=own
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
    assert "Your class <strong>Biology</strong> at Mon 2036-11-24 14:00 CET: Choose “A GPU”." in part
    assert "&lt;script&gt;" in part
    assert 'alert-warning">Your class <strong>Gone</strong>' in part
    assert "href" not in part, "no address that its readers may not open"
    assert (part.count("<p"), EVIL in text) == (5, False)
    assert not [each["name"] for each in hidden if str(each["name"]) in part]
