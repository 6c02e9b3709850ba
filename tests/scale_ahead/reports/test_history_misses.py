"""The misses of the service's own history: a real database with some weeks of launches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import TRIAL, Launch, NodeLeadTime, WaitCause
from dra_spawner.history.user_names import UserNameMode
from dra_spawner.scale_ahead.demand.minutes import datetime_of
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.scale_ahead.reports.history_misses import has_waited, miss_report, read_miss_report
from dra_spawner.scale_ahead.reports.miss_rows import miss_row
from dra_spawner.scale_ahead.reports.misses import MissCause
from tests.all_of_them import all_of_them

NOW = datetime(2026, 11, 25, 12, 0, 30, tzinfo=UTC)
CLASS = datetime(2026, 11, 24, 10, 0, 20, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def launch(uid: str, asked: datetime, waited: float = 0.0, **fields: Any) -> Launch:
    """A launch that had its node after so many seconds, and ran for half an hour."""
    usual: dict[str, Any] = {
        "profile": "gpu",
        "user": "ada",
        "bound": asked + waited * SECOND,
        "ended": asked + timedelta(minutes=30),
        "warm": not waited,
        "cause": WaitCause.NODE if waited else WaitCause.NONE,
    }
    return Launch(uid, asked, **(usual | fields))


def usual_launches(weeks: int = 5) -> Iterator[Launch]:
    """Two launches an hour, and a quiet profile without waits."""
    begin = NOW - timedelta(weeks=weeks)
    for number in range(weeks * 7 * 48):
        at = begin + number * timedelta(minutes=30)
        yield launch(f"usual-{number}", at)
        if number % 33 == 0:
            yield launch(f"quiet-{number}", at, profile="cpu")


def a_class(begin: datetime = CLASS, users: int = 60, **fields: Any) -> Iterator[Launch]:
    for number in range(users):
        at = begin + number * 5 * SECOND
        yield launch(f"class-{begin.isoformat()}-{number}", at, 400.0 if number >= 10 else 0.0, **fields)


@pytest.fixture
def database() -> Iterator[HistoryDatabase]:
    found = HistoryDatabase.open("sqlite://", UserNameMode.HASHED)
    yield found
    found.close()


def test_a_class_that_nobody_expected(database: HistoryDatabase) -> None:
    trials = (launch(f"trial-{number}", CLASS, 400.0, source=TRIAL) for number in range(9))
    database.add([*usual_launches(), *a_class(reason="0/3 nodes are available"), *trials])
    report = read_miss_report(database, NOW)
    (found,) = report.misses
    assert (found.profile, found.waited_for) == ("gpu", "0/3 nodes are available")
    miss = found.miss
    assert datetime_of(miss.begins) == datetime(2026, 11, 24, 10, 1, tzinfo=UTC)
    assert (miss.misses, miss.ends - miss.begins, miss.target) == (50, 5, None)
    assert miss.cause is MissCause.UNEXPECTED
    assert miss.expected < 2.0
    entry = miss.calendar_entry(found.profile)
    assert (entry.profile, entry.begins) == ("gpu", datetime(2026, 11, 24, 10, 0, tzinfo=UTC))
    assert 58 <= entry.users <= 61
    assert report.waited == sum(report.timeline.missed) == 50
    assert report.launches == sum(report.timeline.launches) == 7 * 48 + 60 + 10
    assert report.hits == report.launches - 50


def test_a_class_that_comes_each_week_is_expected(database: HistoryDatabase) -> None:
    """It is no surprise, so there were too few placeholders."""
    weekly = [each for week in range(5) for each in a_class(CLASS - week * timedelta(weeks=1), users=100)]
    database.add([*usual_launches(), *weekly])
    first, *_ = read_miss_report(database, NOW).misses
    surprised = read_miss_report(database, NOW, DemandSettings(weeks=0)).misses[0]
    assert first.miss.begins == surprised.miss.begins
    assert first.miss.expected > surprised.miss.expected + 5


def test_only_the_last_week_counts(database: HistoryDatabase) -> None:
    database.add([*usual_launches(), *a_class(CLASS - timedelta(weeks=1))])
    report = read_miss_report(database, NOW)
    assert (report.misses, report.waited) == ((), 0)
    assert report.begin == datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def test_the_ten_largest_of_all_profiles(database: HistoryDatabase) -> None:
    classes = [
        each
        for number in range(15)
        for each in a_class(NOW - timedelta(hours=6 * number + 3), 11 + number, profile=f"profile-{number % 3}")
    ]
    database.add(classes)
    found = read_miss_report(database, NOW).misses
    assert [each.miss.misses for each in found] == list(range(15, 5, -1))
    assert {each.profile for each in found} == {"profile-0", "profile-1", "profile-2"}


def test_nothing_recorded_is_no_error(database: HistoryDatabase) -> None:
    report = read_miss_report(database, NOW)
    assert (report.launches, report.hits, report.waited, report.misses) == (0, 0, 0, ())
    assert len(report.timeline.launches) == 7 * 1440 + 1


def test_misses_within_a_lead_time_are_one() -> None:
    """Two rushes twelve minutes apart: with nodes that take 20 minutes they are one time."""
    rushes = [*a_class(CLASS, 20), *a_class(CLASS + timedelta(minutes=12), 20)]

    def number(leads: tuple[float, ...]) -> int:
        seen = [
            NodeLeadTime(
                f"n{index}", "n", "", CLASS - timedelta(days=1), images=CLASS - timedelta(days=1, minutes=-lead)
            )
            for index, lead in enumerate(leads)
        ]
        return len(miss_report(rushes, (), (), seen, NOW, DemandSettings()).misses)

    assert (number((20.0,)), number((2.0,) * 10), number(())) == (1, 2, 2)
    # Of the last fifty nodes.
    assert number((20.0, *([2.0] * 50))) == 2


@all_of_them(
    "fields, expected",
    {
        "node": ({"cause": WaitCause.NODE}, True),
        "preemption": ({"cause": WaitCause.PREEMPTION}, True),
        "nothing": ({"cause": WaitCause.NONE, "bound": CLASS + timedelta(minutes=3)}, False),
        "pending": ({"cause": None, "bound": None, "ended": None}, True),
        "given up at once": ({"cause": None, "bound": None, "ended": CLASS + 30 * SECOND}, False),
        "given up": ({"cause": None, "bound": None, "ended": CLASS + 90 * SECOND}, True),
        "imported, at once": ({"cause": None, "bound": None, "running": CLASS + 59 * SECOND}, False),
        "imported, later": ({"cause": None, "bound": None, "running": CLASS + 61 * SECOND}, True),
    },
)
def test_a_launch_has_waited(fields: dict[str, Any], expected: bool) -> None:
    assert has_waited(launch("1", CLASS, **fields), NOW) is expected


@all_of_them(
    "cause, expected, helps",
    {
        "a node came": (WaitCause.NODE, MissCause.UNEXPECTED, True),
        "placeholders were preempted": (WaitCause.PREEMPTION, MissCause.UNEXPECTED, True),
        "all devices were in use": (WaitCause.OTHER, MissCause.NO_NODE_CAME, False),
    },
)
def test_an_entry_is_no_help_where_no_node_comes(cause: WaitCause, expected: MissCause, helps: bool) -> None:
    launches = [*usual_launches(1), *(replace(each, cause=cause) if not each.warm else each for each in a_class())]
    (found,) = miss_report(launches, (), (), (), NOW, DemandSettings()).misses
    assert (found.miss.cause, found.miss.is_preventable) == (expected, helps)
    row = miss_row(found.miss, "gpu")
    assert (bool(row.entry), "No calendar entry helps" in row.outcome) == (helps, not helps)
