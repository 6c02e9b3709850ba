"""The database of the history, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from dra_spawner.history import migrations
from dra_spawner.history.connecting import HistoryUrlError, engine_of, parsed_url
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.migrations import NewerDatabase
from dra_spawner.history.recorder import MAX_DECISION_AGE, delete_expired
from dra_spawner.history.records import TRIAL, LearnedDemand, MinuteCount, PresentServers, WaitCause
from dra_spawner.history.schema import EPOCH, METADATA, MICROSECONDS
from dra_spawner.history.stored_settings import KeyFileError
from dra_spawner.history.user_names import UserNameMode, UserNames
from tests.all_of_them import all_of_them
from tests.history.records import START, after, decision, launch, lead_time
from tests.log_messages import log_messages

DAY = timedelta(days=1)


# --- written records -------------------------------------------------------------------------------------------------


def test_a_row_with_what_this_version_does_not_know_hides_no_other(url: str) -> None:
    database = HistoryDatabase.open(url)
    database.add([launch("1", 0, cause=WaitCause.NODE), launch("2", 1), decision("1"), decision("2", details={"a": 1})])
    engine = engine_of(parsed_url(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE launches SET cause = 'newer' WHERE uid = '1'"))
        connection.execute(text("UPDATE decisions SET details = '[1' WHERE id = '1'"))
    engine.dispose()
    assert [each.cause for each in database.launches()] == [WaitCause.OTHER, None]
    assert sorted(len(each.decision.details) for each in database.decisions()) == [0, 1]
    database.close()


#: What another program may have written: numbers out of range in all databases, and any type in a file of SQLite.
NONSENSE: dict[str, tuple[str, ...]] = {
    "launches": ("asked = 9223372036854775807", "ended = -9223372036854775807", "asked = -9223372036854775807"),
    "node_lead_times": ("created = 9223372036854775807", "images = 9223372036854775807"),
    "decisions": ("at = 9223372036854775807",),
}
NONSENSE_OF_SQLITE: dict[str, tuple[str, ...]] = {
    "launches": (
        "asked = 'soon'",
        "profile = x'07'",
        "user_name = x'ff'",
        "running = x'00'",
        "cause = x'01'",
        "ended = 'a'",
    ),
    "node_lead_times": ("created = 'x'", "kind = x'07'", "ready = 'x'"),
    "decisions": ("at = 'x'", "mentions = x'07'", "reason = x'ff'"),
}


def test_a_row_of_nonsense_hides_no_other(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither on its page nor on the next ones; what is left out is logged once."""
    database = HistoryDatabase.open(url)
    many = range(5_100)
    database.add(lead_time(str(each), each) for each in range(20))
    database.add(decision(str(each), each) for each in range(20))
    keys = {"launches": "uid", "node_lead_times": "uid", "decisions": "id"}
    kinds = [NONSENSE, NONSENSE_OF_SQLITE] if url.startswith("sqlite") else [NONSENSE]
    rows = {table: [each for kind in kinds for each in kind[table]] for table in keys}
    engine = engine_of(parsed_url(url))
    begin = (START - EPOCH) // timedelta(microseconds=1)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO launches (uid, asked, ended, user_is_hashed, end_is_estimate, source) "
            f"WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {len(many) - 1}) "
            f"SELECT CAST(n AS TEXT), {begin} + CAST(n AS BIGINT) * {MICROSECONDS}, CASE WHEN n > 20 THEN {begin} + n END, true, false, 'service' FROM numbers"
        )
        for table, changes in rows.items():
            for number, change in enumerate(changes):
                # The last one is the last of a page.
                row = number if number < len(changes) - 1 or table != "launches" else 4_999
                connection.exec_driver_sql(f"UPDATE {table} SET {change} WHERE {keys[table]} = '{row}'")
        connection.exec_driver_sql("UPDATE history_settings SET value = 'soon' WHERE name = 'last_seen'")
    engine.dispose()
    assert len(list(database.launches())) == len(many) - len(rows["launches"])
    assert len(list(database.lead_times())) == 20 - len(rows["node_lead_times"])
    assert len(list(database.decisions())) == 20 - len(rows["decisions"])
    assert [each.partition(" row=")[0] for each in log_messages(caplog)] == [
        f"A row of the history makes no sense, and is left out as are others like it: table={table}" for table in rows
    ]
    assert sum(each.count for each in database.arrivals(START, after(5_100))) >= len(many) - len(rows["launches"])
    assert database.service_began() is not None
    assert database.last_seen() is None
    database.add([PresentServers(frozenset())])
    assert all(each.ended is not None for each in database.launches())
    database.close()


def test_text_that_is_no_utf_8_hides_no_row(tmp_path: Path) -> None:
    database = HistoryDatabase.open(f"sqlite:///{tmp_path / 'history.sqlite'}")
    database.add([launch("1", 0), launch("2", 1)])
    with sqlite3.connect(tmp_path / "history.sqlite") as connection:
        connection.execute("UPDATE launches SET profile = CAST(x'67ff' AS TEXT) WHERE uid = '1'")
    connection.close()
    assert [each.profile for each in database.launches()] == ["g\ufffd", "gpu"]
    database.close()


def test_a_launch_is_read_as_written_and_survives_the_process(url: str) -> None:
    times: Any = {"bound": after(1), "running": after(2), "ended": after(3)}
    reason = {"cause": WaitCause.NODE, "reason": "no node has room for hub/jupyter-ada", "mentions": ("jupyter-ada",)}
    held = {"devices": {"gpu.example.com": 0.125}}
    whole = launch("1", 0.123456, choice="gpu/memory=large", node="n1", warm=True, **times, **reason, **held)
    first = HistoryDatabase.open(url)
    first.add([whole, launch("2", 1, user="", pod="", profile="")])
    first.close()
    database = HistoryDatabase.open(url)
    found = list(database.launches())
    database.close()
    pod = database.names.hash("jupyter-ada")
    stored: dict[str, Any] = {"user": database.names.hash("ada"), "pod": pod, "user_is_hashed": True, "mentions": ()}
    assert found[0] == replace(whole, **stored, reason=f"no node has room for hub/{pod}")
    assert found[1] == replace(launch("2", 1), user="", pod="", profile="", user_is_hashed=True)


def test_a_lead_time_and_a_decision_come_back(database: HistoryDatabase) -> None:
    whole = lead_time(asked=after(-60), ready=after(40), slices=after(60), images=after(300))
    made = decision(reason='A "why" with ünïcode.', code="c", node="n", profile="p", outcome="done", details={"a": 1.5})
    database.add([whole, made, lead_time("n2", 10, kind="cpu")])
    assert list(database.lead_times()) == [whole, lead_time("n2", 10, kind="cpu")]
    assert list(database.lead_times("cpu")) == [lead_time("n2", 10, kind="cpu")]
    assert list(database.decisions()) == [made]


def test_a_record_that_is_written_again_is_completed_and_not_doubled(database: HistoryDatabase) -> None:
    database.add([launch("1", 0.5), decision(), lead_time()])
    database.add([launch("1", 0, bound=after(1.5), node="n"), decision(), lead_time(ready=after(40), asked=after(-10))])
    # As a service that was restarted finds it: the API has whole seconds.
    database.add([launch("1", 0, bound=after(1), running=after(9), node="n"), lead_time(asked=after(-20))])
    (found,) = database.launches()
    assert (found.asked, found.bound, found.running, found.ended) == (after(0.5), after(1.5), after(9), None)
    (node,) = database.lead_times()
    assert (node.asked, node.ready) == (after(-20), after(40)), "the oldest pod may be seen late"
    assert len(list(database.decisions())) == 1


def test_an_error_leaves_nothing_of_its_batch(database: HistoryDatabase) -> None:
    nothing: Any = None
    wrong = replace(launch("2"), asked=nothing)
    with pytest.raises(SQLAlchemyError):
        database.add([launch("1"), wrong])
    assert list(database.launches()) == []


def test_strange_texts_are_accepted(database: HistoryDatabase) -> None:
    for number, words in enumerate(("a\0b", "a\ud800b", "x" * 1000), 1):
        made = decision(str(number), reason=words)
        database.add([launch(words, user=words, pod=words, node=words, reason=words), made])
        assert len(list(database.launches())) == len(list(database.decisions())) == number, words


def test_servers_that_are_gone_unseen_ended_when_the_service_was_last_seen(database: HistoryDatabase) -> None:
    database.add([launch("here"), launch("gone"), launch("late", 900), launch("done", ended=after(5))])
    database.add([launch("other", source="csv"), launch("trial", source=TRIAL)])
    database.note_seen(after(600))
    assert database.last_seen() == after(600)
    database.add([PresentServers(frozenset(("here",)))])
    ends = {each.uid: (each.ended, each.end_is_estimate) for each in database.launches()}
    assert ends == {
        "here": (None, False),
        "gone": (after(600), True),
        "late": (after(900), True),
        "done": (after(5), False),
        "other": (None, False),
        "trial": (after(600), True),
    }
    database.add([launch("gone", ended=after(700))])
    (seen,) = (each for each in database.launches() if each.uid == "gone")
    assert (seen.ended, seen.end_is_estimate) == (after(700), False), "an end that was seen replaces an estimate"


def test_a_server_that_is_seen_again_has_not_ended(database: HistoryDatabase) -> None:
    """The leader before this one writes its last records later than this one writes its first ones."""
    running = launch("1", bound=after(1), running=after(2))
    database.add([PresentServers(frozenset(("1",))), running])
    database.note_seen(after(3))
    database.add([PresentServers(frozenset()), running])
    assert [(each.ended, each.end_is_estimate) for each in database.launches()] == [(None, False)]


# --- reading ---------------------------------------------------------------------------------------------------------


def test_launches_of_a_time_and_a_profile_in_pages(database: HistoryDatabase) -> None:
    database.add(launch(f"{number:05}", number // 2, profile=f"p{number % 2}") for number in range(10_100))
    assert [each.uid for each in database.launches(after(10), after(12))] == ["00020", "00021", "00022", "00023"]
    assert [each.uid for each in database.launches(after(10), after(12), profile="p1")] == ["00021", "00023"]
    assert [each.uid for each in database.launches()] == [f"{number:05}" for number in range(10_100)]


def test_counts_by_minute_and_profile(database: HistoryDatabase) -> None:
    for number, (seconds, profile) in enumerate([(0, "a"), (59.9, "a"), (60, "b"), (61, "a"), (200, "")]):
        database.add([launch(str(number), seconds, profile=profile, ended=after(seconds + 120))])
    expected = [(0, "a", 2), (1, "a", 1), (1, "b", 1)]
    arrivals = database.arrivals(START, after(180))
    assert (
        sorted((int((each.minute - START).total_seconds() // 60), each.profile, each.count) for each in arrivals)
        == expected
    )
    assert database.arrivals(after(180), after(300)) == [MinuteCount(after(180), "", "", 1)]
    assert {each.minute for each in database.departures(START, after(179))} == {after(120)}
    database.add([launch("trial", 1, profile="b", ended=after(2), source=TRIAL)])
    assert database.arrivals(START, after(180)) == arrivals, "forecasts do not learn from trials"
    assert {each.minute for each in database.departures(START, after(179))} == {after(120)}


def test_when_the_service_began(database: HistoryDatabase) -> None:
    assert database.service_began() is None
    database.add([launch("1", 5), launch("2", 3), launch("3", 1, source="csv")])
    assert database.service_began() == after(3)
    assert database.existing(["1", "4"]) == {"1"}


# --- names of users ---------------------------------------------------------------------------------------------------


@contextmanager
def connection_to(url: str) -> Iterator[Connection]:
    """A connection of somebody else."""
    engine = engine_of(parsed_url(url))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def stored_texts(url: str) -> str:
    """All that the database has, as a reader of its tables sees it."""
    with connection_to(url) as connection:
        return str([connection.execute(text(f"SELECT * FROM {table}")).all() for table in METADATA.tables])


def test_no_name_of_a_user_is_stored(database: HistoryDatabase, url: str) -> None:
    texts: Any = {
        "subject": "Pod hub/jupyter-ada",
        "reason": "For hub/jupyter-ada.",
        "details": {"for": "hub/jupyter-ada"},
    }
    about = decision("1", 0, "jupyter-ada", **texts)
    database.add([launch(reason="waits for jupyter-ada", mentions=("jupyter-ada",)), about])
    assert not re.search(r"\bada\b", stored_texts(url)), "among letters of hashes it may be"
    (found,) = database.decisions()
    pod = database.names.hash("jupyter-ada")
    assert (found.decision.subject, found.decision.reason) == (f"Pod hub/{pod}", f"For hub/{pod}.")
    assert (found.decision.details, found.mentions) == ({"for": f"hub/{pod}"}, (pod,))


def test_one_user_has_one_hash_in_a_database_and_another_one_elsewhere(url: str, tmp_path: Path) -> None:
    database = HistoryDatabase.open(url)
    database.add([launch("1"), launch("2", 1), launch("3", 2, user="bob")])
    ada, again, bob = (each.user for each in database.launches())
    database.close()
    assert ada == again != bob
    assert HistoryDatabase.open(url).names.hash("ada") == ada
    other = HistoryDatabase.open(f"sqlite:///{tmp_path / 'other.sqlite'}")
    assert other.names.hash("ada") != ada


def test_a_key_in_a_file_is_not_in_the_database(url: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"k" * 40 + b"\n")
    database = HistoryDatabase.open(url, key_file=str(path))
    assert database.names.hash("ada") == UserNames(b"k" * 40).hash("ada")
    assert "key" not in stored_texts(url)


def test_a_key_that_cannot_be_used(url: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(KeyFileError, match="No such file"):
        HistoryDatabase.open(url, key_file=str(path))
    path.write_bytes(b"short")
    with pytest.raises(KeyFileError, match="has 5 bytes; it needs 32"):
        HistoryDatabase.open(url, key_file=str(path))


def test_plain_names_are_hashed_when_they_are_no_longer_wanted(url: str) -> None:
    plain = HistoryDatabase.open(url, UserNameMode.PLAIN)
    plain.add([launch(reason="for jupyter-ada", mentions=("jupyter-ada",))])
    plain.add([decision("1", 0, "jupyter-ada", reason="For jupyter-ada"), decision("2")])
    (found,) = plain.launches()
    assert (found.user, found.pod, found.user_is_hashed) == ("ada", "jupyter-ada", False)
    plain.close()
    as_before = HistoryDatabase.open(url)
    assert as_before.names.mode is UserNameMode.PLAIN, "as the last one wanted it"
    as_before.close()
    hashed = HistoryDatabase.open(url, UserNameMode.HASHED)
    assert not re.search(r"\bada\b", stored_texts(url)), "among letters of hashes it may be"
    assert [each.user for each in hashed.launches()] == [hashed.names.hash("ada")]
    assert [each.id for each in hashed.decisions()] == ["2"]
    hashed.close()


@pytest.mark.parametrize("mode", list(UserNameMode))
def test_a_user_is_forgotten(url: str, mode: UserNameMode) -> None:
    database = HistoryDatabase.open(url, mode)
    database.add([launch("1"), launch("2", 1), launch("3", 2, user="ada2", pod="jupyter-ada2")])
    about = {"1": ("jupyter-ada",), "2": ("jupyter-ada2",), "3": (), "4": ("jupyter-ada", "jupyter-ada2")}
    database.add([decision(number, 0, *pods) for number, pods in about.items()])
    assert database.forget("ada") == (2, 2)
    assert database.forget("ada") == (0, 0)
    assert [each.uid for each in database.launches()] == ["3"]
    assert [each.id for each in database.decisions()] == ["2", "3"]
    database.close()


def test_what_was_learned_last_is_kept(database: HistoryDatabase) -> None:
    """A former leader's last records may be written late."""
    database.add([LearnedDemand("gpu", after(60), "one"), LearnedDemand("cpu", after(0), "other")])
    database.add([LearnedDemand("gpu", after(120), "two"), LearnedDemand("gpu", after(60), "late")])
    assert database.learned_demands(START) == {"gpu": "two", "cpu": "other"}
    assert database.learned_demands(after(1)) == {"gpu": "two"}
    database.add(
        [LearnedDemand("wrong", START + 400 * DAY, "of a wrong clock"), LearnedDemand("wrong", after(0), "right")]
    )
    assert database.learned_demands(START)["wrong"] == "right"
    assert not delete_expired(database, after(100) + DAY, DAY)
    assert database.learned_demands(START) == {"gpu": "two"}


# --- retention --------------------------------------------------------------------------------------------------------


def test_old_records_are_deleted_in_batches(database: HistoryDatabase) -> None:
    now = START + 100 * DAY
    database.add(launch(str(day), day * DAY.total_seconds()) for day in range(100))
    database.add(decision(str(day), day * DAY.total_seconds()) for day in range(100))
    database.add(lead_time(str(day), day * DAY.total_seconds()) for day in range(100))
    rounds = 1
    while delete_expired(database, now, timedelta(days=40), at_once=25):
        rounds += 1
    assert rounds == 3
    assert next(each.asked for each in database.launches()) == START + 60 * DAY
    assert next(each.created for each in database.lead_times()) == START + 60 * DAY
    assert next(each.decision.at for each in database.decisions()) == now - MAX_DECISION_AGE


def test_each_migration_says_which_version_can_use_its_tables() -> None:
    """The least one is 0001 as long as migrations only add tables and columns that may be empty."""
    assert migrations.least_version() == "0001"


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("database")
def test_migrations_make_the_tables_that_the_code_has(url: str) -> None:
    with connection_to(url) as connection:
        context = MigrationContext.configure(
            connection,
            opts={"compare_type": True, "include_object": lambda found, name, *_: not str(name).endswith("_version")},
        )
        assert compare_metadata(context, METADATA) == []


def test_a_newer_database_is_used_if_it_only_has_more(url: str) -> None:
    """As after going back to the version before. The newer version goes on where it was."""
    database = HistoryDatabase.open(url)
    database.add([launch()])
    with connection_to(url) as connection:
        connection.execute(text("UPDATE dra_spawner_history_version SET version_num = '9999'"))
        connection.execute(text("ALTER TABLE launches ADD COLUMN newer TEXT"))
        connection.execute(text("UPDATE launches SET newer = 'kept'"))
    older = HistoryDatabase.open(url)
    older.add([launch(running=after(9)), launch("2")])
    assert [each.running for each in older.launches()] == [after(9), None]
    older.close()
    with connection_to(url) as connection:
        assert connection.scalar(text("SELECT newer FROM launches WHERE uid = '1'")) == "kept"
        assert connection.scalar(text("SELECT version_num FROM dra_spawner_history_version")) == "9999"
    database.close()


def test_a_newer_database_is_refused_and_left_alone(url: str) -> None:
    database = HistoryDatabase.open(url)
    database.add([launch()])
    with connection_to(url) as connection:
        connection.execute(text("UPDATE dra_spawner_history_version SET version_num = '9999'"))
        connection.execute(text("UPDATE history_settings SET value = '9999' WHERE name = 'least_version'"))
    with pytest.raises(NewerDatabase, match="its version '9999' is newer than this version of dra-spawner"):
        HistoryDatabase.open(url)
    assert len(list(database.launches())) == 1
    database.close()


def test_a_database_shared_with_another_program_keeps_its_tables(url: str) -> None:
    with connection_to(url) as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
    HistoryDatabase.open(url).close()
    with connection_to(url) as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "theirs"
        assert migrations.version_of(connection) == migrations.newest_version()


def test_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    database = HistoryDatabase.open(f"sqlite:///{path}")
    database.add([launch()])
    assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}
    database.close()


def test_an_installed_driver_is_used() -> None:
    assert parsed_url("postgresql://db/h").drivername in ("postgresql+psycopg", "postgresql+psycopg2")
    assert parsed_url("postgresql+psycopg://db/h").drivername == "postgresql+psycopg"


@all_of_them("wrong, allowed", [
    ("", "a URL like sqlite:"),
    ("/var/lib/history.sqlite", "a URL like sqlite:"),
    ("mysql://db/history", "a URL that begins with sqlite: or postgresql:"),
    ("postgresql+nosuchdriver://db/history", "a driver that is installed, and nosuchdriver is not"),
    ("postgresql://db:port/history", "a URL like sqlite:"),
])  # fmt: skip
def test_a_url_of_no_database(wrong: str, allowed: str) -> None:
    with pytest.raises(HistoryUrlError, match=allowed):
        parsed_url(wrong)
