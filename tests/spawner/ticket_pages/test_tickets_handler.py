"""The form for which users may join a queue: of each server, and of a hub's function that fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tornado.web import HTTPError

from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.ticket_pages import tickets_handler
from dra_spawner.spawner.ticket_pages.tickets_handler import user_form
from tests.spawner.hub_side import HubSide

GPU = {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}}


async def test_each_server_of_a_user_has_its_own_form(nowhere: HubSide) -> None:
    def profiles(spawner: Any) -> list[dict[str, Any]]:
        return [{"display_name": "GPU", "slug": spawner.name or "default", "kubespawner_override": GPU}]

    nowhere.spawner_config.profile_list = profiles
    ada = nowhere.user("ada")
    for server in ("", "lab", ""):
        form = await user_form(parts_of(nowhere.spawner(ada, server)))
        assert (list(form.choices.names()), form.has_devices(server or "default")) == ([server or "default"], True)


async def test_forms_of_users_who_are_gone_are_forgotten(nowhere: HubSide, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere.spawner_config.profile_list = [{"display_name": "GPU", "kubespawner_override": GPU}]
    clock: Any = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(tickets_handler, "time", clock)
    kept = []
    for number in range(9):
        clock.now += 10
        await user_form(parts_of(nowhere.user(f"user-{number}").spawner))
        await user_form(parts_of(nowhere.user("ada").spawner))
        kept.append(len(this_hub().shared("forms of tickets", dict)))
    assert kept == [2, 3, 4, 5, 5, 5, 5, 5, 5]


async def test_a_function_that_fails_is_logged_once_however_often_a_page_asks(
    nowhere: HubSide, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def profiles(spawner: Any) -> list[dict[str, Any]]:
        calls.append(spawner.name)
        raise (RuntimeError if spawner.name else HTTPError)(404, "no such course")

    nowhere.spawner_config.profile_list = profiles
    ada = nowhere.user("ada")
    for server, status in (("", 404), ("lab", 503)):
        parts = parts_of(nowhere.spawner(ada, server))
        log = parts.server.log
        for _ in range(20):
            with pytest.raises(HTTPError) as refused:
                await user_form(parts)
            assert refused.value.status_code == status
    assert calls.count("lab") == 1
    logged = [each for each in caplog.records if each.name == log.name and each.levelname == "ERROR"]
    assert [each.exc_info is not None for each in logged] == [True]
    assert "no such course" in caplog.text
