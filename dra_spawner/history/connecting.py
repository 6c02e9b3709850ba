"""Engines of SQLAlchemy for the two kinds of databases: SQLite and PostgreSQL."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import StaticPool

__all__ = ["READS", "HistoryUrlError", "engine_of", "is_in_memory", "parsed_url"]

READS: Final = "history_reads"
"""Execution option of connections that only read: on SQLite they do not wait for a writer."""

_POSTGRESQL: Final = "postgresql"
_DRIVERS: Final = ("psycopg", "psycopg2")
#: Until a locked SQLite file, or a PostgreSQL server that does not answer, is an error.
_PATIENCE_SECONDS: Final = 5
#: Limit of a database in memory. When it is full, nothing more is recorded until old records are deleted.
_MOST_MEMORY_BYTES: Final = 64 * 2**20
_PAGE_BYTES: Final = 4096


class HistoryUrlError(ValueError):
    """A URL that names no database in which a history can be kept; the message says what is allowed."""


def parsed_url(url: str) -> URL:
    """A URL of SQLAlchemy, with a driver that is installed.

    Raises
    ------
    HistoryUrlError
    """
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        raise HistoryUrlError("a URL like sqlite:////path/to/file or postgresql://user@host/database") from None
    backend, _, driver = found.drivername.partition("+")
    if backend == _POSTGRESQL and not driver:
        installed = next(filter(find_spec, _DRIVERS), None)
        if installed is None:
            raise HistoryUrlError(
                "sqlite:///..., as no driver for PostgreSQL is installed (pip install 'dra-spawner[postgresql]')"
            )
        return found.set(drivername=f"{_POSTGRESQL}+{installed}")
    if backend not in ("sqlite", _POSTGRESQL):
        raise HistoryUrlError("a URL that begins with sqlite: or postgresql:")
    if driver and find_spec(_module_of(driver)) is None:
        raise HistoryUrlError(f"a driver that is installed, and {driver} is not")
    return found


def _module_of(driver: str) -> str:
    return "sqlite3" if driver == "pysqlite" else driver


def is_in_memory(url: URL) -> bool:
    """Whether a database is gone with its process."""
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def engine_of(url: URL) -> Engine:
    """An engine; it connects when it is first used."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    options = {"connect_timeout": _PATIENCE_SECONDS, "application_name": "dra_spawner"}
    return create_engine(url, pool_pre_ping=True, pool_size=2, connect_args=options, hide_parameters=True)


def _sqlite(url: URL) -> Engine:
    in_memory = is_in_memory(url)
    # Connections of a pool are used by several threads, one after another.
    arguments: dict[str, Any] = {"timeout": _PATIENCE_SECONDS, "check_same_thread": False}
    # Errors quote no values: these may be names of users.
    if in_memory:
        engine = create_engine(url, connect_args=arguments, poolclass=StaticPool, hide_parameters=True)
    else:
        engine = create_engine(url, connect_args=arguments, hide_parameters=True)
        assert url.database is not None
        _create_for_owner_only(Path(url.database))

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, record: object) -> None:
        # SQLAlchemy begins transactions itself, for changes of tables as well.
        connection.isolation_level = None
        cursor = connection.cursor()
        if in_memory:
            cursor.execute(f"PRAGMA max_page_count = {_MOST_MEMORY_BYTES // _PAGE_BYTES}")
        else:
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.execute("PRAGMA synchronous = NORMAL")
        # What is forgotten is overwritten in the file.
        cursor.execute("PRAGMA secure_delete = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get(READS)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _create_for_owner_only(path: Path) -> None:
    """Create the file so that other accounts cannot read it; SQLite would leave that to the umask.

    Raises
    ------
    OSError
    """
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
