"""Valid answers of the service, and errors that make a whole answer invalid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.spawner.placement.answer import InvalidAnswer, PlacementAnswer, read_answer
from tests.all_of_them import all_of_them
from tests.examples import example_count

NOW = datetime(2026, 8, 20, 12, tzinfo=UTC)
SOON = NOW + timedelta(seconds=30)
WARM = {
    "state": "ready",
    "node": "node-a",
    "reason": "warm on node node-a",
    "claims": {"gpu": "placeholder-1-gpu"},
    "until": SOON.isoformat(),
}


def read(answer, entries=("gpu",)):
    return read_answer(answer, entries, NOW)


CLAIMS = {"gpu": "placeholder-1-gpu"}
IN_SECONDS = {"state": "ready", "claims": {"gpu": "p.x"}, "until": SOON.timestamp()}


@all_of_them(
    "answer, expected",
    {
        "warm": (WARM, PlacementAnswer(AvailabilityState.READY, "node-a", "warm on node node-a", CLAIMS, SOON)),
        "in seconds": (IN_SECONDS, PlacementAnswer(AvailabilityState.READY, claims={"gpu": "p.x"}, until=SOON)),
        "warm without devices": (
            {"state": "ready", "node": "n", "claims": {}, "until": None},
            PlacementAnswer(AvailabilityState.READY, "n"),
        ),
        "after a placeholder": (
            {**WARM, "state": "after-placeholder", "after": "placeholder-1"},
            PlacementAnswer(
                AvailabilityState.AFTER_PLACEHOLDER, "node-a", "warm on node node-a", CLAIMS, SOON, "placeholder-1"
            ),
        ),
        "fresh": ({"state": "free", "node": "n", "more": [1]}, PlacementAnswer(AvailabilityState.FREE, "n")),
        "preempt": ({"state": "after-preemption", "node": None}, PlacementAnswer(AvailabilityState.AFTER_PREEMPTION)),
        "a reason is one printable line": (
            {"state": "waits", "reason": " no\nroom\x1b[31m. "},
            PlacementAnswer(AvailabilityState.WAITS, reason="no room [31m"),
        ),
        "a reason is short": (
            {"state": "never", "reason": "x" * 1000},
            PlacementAnswer(AvailabilityState.NEVER, reason="x" * 299 + "…"),
        ),
        "others are first": (
            {"state": "waits", "before": 3},
            PlacementAnswer(AvailabilityState.WAITS, before=3),
        ),
        "no reason": ({"state": "free", "reason": 7}, PlacementAnswer(AvailabilityState.FREE)),
    },
)
def test_answers(answer, expected):
    assert read(answer) == expected


@all_of_them(
    "answer",
    [
        None,
        [],
        "warm",
        {},
        {"state": "hot"},
        {"state": "waits", "before": -1},
        {"state": "waits", "before": True},
        {"state": "waits", "before": "3"},
        {"state": "free", "before": 1},
        {"state": ["warm"]},
        {"state": "warm"},
        {"kind": "fresh"},
        {"state": "free", "node": "../secrets"},
        {"state": "free", "node": "Node_A"},
        {"state": "free", "node": "n" * 254},
        {"state": "free", "node": 7},
        {"state": "free", "node": "a\n"},
        {**WARM, "state": "free"},
        {**WARM, "claims": ["placeholder-1-gpu"]},
        {**WARM, "claims": {"gpu": "a/b"}},
        {**WARM, "claims": {"gpu": ""}},
        {**WARM, "claims": {"gpu": None}},
        {**WARM, "claims": {"gpu": {"name": "x"}}},
        {**WARM, "claims": {"nic": "x"}},
        {**WARM, "claims": {"gpu": "x", "nic": "y"}},
        {**WARM, "gates": ["hub.jupyter.org/handover"]},
        {**WARM, "gates": "hub.jupyter.org/handover"},
        {"state": "free", "gates": ["hub.jupyter.org/handover"]},
        {**WARM, "state": "after-placeholder"},
        {**WARM, "after": "placeholder-1"},
        {"state": "after-placeholder", "after": "placeholder-1"},
        {**WARM, "state": "after-placeholder", "after": "p" * 64},
        {**WARM, "state": "after-placeholder", "after": "P_1"},
        {**WARM, "state": "after-placeholder", "after": {"name": "placeholder-1"}},
        {**WARM, "until": None},
        {**WARM, "until": "soon"},
        {**WARM, "until": True},
        {**WARM, "until": "2026-08-20T12:00:30"},
        {**WARM, "until": 1e300},
        {**WARM, "until": float("nan")},
        {**WARM, "until": "9999-01-01T00:00:00Z"},
    ],
)
def test_nonsense(answer):
    with pytest.raises(InvalidAnswer, match=r"."):
        read(answer)


def test_an_older_service_that_wants_no_gate_is_believed():
    assert read({**WARM, "gates": []}) == read(WARM)


def test_a_claim_stands_for_one_entry_and_all_entries_have_one():
    two = ("gpu", "nic")
    assert read({**WARM, "claims": {"gpu": "a", "nic": "b"}}, two).claims == {"gpu": "a", "nic": "b"}
    for claims in ({"gpu": "a"}, {"gpu": "a", "nic": "a"}):
        with pytest.raises(InvalidAnswer):
            read({**WARM, "claims": claims}, two)


def test_a_reservation_holds_until_shortly_before_its_end():
    answer = read(WARM)
    assert answer.holds(NOW)
    assert answer.holds(SOON - timedelta(seconds=2.1))
    assert not answer.holds(SOON - timedelta(seconds=2))
    assert not answer.holds(SOON + timedelta(days=1))
    assert read({"state": "free"}).holds(SOON + timedelta(days=1))


EXAMPLES = 100
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=example_count(EXAMPLES))
@given(st.dictionaries(st.sampled_from([*WARM, "after", "gates"]), json_values) | json_values)
def test_any_json_is_an_answer_or_nonsense(answer):
    try:
        found = read(answer)
    except InvalidAnswer:
        return
    assert set(found.claims) <= {"gpu"}
    assert len(found.reason) <= 300
