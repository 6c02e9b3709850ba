"""What is remembered of a start that an earlier process of the hub began."""

from types import SimpleNamespace
from typing import Any

from dra_spawner import names
from dra_spawner.fairness.idle.notices import Notice
from dra_spawner.spawner.my_devices.my_devices_handler import devices_of_server
from dra_spawner.spawner.objects.start_objects import utc_now
from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.progress.session_time import SessionTime
from dra_spawner.spawner.server_context import ServerContext, parts_of
from tests.all_of_them import all_of_them


@all_of_them(
    "pod, begun_here, is_told",
    {
        "a start of the hub before": ({"status": {"phase": "Pending"}}, False, True),
        "a start of this hub": ({"status": {"phase": "Pending"}}, True, False),
        "a server that runs": ({"status": {"phase": "Running"}}, False, False),
        "no pod": (None, False, False),
    },
)
async def test_a_start_that_a_restarted_hub_gives_up(nowhere, monkeypatch, pod, begun_here, is_told):
    parts = parts_of(nowhere.user("ada").spawner)
    monkeypatch.setattr(type(parts.server), "pod", lambda _: pod)
    if begun_here:
        parts.home.record_start(parts.page.progress)
    parts.home.record_stop()
    assert ("The hub was restarted" in parts.home.record.failure) is is_told
    assert not parts.home.record.was_ended


@all_of_them("age, note", {"just read": (9, "out of use"), "read again meanwhile": (50, "out of use"), "old": (61, "")})
async def test_an_old_note_about_devices_is_not_shown(nowhere, monkeypatch, age, note):
    """What an earlier look found may be over: the look of today only begins to read."""
    parts = parts_of(nowhere.user("ada").spawner)
    monkeypatch.setattr(ServerContext, "pod", lambda _: {"spec": {"resourceClaims": [{"name": "gpu"}]}})
    reading, begun = devices_of_server(parts), []
    value: Any = SimpleNamespace(withdrawn="out of use")
    reading.put(value)
    monkeypatch.setattr(reading, "age", lambda: age)
    monkeypatch.setattr(reading, "begin", lambda: begun.append(age))
    assert (parts.home.device_note(), bool(begun)) == (note, age > 10)


async def test_a_server_that_does_not_stop_keeps_its_limits(nowhere, monkeypatch):
    """A stop that fails is tried again: by then, the server must have its lifetime, and its own idle time."""
    home = parts_of(nowhere.user("ada").spawner).home
    notice = Notice(warned_at=utc_now(), stopped_at=utc_now()).text()
    pod = {"metadata": {"annotations": {names.IDLE_NOTICE: notice}}, "spec": {"resourceClaims": [{"name": "gpu"}]}}
    monkeypatch.setattr(ServerContext, "pod", lambda _: pod)
    home.record = ServerRecord("a GPU", idle_timeout=900, session=SessionTime(3600, 900))
    home.record_stop()
    assert "Nothing computed on it" in home.record.failure
    assert (home.idle_timeout(), home.session() is not None) == (900, True)
    home.forget_server()
    assert (home.idle_timeout(), home.session(), home.report) == (0, None, None)
