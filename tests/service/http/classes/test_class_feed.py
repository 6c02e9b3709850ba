"""The feed of a person's classes: texts cannot leave their lines, and lines are short."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dra_spawner.placeholders.planner.targets.class_records import ClassOutcome
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.service.http.classes.class_feed import calendar_lines, feed_query
from dra_spawner.service.web_settings import WebSettings

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def test_lines_of_a_calendar() -> None:
    hostile = "a,b;c\\d\r\nBEGIN:VALARM\u2028\x00 " + "ü" * 90
    now = NOW - timedelta(hours=1)
    time = Occurrence(hostile, "gpu", NOW, NOW + timedelta(hours=1), 9)
    no = ClassOutcome(NOW).rehearsed("No: 3 of 9, 4 wait.", NOW, is_possible=False)
    lines = [*calendar_lines([(time, no), (time, ClassOutcome(NOW))], now)]
    assert max(len(each.encode()) for each in lines) <= 75
    assert not any(each.isspace() for line in lines for each in line if each != " ")
    whole = "\n".join(lines).replace("\n ", "").split("\n")
    title = "a\\,b\\;c\\\\d  BEGIN:VALARM   " + "ü" * 90
    assert [each for each in whole if each.startswith(("SUMMARY", "DESCRIPTION", "DTSTART"))] == [
        "DTSTART:20260302T090000Z",
        f"SUMMARY:Not all can start: {title}",
        "DESCRIPTION:No: 3 of 9\\, 4 wait.",
        "DTSTART:20260302T090000Z",
        f"SUMMARY:{title}",
        "DESCRIPTION:Not rehearsed yet.",
    ]
    assert (whole[0], whole[-1], whole.count("BEGIN:VEVENT")) == ("BEGIN:VCALENDAR", "END:VCALENDAR", 2)


def test_a_class_that_has_begun_or_is_over_has_no_warning() -> None:
    time = Occurrence("Lab", "gpu", NOW, NOW + timedelta(hours=1), 9)
    no = ClassOutcome(NOW, came=7, longest_seconds=9, counted_until=time.ends).rehearsed(
        "No: 3 of 9.", NOW, is_possible=False
    )

    def described(hours: float) -> list[str]:
        lines = "\n".join(calendar_lines([(time, no)], NOW + timedelta(hours=hours))).replace("\n ", "").split("\n")
        return [each for each in lines if each.startswith(("SUMMARY", "DESCRIPTION"))]

    assert described(-1) == ["SUMMARY:Not all can start: Lab", "DESCRIPTION:No: 3 of 9."]
    assert described(0) == ["SUMMARY:Lab", "DESCRIPTION:Said before it: No: 3 of 9."]
    came = "DESCRIPTION:7 came\\, the longest waited 9 s. Said before it: No: 3 of 9."
    assert described(1) == ["SUMMARY:Lab", came]


def test_each_person_has_another_key() -> None:
    web = WebSettings("/", own_token="secret")
    queries = {feed_query(web, user) for user in ("ada", "ben", "ada\0", "")}
    assert len(queries) == 4
    assert "secret" not in "".join(queries)
    assert feed_query(WebSettings("/", own_token="other"), "ada") not in queries
    assert feed_query(WebSettings("/"), "ada") == "", "without a hub there is none"
