"""Additions to the hub's pages leave the templates of administrators alone."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import jupyterhub
from jinja2 import ChoiceLoader, DictLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH

from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.progress.session_time import SessionTime
from dra_spawner.spawner.user_pages.hub_templates import extend_templates
from tests.all_of_them import all_of_them

LOG = logging.getLogger("hub")
HUBS = FileSystemLoader(f"{DATA_FILES_PATH}/templates")


def hub_environment(own=None):
    """An environment as JupyterHub makes it, with an administrator's templates."""
    loader = ChoiceLoader([PrefixLoader({"templates": HUBS}), DictLoader(own or {}), HUBS])
    environment = Environment(loader=loader, autoescape=True)
    extend_templates({"jinja2_env_sync": environment}, LOG)
    return environment


def user_with(*servers):
    return SimpleNamespace(
        name="ada", all_spawners=lambda include_default=True: iter(servers), server_url=str, spawner=servers[0]
    )


def server(name="", record=None, *, active=False, ready=False):
    record = record or ServerRecord()
    page = SimpleNamespace(
        record=record,
        trouble="",
        device_note=str,
        session=lambda: record.session,
        idle_note=lambda: None,
        kept_note=str,
    )
    return SimpleNamespace(
        name=name, display_name=name, _dra=SimpleNamespace(home=page), active=active, ready=ready, state={}
    )


def home(environment, *servers):
    page = environment.get_template("home.html")
    return page.render(
        user=user_with(*servers),
        default_server=server(),
        static_url=lambda name, **_: f"/static/{name}",
        logo_url="/logo",
        services=[],
        base_url="/hub/",
        parsed_scopes=[],
    )


@all_of_them("name", ["admin.html", "home.html", "not_running.html", "page.html", "spawn.html", "spawn_pending.html"])
def test_each_template_extends_one_of_this_jupyterhub_with_a_block_that_it_has(name):
    environment = hub_environment()
    template = environment.get_template(name)
    of_hub = HUBS.load(Environment(loader=HUBS), name)
    assert set(template.blocks) <= set(of_hub.blocks), jupyterhub.__version__


def test_the_first_script_of_the_page_of_a_start_is_the_hubs_own():
    """Programs that read the page take the address of the progress from its first script, as JupyterHub's tests do."""
    text = (
        hub_environment()
        .get_template("spawn_pending.html")
        .render(
            user=user_with(server()),
            static_url=lambda name, **_: name,
            base_url="/hub/",
            progress_url="/hub/progress",
            services=[],
            parsed_scopes=[],
        )
    )
    body = text[text.index("<body") :]
    assert body.index("EventSource") < body.index("dra-said", body.index("<script"))


def test_the_home_page_shows_devices_and_failures():
    text = home(
        hub_environment(),
        server(record=ServerRecord(place="15 GiB of gpu-3 on node-2, already prepared"), active=True, ready=True),
        server("second", ServerRecord.of_failure("All devices are in use.")),
    )
    assert "Your server has <strong>15 GiB of gpu-3 on node-2, already prepared</strong>." in text
    assert "<strong>Server second did not start</strong>" in text
    ending = server(record=ServerRecord(session=SessionTime(7200, 900, 7000.0)), active=True, ready=True)
    assert "<strong>Your server</strong>: It ends at " in home(hub_environment(), ending)
    assert "All devices are in use." in text


@all_of_them("page", ["home.html", "not_running.html", "spawn.html"])
def test_pages_say_why_a_server_was_ended(page):
    ended = server(record=ServerRecord.of_end("Node <n1> is gone."))
    template = hub_environment().get_template(page)
    known = {"default_server": ended, "static_url": lambda name, **_: name, "services": [], "parsed_scopes": []}
    for user, is_told in ((user_with(ended), True), (user_with(server()), False)):
        text = template.render(user=user, for_user=user, server_name="", base_url="/hub/", **known)
        assert ("<strong>Your server was ended</strong>" in text) is is_told
        assert ("Node &lt;n1&gt; is gone." in text) is is_told


def test_the_page_of_a_server_says_why_its_last_start_failed():
    """Also after a restart of the hub; before it, JupyterHub says that itself."""
    failed = server(record=ServerRecord.of_failure("All are in use."))
    template = hub_environment().get_template("not_running.html")
    known = {"default_server": failed, "static_url": lambda name, **_: name, "services": [], "parsed_scopes": []}
    for by_hub in (False, True):
        text = template.render(user=user_with(failed), server_name="", base_url="/hub/", failed=by_hub, **known)
        assert ("<strong>Your server did not start</strong>" in text) is not by_hub


def test_the_home_page_of_a_user_without_news_is_the_hubs_own():
    assert "dra-servers" not in home(hub_environment(), server(), server("second", active=True))


@all_of_them("page", ["home.html", "not_running.html", "spawn.html", "spawn_pending.html"])
def test_pages_have_the_queue_where_it_is_on(page):
    template = hub_environment().get_template(page)
    known = {"static_url": lambda name, **_: name, "services": [], "parsed_scopes": [], "xsrf_token": "</script>"}
    for is_on in (False, True):
        own = server("b &/c")
        own.tickets = is_on
        user = user_with(own)
        user.name = "ada & bob"
        text = template.render(
            user=user, for_user=user, spawner=own, server_name=own.name, default_server=own, base_url="/hub/", **known
        )
        assert [('id="dra-tickets"' in text), ('id="dra-tickets-data"' in text)] == [is_on, is_on]
        assert ("dra-spawner/tickets?user=ada%20%26%20bob" in text) is is_on
        assert '"</script>"' not in text


def test_foreign_text_stays_text():
    hostile = "<script>alert(1)</script>"
    text = home(hub_environment(), server(hostile, ServerRecord.of_failure(hostile)))
    assert hostile not in text
    assert text.count("&lt;script&gt;alert(1)") >= 2


def test_an_administrators_template_stays():
    own = {"home.html": '{% extends "templates/home.html" %}{% block main %}Hello!{{ super() }}{% endblock %}'}
    text = home(hub_environment(own), server("second", ServerRecord.of_failure("No.")))
    assert "draSpawnerTimes" in text[: text.index("<body")], "each page has the script of times"
    text = text[text.index("<body") :]
    assert text.index("did not start") < text.index("Hello!") < text.index("Start")


def test_a_template_without_the_block_is_shown_as_it_is():
    assert home(hub_environment({"home.html": "All mine"}), server("x", ServerRecord.of_failure("No."))) == "All mine"


def test_pages_are_extended_once():
    environment = hub_environment()
    loader = environment.loader
    extend_templates({"jinja2_env_sync": environment}, LOG)
    assert environment.loader is loader


def test_a_hub_without_pages_is_left_alone():
    extend_templates({}, LOG)
    extend_templates({"jinja2_env": None}, LOG)
