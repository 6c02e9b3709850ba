"""Limits of announced classes: whose they are, and what is beyond them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.scale_ahead.calendars.class_limits import (
    ClassLimits,
    last_end,
    most_at_once,
    read_class_limits,
)
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.controller.demand_settings import read_calendar_entry
from tests.all_of_them import all_of_them

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def entry(begins: str = "2026-03-02 10:00", users: str = "60 of gpu/memory=large", **more: Any) -> CalendarEntry:
    return read_calendar_entry({"users": users, "begins": begins, **more}, UTC, "entry")


def test_whose_limits_count() -> None:
    limits = read_class_limits(
        {
            "*": {"users": 10, "choices": ["gpu"]},
            "group:a": {"users": 50, "weeks": 5, "choices": ["gpu"]},
            "group:b": {"users": 20, "weeks": 9, "choices": ["cpu"]},
            "group:c": {},
            "user:ada": {"users": 1},
        }
    )
    assert limits.of("ada", ["a"]) == ClassLimits(users=1)
    assert limits.of("ben", []) == limits.of("ben", ["other"]) == ClassLimits(10, choices=frozenset({"gpu"}))
    assert limits.of("ben", ["a", "b"]) == ClassLimits(50, weeks=9, choices=frozenset({"gpu", "cpu"}))
    assert limits.of("ben", ["a", "c"]).choices is None, "a group without choices may announce all"
    assert read_class_limits({}).of("ben", ["a"]) == ClassLimits()
    wrong: tuple[Any, ...] = (
        [],
        {"ada": {}},
        {"*": []},
        {"*": {"users": -1}},
        {"*": {"user": 1}},
        {"*": {"choices": "gpu"}},
        {1: {}},
    )
    for each in wrong:
        with pytest.raises(SettingsError, match="class_limits"):
            read_class_limits(each)


WEEKLY = entry(weekly_until="2026-06-01")


@all_of_them(
    "mine, others, users",
    {
        "alone": (entry(), [], 60),
        "the same time": (entry(), [entry(), entry("2026-03-02 11:00")], 180),
        "one after the other": (entry(), [entry("2026-03-02 11:30"), entry("2026-03-02 08:30")], 60),
        "others together, not with mine": (entry(), [entry("2026-03-02 12:00"), entry("2026-03-02 12:00")], 60),
        "it begins before": (entry(), [entry("2026-03-02 09:00")], 120),
        "a later week": (WEEKLY, [entry("2026-04-06 10:30"), entry("2026-05-04 10:30")], 120),
        "a break": (entry(weekly_until="2026-06-01", skipped=["2026-04-06"]), [entry("2026-04-06 10:30")], 60),
        "both weekly": (WEEKLY, [entry("2026-03-09 11:00", weekly_until="2026-03-30")], 120),
        "other zones": (entry(), [entry("2026-03-02 12:00", timezone="Europe/Helsinki")], 120),
        "far years": (entry("2999-12-31 10:00"), [entry("1970-01-01 10:00", weekly_until="9999-12-31")], 60),
    },
)
def test_users_at_the_same_time(mine: CalendarEntry, others: list[CalendarEntry], users: int) -> None:
    assert most_at_once(mine, others) == users


OVER = entry("2026-02-02 10:00")


@all_of_them(
    "mine, others, refusal",
    {
        "allowed": (entry(), [OVER, OVER], ""),
        "the last week": (entry(weekly_until="2026-03-22"), [], ""),
        "one week more": (entry(weekly_until="2026-03-23"), [], "more than 3 weeks"),
        "years": (entry(weekly_until="9999-12-31"), [], "more than 3 weeks"),
        "another century": (entry("2999-12-31 10:00"), [], "more than 3 weeks"),
        "another choice": (entry(users="1 of cpu"), [], "may not announce this choice"),
        "too long": (entry(minutes=121), [], "takes 121 minutes"),
        "too many": (entry("2026-03-03 10:00"), [entry(), entry("2026-03-04 10:00")], "2 classes that are not over"),
        "too many people": (entry(), [entry()], "120 users at the same time"),
    },
)
def test_what_is_beyond_the_limits(mine: CalendarEntry, others: list[CalendarEntry], refusal: str) -> None:
    found = ClassLimits(100, 2, 120, 3, frozenset({"gpu"})).refusal(mine, others, NOW)
    assert refusal in found if refusal else not found, found


def test_few_classes_or_none() -> None:
    one = ClassLimits(classes=1).refusal(entry(), [entry()], NOW)
    assert one == "You have 1 class that is not over; the limit is 1. Cancel one."
    assert [ClassLimits(classes=0).refusal(entry(), others, NOW) for others in ([], [entry()])] == [
        "You may not announce classes."
    ] * 2


def test_the_end_of_the_last_time() -> None:
    assert last_end(entry(weekly_until="2026-03-20")) == datetime(2026, 3, 16, 11, 30, tzinfo=UTC)
