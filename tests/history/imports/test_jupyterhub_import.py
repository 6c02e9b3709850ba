"""JupyterHub's own records: its event log as its library writes it, and its database as its own code fills it.

`tests/integration/test_history_of_a_hub.py` reads the same from a hub that runs.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jupyterhub
import pytest
from jupyter_events import EventLogger
from jupyterhub import orm

from dra_spawner.history.imports.imported_rows import BadRow, SourceError
from dra_spawner.history.imports.jupyterhub_import import JupyterHubSource
from dra_spawner.history.records import Launch
from dra_spawner.history.user_names import UserNames
from tests.all_of_them import all_of_them
from tests.history.postgresql import PostgresqlServer

NAMES = UserNames(b"k" * 32)
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
SCHEMA = "https://schema.jupyter.org/jupyterhub/events/server-action"


def read(source: Path | str, **more: Any) -> list[Launch | BadRow]:
    return list(JupyterHubSource(str(source), NAMES, NINE + timedelta(days=1), **more).rows())


def launches(source: Path | str, **more: Any) -> list[Launch]:
    found = read(source, **more)
    assert all(isinstance(each, Launch) for each in found), found
    return [each for each in found if isinstance(each, Launch)]


# --- the event log ----------------------------------------------------------------------------------------------------


def log_events(path: Path, *events: tuple[float, str, str, str]) -> None:
    """Write events as the hub does, each at so many minutes after nine."""
    handler = logging.FileHandler(path)
    logger = EventLogger(handlers=[handler])
    logger.register_event_schema(Path(jupyterhub.__file__).parent / "event-schemas" / "server-actions" / "v1.yaml")
    for minutes, action, user, server in events:
        data = {"action": action, "username": user, "servername": server}
        logger.emit(schema_id=SCHEMA, data=data, timestamp_override=NINE + timedelta(minutes=minutes))
    handler.close()


def test_starts_and_stops(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    starts = [(1, "start", "ada", ""), (2, "start", "ada", "second")]
    again = [(4, "start", "bob", ""), (9, "start", "bob", "")]
    log_events(path, (0, "stop", "eve", ""), *starts, (3, "stop", "ada", ""), *again)
    found = {each.running: each for each in launches(path, profile="gpu")}
    minute = {int((each.running - NINE).total_seconds() // 60): each for each in found.values() if each.running}
    assert sorted(minute) == [1, 2, 4, 9], "a stop of a server that began before the log is left out"
    assert (minute[1].user, minute[1].profile, minute[1].source) == ("ada", "gpu", "jupyterhub")
    assert (minute[1].ended, minute[1].end_is_estimate) == (NINE + timedelta(minutes=3), False)
    assert minute[2].ended is None
    assert (minute[4].ended, minute[4].end_is_estimate) == (NINE + timedelta(minutes=9), True)
    assert launches(path, profile="gpu") == launches(path, profile="gpu")


def test_a_bad_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    log_events(path, (5, "start", "ada", ""))
    event = json.loads(path.read_text())
    lines = (
        "this is no JSON",
        "[]",
        json.dumps({**event, "action": "restart"}),
        json.dumps({**event, "username": None}),
        json.dumps({**event, "__timestamp__": "yesterday"}),
        json.dumps({**event, "action": "stop", "__timestamp__": "2026-03-02T09:01:00+00:00Z"}),
        json.dumps({**event, "username": "late", "__timestamp__": "2027-03-02T09:01:00+00:00Z"}),
    )
    path.write_text(path.read_text() + "\n" + "\n".join(lines))
    bad = [each for each in read(path) if isinstance(each, BadRow)]
    assert [each.location for each in bad] == [f"line {number}" for number in range(3, 10)]
    said = (
        "an event as JSON",
        "a JSON object",
        "start or stop",
        "username",
        "ISO 8601",
        "previous event",
        "a past time",
    )
    assert [words in each.problem for each, words in zip(bad, said, strict=True)] == [True] * 7, bad
    assert len([each for each in read(path) if isinstance(each, Launch)]) == 1


# --- its database -----------------------------------------------------------------------------------------------------


def fill(url: str) -> None:
    """A hub's database with a server that runs, a second one of the same user, and one that has ended."""
    session = orm.new_session_factory(url)()
    ada, bob = orm.User(name="ada"), orm.User(name="bob")
    session.add_all((ada, bob))
    started = NINE.replace(tzinfo=None)
    options = {"profile": "gpu-slice"}
    session.add(orm.Spawner(user=ada, name="", started=started, server=orm.Server(), user_options=options))
    second = started + timedelta(minutes=1)
    session.add(orm.Spawner(user=ada, name="second", started=second, server=orm.Server(), user_options={}))
    session.add(orm.Spawner(user=bob, name="", started=None, server=None, user_options=options))
    session.commit()
    session.close()
    session.get_bind().dispose()


def is_as_filled(found: list[Launch]) -> bool:
    expected = [(NINE, "gpu-slice"), (NINE + timedelta(minutes=1), "cpu")]
    return [(each.asked, each.profile) for each in found] == expected and {each.user for each in found} == {"ada"}


def test_servers_that_run_are_in_its_database(tmp_path: Path) -> None:
    path = tmp_path / "jupyterhub.sqlite"
    fill(f"sqlite:///{path}")
    before = path.read_bytes()
    assert is_as_filled(launches(path, profile="cpu"))
    assert is_as_filled(launches(f"sqlite:///{path}", profile="cpu"))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_servers_that_run_are_in_its_database_in_postgresql(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    fill(url.replace("postgresql:", "postgresql+psycopg:"))
    assert is_as_filled(launches(url, profile="cpu"))


# --- answers of GET /users --------------------------------------------------------------------------------------------


def test_a_bad_user_is_named(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    good = {"name": "ada", "servers": {"": {"started": "2026-03-02T09:00:00Z", "user_options": {"profile": "p"}}}}
    stopped = {
        "name": "eve",
        "servers": {"": {"started": None}, "x": {"started": "2026-03-02T09:00:00Z", "stopped": True}},
    }
    wrong = {"name": "bob", "servers": {"": {"started": "today"}}}
    path.write_text(json.dumps([good, 3, {"servers": {}}, stopped, wrong]))
    launch, *bad = read(path)
    assert isinstance(launch, Launch)
    assert (launch.asked, launch.profile) == (NINE, "p")
    assert [each.location for each in bad if isinstance(each, BadRow)] == ["user 2", "user 3", "user 5"]


def test_a_source_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    @all_of_them("source, problem", [
        ("{tmp}/none", "No such file or directory"),
        ("sqlite:///{tmp}/none", "the file does not exist"),
        ("sqlite:///{tmp}/empty", "JupyterHub's tables cannot be read: no such table"),
        ("mysql://u:secret@db/hub", r"mysql://u:\*\*\*@db/hub: allowed: a URL that begins with"),
        ("postgresql://u:secret@127.0.0.1:1/hub", "JupyterHub's tables cannot be read: connection"),
    ])  # fmt: skip
    def check(source: str, problem: str) -> None:
        with pytest.raises(SourceError, match=problem) as refused:
            read(source.format(tmp=tmp_path))
        assert "secret" not in str(refused.value)

    check()
