"""The miss report is read at most once at a time, and now and then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import OperationalError

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch
from dra_spawner.scale_ahead.reports.history_misses import MissReport, read_miss_report
from dra_spawner.service.ahead.weekly_misses import WeeklyMisses
from tests.polling import eventually

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.fixture
def database() -> Iterator[HistoryDatabase]:
    found = HistoryDatabase.open("sqlite://")
    yield found
    found.close()


class Reader:
    """Counts the readings, and waits until it may go on."""

    def __init__(self) -> None:
        self.times: list[datetime] = []
        self.may_go_on = threading.Event()
        self.error: Exception | None = None

    def read(self, database: HistoryDatabase, now: datetime) -> MissReport:
        self.times.append(now)
        assert self.may_go_on.wait(120)
        if self.error is not None:
            raise self.error
        return read_miss_report(database, now)


async def test_a_report_serves_for_ten_minutes(database: HistoryDatabase) -> None:
    reader = Reader()
    reader.may_go_on.set()
    misses = WeeklyMisses(reader.read)
    first = await misses.report(database, NOW)
    assert await misses.report(database, NOW + timedelta(minutes=9)) is first
    assert await misses.report(database, NOW + timedelta(minutes=10)) is not first
    assert reader.times == [NOW, NOW + timedelta(minutes=10)]


async def test_the_picture_of_a_report_is_drawn_once(database: HistoryDatabase) -> None:
    misses = WeeklyMisses()
    assert await misses.picture(await misses.report(database, NOW)) == ""
    database.add([Launch("1", NOW - timedelta(hours=3), warm=True)])
    report = await misses.report(database, NOW + timedelta(hours=1))
    picture = await misses.picture(report)
    assert picture.startswith("<svg ")
    assert await misses.picture(report) is picture


async def test_a_database_that_hangs_is_asked_once(database: HistoryDatabase) -> None:
    reader = Reader()
    misses = WeeklyMisses(reader.read, timeout_seconds=0.0)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await misses.report(database, NOW)
    reader.may_go_on.set()
    patient = WeeklyMisses(reader.read)
    assert (await patient.report(database, NOW)).launches == 0
    assert len(reader.times) <= 2


async def test_a_report_that_came_too_late_serves_the_next_caller(database: HistoryDatabase) -> None:
    reader = Reader()
    misses = WeeklyMisses(reader.read, timeout_seconds=0.0)
    with pytest.raises(TimeoutError):
        await misses.report(database, NOW)
    reader.may_go_on.set()

    async def found() -> MissReport | None:
        try:
            return await misses.report(database, NOW + timedelta(minutes=2))
        except TimeoutError:
            return None

    assert (await eventually(found, "the answer has come")).end == NOW
    assert reader.times == [NOW]


async def test_a_failure_is_reported_and_tried_again(database: HistoryDatabase) -> None:
    reader = Reader()
    reader.may_go_on.set()
    reader.error = OperationalError("SELECT", {}, Exception("gone"))
    misses = WeeklyMisses(reader.read)
    with pytest.raises(OperationalError):
        await misses.report(database, NOW)
    reader.error = None
    assert (await misses.report(database, NOW)).end == NOW
    assert len(reader.times) == 2
