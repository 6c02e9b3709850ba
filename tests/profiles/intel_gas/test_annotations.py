from collections.abc import Callable, Sized
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.profiles.intel_gas.annotations import (
    AnnotationError,
    format_cards,
    format_tiles,
    of_containers,
    parse_cards,
    parse_tiles,
    parse_time,
)

Sections = TypeVar("Sections", bound=Sized)

cards = st.integers(0, 99999).map(lambda number: f"card{number}")
card_sections = st.lists(st.lists(cards, max_size=5).map(tuple), min_size=1, max_size=6).map(tuple)
card_tiles = st.tuples(cards, st.lists(st.integers(0, 32767), min_size=1, max_size=4).map(tuple))
tile_sections = st.lists(st.lists(card_tiles, max_size=4).map(tuple), min_size=1, max_size=6).map(tuple)


@given(card_sections)
def test_cards_survive_formatting(sections):
    assert parse_cards(format_cards(sections)) == sections


@given(tile_sections)
def test_tiles_survive_formatting(sections):
    assert parse_tiles(format_tiles(sections)) == sections


@given(st.text(alphabet="card0123gt:+,|X", max_size=30))
def test_parsed_annotations_are_written_the_same_way(text):
    """Up to leading zeros in tiles, nothing is lost or added."""
    _check_that_nothing_is_lost(text, parse_cards, format_cards)
    _check_that_nothing_is_lost(text, parse_tiles, format_tiles)


def _check_that_nothing_is_lost(text: str, parse: Callable[[str], Sections], form: Callable[[Sections], str]) -> None:
    try:
        sections = parse(text)
    except AnnotationError:
        return
    assert parse(form(sections)) == sections
    assert len(sections) == text.count("|") + 1


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("card0,card1|card2", (("card0", "card1"), ("card2",))),
        ("||card3|", ((), (), ("card3",), ())),
        ("card0,card1,card0", (("card0", "card1", "card0"),)),
        ("", ((),)),
    ],
)
def test_cards(text, sections):
    assert parse_cards(text) == sections


@pytest.mark.parametrize("text", ["gpu0", "card", "card0,", "card0 ", "cardX", "card٣", "card0;card1", "card-1"])
def test_text_that_is_no_card_is_refused(text):
    with pytest.raises(AnnotationError):
        parse_cards(text)


def test_tiles():
    assert parse_tiles("card0:gt0+gt1,card1:gt0||card2:gt3") == (
        (("card0", (0, 1)), ("card1", (0,))),
        (),
        (("card2", (3,)),),
    )


@pytest.mark.parametrize(
    "text", ["card0", "card0:", "card0:gt", "card0:gt0+", "card0:gt0:gt1", "x:gt0", "card0:gt32768"]
)
def test_text_that_is_no_tile_is_refused(text):
    with pytest.raises(AnnotationError):
        parse_tiles(text)


@pytest.mark.parametrize(
    ("value", "time"),
    [("1700000000000000000", 1700000000000000000), ("2", 2), ("", None), ("x", None), ("-1", None), ("²", None)],
)
def test_time(value, time):
    assert parse_time({"gas-ts": value}, "gas-ts") == time


@pytest.mark.parametrize(
    ("sections", "uses_gpu", "found"),
    [
        pytest.param([("a",), (), ("b",)], [True, False, True], [("a",), (), ("b",)], id="a section for each"),
        pytest.param([("a",), ("b",)], [True, False, True], [("a",), (), ("b",)], id="only filled ones"),
        pytest.param([(), ("a",)], [True, False, False], [("a",), (), ()], id="fewer, with an empty one"),
        pytest.param([("a",), ("b",)], [True, False, False], None, id="too many"),
        pytest.param([("a",)], [True, True, False], None, id="too few"),
    ],
)
def test_sections_of_containers(sections, uses_gpu, found):
    assert of_containers(sections, uses_gpu, ()) == found
