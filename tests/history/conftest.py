"""Databases of tests: each test of the ``url`` fixture runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dra_spawner.history import connecting
from dra_spawner.history.database import HistoryDatabase
from tests.history.postgresql import NoPostgresql, PostgresqlServer, postgresql_server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server; skips where there is none."""
    # A socket's path has at most 107 characters, and pytest's directories are its user's alone.
    directory = Path(tempfile.mkdtemp(prefix="dra-pg-"))
    try:
        with postgresql_server(directory) as server:
            yield server
    except NoPostgresql as error:
        pytest.skip(str(error))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.sqlite'}"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
def database(url: str) -> Iterator[HistoryDatabase]:
    """An open, empty database."""
    found = HistoryDatabase.open(url)
    yield found
    found.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for a locked file or table last a second."""
    monkeypatch.setattr(connecting, "TIMEOUT_SECONDS", 1)
