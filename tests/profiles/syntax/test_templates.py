"""Placeholders in templates: expansion, refusals, and that no value gets out of its text."""

from __future__ import annotations

import json
import string
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.profiles.syntax.problems import ProfileError
from dra_spawner.profiles.syntax.templates import (
    SAMPLE_VALUES,
    VARIABLES,
    expand,
    template_problems,
    value_problem,
    variable_names,
)
from tests.all_of_them import all_of_them

VALUES: dict[str, str | int] = {
    "vlan": 42,
    "vlan_high": 0,
    "vlan_low": 42,
    "username": "ada",
    "servername": "",
    "address": "10.42.0.7/24",
}


@all_of_them("template, expected", {
    "nothing to do": ("plain", "plain"),
    "empty": ("", ""),
    "within a text": ("vlan{vlan}", "vlan42"),
    "a number by itself": ("{vlan}", 42),
    "a number as text": ("{vlan!s}", "42"),
    "a blank makes it text": (" {vlan}", " 42"),
    "a text by itself": ("{username}", "ada"),
    "an empty value": ("{servername}", ""),
    "several": ("10.{vlan_high}.{vlan_low}.0/24", "10.0.42.0/24"),
    "side by side": ("{username}{username}", "adaada"),
    "doubled braces": ("{{vlan}}", "{vlan}"),
    "a value in braces": ("{{{vlan}}}", "{42}"),
    "text that is JSON": ('{{"vlan": {vlan}}}', '{"vlan": 42}'),
    "one doubled brace": ("{{", "{"),
    "a tree": ({"a": ["{vlan}", {"b": "x-{username}"}], "c": 1.5, "d": None, "e": True}, {"a": [42, {"b": "x-ada"}], "c": 1.5, "d": None, "e": True}),
    "keys stay": ({"{vlan}": "{{"}, {"{vlan}": "{"}),
    "a tuple": (("{vlan}",), [42]),
    "an address": ({"address": "{address}"}, {"address": "10.42.0.7/24"}),
})  # fmt: skip
def test_expanded(template, expected):
    before = repr(template)
    assert template_problems(template, "p") == []
    found = expand(template, VALUES)
    assert found == expected
    assert type(found) is type(expected)
    assert repr(template) == before


@all_of_them("template, path, found", {
    "typo": ("{vlna}", "p", "'{vlna}'"),
    "no name": ("{}", "p", "'{}'"),
    "a number as name": ("{0}", "p", "'{0}'"),
    "a format": ("{vlan:04d}", "p", "'{vlan:04d}'"),
    "a conversion": ("{vlan!r}", "p", "'{vlan!r}'"),
    "an attribute": ("{username.__class__}", "p", "'{username.__class__}'"),
    "an index": ("{username[0]}", "p", "'{username[0]}'"),
    "blanks": ("{ vlan }", "p", "'{ vlan }'"),
    "upper case": ("{VLAN}", "p", "'{VLAN}'"),
    "never closed": ("{vlan", "p", "'{vlan'"),
    "never opened": ("vlan}", "p", "'vlan}'"),
    "JSON as text": ('{"a": {"b": 1}}', "p", ""),
    "deep within": ({"plugins": [{"type": "vlan"}, {"ipam": {"x": "a{who}b"}}]}, "p.plugins[1].ipam.x", "'{who}'"),
})  # fmt: skip
def test_refused_with_its_path(template, path, found):
    (problem,) = template_problems(template, "p")
    assert problem.path == path
    assert found in problem.found
    assert "{{" in problem.allowed
    with pytest.raises(ProfileError):
        expand(template, SAMPLE_VALUES, "p")


def test_every_wrong_text_is_named():
    problems = template_problems({"a": "{x}", "b": ["{y}", "{vlan}"]}, "parameters")
    assert [problem.path for problem in problems] == ["parameters.a", "parameters.b[0]"]


def test_names_in_a_template():
    assert variable_names({"a": ["{vlan!s}-{username}", "{{group}}", "{nobody}"], "{address}": 1}) == {
        "vlan",
        "username",
    }


def test_a_missing_value_is_no_empty_one():
    with pytest.raises(ProfileError, match=r"\{group\}"):
        expand("{group}", VALUES)


def test_samples_follow_their_rules():
    assert {
        name: value_problem(name, value) for name, value in SAMPLE_VALUES.items() if value_problem(name, value)
    } == {}


HOSTILE = [
    'a"b', "a\\b", "a{vlan}b", "a b", "a\nb", "a\x00b", "a\u2028b", "ä", "$(id)", "`id`", "a'b", "../etc", "a/b", "-rf", ".ssh", "a;b", "a,b", "a|b", "a&b", "a=b", "a%b", "a#b", "a<b", "\ud800", "x" * 64, "fe80::1%eth0\"", "10.0.0.1/24\n", " 10.0.0.1/24",
]  # fmt: skip


@all_of_them(
    "name, value", product((name for name, each in VARIABLES.items() if isinstance(each.sample, str)), HOSTILE)
)
def test_hostile_values_are_refused(name, value):
    if name == "pod_name" and value == "x" * 64:
        return  # names of pods may be long
    assert value_problem(name, value)
    with pytest.raises(ProfileError):
        expand(f"{{{name}}}", {name: value})


@pytest.mark.parametrize("value", ["42", 42.0, True, 0, 4095, -1, None], ids=repr)
def test_a_vlan_is_a_number_of_8021q(value):
    assert value_problem("vlan", value)


_HARMLESS = set(string.ascii_letters + string.digits + "-._@+:/")


@given(st.sampled_from(sorted(VARIABLES)), st.text() | st.text(st.sampled_from(sorted(_HARMLESS))))
def test_any_value_stays_in_its_text(name, value):
    """A value either is refused, or is made of characters that mean nothing in JSON, YAML, CEL or a shell."""
    template = {"before": 1, "text": f'"{{{name}}}\\', "after": [f"{{{name}}}"]}
    try:
        expanded = expand(template, {name: value})
    except ProfileError:
        return
    assert set(value) <= _HARMLESS
    assert expanded == {"before": 1, "text": f'"{value}\\', "after": [value]}
    assert json.loads(json.dumps(expanded)) == expanded


@given(st.text())
def test_doubled_braces_become_single_braces(text):
    escaped = text.replace("{", "{{").replace("}", "}}")
    assert template_problems(escaped, "") == []
    assert expand(escaped, {}) == text
