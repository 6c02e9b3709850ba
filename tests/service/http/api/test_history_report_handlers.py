"""The miss report of the service: a page and JSON from a real database; a sentence if it is unavailable."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import create_engine

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.recorder import Recorder
from dra_spawner.history.records import Launch, WaitCause
from dra_spawner.history.schema import METADATA
from dra_spawner.history.settings import HistorySettings
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.history_recording import HistoryRecording
from dra_spawner.service.http.api.history_report_handlers import MissesHandler, MissReportPage
from dra_spawner.service.web_settings import WebSettings
from tests.local_server import get
from tests.service.open_service import open_to_all, web_service
from tests.service.unstarted_watch import unstarted_controller

EVIL = "<script>alert(1)</script>"
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
CLASS = datetime(2026, 11, 24, 10, tzinfo=UTC)


def recording(path: Path, **settings: Any) -> HistoryRecording:
    """A history that is not open yet."""
    return HistoryRecording(HistorySettings(f"sqlite:///{path}", **settings), unstarted_controller(), DecisionLog())


@pytest.fixture
def history(tmp_path: Path) -> Iterator[HistoryRecording]:
    found = recording(tmp_path / "history.sqlite")
    found.recorder.resume(threaded=False)
    found.recorder.work()
    yield found
    if found.recorder.database is not None:
        found.recorder.database.close()


@pytest.fixture
def context() -> ServiceContext:
    return ServiceContext(WebSettings("/"), DecisionLog(), max_staleness_seconds=60, now=lambda: NOW)


@pytest.fixture
async def url(context: ServiceContext) -> AsyncIterator[str]:
    page, misses = (open_to_all(each, EVIL) for each in (MissReportPage, MissesHandler))
    async with web_service(context, ("page", page), ("misses", misses)) as found:
        yield found


def record(history: HistoryRecording, profile: str = "gpu", users: int = 40, reason: str = "") -> None:
    """A class in which all servers but ten were pending for a time."""
    database = history.recorder.database
    assert database is not None
    database.add(
        Launch(
            f"{profile}-{number}",
            CLASS + timedelta(seconds=number),
            profile,
            user="ada",
            bound=CLASS + timedelta(minutes=8 if number >= 10 else 0, seconds=number),
            warm=number < 10,
            cause=WaitCause.NODE if number >= 10 else WaitCause.NONE,
            reason=reason if number >= 10 else "",
        )
        for number in range(users)
    )


async def test_the_page_has_each_miss_with_its_entry(
    url: str, context: ServiceContext, history: HistoryRecording
) -> None:
    context.history = history
    record(history, reason="0/3 nodes are available")
    status, text = await get(f"{url}/page")
    assert status == 200
    assert "40 servers were started. 25.0 % found a warm placeholder, and 30 had to wait (75.0 %)." in text
    assert "Tue 2026-11-24 10:00 UTC" in text
    assert "40 started within 1 min, none was expected; 30 waited: too many at once" in text
    assert "gpu · most of them: 0/3 nodes are available" in text
    assert "- {profile: &quot;gpu&quot;, users: 40, begins: &quot;2026-11-24T10:00:00+00:00&quot;" in text
    assert "40 of gpu additional within 1 min" in text
    assert "<svg " in text
    assert "style=" not in text


async def test_json_says_the_same(url: str, context: ServiceContext, history: HistoryRecording) -> None:
    context.history = history
    record(history)
    status, text = await get(f"{url}/misses")
    found = json.loads(text)
    assert status == 200
    assert (found["launches"], found["hits"], found["waited"]) == (40, 10, 30)
    (item,) = found["items"]
    assert (item["profile"], item["misses"], item["placeholders"]) == ("gpu", 30, None)
    assert item["waitedFor"] == "waited for a node"
    assert yaml.safe_load(item["line"])[0]["users"] == item["calendarEntry"]["users"] == 40
    assert [(each["day"], each["waited"]) for each in found["days"] if each["launches"]] == [("2026-11-24", 30)]


async def test_names_of_others_stay_text(url: str, context: ServiceContext, history: HistoryRecording) -> None:
    context.history = history
    record(history, profile=EVIL, reason=f"{EVIL} %s {{{{1}}}}")
    _, text = await get(f"{url}/page")
    assert EVIL not in text
    assert text.count("&lt;script&gt;") == 5, "the user, the profile, the reason, and twice in the entry"


async def test_an_empty_history_is_no_error(url: str, context: ServiceContext, history: HistoryRecording) -> None:
    context.history = history
    assert "No server was started in this time." in (await get(f"{url}/page"))[1]
    record(history, users=10)
    context.misses = type(context.misses)()
    assert "No server had to wait." in (await get(f"{url}/page"))[1]


async def test_an_unavailable_history_is_reported_in_a_sentence(
    url: str, context: ServiceContext, tmp_path: Path
) -> None:
    async def problem() -> str:
        status, text = await get(f"{url}/misses")
        page_status, page = await get(f"{url}/page")
        assert status == page_status == 503
        message: str = json.loads(text)["detail"]
        assert message in unescape(page)
        return message

    assert await problem() == "There is no history yet: the cluster is not found."
    context.history = recording(tmp_path / "h.sqlite", keep=timedelta(0))
    assert await problem() == "No history is recorded: keep_days is 0 in the service's setting history."
    context.history = history = recording(tmp_path)
    assert await problem() == "This replica does not lead, and no leader is known. Only the leader reads the history."
    history.recorder.resume(threaded=False)
    history.recorder.work()
    assert await problem() == "The history is not available, as it cannot be opened: unable to open database file."


async def test_a_database_that_is_closed_between_two_looks_is_no_defect(
    url: str, context: ServiceContext, history: HistoryRecording
) -> None:
    """As by the recorder's thread after a failure, at any moment."""
    looks = []

    class Closing(Recorder):
        @property
        def database(self) -> HistoryDatabase | None:
            looks.append(1)
            return super().database if len(looks) % 2 else None

    context.history = history
    record(history)
    history.recorder.__class__ = Closing
    assert (await get(f"{url}/misses"))[0] == 200
    assert len(looks) % 2


async def test_a_database_failure_is_reported_without_its_words(
    url: str, context: ServiceContext, history: HistoryRecording, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context.history = history
    database = history.recorder.database
    assert database is not None
    other = create_engine(f"sqlite:///{tmp_path / 'history.sqlite'}")
    METADATA.drop_all(other)
    other.dispose()
    with caplog.at_level(logging.ERROR):
        status, text = await get(f"{url}/misses")
    assert status == 503
    assert json.loads(text)["detail"] == "The history is not available: it cannot be read."
    assert "The history cannot be read: error=OperationalError" in caplog.text
