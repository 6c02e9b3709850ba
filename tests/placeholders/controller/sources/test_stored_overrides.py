"""Overrides in a ConfigMap that another version, or a person, has written to."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner.placeholders.controller.sources.stored_overrides import (
    MAX_BYTES,
    OverridesTooLarge,
    OverridesUnreadable,
    changed_data,
    overrides_data,
    read_overrides,
    unreadable_keys,
)
from dra_spawner.placeholders.planner.targets.class_records import ClassRequest
from dra_spawner.placeholders.planner.targets.overrides import Override, OverrideKind, Overrides
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from tests.all_of_them import all_of_them

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
NUMBERS = Override(OverrideKind.PLACEHOLDERS, "gpu", "user ada", NOW, None, "exam", ReplicaRange(2, 3))
DRAINING = Override(OverrideKind.DRAINING, "n1", "service x", NOW)
REQUEST = ClassRequest({"name": "Statistics"}, "user bob", NOW)
ALL = Overrides().with_setting(NUMBERS).with_setting(DRAINING).with_entry("a", {"users": "9 of gpu"}, "user ada", NOW)
ALL = replace(ALL, classes=ALL.classes.with_request("r", REQUEST))


def of_newer_version() -> dict[str, Any]:
    """The same settings, with all kinds of what this version does not know."""
    data = {key: json.loads(each) for key, each in overrides_data(ALL).items()}
    data["settings.json"][0]["colour"] = "red"
    data["settings.json"] += [
        {"kind": "newer", "name": "x", "by": "user ada", "at": NOW.isoformat(), "shape": {"a": 1}},
        {"kind": "draining", "name": 7},
        "not an object",
    ]
    data["audit.json"][0]["address"] = "192.0.2.1"
    data["audit.json"].insert(0, {"what": "newer"})
    data["calendar-entries.json"] |= {"b": ["newer"]}
    data["classes.json"]["owners"]["a"]["mail"] = "ada@example.org"
    data["classes.json"]["owners"]["z"] = 5
    data["classes.json"]["rooms"] = {"r1": {"seats": 30}}
    return {"data": {key: json.dumps(each) for key, each in data.items()} | {"newer.json": "[1]"}}


def test_what_a_newer_version_wrote_is_kept_by_each_change() -> None:
    obj = of_newer_version()
    present = read_overrides(obj)
    assert (present.settings, present.orders, present.entries) == (ALL.settings, ALL.orders, ALL.entries)
    assert (present.audit, present.classes) == (ALL.audit, ALL.classes)
    newer = {key: json.loads(each) for key, each in obj["data"].items()}
    for _ in range(3):  # as often as it is written
        obj = {"data": changed_data(obj, read_overrides(obj).with_setting(replace(DRAINING, name="n2")))}
    found = {key: json.loads(each) for key, each in obj["data"].items()}
    for each in newer["settings.json"]:
        assert each in found["settings.json"]
    assert len(found["settings.json"]) == len(newer["settings.json"]) + 1
    assert found["audit.json"][:-3] == newer["audit.json"]
    for key in ("calendar-entries.json", "classes.json", "newer.json"):
        assert found[key] == newer[key]
    assert read_overrides(obj).settings.keys() == {*ALL.settings, (OverrideKind.DRAINING, "n2")}


def test_what_is_deleted_or_replaced_stays_so_beside_what_is_not_known() -> None:
    obj = of_newer_version()
    changed = read_overrides(obj).without(NUMBERS.key, "user ada", NOW).without_entry("a", "user ada", NOW)
    until = replace(DRAINING, until=NOW + timedelta(hours=1))
    changed = replace(changed, classes=changed.classes.without_request("r")).with_setting(until)
    data = changed_data(obj, changed.with_setting(replace(until, until=None)))
    found = read_overrides({"data": data})
    assert (found.settings, found.entries) == ({DRAINING.key: DRAINING}, {})
    assert (found.classes.requests, found.classes.owners) == ({}, {})
    assert "until" not in data["settings.json"]


@all_of_them("key", ["settings.json", "audit.json", "orders.json", "calendar-entries.json", "classes.json"])
def test_a_key_that_is_no_json_is_not_overwritten(key: str) -> None:
    """As after a forgotten comma. What was known of it before counts until it is mended."""
    for text in ("[{,}]", "nul", "[" * 100_000, '"text"', "7", '{"a": 1}' if key in LISTS else "[1]"):
        obj = {"data": overrides_data(ALL) | {key: text}}
        assert unreadable_keys(obj) == [key], text[:20]
        assert read_overrides(obj, ALL) == ALL
        with pytest.raises(OverridesUnreadable, match=f"its key {key} is no valid JSON; mend it, or empty it"):
            changed_data(obj, read_overrides(obj))
    for text in ("", "[]", "{}", "null"):  # emptied by a person
        obj = {"data": overrides_data(ALL) | {key: text}}
        assert not unreadable_keys(obj)
        assert read_overrides(obj, ALL) != ALL or key == "orders.json"
        assert changed_data(obj, ALL) == overrides_data(ALL)


def test_half_a_character_and_a_whole_one() -> None:
    """With a half, no page that shows it could be written."""
    for reason, read in (("\ud800!", "?!"), ("\N{PARTY POPPER}", "\N{PARTY POPPER}")):
        obj = {"data": overrides_data(Overrides().with_setting(replace(DRAINING, reason=reason)))}
        assert [each.reason for each in read_overrides(obj).settings.values()] == [read]


LISTS = ("settings.json", "audit.json", "orders.json")


def test_a_full_configmap_loses_the_oldest_of_the_audit_trail_and_nothing_else() -> None:
    long = "\N{SNOWMAN}" * 500
    full = Overrides()
    for number in range(190):
        full = full.with_setting(replace(DRAINING, name=f"n{number}", reason=long))
    entry = {"name": "x" * 200_000}
    obj = {"data": changed_data({"data": {"newer.json": "x" * 100_000}}, full.with_entry("a", entry, "user ada", NOW))}
    assert sum(map(len, obj["data"].values())) <= MAX_BYTES
    found = read_overrides(obj)
    assert (found.settings, found.entries) == (full.settings, {"a": entry})
    assert 0 < len(found.audit) < 190
    assert found.audit[-1].subject == "calendar-entry a"
    with pytest.raises(OverridesTooLarge):
        changed_data({"data": {"newer.json": "x" * 500_000}}, found)
