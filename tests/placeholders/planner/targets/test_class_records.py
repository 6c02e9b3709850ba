"""What is stored of classes: it comes back as it was, what is over goes, and what another writer wrote harms nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dra_spawner.placeholders.controller.sources.stored_overrides import overrides_data, read_overrides
from dra_spawner.placeholders.planner.targets.class_records import (
    ClassNotice,
    ClassOutcome,
    ClassRecords,
    ClassRequest,
    EntryOwner,
    RaisedMax,
    class_records_text,
    read_class_records,
)
from dra_spawner.placeholders.planner.targets.overrides import Overrides
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from tests.all_of_them import all_of_them

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
DAY = timedelta(days=1)
WRITTEN = {"users": "60 of gpu", "begins": "2026-03-02 10:00"}
RECORDS = ClassRecords(
    {"a": EntryOwner("user ada", NOW, "physics")},
    {"b": ClassRequest(WRITTEN, "user ben", NOW, "g", "user root", NOW, "No."), "c": ClassRequest(WRITTEN, "x", NOW)},
    {"a": RaisedMax("gpu", 60, NOW + DAY, "user root")},
    {"k": ClassOutcome(NOW, "Yes.", True, NOW, None, False, 60, NOW, 58, 9.0), "l": ClassOutcome(NOW)},
    {"a": ClassNotice("Lab", "physics", "user ada", "user root", NOW + DAY, "14:00", "15:00")},
)


def test_they_come_back_and_what_is_over_goes() -> None:
    settings = Overrides(entries={"a": WRITTEN}, classes=RECORDS)
    found = read_overrides({"data": overrides_data(settings)})
    assert found.classes == RECORDS
    assert found.active(NOW) is found
    later = found.active(NOW + 20 * DAY).classes
    kept = later.owners, later.requests, later.raised, later.outcomes, later.notices
    assert [*map(set, kept)] == [{"a"}, {"c"}, set(), set(), set()]
    assert found.active(NOW + 100 * DAY).classes.requests == {}
    assert found.without_entry("a", "user ada", NOW).classes.owners == {}
    changed = found.with_entry("a", WRITTEN, "user root", NOW + DAY, "other").classes.owners["a"]
    assert changed == EntryOwner("user ada", NOW, "other"), "it stays the class of the person who announced it"


def test_a_larger_max_counts_until_it_ends() -> None:
    configured = {"gpu": ReplicaRange(2, 20), "cpu": ReplicaRange(1, 90)}
    raised = ClassRecords(
        raised={
            "a": RaisedMax("gpu", 60, NOW + DAY, "x"),
            "b": RaisedMax("cpu", 60, NOW + DAY, "x"),
            "c": RaisedMax("whole", 7, NOW + DAY, "x"),
        }
    )
    found = raised.applied_to(configured)
    assert {name: (each.min, each.max) for name, each in found.items()} == {
        "gpu": (2, 60),
        "cpu": (1, 90),
        "whole": (0, 7),
    }
    assert raised.active(NOW + DAY).applied_to(configured) == configured


def test_a_verdict_is_told_once_until_it_changes() -> None:
    first = ClassOutcome(NOW).rehearsed("No: 3 cannot.", NOW, is_possible=False)
    assert (first.turned_at, first.is_told) == (NOW, False)
    told = ClassRecords(outcomes={"k": first}).told(["k", "gone"]).outcomes["k"]
    again = told.rehearsed("No: 4 cannot.", NOW + DAY, is_possible=False)
    assert (again.turned_at, again.is_told, again.rehearsed_at) == (NOW, True, NOW + DAY)
    well = again.rehearsed("Yes.", NOW + 2 * DAY, is_possible=True)
    assert (well.turned_at, well.is_told) == (None, False)
    # What was computed before the message was sent does not unsay it.
    kept = ClassRecords(outcomes={"k": told}).with_outcomes({"k": first}).outcomes["k"]
    assert kept.is_told
    many = {str(number): ClassOutcome(NOW + number * DAY) for number in range(400)}
    assert min(map(int, ClassRecords().with_outcomes(many).outcomes)) == 100


def test_one_person_cannot_push_out_what_others_are_told() -> None:
    found, of_eve = RECORDS, ClassNotice("x", "g", "user eve", "user eve", NOW + DAY, "14:00")
    for number in range(300):
        found = found.with_notice(f"e{number}", of_eve)
    assert (len(found.notices), "a" in found.notices, "e299" in found.notices) == (21, True, True)
    for number in range(300):
        found = found.with_notice(f"p{number}", replace(of_eve, owner=f"user {number}"))
    assert len(found.notices) == 100


AT = NOW.isoformat()
WRONG: dict[str, list[Any]] = {
    "owners": [None, [], {"by": 1, "at": AT}, {"by": "x" * 2000, "at": AT}, {"by": "x"}],
    "requests": [{"written": "x", "by": "x", "at": AT}, {"written": {}, "by": "x", "at": "2026-33-02"}],
    "raised": [{"choice": "x", "max": each, "until": AT, "by": "x"} for each in (-1, True, 10**9, "1")],
    "outcomes": [{"begins": "9999-99-99"}, {"begins": AT, "came": -1}, {"begins": "-x" * 900}],
    "notices": [{"begins": AT}, {"begins": AT, "time": "x" * 2000}, {"begins": AT, "time": "x", "group": ["g"]}, "x"],
}


@all_of_them("part, wrong", [(part, each) for part, found in WRONG.items() for each in found])
def test_what_another_writer_wrote_is_left_out(part: str, wrong: Any) -> None:
    good = json.loads(class_records_text(RECORDS))
    text = json.dumps({**good, part: {"wrong": wrong, **good[part]}})
    assert read_class_records(text) == RECORDS


def test_what_is_no_text_of_records() -> None:
    for text in (None, 1, "", "[]", "{", '{"owners": []}', "[" * 100_000):
        assert read_class_records(text) == ClassRecords()


def test_long_verdicts_do_not_keep_announcements_out() -> None:
    """A title of a choice in another alphabet takes six bytes a letter in the stored text."""
    for verdict in ("No: 3 of 60 cannot start. " * 20, "あ" * 500, "🧪" * 500):
        outcomes = {
            f"{number:020}": ClassOutcome(NOW, longest_seconds=1.5).rehearsed(verdict, NOW, is_possible=False)
            for number in range(300)
        }
        last = {"last": replace(outcomes[f"{0:020}"], begins=NOW + DAY)}
        owners = {f"{number:012}": EntryOwner(f"user {number:020}", NOW, "physics") for number in range(1_000)}
        found = Overrides(classes=ClassRecords(owners).with_outcomes(outcomes | last))
        assert found.with_entry("a", WRITTEN, "user ada", NOW).fits_storage, verdict[:3]
        assert "last" in found.classes.outcomes
    short = ClassOutcome(NOW, longest_seconds=1.5).rehearsed("No: 3 of 60 cannot start." * 5, NOW, is_possible=False)
    assert len(ClassRecords().with_outcomes({f"{number:020}": short for number in range(300)}).outcomes) == 300
