"""The recorder: whatever happens to its database, the caller notices nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.recorder import MAX_MEMORY_AGE, Recorder, RecordOutcome
from dra_spawner.history.records import PresentServers
from dra_spawner.history.stored_settings import Writer
from tests.history.broken_databases import (
    fill,
    lock,
    make_a_directory,
    make_it_newer,
    remove_the_directory,
    write_something_else,
)
from tests.history.records import after, launch
from tests.history.worked_recorder import LIMITS, Working
from tests.log_messages import log_messages
from tests.polling import eventually_sync

pytestmark = pytest.mark.usefixtures("impatient")
DAY = timedelta(days=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


@pytest.fixture
def working(path: Path) -> Working:
    return Working(f"sqlite:///{path}")


def test_records_are_written_in_batches(working: Working) -> None:
    for number in range(10):
        working.recorder.record(launch(str(number), number))
    assert working.work() == 0, "a whole batch is left"
    assert working.recorder.queued == 6
    working.work()
    working.work()
    assert working.work() == LIMITS.interval
    assert working.written() == [str(number) for number in range(10)]
    assert working.counts() == (10, 0)


def test_a_standby_leaves_the_database_alone(working: Working, path: Path) -> None:
    working.recorder.pause()
    working.work(100)
    assert not path.exists()
    working.recorder.record(launch())
    working.work()
    assert working.written() == ["1"], "earlier queued records are written"
    database = working.recorder.database
    assert database is not None
    assert database.last_seen() is None


def test_the_last_sign_of_life_is_of_the_process_before_until_the_servers_are_known(working: Working) -> None:
    database = HistoryDatabase.open(working.url)
    database.add([launch("gone"), launch("here")])
    database.note_seen(after(100))
    working.work(500)
    assert database.last_seen() == after(100)
    working.recorder.record(PresentServers(frozenset(("here",))))
    working.work(1)
    assert [each.ended for each in database.launches()] == [after(100), None]
    assert database.last_seen() == after(501)
    working.work(30)
    assert database.last_seen() == after(501)
    working.work(30)
    assert database.last_seen() == after(561)
    database.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_deleted_or_replaced_is_noticed(path: Path, replaced: bool) -> None:
    """SQLite writes on into the deleted file without an error, as after a restored backup or a volume that went."""
    working = Working(f"sqlite:///{path}")
    working.recorder.record(PresentServers(frozenset()))
    working.work()
    for each in path.parent.iterdir():
        each.unlink()
    if replaced:
        backup = HistoryDatabase.open(f"sqlite:///{path}")
        backup.add([launch("restored")])
        backup.close()
    working.recorder.record(launch("next"))
    working.work(60)
    assert str(path) in working.recorder.problem
    working.work(60)
    assert working.recorder.problem == ""
    assert working.gaps == 1, "the servers that are present are recorded again"
    assert working.written() == ["next", *(["restored"] if replaced else [])]


@pytest.mark.parametrize(
    "writers",
    [
        pytest.param((Writer("namespace hub-a"), Writer("namespace hub-b")), id="two namespaces"),
        pytest.param(tuple(Writer("namespace hub", f"shapes, cluster {each}") for each in "12"), id="two clusters"),
        pytest.param((Writer("namespace hub", "one"), Writer("namespace hub", "two")), id="two hubs of a namespace"),
    ],
)
def test_a_second_service_in_one_database_writes_and_deletes_nothing(
    path: Path, writers: tuple[Writer, Writer], caplog: pytest.LogCaptureFixture
) -> None:
    """It would end the launches of the first, whose servers its cluster does not show."""
    first, second = (Working(f"sqlite:///{path}", writer=each, keep=DAY) for each in writers)
    for each in (first, second):
        each.recorder.record(PresentServers(frozenset()))
    first.recorder.record(launch("old", -3 * DAY.total_seconds()))
    first.seconds = second.seconds = 100
    first.work()
    for _ in range(20):
        assert second.work(30) > 0
        assert second.recorder.problem == (
            f"another service writes into this database, the one of {writers[0]}; each hub needs a database of its own"
        )
        assert not first.recorder.problem
        first.work(30)
    assert first.written() == ["old"]
    second.seconds += 600  # the first one is gone
    second.work()
    second.work(60)
    assert not second.recorder.problem
    followed = f"The history was written by another service before: before={writers[0]} now={writers[1]}"
    assert log_messages(caplog).count(followed) == 1, "as after a restore in a new cluster"
    database = HistoryDatabase.open(f"sqlite:///{path}")
    assert (database.is_written(after(second.seconds)), database.last_writer()) == (True, writers[1])
    database.close()


def test_a_service_of_an_older_release_is_the_same_one(path: Path) -> None:
    """It has stored the namespace alone; after a rollback it does so again, and leaves the rest as it is."""
    old, new = Writer("namespace hub"), Writer("namespace hub", "shapes, cluster 1")
    for number, writer in enumerate((old, new, old, new)):
        working = Working(f"sqlite:///{path}", writer=writer)
        working.recorder.record(PresentServers(frozenset()))
        working.work(number)
        assert working.recorder.problem == ""


def test_old_records_are_deleted_every_hour(path: Path) -> None:
    working = Working(f"sqlite:///{path}", keep=timedelta(hours=2))
    working.recorder.record(launch("1"))
    working.work()
    working.work(2 * 3600 + 1)
    assert working.written() == []


# --- a database that does not work ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("break_database", "message"),
    [
        pytest.param(make_a_directory, "unable to open database file", id="cannot-be-opened"),
        pytest.param(remove_the_directory, "No such file or directory", id="away"),
        pytest.param(write_something_else, "file is not a database", id="something-else"),
        pytest.param(lock, "database is locked", id="locked"),
        pytest.param(fill, "database or disk is full", id="full"),
        pytest.param(make_it_newer, "its version '9999' is newer", id="newer"),
    ],
)
def test_a_problem_is_logged_once_and_retried_ever_less_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, break_database: Callable[[Path], Callable[[], None]], message: str
) -> None:
    caplog.set_level(logging.INFO, logger="dra_spawner.history")
    path = tmp_path / "volume" / "history.sqlite"
    path.parent.mkdir()
    mend = break_database(path)
    working = Working(f"sqlite:///{path}")
    working.recorder.record(launch(choice=100_000 * "x"))
    waits = [working.work()]
    assert message in working.recorder.problem
    assert working.work(0.5) == 0.5, "the database is not asked before its time"
    for _ in range(1 if break_database is lock else 4):
        waits.append(working.work(waits[-1]))
    assert waits == [1, 2, 4, 8, 8][: len(waits)]
    (said,) = log_messages(caplog)
    assert said.startswith("The history cannot be written; the service goes on without it: ")
    assert message in said
    mend()
    working.work(8)
    assert working.recorder.problem == ""
    assert log_messages(caplog) == [said, "The history is written again."]
    assert working.written() == ["1"]
    assert working.counts() == (1, 0)


def test_full_memory_keeps_its_records_until_old_records_are_deleted() -> None:
    working = Working("sqlite://", queue=100, batch=100)
    for number in range(80):
        working.recorder.record(launch(f"{number:02}", number, choice=2**20 * "x"))
        working.work(1)
    assert working.recorder.problem == "database or disk is full"
    written, dropped = working.counts()
    assert 50 < written < 64
    assert (dropped, working.recorder.queued) == (0, 80 - written)
    database = working.recorder.database
    assert database is not None
    assert len(list(database.launches())) == written
    working.work(MAX_MEMORY_AGE.total_seconds() + 10)
    assert working.recorder.problem == ""
    assert [each.uid for each in database.launches()] == [f"{number:02}" for number in range(written, 80)]


def test_dropped_records_are_counted_and_requested_from_the_cluster(path: Path) -> None:
    path.mkdir()
    working = Working(f"sqlite:///{path}")
    for number in range(25):
        working.recorder.record(launch(f"{number:02}", number))
    working.work()
    assert working.counts() == (0, 15)
    assert working.gaps == 0
    path.rmdir()
    for _ in range(5):
        working.work(10)
    assert working.gaps == 1
    assert working.written() == [f"{number:02}" for number in range(10)]
    working.work(10)
    assert working.gaps == 1


def test_records_of_the_clusters_state_are_never_dropped(working: Working) -> None:
    working.recorder.record_all(launch(f"{number:02}", number) for number in range(25))
    working.recorder.record(launch("more", 99))
    assert working.counts() == (0, 1)
    for _ in range(10):
        working.work(1)
    assert len(working.written()) == 25
    assert working.gaps == 1


@pytest.mark.parametrize("wrong", [{"asked": None}, {"user": 3}], ids=str)
def test_a_record_that_no_database_accepts_is_left_out(
    working: Working, caplog: pytest.LogCaptureFixture, wrong: dict[str, Any]
) -> None:
    for each in (launch("1"), replace(launch("wrong"), **wrong), launch("2", 1)):
        working.recorder.record(each)
    working.work()
    assert working.recorder.problem == ""
    assert working.written() == ["1", "2"]
    assert working.counts() == (2, 1)
    assert "A record cannot be written: record=wrong" in caplog.text


def test_a_standby_does_not_report_an_old_problem(path: Path) -> None:
    path.mkdir()
    working = Working(f"sqlite:///{path}")
    working.work()
    assert working.recorder.problem != ""
    working.recorder.pause()
    working.work(10)
    assert working.recorder.problem == ""


def test_names_of_users_are_in_no_message(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    working = Working(f"sqlite:///{path}")
    text: Any = "now, says grace"
    wrong = replace(launch("wrong", user="grace", pod="jupyter-grace"), asked=text)
    working.recorder.record(wrong)
    path.mkdir()
    working.work()
    path.rmdir()
    working.work(10)
    assert working.counts() == (0, 1)
    assert "grace" not in caplog.text


# --- the thread -------------------------------------------------------------------------------------------------------


def test_the_thread_writes_all_queued_records_before_its_end(path: Path) -> None:
    recorder = Recorder(lambda: HistoryDatabase.open(f"sqlite:///{path}"), timedelta(days=3650))
    recorder.resume()
    recorder.record(launch("1"))
    eventually_sync(lambda: recorder.counts[RecordOutcome.WRITTEN] == 1, "the first record")
    for number in range(2, 1200):
        recorder.record(launch(str(number), number))
    recorder.stop(30)
    assert recorder.counts[RecordOutcome.WRITTEN] == 1199
    assert not [each for each in threading.enumerate() if each.name == "history"]


def test_the_caller_never_waits_for_a_database_that_hangs() -> None:
    opening, release = threading.Event(), threading.Event()

    def hang() -> HistoryDatabase:
        opening.set()
        release.wait(60)
        raise OSError("gone")

    recorder = Recorder(hang, DAY, limits=replace(LIMITS, queue=100))
    recorder.resume()
    try:
        assert opening.wait(120)
        for number in range(1000):
            recorder.record(launch(str(number), number))
        assert recorder.queued == 100
        assert recorder.counts[RecordOutcome.DROPPED] == 900
        recorder.stop(0.01)
    finally:
        release.set()
    eventually_sync(lambda: not [each for each in threading.enumerate() if each.name == "history"], "its end")
