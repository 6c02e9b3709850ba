"""Calendar entries that administrators add: stored in the cluster, and refused if they make no sense."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.ahead.added_entries import AddedEntries
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually
from tests.service.replica import publish_settings

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
CLASS = {"users": "350 of gpu-slice", "begins": "2026-03-02 17:00"}
ADA = "user ada"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[HistoryDatabase]:
    found = HistoryDatabase.open(f"sqlite:///{tmp_path}/history.sqlite")
    yield found
    found.close()


def store(path: Path, name: str, text: str) -> None:
    """As an earlier version stored an entry."""
    with contextlib.closing(sqlite3.connect(path / "history.sqlite")) as another, another:
        another.execute("INSERT INTO calendar_entries (id, entry, created) VALUES (?, ?, 0)", (name, text))


@contextlib.asynccontextmanager
async def leader(cluster: ClusterUnderTest) -> AsyncIterator[ScaleAheadController]:
    api: KubernetesApi = cluster.admin
    settings = ControllerSettings(cluster.namespace, {"gpu-slice": ReplicaRange(1, 9)})
    async with ScaleAheadController(api, ClusterWatch(api), DecisionLog(), settings, now=lambda: NOW) as found:
        await found.overrides.wait_synced()
        yield found


def entries_of(controller: ScaleAheadController, database: HistoryDatabase | None = None) -> AddedEntries:
    found = AddedEntries(controller, lambda: database, has_history=database is not None)
    found.begin()
    return found


async def test_an_entry_is_used_by_the_leader_and_known_to_all(embedded_cluster: ClusterUnderTest) -> None:
    await publish_settings(embedded_cluster)
    async with leader(embedded_cluster) as first, leader(embedded_cluster) as second:
        entries, others = entries_of(first), entries_of(second)
        others.end()
        added = await entries.add({**CLASS, "name": "physics"}, ADA)
        (occurrence,) = first.scale_ahead.calendars.occurrences(NOW, timedelta(hours=12))
        assert (occurrence.name, occurrence.users, occurrence.source) == ("physics", 350, "api/calendar-entries")
        await eventually(lambda: others.items == entries.items == (added,), "the other replica knows it")
        assert second.scale_ahead.calendars.added == ()
        others.begin()
        assert second.scale_ahead.calendars.added == (added.entry,)
        await others.delete(added.id, ADA, lambda present: None)
        await eventually(lambda: first.scale_ahead.calendars.added == (), "it is gone")
        for wrong, path in (({}, "entry.users"), ([], "entry"), ({**CLASS, "begins": "soon"}, "entry.begins")):
            with pytest.raises(SettingsError) as refused:
                await entries.add(wrong, ADA)
            assert refused.value.problems[0].path == path
        assert entries.items == ()


async def test_entries_of_an_earlier_version_are_moved(
    embedded_cluster: ClusterUnderTest, database: HistoryDatabase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await publish_settings(embedded_cluster)
    for name, text in (("a", '{"users": "many"}'), ("b", "no JSON"), ("c", json.dumps(CLASS))):
        store(tmp_path, name, text)
    async with leader(embedded_cluster) as controller:
        entries = entries_of(controller, database)
        assert not controller.scale_ahead.calendars.is_complete(NOW)
        with contextlib.closing(sqlite3.connect(tmp_path / "history.sqlite")) as another:
            another.execute("ALTER TABLE calendar_entries RENAME TO elsewhere")
            for _ in range(3):  # the move is tried again each minute, and its failure is logged once
                await entries.move()
            assert caplog.text.count("Calendar entries cannot be read") == 1
            another.execute("ALTER TABLE elsewhere RENAME TO calendar_entries")
        await entries.move()
        assert [each.id for each in entries.items] == ["c"]
        assert controller.scale_ahead.calendars.is_complete(NOW)
        assert database.calendar_entries() == {}
