"""Rehearsals by POST: of a line, and of an entry that is not added yet."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.settings import HistorySettings
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.controller.sources.stored_overrides import overrides_data
from dra_spawner.placeholders.planner.targets.overrides import Overrides
from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.controller.demand_settings import read_demand
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.history_recording import HistoryRecording
from dra_spawner.service.http.api.rehearsal_handler import RehearsalsHandler
from dra_spawner.service.web_settings import WebSettings
from tests.placeholders.planner.objects import NAMESPACE
from tests.placeholders.planner.simulated_cluster import START
from tests.presence import present
from tests.service.ahead.acting_service import PHYSICS, TwoNodes, announce, controller
from tests.service.open_service import open_to_all, web_service
from tests.service.unstarted_watch import unstarted_controller


@pytest.fixture
def context() -> ServiceContext:
    return ServiceContext(WebSettings("/"), DecisionLog(), max_staleness_seconds=60)


@pytest.fixture
async def url(context: ServiceContext) -> AsyncIterator[str]:
    async with web_service(context, ("open", open_to_all(RehearsalsHandler))) as found:
        yield f"{found}/open"


async def post(url: str, body: Any) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with aiohttp.ClientSession() as session, session.post(url, data=data) as answer:
        return answer.status, await answer.json()


async def test_a_line_by_post(url: str, context: ServiceContext) -> None:
    service = controller()
    context.follow(service.watch, service)
    status, found = await post(url, {"line": "24 of gpu-slice at 10:00"})
    assert status == 200
    assert found["verdict"] == "Only if a calendar entry announces them: 24 users can start at 10:00."
    assert found["orders"][0]["template_node"] == "a"
    # An entry that announces the same is taken for these users; others are beside them.
    announce(service, {**PHYSICS, "users": "24 of gpu-slice"})
    _, found = await post(url, {"line": "24 of gpu-slice at 10:00"})
    assert found["verdict"] == "Yes: 24 users can start at 10:00; 1 node of g2 is ordered at 09:45."
    _, found = await post(url, {"line": "8 of gpu-slice at 10:10"})
    assert found["verdict"].startswith("Only if a calendar entry announces them: 8 users can start")
    assert "physics (24 users)" in found["problems"][-1]["message"]
    service.scale_ahead.calendars = CalendarBook()
    more = {"zone": "Europe/Berlin", "lead_minutes": 20, "image_minutes": 1.5, "margin_minutes": 0}
    _, found = await post(url, {"line": "24 of gpu-slice at 11:00", **more})
    assert found["first_order_at"] == "2026-03-02T10:38:30+01:00"


async def test_an_entry_keeps_the_verdict_that_the_dialog_has_found(url: str, context: ServiceContext) -> None:
    service = controller()
    context.follow(service.watch, service)
    written = {"users": "20 of gpu-slice", "begins": "2026-03-04 10:00", "timezone": "UTC"}
    status, problem = await post(url, {"entry": written})
    assert (status, problem["detail"]) == (503, "The cluster is not found yet.")
    recording = HistoryRecording(HistorySettings(), service, context.decisions)
    context.scale_ahead = runner = ScaleAheadRunner(service, recording, present(context.rehearsals))
    status, found = await post(url, {"entry": written})
    assert (status, found["verdict"][:46]) == (200, "Yes: 20 users can start on 2026-03-04 at 10:00")
    settings = Overrides().with_entry("physics", written, "user ada", START)
    service.overrides.put({"metadata": {"resourceVersion": "1"}, "data": overrides_data(settings)})
    (added,) = runner.added.items
    time = present(runner.class_rehearsals.next_time(added.entry))
    outcome = runner.class_figures.outcome_of(time)
    assert (outcome.verdict, present(outcome.rehearsed_at).isoformat()) == (found["verdict"], found["now"])
    for wrong, detail, code in (
        ({**written, "begins": "2026-03-01 10:00"}, "The entry has begun already.", 409),
        ({**written, "users": "20 of gpu"}, "The hub publishes no choice gpu.", 409),
        ({"users": "20 of gpu-slice"}, "entry.begins", 400),
        (3, "entry: ", 400),
    ):
        status, problem = await post(url, {"entry": wrong})
        assert (status, detail in problem["detail"]) == (code, True), problem


async def test_the_settings_of_demand_count_for_what_a_question_does_not_name(
    url: str, context: ServiceContext
) -> None:
    """The lead time of kinds of nodes without recorded ones, and the margin before the begin."""
    service = controller()
    options = read_demand({"node_lead_minutes": 20, "calendar_margin_minutes": 15})
    service.scale_ahead.settings = replace(service.scale_ahead.settings, options=options)
    context.follow(service.watch, service)
    line = {"line": "24 of gpu-slice at 10:00"}
    ordered = [(await post(url, {**line, **more}))[1]["first_order_at"][11:16] for more in ({}, {"margin_minutes": 0})]
    assert ordered == ["09:25", "09:40"]


NOW_LINE = {"line": "1 of gpu-slice now"}
WRONG_QUESTIONS: list[tuple[Any, str]] = [
    (b"{", "The body must be JSON."),
    ([], "The body must be a JSON object."),
    ({}, "line: nothing found; allowed: a line like"),
    ({"line": 3}, "line: found 3; allowed: a line like"),
    ({"line": "1 of a now\x00"}, "line: found '1 of a now\\x00'; allowed"),
    ({"line": "1 of gpu now"}, "line: found the profile 'gpu'; the hub publishes gpu-slice."),
    ({"line": "1 of gpu-slice at 8:00"}, "this one is past."),
    ({**NOW_LINE, "zone": "Mars"}, "zone: found 'Mars'; allowed: a time zone"),
    ({**NOW_LINE, "zone": "../../etc/passwd"}, "zone: found"),
    ({**NOW_LINE, "zone": ["UTC"]}, "zone: found ['UTC']"),
    ({**NOW_LINE, "lead_minutes": -1}, "lead_minutes: found -1; allowed: 0 to 10080."),
    ({**NOW_LINE, "lead_minutes": True}, "lead_minutes: found True"),
    (b'{"line": "1 of gpu-slice now", "margin_minutes": NaN}', "margin_minutes: found nan"),
    ({**NOW_LINE, "users": 3}, "users: not known; allowed: line, zone"),
    ({**NOW_LINE, "entry": {}}, "entry: allowed: alone"),
]


async def test_errors_in_questions_are_reported(url: str, context: ServiceContext) -> None:
    context.follow((service := controller()).watch, service)
    answers = [(body, detail, *await post(url, body)) for body, detail in WRONG_QUESTIONS]
    assert [each for each in answers if each[2] != 400 or each[1] not in each[3]["detail"]] == []


async def test_before_the_cluster_and_the_profiles_are_known(
    url: str, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = {"line": "24 of gpu-slice now"}
    status, found = await post(url, question)
    assert (status, found["detail"]) == (503, "The cluster is not read completely yet.")
    service = controller()
    context.follow(service.watch, service)
    monkeypatch.setattr(TwoNodes, "is_read", False)
    assert (await post(url, question))[0] == 503
    monkeypatch.undo()
    unpublished = unstarted_controller(ControllerSettings(NAMESPACE), TwoNodes())
    context.follow(unpublished.watch, unpublished)
    status, found = await post(url, question)
    assert (status, found["detail"]) == (503, "The profiles are not known: no placeholders are configured.")
