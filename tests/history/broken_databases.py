"""Ways in which the file of a history fails; each returns a function that repairs it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event, text

from dra_spawner.history.connecting import engine_of, parsed_url
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.migrations import newest_version


def make_a_directory(path: Path) -> Callable[[], None]:
    path.mkdir()
    return path.rmdir


def remove_the_directory(path: Path) -> Callable[[], None]:
    path.parent.rmdir()
    return path.parent.mkdir


def write_something_else(path: Path) -> Callable[[], None]:
    path.write_text("this is no database" * 1000)
    return path.unlink


def lock(path: Path) -> Callable[[], None]:
    HistoryDatabase.open(f"sqlite:///{path}").close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    return other.close


def make_it_newer(path: Path) -> Callable[[], None]:
    url = f"sqlite:///{path}"
    HistoryDatabase.open(url).close()
    engine = engine_of(parsed_url(url))

    def stamp(version: str) -> None:
        with engine.begin() as connection:
            connection.execute(
                text("UPDATE dra_spawner_history_version SET version_num = :version"), {"version": version}
            )
            connection.execute(
                text("UPDATE history_settings SET value = :version WHERE name = 'least_version'"), {"version": version}
            )

    stamp("9999")
    return lambda: stamp(newest_version())


def fill(path: Path) -> Callable[[], None]:
    """No page can be added to the file, as on a disk that is full."""
    HistoryDatabase.open(f"sqlite:///{path}").close()

    def limit(connection: Any, record: object) -> None:
        # Below its size, SQLite takes the size.
        connection.execute("PRAGMA max_page_count = 1")

    event.listen(Engine, "connect", limit)
    return lambda: event.remove(Engine, "connect", limit)
