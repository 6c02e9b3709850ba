"""Calendar entries: the time when their placeholders are ordered, and the number of users still awaited."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dra_spawner.scale_ahead.calendars.occurrences import Counts, Occurrence
from dra_spawner.scale_ahead.demand.estimators.calendar_entries import OpenWindows, awaited_users, calendar_estimate
from dra_spawner.scale_ahead.demand.minutes import minute_of

BEGINS = datetime(2026, 11, 24, 17, tzinfo=UTC)
START = minute_of(BEGINS)
LEAD, MARGIN, RAMP = 10, 5, 15


def entry(users: int = 100, counts: Counts = "additional", name: str = "physics", late: int = 0) -> Occurrence:
    begins = BEGINS + timedelta(minutes=late)
    ramp = timedelta(minutes=RAMP)
    return Occurrence(name, "gpu", begins, begins + timedelta(hours=2), users, counts, ramp)


def placeholders(
    *entries: Occurrence, at: int, joined: float = 0.0, present: int = 0, usual: int = 0, starts: float = float("inf")
) -> int:
    """Placeholders a number of minutes after the begin."""
    found = awaited_users(entries, START + at, LEAD, MARGIN, starts, lambda since: joined, present)
    return calendar_estimate(found, usual).assured


def test_placeholders_are_there_from_the_first_user_to_the_last() -> None:
    """From a lead time and the margin before the begin until the last has joined, long before the end."""
    expected = {-LEAD - MARGIN - 1: 0, -LEAD - MARGIN: 100, 0: 100, RAMP + MARGIN - 1: 100, RAMP + MARGIN: 0}
    assert {at: placeholders(entry(), at=at) for at in expected} == expected


def test_an_event_that_ends_early_is_over() -> None:
    short = Occurrence("talk", "gpu", BEGINS, BEGINS + timedelta(minutes=3), 9, ramp=timedelta(minutes=15))
    assert placeholders(short, at=2) == 9
    assert placeholders(short, at=3) == 0


def test_nodes_that_start_one_after_the_other_are_ordered_earlier() -> None:
    assert placeholders(entry(), at=-LEAD - MARGIN - 20, starts=5.0) == 100
    assert placeholders(entry(), at=-LEAD - MARGIN - 21, starts=5.0) == 0


def test_a_window_that_has_opened_stays_open_while_the_calendar_has_the_entry() -> None:
    """It turns out that the nodes would have been in time later."""
    windows = OpenWindows()

    def at(minute: int, starts: float, *entries: Occurrence) -> int:
        windows.keep(entries, 0)
        found = awaited_users(entries, START + minute, LEAD, MARGIN, starts, lambda since: 0.0, 0, windows)
        return sum(each.users for each in found)

    assert at(-LEAD - MARGIN - 100, 1.0, entry()) == 100
    assert at(-LEAD - MARGIN - 99, float("inf"), entry()) == 100
    assert at(-LEAD - MARGIN - 98, float("inf"), entry(60)) == 60, "fewer users are announced"
    assert windows.minutes_since_first(START - LEAD - MARGIN - 98) == 2
    later = windows.copy()
    assert at(-LEAD - MARGIN - 97, float("inf"), entry(late=5)) == 0, "it was moved"
    assert at(-LEAD - MARGIN - 96, float("inf")) == 0
    assert at(-LEAD - MARGIN - 95, float("inf"), entry()) == 0, "it is a new entry"
    assert later.minutes_since_first(START) == LEAD + MARGIN + 100
    assert later.minutes_since_first(START + 1) is None, "it has begun"


def test_users_that_have_joined_are_not_awaited() -> None:
    assert placeholders(entry(), at=3, joined=60.9) == 40
    assert placeholders(entry(), at=3, joined=130.0) == 0


def test_fewer_launches_than_usual_add_no_users() -> None:
    assert placeholders(entry(), at=3, joined=-5.0) == 100


def test_no_user_has_joined_before_users_may() -> None:
    assert placeholders(entry(), at=-MARGIN, joined=60.0) == 100


def test_additional_users_come_on_top_of_usual_ones_and_of_one_another() -> None:
    assert placeholders(entry(100), entry(50, name="chemistry"), at=0, usual=7) == 157


def test_launches_explain_one_of_two_entries_at_a_time() -> None:
    assert placeholders(entry(100), entry(50, name="chemistry", late=1), at=3, joined=120.0) == 30


def test_in_total_means_servers_that_run_are_part_of_it() -> None:
    assert placeholders(entry(100, "in total"), at=0, present=70, usual=7) == 30
    assert placeholders(entry(100, "in total"), at=0, present=120) == 0


def test_of_totals_the_largest_counts() -> None:
    assert placeholders(entry(100, "in total"), entry(80, "in total", "chemistry"), at=0, present=10) == 90


def test_the_note_names_the_entries() -> None:
    found = awaited_users((entry(),), START, LEAD, MARGIN, float("inf"), lambda since: 25.0, 0)
    assert calendar_estimate(found, 0).note == "physics: 75 to come"


def test_a_line_names_the_first_entries() -> None:
    entries = [entry(name=f"class {each}") for each in range(300)]
    awaited = awaited_users(entries, START, LEAD, MARGIN, float("inf"), lambda since: 0.0, 0)
    note = calendar_estimate(awaited, 0).note
    assert note.startswith("class 0: 100 to come, class 1: 100 to come, ")
    assert note.endswith(", and 290 more entries")


def test_windows_of_the_version_before_are_read() -> None:
    entry = ["courses", "Exam", "2026-03-02T09:00:00+00:00", 29_000_000]
    for before in ([], [entry]):
        windows = OpenWindows()
        windows.restore(before)
        assert windows.state() == [before, []]
