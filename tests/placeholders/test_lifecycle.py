"""The tables of the life cycle: complete, reachable, used by every action, and drawn in the documentation."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from dra_spawner.placeholders.lifecycle import (
    PLACEHOLDER,
    RESERVATION,
    ActionKind,
    Cause,
    IllegalEvent,
    PlaceholderSeen,
    PlaceholderState,
    ReservationEvent,
    ReservationState,
    after,
    following,
    seen_state,
)
from dra_spawner.placeholders.planner.actions import ACTIONS, delete_placeholder
from dra_spawner.simulator.model.pods import Pod
from tests.docs.lifecycle_pictures import pictures
from tests.docs.lifecycle_tables import with_tables

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "placeholder-states.md"


def test_the_documentation_has_the_tables() -> None:
    text = DOCUMENT.read_text()
    assert text == with_tables(text), (
        "renew: python -m tests.docs.lifecycle_tables docs/reference/placeholder-states.md"
    )


def test_the_documentation_has_the_pictures() -> None:
    folder = DOCUMENT.parents[1] / "pictures"
    assert {name: (folder / name).read_text() for name in pictures()} == pictures()


def test_a_document_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        with_tables("# Placeholders\n")


@pytest.mark.parametrize(
    ("table", "states", "events"),
    [
        pytest.param(PLACEHOLDER, PlaceholderState, {*PlaceholderSeen, *Cause}, id="placeholder"),
        pytest.param(RESERVATION, ReservationState, {*ReservationEvent}, id="reservation"),
    ],
)
def test_every_state_is_reached_and_every_event_is_used(table, states, events):
    assert table.keys() == set(states)
    reached, new = set(), {next(iter(table))}
    while new:
        reached |= new
        new = {each.state for state in new for each in table[state].values() if each.state is not None} - reached
    assert reached == set(states)
    assert {event for transitions in table.values() for event in transitions} == events


def test_every_kind_of_action_has_one_class() -> None:
    assert sorted(each.kind for each in ACTIONS) == sorted(ActionKind)


def test_no_placeholder_is_deleted_for_another_cause() -> None:
    pod = Pod.from_json({"metadata": {"name": "p", "namespace": "hub", "uid": "u"}, "spec": {"containers": []}})
    for state, cause in product(PlaceholderState, Cause):
        if cause not in PLACEHOLDER[state]:
            with pytest.raises(IllegalEvent) as caught:
                delete_placeholder(pod, state, cause, "because")
            assert (caught.value.state, caught.value.event) == (state, cause)


def test_a_reserved_placeholder_is_never_evicted_to_tidy_up() -> None:
    assert not [cause for cause in Cause if cause.is_eviction and cause in PLACEHOLDER[PlaceholderState.RESERVED]]


def test_only_a_warm_placeholder_is_reserved_by_the_executor() -> None:
    assert [
        state
        for state, transitions in PLACEHOLDER.items()
        if any(each.action is ActionKind.RESERVE_PLACEHOLDER for each in transitions.values())
    ] == [PlaceholderState.WARM]


def test_the_end_of_an_object_is_no_state() -> None:
    assert after(PLACEHOLDER, PlaceholderState.TERMINATING, PlaceholderSeen.GONE).state is None
    with pytest.raises(IllegalEvent, match="gone is illegal in PlaceholderState terminating"):
        following(PLACEHOLDER, PlaceholderState.TERMINATING, PlaceholderSeen.GONE)


def test_the_state_follows_from_what_is_seen() -> None:
    state = PlaceholderState
    expected = {
        (False, False, False, False): state.PENDING,
        (False, True, False, False): state.PENDING,
        (True, False, False, False): state.STARTING,
        (True, True, False, False): state.WARM,
        (True, True, True, False): state.RESERVED,
        (True, False, True, False): state.RESERVED,
        (False, False, True, False): state.RESERVED,
        (True, True, True, True): state.TERMINATING,
        (False, False, False, True): state.TERMINATING,
    }
    names = ("is_scheduled", "is_started", "is_reserved", "is_ended")
    assert {facts: seen_state(**dict(zip(names, facts, strict=True))) for facts in expected} == expected
