"""SQLAlchemy engines for SQLite and PostgreSQL."""

from __future__ import annotations

import os
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import StaticPool

READS: Final = "history_reads"
"""Execution option of connections that only read: on SQLite they do not wait for a writer."""

_POSTGRESQL: Final = "postgresql"
_DRIVERS: Final = ("psycopg", "psycopg2")
#: Limit of the wait for a locked file or table, or for a PostgreSQL server's connection.
TIMEOUT_SECONDS: Final = 5
#: A connection through a network that is broken ends after a minute.
_KEEPALIVES: Final = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
#: Limit of a database in memory. When it is full, nothing is recorded until old records are deleted.
_MAX_MEMORY_BYTES: Final = 64 * 2**20
_PAGE_BYTES: Final = 4096


class HistoryUrlError(ValueError):
    """Raised for a URL of a database that cannot be used; the message says which URLs are allowed."""


def url_without_password(url: str) -> str:
    """The URL of a database for messages."""
    try:
        # The query may have a password, too.
        return make_url(url).set(query={}).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url.partition(":")[0]


def parsed_url(url: str) -> URL:
    """The parsed URL, with an installed driver.

    Raises
    ------
    HistoryUrlError
        If the database cannot be used.
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
    """Whether a database is in memory, so that it is lost when the process ends."""
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def engine_of(url: URL) -> Engine:
    """An engine for a URL; it connects at its first use."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    options = {"connect_timeout": TIMEOUT_SECONDS, "application_name": "dra_spawner", **_KEEPALIVES}
    engine = create_engine(url, pool_pre_ping=True, pool_size=2, connect_args=options, hide_parameters=True)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # Not as an option of the connection, which connection poolers refuse.
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{TIMEOUT_SECONDS}s'")

    return engine


def _sqlite(url: URL) -> Engine:
    in_memory = is_in_memory(url)
    # Several threads use the connections of a pool, one after another.
    arguments: dict[str, Any] = {"timeout": TIMEOUT_SECONDS, "check_same_thread": False}
    # hide_parameters: errors must not quote values, which may be names of users.
    if in_memory:
        engine = create_engine(url, connect_args=arguments, poolclass=StaticPool, hide_parameters=True)
    else:
        engine = create_engine(url, connect_args=arguments, hide_parameters=True)
        assert url.database is not None
        _create_for_owner_only(Path(url.database))

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, record: object) -> None:
        # SQLAlchemy begins all transactions itself, also those that change tables.
        connection.isolation_level = None
        # Other programs may write what is no text; one such value must not hide the other rows.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        cursor = connection.cursor()
        if in_memory:
            cursor.execute(f"PRAGMA max_page_count = {_MAX_MEMORY_BYTES // _PAGE_BYTES}")
        else:
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.execute("PRAGMA synchronous = NORMAL")
        # Deleted records are overwritten in the file.
        cursor.execute("PRAGMA secure_delete = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get(READS)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _create_for_owner_only(path: Path) -> None:
    """Create the file so that other accounts cannot read it, whatever the umask is.

    Raises
    ------
    OSError
        If the file cannot be created.
    """
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
