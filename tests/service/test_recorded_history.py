"""The service keeps a history while it leads: its settings, records on a cluster, and a database that fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from traitlets import TraitError

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.recorder import Recorder, RecorderLimits
from dra_spawner.history.records import Launch, WaitCause
from dra_spawner.history.settings import IN_MEMORY, HistorySettings, default_url
from dra_spawner.history.user_names import UserNameMode
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.service import context, history_recording
from dra_spawner.service.ahead.rehearsals import Rehearsals
from dra_spawner.service.application import DRASpawnerService
from dra_spawner.service.history_recording import HistoryLearning, HistoryRecording
from dra_spawner.service.metrics.history_metrics import register_history
from dra_spawner.service.traits.history_settings import read_history
from tests.all_of_them import all_of_them
from tests.cluster.under_test import ClusterUnderTest
from tests.history.conftest import postgresql
from tests.history.postgresql import PostgresqlServer
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, claim_spec, node, shape
from tests.polling import eventually
from tests.service.replica import Replica, replica, set_up
from tests.service.unstarted_watch import unstarted_controller

__all__ = ["postgresql"]

GPU = shape({"gpu": claim_spec()})
TRAITS: dict[str, Any] = {"placeholders": {"gpu": {"min": 1}}}


class QuickRecorder(Recorder):
    """It writes and tries again soon, and counts failed attempts."""

    failures = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        limits = RecorderLimits(interval=0.02, first_retry=0.02, longest_retry=0.2)
        super().__init__(*arguments, limits=limits, **options)

    def work(self) -> float:
        wait = super().work()
        self.failures += bool(self.problem)
        return wait


@pytest.fixture(autouse=True)
def quick_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_recording, "Recorder", QuickRecorder)


@all_of_them("value, expected", {
    "nothing": ({}, HistorySettings()),
    "no history": ({"keep_days": 0}, HistorySettings(keep=timedelta(0))),
    "all": (
        {"url": "sqlite:////a/b", "keep_days": 30, "user_names": "plain", "key_file": "/k"},
        HistorySettings("sqlite:////a/b", timedelta(days=30), UserNameMode.PLAIN, "/k"),
    ),
    "postgresql": ({"url": "postgresql://db/h"}, HistorySettings("postgresql://db/h")),
})  # fmt: skip
def test_accepted(value: Any, expected: HistorySettings) -> None:
    assert read_history(value) == expected
    assert DRASpawnerService(history=value).history_settings() == expected


@all_of_them("value, problem", [
    ([], 'history: found []; allowed: a mapping like {"keep_days": 365}'),
    ({"days": 1}, "history.days: found 'days'; allowed: the keys url, keep_days, user_names, key_file"),
    ({"keep_days": -1}, "history.keep_days: found -1; allowed: a whole number from 0 to 3650"),
    ({"keep_days": True}, "history.keep_days: found True; allowed: a whole number from 0 to 3650"),
    ({"user_names": "secret"}, "history.user_names: found 'secret'; allowed: hashed or plain"),
    ({"url": "/var/lib/h"}, "history.url: found '/var/lib/h'; allowed: a URL like sqlite:////path/to/file or"
                            " postgresql://user@host/database"),
    ({"url": "mysql://dra:secret@db/h"}, "history.url: found 'mysql://dra:***@db/h'; allowed: a URL that begins with "
                                         "sqlite: or postgresql:"),
    ({"url": 3}, "history.url: found 3; allowed: a text"),
    ({"key_file": 3}, "history.key_file: found 3; allowed: the path of a file"),
])  # fmt: skip
def test_refused(value: Any, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_history(value)
    assert str(refused.value) == problem
    if isinstance(value, dict):
        with pytest.raises(TraitError, match=r"^history"):
            DRASpawnerService(history=value)


@all_of_them("name", ["history", "calendars", "demand_policies"])
def test_no_message_shows_an_address_in_place_of_a_mapping(name: str) -> None:
    for value in ("postgresql://dra:secret@db/h", ["https://calendar.example.com/secret.ics"]):
        with pytest.raises(TraitError, match=f"{name} must be a mapping") as refused:
            DRASpawnerService(**{name: value})
        assert "secret" not in str(refused.value)


def test_settings_causes_and_metrics_are_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "history.md").read_text()
    metrics = (Path(__file__).parents[2] / "docs" / "reference" / "service.md").read_text()
    registry = CollectorRegistry()
    register_history(registry, HistoryRecording(HistorySettings(), unstarted_controller(), DecisionLog()))
    assert [each.name for each in registry.collect() if each.name not in metrics] == []
    words = ("url", "keep_days", "user_names", "key_file", *WaitCause, *UserNameMode)
    assert [each for each in words if f"`{each}`" not in text] == []


def test_by_default_a_file_where_there_is_a_volume_else_memory(tmp_path: Path) -> None:
    assert default_url(tmp_path) == f"sqlite:///{tmp_path}/history.sqlite"
    assert default_url(tmp_path / "none") == IN_MEMORY


async def launched(found: Replica, name: str) -> None:
    """A server that gets a warm claim and runs."""
    await found.until_warm(GPU, 1)
    await found.start(GPU, name, WHOLE, await found.place(GPU, name))
    await found.until(
        lambda: any(each.name == name and each.is_running for each in found.controller.view().users.values()), name
    )


def recorded(url: str) -> list[Launch]:
    database = HistoryDatabase.open(url)
    found = list(database.launches())
    database.close()
    return found


async def test_launches_on_a_cluster_are_there_after_a_restart_and_not_twice(
    cluster: ClusterUnderTest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    await set_up(cluster, {"gpu": GPU}, *node("n1", *map(whole, ("gpu-0", "gpu-1", "gpu-2"))))
    async with replica(cluster, history={"url": url}, **TRAITS) as first:
        await launched(first, "jupyter-ada")
        await eventually(lambda: [each.running is not None for each in recorded(url)] == [True], "the launch")
    before = recorded(url)
    assert [(each.profile, each.node, each.warm, each.cause) for each in before] == [
        ("gpu", "n1", True, WaitCause.NONE)
    ]
    assert before[0].bound is not None
    assert before[0].running is not None
    async with replica(cluster, history={"url": url}, **TRAITS) as second:
        await second.until(lambda: second.controller.leads, "leading")
        await launched(second, "jupyter-bob")
        await eventually(lambda: len(recorded(url)) == 2, "the second launch")
        metrics = await second.get("metrics")
    assert recorded(url)[0] == before[0]
    assert 'dra_spawner_history_records_total{outcome="written"}' in metrics
    assert "dra_spawner_history_available 1.0" in metrics
    database = HistoryDatabase.open(url)
    kinds = [each.decision.kind for each in database.decisions()]
    database.close()
    assert kinds.count("reserve-placeholder") == 2


@pytest.mark.promise("Without its database, the service does all else.")
async def test_without_its_database_the_service_does_all_else_and_says_so_once(
    embedded_cluster: ClusterUnderTest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is wrong with the database makes no difference (tests/history/test_recorder.py has all of that)."""
    cluster, path = embedded_cluster, tmp_path / "history.sqlite"
    path.mkdir()
    await set_up(cluster, {"gpu": GPU}, *node("n1", *map(whole, ("gpu-0", "gpu-1"))))
    async with replica(cluster, history={"url": f"sqlite:///{path}"}, **TRAITS) as found:
        await launched(found, "jupyter-ada")
        sentence = "The history is not recorded; all else works: unable to open database file."
        await found.until(lambda: sentence in found.context.problems(), "the problem is reported")
        await found.until_warm(GPU, 1)
        for _ in range(2):
            status, answer, _ = await found.send("POST", "rehearsals", {"line": "1 of gpu now"})
            assert (status, answer["is_possible"]) == (200, True)
        assert found.context.history is not None
        recorder = found.context.history.recorder
        assert isinstance(recorder, QuickRecorder)
        await found.until(lambda: recorder.failures > 2, "it is tried again")
        assert (await found.get_json("status"))["problems"] == [sentence]
        assert "dra_spawner_history_available 0.0" in await found.get("metrics")
        warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
        assert len([each for each in warnings if "istory" in each or "database" in each]) == 1, warnings
        path.rmdir()
        await found.until(lambda: not found.context.problems(), "the database is there again")
        await eventually(lambda: len(recorded(f"sqlite:///{path}")) == 1, "the launch")


async def test_a_database_that_hangs_stops_nothing(
    embedded_cluster: ClusterUnderTest,
    postgresql: PostgresqlServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes connections and questions, and answers nothing."""
    monkeypatch.setattr(context, "Rehearsals", partial(Rehearsals, timeout_seconds=0.2))
    cluster, url = embedded_cluster, postgresql.new_database()
    await set_up(cluster, {"gpu": GPU}, *node("n1", *map(whole, ("gpu-0", "gpu-1"))))
    async with replica(cluster, history={"url": url}, **TRAITS) as found:
        await has_learned(found)
        with postgresql.frozen():
            await launched(found, "jupyter-ada")
            for _ in range(2):
                assert (await found.send("POST", "rehearsals", {"line": "1 of gpu now"}))[0] == 200
        await eventually(lambda: len(recorded(url)) == 1, "the launch, when it answers again")
    assert len([each for each in caplog.records if "Lead times cannot be read" in each.getMessage()]) == 1


async def has_learned(service: Replica) -> None:
    """Until the first forecasts are made, which needs what the history knows."""
    ahead = service.context.scale_ahead
    assert ahead is not None
    await service.until(lambda: ahead.samples.first is not None, "it has learned")


async def test_a_hanging_database_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """The recorder's thread waits for the database and logs nothing."""
    release = threading.Event()

    def hang() -> HistoryDatabase:
        assert release.wait(60)
        raise OSError("gone")

    history_recording = HistoryRecording(HistorySettings(), unstarted_controller(), DecisionLog(), look_seconds=0.001)
    history_recording.recorder = Recorder(hang, timedelta(days=1), limits=RecorderLimits(hanging=0.05))
    problem_text = (
        "The history cannot be written; the service goes on without it: the database has not answered for 0.05 s"
    )
    try:
        async with history_recording.leading():
            await eventually(lambda: problem_text in caplog.text, "the problem is logged")
            assert history_recording.problems() == (
                "The history is not recorded; all else works: the database has not answered for 0.05 s.",
            )
            await asyncio.sleep(0.05)
    finally:
        release.set()
    assert caplog.text.count(problem_text) == 1
    await asyncio.to_thread(history_recording.recorder.stop)


async def test_a_database_that_hangs_is_awaited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who learns has other work each second: estimates of waits, and each minute's forecasts."""
    controller = unstarted_controller()
    history = HistoryRecording(HistorySettings(), controller, DecisionLog())  # its thread, which opens it, never begins
    learning = HistoryLearning(
        history, controller.now, "The test", lambda database: None, lambda past: asyncio.sleep(0)
    )
    monkeypatch.setattr(history_recording, "RECORDING_SECONDS", 0.01)
    await learning.learn()
    monkeypatch.setattr(history_recording, "RECORDING_SECONDS", 3_600)
    async with asyncio.timeout(10):
        await learning.learn()


async def test_a_service_that_starts_beside_a_database_that_hangs(
    embedded_cluster: ClusterUnderTest, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_recording, "RECORDING_SECONDS", 0.2)
    cluster, url = embedded_cluster, postgresql.new_database()
    await set_up(cluster, {"gpu": GPU}, *node("n1", *map(whole, ("gpu-0", "gpu-1"))))
    with postgresql.frozen():
        async with replica(cluster, history={"url": url}, **TRAITS) as found:
            await launched(found, "jupyter-ada")
            await has_learned(found)


async def test_a_standby_leaves_its_database_alone_until_it_leads(
    embedded_cluster: ClusterUnderTest, tmp_path: Path
) -> None:
    """Each replica has a file of its own here, which shows the writer; on PostgreSQL both have the same tables."""
    cluster = embedded_cluster
    await set_up(cluster, {"gpu": GPU}, *node("n1", *map(whole, ("gpu-0", "gpu-1"))))
    urls = [f"sqlite:///{tmp_path / name}" for name in ("first", "second")]
    async with contextlib.AsyncExitStack() as ended:
        term = await ended.enter_async_context(contextlib.AsyncExitStack())
        first = await term.enter_async_context(replica(cluster, history={"url": urls[0]}, **TRAITS))
        await first.until(lambda: first.controller.leads, "leading")
        second = await ended.enter_async_context(replica(cluster, history={"url": urls[1]}, **TRAITS))
        await launched(first, "jupyter-ada")
        await eventually(lambda: len(recorded(urls[0])) == 1, "the launch")
        assert not (tmp_path / "second").exists()
        await term.aclose()
        await second.until(lambda: second.controller.leads, "leading")
        await eventually(lambda: len(recorded(urls[1])) == 1, "the launch, as the next leader saw it")
    (one,), (other,) = map(recorded, urls)
    assert (one.uid, one.warm, one.node) == (other.uid, other.warm, other.node)


async def test_the_next_leader_continues_the_same_history_in_postgresql(
    embedded_cluster: ClusterUnderTest, postgresql: PostgresqlServer
) -> None:
    cluster, url = embedded_cluster, postgresql.new_database()
    await set_up(cluster, {"gpu": GPU}, *node("n1", *map(whole, ("gpu-0", "gpu-1", "gpu-2"))))
    traits: dict[str, Any] = {"history": {"url": url}, **TRAITS}
    async with contextlib.AsyncExitStack() as ended:
        term = await ended.enter_async_context(contextlib.AsyncExitStack())
        first = await term.enter_async_context(replica(cluster, **traits))
        await first.until(lambda: first.controller.leads, "leading")
        second = await ended.enter_async_context(replica(cluster, **traits))
        await launched(first, "jupyter-ada")
        await eventually(lambda: [each.running is not None for each in recorded(url)] == [True], "the launch")
        await term.aclose()
        before = recorded(url)
        await second.until(lambda: second.controller.leads, "leading")
        await launched(second, "jupyter-bob")
        await eventually(lambda: len(recorded(url)) == 2, "the second launch")
    found = recorded(url)
    assert found[0] == before[0]
    assert [(each.warm, each.node, each.ended) for each in found] == [(True, "n1", None)] * 2
    statement = "SELECT count(*) FROM launches WHERE uid IS NOT NULL AND asked / 1000000 > 1700000000"
    assert postgresql.query(url, statement) == "2"
