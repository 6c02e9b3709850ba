"""A wrong value is refused with its path, the found and the allowed value; all of them at once."""

from __future__ import annotations

from datetime import UTC, date
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dra_spawner.profiles.syntax.problems import Problem
from dra_spawner.profiles.syntax.settings_reader import SettingsError, SettingsReader, readers_of_list, refuse_settings
from tests.all_of_them import all_of_them


def reader_of(value: Any) -> SettingsReader:
    return SettingsReader(value, "a", "a mapping")


def test_values_and_defaults() -> None:
    reader = reader_of(
        {"n": 3, "x": 0.5, "yes": True, "t": "text", "z": "Europe/Berlin", "d": ["2026-12-24"], "null": None}
    )
    assert reader.whole_number("n", 1, 0, 5) == 3
    assert reader.number("x", 1, 0, 5) == 0.5
    assert reader.truth("yes", default=False) is True
    assert reader.text("t") == "text"
    assert reader.checked("t", str.upper, "a text") == "TEXT"
    assert reader.zone("z", UTC) == ZoneInfo("Europe/Berlin")
    assert reader.days("d") == {date(2026, 12, 24)}
    assert (reader.numbers("x", 0, 5), reader.numbers("absent", 0, 5)) == ((0.5,), ())
    assert (reader.texts("d"), reader.texts("absent"), reader.text_map("absent")) == (("2026-12-24",), (), {})
    assert (reader.whole_number("null", 7, 0, 9), reader.text("absent", "default")) == (7, "default")
    reader.refuse_other_keys()
    refuse_settings(reader.problems)


@all_of_them("value, read, problem", {
    "no mapping": (3, lambda reader: None, "a: found 3; allowed: a mapping"),
    "truth for a number": ({"n": True}, lambda reader: reader.whole_number("n", 0, 0, 5), "a.n: found True; allowed: a whole number from 0 to 5"),
    "range": ({"n": 6}, lambda reader: reader.number("n", 0, 0, 5), "a.n: found 6; allowed: a number from 0 to 5"),
    "truth": ({"t": 1}, lambda reader: reader.truth("t", default=True), "a.t: found 1; allowed: true or false"),
    "long text": ({"t": "x" * 300}, lambda reader: reader.text("t", allowed="a name"), "a.t: found 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...; allowed: a name"),
    "missing": ({}, lambda reader: reader.required("t", "a name"), "a.t: nothing found; allowed: a name"),
    "zone": ({"z": "../etc"}, lambda reader: reader.zone("z", UTC), "a.z: found '../etc'; allowed: a time zone like \"Europe/Berlin\""),
    "day": ({"d": ["2026-12-24", 5]}, lambda reader: reader.days("d"), "a.d[1]: found 5; allowed: a day like \"2026-12-24\""),
    "address": ({"u": "https://token@example.org"}, lambda reader: reader.number("u", 0, 0, 1), "a.u: found a value with an address; allowed: a number from 0 to 1"),
    "hostile key": ({"n": 1, "\x1b[2J": 2}, lambda reader: reader.number("n", 0, 0, 1) and None, "a.'\\x1b[2J': found '\\x1b[2J'; allowed: the keys n"),
})  # fmt: skip
def test_refused(value: Any, read: Any, problem: str) -> None:
    reader = reader_of(value)
    read(reader)
    reader.refuse_other_keys()
    with pytest.raises(SettingsError) as refused:
        refuse_settings(reader.problems)
    assert str(refused.value) == problem


def test_problems_of_inner_mappings_come_with_their_paths() -> None:
    problems: list[Problem] = []
    first, second = readers_of_list([{"b": {"c": 9}}, 3], "list", 2, "a mapping", problems)
    first.inner("b", first.value("b"), "a mapping").number("c", 0, 0, 5)
    assert not second.is_mapping
    assert [each.path for each in problems] == ["list[1]", "list[0].b.c"]
    assert readers_of_list([1, 2, 3], "list", 2, "a mapping", problems) == ()
    assert str(problems[-1]) == "list: found 3 entries; allowed: a list of at most 2 entries, each a mapping"
