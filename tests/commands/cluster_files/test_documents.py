"""Values of YAML and JSON: as Kubernetes reads them, with their lines, and within limits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.commands.cluster_files.documents import read_documents
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.limits import CLUSTER_FILES
from tests.all_of_them import all_of_them
from tests.examples import example_count

EXAMPLES = 150
LIMITS = replace(CLUSTER_FILES, levels=5, repeated_characters=1_000)


def values(text):
    return [document.value for document in read_documents("f", text, LIMITS)]


def refusal(text):
    with pytest.raises(InputError) as caught:
        values(text)
    return str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e300, 1e300) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=example_count(EXAMPLES))
@given(st.dictionaries(st.text(max_size=5), JSON, min_size=1))
def test_written_documents_are_read(value):
    deep = replace(LIMITS, levels=100)
    assert [item.value for item in read_documents("f", json.dumps(value, ensure_ascii=False), deep)] == [value]
    # In quotes, as PyYAML and kubectl do not agree about plain ones such as 08 and y.
    text = yaml.safe_dump(value, allow_unicode=True, default_flow_style=False, default_style='"')
    # YAML's writer and reader do not agree on all line breaks of Unicode.
    assert [item.value for item in read_documents("f", text, deep)] == [yaml.safe_load(text)]


@all_of_them(
    "text, value",
    {
        "no dates": ("a: 2026-01-02", {"a": "2026-01-02"}),
        "no base 60": ("a: 22:22", {"a": "22:22"}),
        "underscores": ("a: 1_000", {"a": 1000}),
        "numbers": ("a: [0x1F, 0b11, 017, 08, -5, +5, .5, 1.]", {"a": [31, 3, 15, 8, -5, 5, 0.5, 1.0]}),
        "numbers of Go": (
            "a: [12e5, 1e-2, 0o17, 0O7, 0B1, -0x_F, 0o, 0x, 08.5, 1e, 9223372036854775807, 1e21]",
            {"a": [1_200_000, 0.01, 15, 7, 1, -15, "0o", "0x", 8.5, "1e", 2**63 - 1, 1e21]},
        ),
        "whole numbers stay whole": ("a: [1.0, 08]", {"a": [1, 8]}),
        "booleans": ("a: [yes, Off, TRUE, tRUE, y, N, yY]", {"a": [True, False, True, "tRUE", True, False, "yY"]}),
        "null": ("a: [~, null]\nb:", {"a": [None, None], "b": None}),
        "tags": ("a: !!str 1\nb: !!float 1\nc: ! 1", {"a": "1", "b": 1.0, "c": "1"}),
        "merge": ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        "first of several merges": ("a: {<<: [{b: 1}, {b: 2, c: 3}]}", {"a": {"b": 1, "c": 3}}),
        "quoted merge key": ('a: {"<<": 1}', {"a": {"<<": 1}}),
        "merge key as an item": ("a: [<<]", {"a": ["<<"]}),
        "the last anchor of a name": ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        "CRLF": ("a: b\r\nc: d\r\n", {"a": "b", "c": "d"}),
    },
)
def test_yaml_is_read_as_kubernetes_does(text, value):
    assert values(text) == [value]


@all_of_them(
    "text, message",
    {
        "repeated key": ("a:\n  b: 1\n  b: 2", "f, line 3: a.b: appears twice; a key may appear once"),
        "repeated key in JSON": ('{"a":\n{"b": 1,\n"b": 2}}', "f, line 3: a.b: appears twice"),
        "levels": ("a:\n- [[[[1]]]]", "f, line 2: a[0][0][0][0]: is nested too deeply; at most 5 levels"),
        "JSON's levels": ('{"a":\n[[[[\n[]]]]]}', "f, line 3: a[0][0][0][0]: is nested too deeply; at most 5"),
        "by aliases": ("a: &x [[[1]]]\nb: {c: *x}\nd: [{e: *x}]", "f, line 3: d[0].e: is nested too deeply"),
        "aliases": (
            f"a: &x {'y' * 300}\nb: [*x, *x, *x,\n*x]",
            "f, line 3: b[3]: aliases repeat more than is allowed, 1,000",
        ),
        "in itself": ("a: &x\n  b: *x", "f, line 2: a.b: *x is inside the value that it stands for"),
        "no anchor": ("a: *x", "f, line 1: a: *x names an anchor that does not exist"),
        "other document": ("---\na: &x 1\n---\na: *x", "f, line 4: a: *x names an anchor that does not exist"),
        "merge of a number": ("a: {<<: 1}", "f, line 1: a.<<: << takes a mapping"),
        "key": ("? [a]\n: 1", "f, line 1: a key must be a string, not a mapping or list"),
        "tag": ("a: !!python/name:os.system x", "a: has the tag tag:yaml.org,2002:python/name:os.system"),
        "wrong tag": ("a: !!int x", "f, line 1: a: is not what its tag !!int says"),
        "infinity": ("a: .inf", "f, line 1: a: is .inf, which is no value of JSON"),
        "number": (f"a: {'9' * 101}", "f, line 1: a: is a number of 101 characters, at most 100 are"),
        "JSON's infinity": ('{"a": 1e999}', "f, line 1: is not JSON: 1e999 is larger than any number"),
        "surrogate": ('{"a": [1,\n"\\ud800"]}', "f, line 2: a[1]: has half of a character"),
        "control character": ("a: b\nc: \x07", "f, line 2: has the character U+0007"),
    },
)
def test_refusals_have_line_and_path(text, message):
    assert message in refusal(text)


def test_pairs_of_surrogates_are_characters():
    assert values('{"a": "\\ud83d\\ude00"}') == [{"a": "\N{GRINNING FACE}"}]


def test_lines_of_fields():
    text = "a: 1\nx: &x\n  k: 1\nb:\n- c: 2\n- d:\n    e: 3\n    <<: *x\n"
    [document] = read_documents("f", text, LIMITS)
    assert [document.line_of(path) for path in ((), ("a",), ("b", 1, "d", "e"), ("b", 1, "d", "k"), ("b", 9))] == [
        *(1, 1, 7, 7, 4)
    ]
