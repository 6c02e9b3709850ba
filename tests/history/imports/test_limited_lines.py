"""Limits of lines."""

from __future__ import annotations

import io

import pytest

from dra_spawner.history.imports.limited_lines import TooManyLines, limited_lines


def test_lines_until_a_limit() -> None:
    text = "ab\r\ncd\nef"
    assert list(limited_lines(io.StringIO(text, newline=""))) == ["ab\r\n", "cd\n", "ef"]
    assert list(limited_lines(io.StringIO(text, newline=""), max_line=4, max_characters=9, max_lines=3))
    for limits, problem in (
        ({"max_line": 3}, "line 1: has more than 3 characters, which is the limit of a line"),
        ({"max_characters": 8}, "line 3: the text has more than 8 characters, which is the limit"),
        ({"max_lines": 2}, "line 3: the text has more than 2 lines, which is the limit"),
    ):
        with pytest.raises(TooManyLines) as refused:
            list(limited_lines(io.StringIO(text, newline=""), **limits))
        assert str(refused.value) == problem
