"""A defect in any task of a leader's term: it is logged with the task's name, reported, and the task is begun again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.recorder import Recorder
from dra_spawner.history.settings import HistorySettings
from dra_spawner.placeholders.controller.answers.availability import Availability
from dra_spawner.placeholders.controller.history_feed import HistoryFeed
from dra_spawner.placeholders.controller.records.event_recorder import EventRecorder
from dra_spawner.placeholders.controller.sources.override_store import OverrideStore
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.controller.sources.shapes_source import ShapesSource
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.controller.policy_webhooks import PolicyWebhooks
from dra_spawner.service.ahead.class_figures import ClassFigures
from dra_spawner.service.ahead.class_messages import ClassMessages
from dra_spawner.service.ahead.class_rehearsals import ClassRehearsals
from dra_spawner.service.ahead.hub_spawns import HubSpawns, known_servers
from dra_spawner.service.ahead.rehearsals import Rehearsals
from dra_spawner.service.ahead.rehearsed_entries import RehearsedEntries
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.history_recording import HistoryRecording
from dra_spawner.service.wait_learning import WaitLearning
from tests.jumping_loop import let_pass, run_jumping
from tests.service.unstarted_watch import UnstartedWatch, unstarted_controller

OF_CONTROLLER: dict[str, tuple[Any, str]] = {
    "events": (EventRecorder, "run"),
    "orders": (OverrideStore, "forget_done_orders"),
}
OF_SERVICE: dict[str, tuple[Any, str]] = {
    "calendars": (CalendarBook, "run"),
    "webhooks": (PolicyWebhooks, "run"),
    "rehearsals of calendar entries": (RehearsedEntries, "run"),
    "rehearsals of classes": (ClassRehearsals, "run"),
    "figures of classes": (ClassFigures, "run"),
    "messages about classes": (ClassMessages, "run"),
    "pending spawns": (HubSpawns, "run"),
    "history": (HistoryFeed, "begin"),
    "history's database": (Recorder, "hanging"),
    "scale-ahead": (OverrideStore, "wait_synced"),
    "estimates of waits": (ShapesSource, "wait_synced"),
}
EACH = OF_CONTROLLER | OF_SERVICE


class Parts:
    """The parts of a service that leads."""

    def __init__(self, *, is_on: bool) -> None:
        settings = ControllerSettings("hub", replicas={"gpu": ReplicaRange(1, 1)} if is_on else {})
        self.controller = controller = unstarted_controller(settings)
        self.history = HistoryRecording(HistorySettings(keep=timedelta(0)), controller, DecisionLog())
        spawns = HubSpawns("http://127.0.0.1:9", "", lambda: controller.published, lambda: known_servers(controller))
        self.ahead = ScaleAheadRunner(controller, self.history, Rehearsals(controller), spawns)
        self.waits = WaitLearning(controller, Availability(controller), self.history)

    def problems(self) -> list[str]:
        found = (*self.controller.problems(), *self.history.problems(), *self.ahead.problems(), *self.waits.problems())
        return [each for each in found if each.startswith("The task ")]

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for each in (self.ahead, self.history, self.waits):
                await stack.enter_async_context(each.leading())
            yield


def plant(monkeypatch: pytest.MonkeyPatch, name: str, where: Any, attribute: str) -> list[float]:
    """Let it raise, a property only in the task of this name; the moments of its calls."""
    calls = list[float]()

    def fail(*_: object, **__: object) -> Any:
        task = asyncio.current_task()
        if is_property and (task is None or task.get_name() != name):
            return ""
        calls.append(asyncio.get_running_loop().time())
        raise RuntimeError("a planted defect")

    is_property = isinstance(getattr(where, attribute), property)
    monkeypatch.setattr(where, attribute, property(fail) if is_property else fail)
    return calls


def be_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def synced(_: object) -> None:
        pass

    for each in (UnstartedWatch, ShapesSource, OverrideStore):
        monkeypatch.setattr(each, "wait_synced", synced)


@pytest.mark.parametrize("name", EACH)
def test_it_is_logged_reported_and_begun_again(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    be_synced(monkeypatch)
    calls = plant(monkeypatch, name, *EACH[name])

    async def scene() -> None:
        parts = Parts(is_on=name in OF_SERVICE)
        async with parts.leading():
            lead = asyncio.ensure_future(parts.controller.lead(lambda: None)) if name in OF_CONTROLLER else None
            await let_pass(10)
            found = {each for each in EACH if any(f"task {each!r} has failed" in one for one in parts.problems())}
            assert name in found
            assert len({round(each) for each in calls}) >= 3, "it is begun again"
            others = found - {name}
            assert not others or EACH[name][1] == "wait_synced", "no other is harmed"
            if lead is not None:
                assert not lead.done()
                lead.cancel()
                await asyncio.wait((lead,))
                assert lead.cancelled()
        assert parts.problems() == [], "the term is over"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_jumping(scene())
    assert f"task={name}" in caplog.text
