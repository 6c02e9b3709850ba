"""What is remembered of a start that an earlier process of the hub began."""

import asyncio
from types import SimpleNamespace

from dra_spawner import names
from dra_spawner.fairness.idle.notices import Notice
from dra_spawner.spawner.devices.reader import Reading
from dra_spawner.spawner.objects.start_objects import utc_now
from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.progress.session_time import SessionTime
from dra_spawner.spawner.server_context import ServerContext, parts_of
from dra_spawner.spawner.user_pages.server_notes import home_notes
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


@all_of_them(
    "age, answers, note",
    {
        "just read": (1, True, "out of use"),
        "over since": (50, True, ""),
        "long over": (600, True, ""),
        "the cluster is slow": (50, False, "out of use"),
        "what was known is old": (61, False, ""),
    },
)
async def test_the_home_page_says_what_is_so_of_devices_now(nowhere, monkeypatch, age, answers, note):
    """What an earlier look found may be over: they are read again, and the page waits for that a moment."""
    spawner = nowhere.user("ada").spawner
    parts, looks, found = parts_of(spawner), [], []
    monkeypatch.setattr(ServerContext, "pod", lambda _: {"spec": {"resourceClaims": [{"name": "gpu"}]}})

    async def read():
        looks.append(age)
        await asyncio.sleep(0 if answers else 3600)
        found.append(age)
        return SimpleNamespace(withdrawn="")

    parts.own_devices = reading = Reading(read)
    reading.put(SimpleNamespace(withdrawn="out of use"))
    monkeypatch.setattr(reading, "age", lambda: 0.0 if found else age)
    user = SimpleNamespace(all_spawners=lambda: [SimpleNamespace(name="", active=True, ready=True, _dra=parts)])
    assert [each.text for each in await home_notes(user)] == ([note] if note else [])
    assert bool(looks) == (age > 2)


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
