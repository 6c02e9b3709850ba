"""The recorder on a PostgreSQL: whatever happens to it, the caller notices nothing, and no record is lost."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import text

from dra_spawner.history.connecting import engine_of, parsed_url
from dra_spawner.history.database import HistoryDatabase
from tests.history.postgresql import PostgresqlServer
from tests.history.records import launch
from tests.history.worked_recorder import Working
from tests.log_messages import log_messages
from tests.polling import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("impatient")


def test_a_postgresql_that_goes_and_comes_back(postgresql: PostgresqlServer) -> None:
    working = Working(postgresql.new_database(), queue=1000, batch=1000)
    working.recorder.record(launch("1"))
    working.work()
    postgresql.stop()
    try:
        working.recorder.record(launch("2", 1))
        assert working.work() == 1
        assert "connect" in working.recorder.problem or "closed" in working.recorder.problem
    finally:
        postgresql.start()
    working.work(10)
    assert working.recorder.problem == ""
    assert working.written() == ["1", "2"]


def test_a_postgresql_with_a_table_that_another_holds(
    postgresql: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    working = Working(postgresql.new_database())
    working.work()
    working.recorder.record(launch("1"))
    with engine_of(parsed_url(working.url)).begin() as another:
        another.execute(text("LOCK TABLE launches"))
        assert working.work(10) == 1
        assert working.recorder.problem == "canceling statement due to lock timeout"
        assert working.work(1) == 2
    working.work(10)
    assert working.recorder.problem == ""
    assert log_messages(caplog) == [
        "The history cannot be written; the service goes on without it: canceling statement due to lock timeout"
    ]
    assert working.written() == ["1"]


#: Name -> what an administrator of PostgreSQL does, what undoes it, and a part of the problem.
MISTAKES_OF_POSTGRESQL: dict[str, tuple[str, str, str]] = {
    "a replica that is read only": (
        "ALTER ROLE guest SET default_transaction_read_only = on", "ALTER ROLE guest RESET ALL", "read-only transaction",
    ),
    "a limit of the time of statements": (
        "ALTER ROLE guest SET statement_timeout = 1", "ALTER ROLE guest RESET ALL", "canceling statement due to",
    ),
    "no right to the tables": (
        "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM guest",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO guest",
        "permission denied for table",
    ),
    "no right to log in": ("ALTER ROLE guest NOLOGIN", "ALTER ROLE guest LOGIN", "is not permitted to log in"),
    "too many connections": ("ALTER ROLE guest CONNECTION LIMIT 0", "ALTER ROLE guest CONNECTION LIMIT -1", "too many"),
    "a table that is gone": ("ALTER TABLE launches RENAME TO gone", "ALTER TABLE gone RENAME TO launches", "launches"),
}  # fmt: skip


def test_mistakes_of_a_postgresql_are_told_and_mended(postgresql: PostgresqlServer) -> None:
    """Records wait meanwhile, and none is lost."""
    url = postgresql.new_database()
    HistoryDatabase.open(url).close()
    postgresql.query(url, "CREATE ROLE guest LOGIN")
    postgresql.query(url, "GRANT ALL ON SCHEMA public TO guest; GRANT ALL ON ALL TABLES IN SCHEMA public TO guest")
    working = Working(url.replace("dra@", "guest@"), queue=100, batch=2_000)
    for number, (mistake, undo, problem) in enumerate(MISTAKES_OF_POSTGRESQL.values()):
        postgresql.query(url, mistake)
        postgresql.query(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guest'")
        working.recorder.record(launch(str(number), number))
        if "statement_timeout" in mistake:
            working.recorder.record_all(launch(f"many-{each}", each) for each in range(2_000))
        working.work(10)
        assert problem in working.recorder.problem, mistake
        postgresql.query(url, undo)
        while working.recorder.queued:
            working.work(10)
        assert working.recorder.problem == "", mistake
    working.url = url
    assert len(working.written()) == len(MISTAKES_OF_POSTGRESQL) + 2_000
    assert working.counts()[1] == 0


def test_tables_of_another_program_with_our_names_are_left_alone(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    postgresql.query(url, "CREATE TABLE launches (rocket text); INSERT INTO launches VALUES ('Ariane')")
    working = Working(url)
    working.recorder.record(launch("1"))
    working.work()
    assert working.recorder.problem == 'relation "launches" already exists'
    assert postgresql.query(url, "SELECT * FROM launches") == "Ariane"
    assert postgresql.query(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "1"


def test_a_postgresql_that_hangs_is_reported(postgresql: PostgresqlServer) -> None:
    working = Working(postgresql.new_database(), hanging=30)
    working.recorder.record(launch("1"))
    working.work()
    working.recorder.record(launch("2", 1))
    with postgresql.frozen():
        hanging = threading.Thread(target=working.work)
        hanging.start()
        hanging.join(0.5)
        assert hanging.is_alive()
        assert working.recorder.problem == ""
        working.seconds += 30
        assert working.recorder.problem == "the database has not answered for 30 s"
    hanging.join(PATIENCE_SECONDS)
    assert working.recorder.problem == ""
    assert working.written() == ["1", "2"]
