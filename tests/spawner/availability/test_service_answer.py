"""Answers of the service, of any version."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.spawner.availability.client import InvalidProfiles, read_profiles
from dra_spawner.spawner.availability.shown import UNKNOWN, ShownAvailability
from tests.all_of_them import all_of_them
from tests.examples import example_count

NEEDS_NODE = {"state": "needs-node", "sentence": "A node comes.", "wait": {"low_seconds": 240, "high_seconds": 360}}
EXAMPLES = 100
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(sorted(NEEDS_NODE)), inner),
    max_leaves=8,
)


def read(availability):
    return read_profiles({"items": [{"name": "gpu", "availability": availability}]})["gpu"]


def test_an_answer_of_the_contract():
    assert read(NEEDS_NODE) == ShownAvailability(AvailabilityState.NEEDS_NODE, "A node comes.", (240, 360))
    assert read({"state": "free", "sentence": "", "wait": None}) == ShownAvailability(AvailabilityState.FREE)
    assert read({**NEEDS_NODE, "sentence": "Two\nlines\x00 <b>"}).sentence == "Two lines <b>"


@all_of_them(
    "availability",
    {
        "nothing": None,
        "an older service": {"state": "free", "node": "a", "reason": "free"},
        "another state": {**NEEDS_NODE, "state": "soon"},
        "no state": {**NEEDS_NODE, "state": ["free"]},
        "no sentence": {**NEEDS_NODE, "sentence": None},
        "long sentence": {**NEEDS_NODE, "sentence": "x" * 201},
        "a number for an interval": {**NEEDS_NODE, "wait": 5},
        "upside down": {**NEEDS_NODE, "wait": {"low_seconds": 2, "high_seconds": 1}},
        "a boolean": {**NEEDS_NODE, "wait": {"low_seconds": True, "high_seconds": 1}},
        "endless": {**NEEDS_NODE, "wait": {"low_seconds": 1, "high_seconds": float("inf")}},
        "half an interval": {**NEEDS_NODE, "wait": {"low_seconds": 1}},
        "a list": [],
    },
)
def test_an_availability_that_is_not_understood_is_unknown(availability):
    assert read(availability) == UNKNOWN


@all_of_them("answer", [None, [], {}, {"items": {}}, "items", 5])
def test_an_answer_without_a_list_is_none(answer):
    with pytest.raises(InvalidProfiles, match="no list of items"):
        read_profiles(answer)


def test_items_without_a_name_are_left_out():
    assert read_profiles({"items": [None, 5, {}, {"name": 5}, {"name": "cpu"}]}) == {"cpu": UNKNOWN}


@settings(max_examples=example_count(EXAMPLES))
@given(JSON)
def test_every_answer_has_a_label(availability):
    assert read(availability).label
