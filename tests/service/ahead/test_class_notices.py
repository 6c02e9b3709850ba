"""Notices about times of a class that do not take place as announced."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from dra_spawner.placeholders.planner.targets.class_records import ClassNotice, EntryOwner
from dra_spawner.placeholders.planner.targets.overrides import Overrides
from dra_spawner.scale_ahead.controller.demand_settings import read_calendar_entry
from dra_spawner.service.ahead.class_notices import with_notice

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
LAB: dict[str, Any] = {
    "name": "Lab",
    "users": "60 of gpu-whole",
    "begins": "2026-03-03 14:00",
    "weekly_until": "2026-06-01",
    "timezone": "Europe/Berlin",
}
READ = partial(read_calendar_entry, zone=UTC, path="entry")
ADA, ROOT = "user ada", "user root"


def of(written: Any, *, owner: str = ADA) -> Overrides:
    found = Overrides(entries={"a": written})
    return replace(found, classes=found.classes.with_entry("a", EntryOwner(owner, NOW, "physics")))


def notice(written: Any, before: Any = LAB, by: str = ADA, now: datetime = NOW) -> ClassNotice | None:
    old = of(before)
    new = old.with_entry("a", written, by, now) if written is not None else old.without_entry("a", by, now)
    return with_notice(old, new, "a", READ, by, now).classes.notices.get("a")


def test_what_the_group_is_told() -> None:
    time = "Tue 2026-03-03 14:00 CET"
    moved = "Wed 2026-03-04 15:30 CET"
    cases: list[tuple[Any, str | None]] = [
        (None, ""),
        ({**LAB, "begins": "2026-03-04 15:30"}, moved),
        ({**LAB, "skipped": ["2026-03-03"]}, "Tue 2026-03-10 14:00 CET"),
        ({**LAB, "begins": "2026-05-05 14:00"}, ""),
        ({**LAB, "name": "Other", "users": "9 of gpu-whole"}, None),
        ({**LAB, "begins": "2026-03-03 13:00", "timezone": "UTC"}, None),
        ({**LAB, "weekly_until": "2026-03-20"}, None),
    ]
    for written, instead in cases:
        found = notice(written)
        told = (found.time, found.instead) if found is not None else None
        assert told == ((time, instead) if instead is not None else None), written
    found = notice(None, by=ROOT)
    assert found == ClassNotice("Lab", "physics", ADA, ROOT, datetime(2026, 3, 3, 13, tzinfo=UTC), time)


def test_of_what_nothing_is_said() -> None:
    far = {**LAB, "begins": "2026-05-05 14:00"}
    assert notice(None, before=far) is None, "its members have not read of it"
    assert notice(None, before={"users": 7}) is None, "another writer wrote it"
    assert notice(None, now=NOW + timedelta(days=200)) is None, "it is over"
    stranger = Overrides(entries={"a": LAB})
    assert with_notice(stranger, stranger.without_entry("a", ADA, NOW), "a", READ, ADA, NOW).classes.notices == {}
    gone = replace(of(LAB), entries={})
    assert with_notice(gone, gone, "a", READ, ADA, NOW) is gone


def test_an_operator_who_changes_the_entry_keeps_its_group() -> None:
    assert of(LAB).with_entry("a", LAB, ROOT, NOW).classes.owners["a"].group == "physics"
    assert of(LAB).with_entry("a", LAB, ADA, NOW, "").classes.owners["a"].group == ""
