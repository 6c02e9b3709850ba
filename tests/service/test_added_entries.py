"""Calendar entries that administrators add: kept by the database, refused where they make no sense."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kubernetes_asyncio.client import ApiClient

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.controller.settings import ControllerSettings
from dra_spawner.placeholders.planner.policy import ReplicaRange
from dra_spawner.profiles.settings_reader import SettingsError
from dra_spawner.service.added_entries import AddedEntries, EntriesUnavailable
from tests.polling import eventually

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
CLASS = {"users": "350 of gpu-slice", "begins": "2026-03-02 17:00"}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[HistoryDatabase]:
    found = HistoryDatabase.open(f"sqlite:///{tmp_path}/history.sqlite")
    yield found
    found.close()


def controller(*, is_on: bool = True) -> PlaceholderController:
    api = KubernetesApi(ApiClient.__new__(ApiClient))  # nothing is asked of it
    settings = ControllerSettings("hub", {"gpu-slice": ReplicaRange(1, 9)} if is_on else {})
    return PlaceholderController(api, ClusterWatch(api), DecisionLog(), settings, now=lambda: NOW)


async def test_an_entry_is_used_and_outlives_its_replica(database: HistoryDatabase) -> None:
    first, second = controller(), controller()
    entries = AddedEntries(first, lambda: database, has_history=True)
    await entries.load()
    added = await entries.add({**CLASS, "name": "physics"})
    (occurrence,) = first.scale_ahead.calendars.occurrences(NOW, timedelta(hours=12))
    assert (occurrence.name, occurrence.users, occurrence.source) == ("physics", 350, "api/calendar-entries")
    after = AddedEntries(second, lambda: database, has_history=True)
    await after.load()
    assert after.items == entries.items == (added,)
    assert await after.delete(added.id)
    assert not await after.delete(added.id)
    assert second.scale_ahead.calendars.added == ()
    assert database.calendar_entries() == {}


async def test_an_entry_that_makes_no_sense_is_refused(database: HistoryDatabase) -> None:
    entries = AddedEntries(controller(), lambda: database, has_history=True)
    await entries.load()
    for wrong, path in (({}, "entry.users"), ([], "entry"), ({**CLASS, "begins": "soon"}, "entry.begins")):
        with pytest.raises(SettingsError) as refused:
            await entries.add(wrong)  # type: ignore[arg-type]
        assert refused.value.problems[0].path == path
    assert database.calendar_entries() == {}


async def test_what_another_version_wrote_is_left_out(database: HistoryDatabase) -> None:
    database.add_calendar_entry("a", '{"users": "many"}', NOW)
    database.add_calendar_entry("b", "no JSON", NOW)
    database.add_calendar_entry("c", '{"users": "9 of cpu", "begins": "2026-03-02 10:00"}', NOW)
    entries = AddedEntries(controller(), lambda: database, has_history=True)
    await entries.load()
    assert [each.id for each in entries.items] == ["c"]


async def test_without_a_database(database: HistoryDatabase) -> None:
    with pytest.raises(EntriesUnavailable, match="no placeholders"):
        await AddedEntries(controller(is_on=False), lambda: database, has_history=True).add(CLASS)
    with pytest.raises(EntriesUnavailable, match="no history"):
        await AddedEntries(controller(), lambda: None, has_history=False).add(CLASS)
    found = controller()
    entries = AddedEntries(found, lambda: None, has_history=True)
    calendars = found.scale_ahead.calendars
    assert calendars.is_complete(NOW)
    entries.begin()
    await entries.load()
    # What it cannot read yet may need placeholders; it waits for a day.
    assert not calendars.is_complete(NOW)
    assert calendars.is_complete(NOW + timedelta(days=1))
    with pytest.raises(EntriesUnavailable, match="not available"):
        await entries.add(CLASS)
    with pytest.raises(EntriesUnavailable, match="not available"):
        await entries.delete("a")


async def test_a_database_that_fails_keeps_what_is_known(database: HistoryDatabase, tmp_path: Path) -> None:
    found = controller()
    entries = AddedEntries(found, lambda: database, has_history=True)
    entries.begin()
    await entries.load()
    assert found.scale_ahead.calendars.is_complete(NOW)
    added = await entries.add(CLASS)
    with contextlib.closing(sqlite3.connect(tmp_path / "history.sqlite")) as another:
        another.execute("DROP TABLE calendar_entries")
    with pytest.raises(EntriesUnavailable, match="not available"):
        await entries.add(CLASS)
    with pytest.raises(EntriesUnavailable, match="not available"):
        await entries.delete(added.id)
    assert entries.items == (added,)
    entries.end()
    assert entries.items == ()
    assert found.scale_ahead.calendars.added == ()


async def test_entries_that_cannot_be_read_are_tried_again_each_minute_and_it_is_said_once(
    database: HistoryDatabase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database.add_calendar_entry("a", json.dumps(CLASS), NOW)
    entries = AddedEntries(controller(), lambda: database, has_history=True)
    with contextlib.closing(sqlite3.connect(tmp_path / "history.sqlite")) as another:
        another.execute("ALTER TABLE calendar_entries RENAME TO elsewhere")
        for _ in range(3):
            await entries.load()
        assert not entries.items
        assert caplog.text.count("Calendar entries cannot be read") == 1
        another.execute("ALTER TABLE elsewhere RENAME TO calendar_entries")
    await entries.load()
    assert [each.id for each in entries.items] == ["a"]


async def test_a_database_that_does_not_answer_is_not_waited_for(
    database: HistoryDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()

    class Hanging(HistoryDatabase):
        def __init__(self) -> None:
            pass

        def calendar_entries(self) -> dict[str, str]:
            assert release.wait(60)
            return {}

    hanging: HistoryDatabase = Hanging()
    entries = AddedEntries(controller(), lambda: hanging, has_history=True, answer_seconds=0.05)
    began = time.monotonic()
    for _ in range(5):
        await entries.load()
    assert time.monotonic() - began < 5
    assert caplog.text.count("Calendar entries cannot be read") == 1
    hanging = database
    release.set()
    await eventually(lambda: not [each for each in threading.enumerate() if each.name == "calendar entries"], "its end")
    await entries.load()
    assert await entries.add(CLASS)
