"""JSON that ``json.loads`` refuses for its depth, its encoding or its numbers is read, in part."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.kube.client.json_text import LEFT_OUT, MAX_LEVELS, cut_levels, names_of_cut_objects, read_unusual
from tests.all_of_them import all_of_them

LEVELS = 3

texts = st.text(st.characters(codec="utf-8") | st.sampled_from('"\\[]{}'), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=25,
)


def cut(value: Any, levels: int) -> Any:
    """The value after `cut_levels`."""
    if isinstance(value, list):
        return [cut(item, levels - 1) for item in value] if levels else LEFT_OUT
    if isinstance(value, dict):
        return {name: cut(item, levels - 1) for name, item in value.items()} if levels else LEFT_OUT
    return value


@given(values, st.booleans())
def test_deeper_values_are_left_out_and_no_others(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert json.loads(cut_levels(text, LEVELS)) == cut(value, LEVELS)
    assert cut_levels(text, 100) == text
    assert read_unusual(text.encode(), LEVELS) == cut(value, LEVELS)


@given(st.binary(max_size=40) | st.text(st.sampled_from('"\\[]{},:1a '), max_size=40).map(str.encode))
def test_text_that_is_no_json_is_refused(data: bytes) -> None:
    try:
        expected = json.loads(data.decode("utf-8", "replace"))
    except ValueError:
        with pytest.raises(ValueError, match=r"\w"):
            read_unusual(data)
    else:
        assert json.dumps(read_unusual(data)) == json.dumps(expected)


@all_of_them("opening, closing", [("[", "]"), ('{"a":', "}"), ('{"a":[', "]}"), ('[{"a\\"]":', "}]")])
def test_a_hundred_thousand_levels(opening: str, closing: str) -> None:
    number = 100_000
    text = f'{{"before":1,"deep":{opening * number}1{closing * number},"after":"]}}"}}'
    found = read_unusual(text.encode())
    assert (found["before"], found["after"]) == (1, "]}")
    with pytest.raises(ValueError, match="ends within"):
        read_unusual(text.encode()[:-number])
    value, levels = found["deep"], 1
    while isinstance(value, list | dict):
        value, levels = (value[0] if isinstance(value, list) else next(iter(value.values()))), levels + 1
    assert (value, levels) == (LEFT_OUT, MAX_LEVELS)


def test_bytes_and_numbers_that_python_refuses() -> None:
    found = read_unusual(b'{"text":"\xff\xc3","long":' + b"1" * 5000 + b',"exact":12345678901234567890,"r":1e999}')
    assert found == {"text": "\ufffd\ufffd", "long": float("inf"), "exact": 12345678901234567890, "r": float("inf")}


def test_the_objects_that_are_cut_are_named() -> None:
    deep = "[" * 200 + "]" * 200
    items = f'[{{"metadata":{{"name":"a","namespace":"n"}},"x":{deep}}},{{"metadata":{{"name":"b"}}}},{deep}]'
    assert list(names_of_cut_objects(read_unusual(f'{{"items":{items}}}'.encode()))) == ["n/a", "(no name)"]
    event = f'{{"type":"ADDED","object":{{"metadata":{{"name":"a"}},"x":{deep}}}}}'
    assert list(names_of_cut_objects(read_unusual(event.encode()))) == ["a"]
    assert list(names_of_cut_objects({"metadata": {"name": "whole"}})) == []
    assert list(names_of_cut_objects([])) == []
