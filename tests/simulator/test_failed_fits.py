"""Where a pod does not fit is remembered until the inputs change."""

from __future__ import annotations

import pytest

from dra_spawner.simulator.failed_fits import FailedFits
from dra_spawner.simulator.model.journal import Journal
from dra_spawner.simulator.model.table import ChangeLog, Table


class Attempts:
    """Fits on given nodes, and records each attempt."""

    def __init__(self, *fitting: str) -> None:
        self.fitting = fitting
        self.seen: list[str] = []

    def __call__(self, node: str) -> str | None:
        self.seen.append(node)
        return f"fits on {node}" if node in self.fitting else None


def test_a_failure_is_not_attempted_again_while_its_inputs_are_equal() -> None:
    memo, attempts = FailedFits(), Attempts("b")
    assert [memo.attempt("a", (1, "x"), attempts) for _ in range(3)] == [None] * 3
    assert [memo.attempt("b", (1, "x"), attempts) for _ in range(2)] == ["fits on b"] * 2
    assert memo.attempt("a", (2, "x"), attempts) is None
    assert attempts.seen == ["a", "b", "b", "a"]


def test_without_inputs_each_attempt_is_made() -> None:
    memo, attempts = FailedFits(), Attempts()
    assert [memo.attempt("a", None, attempts) for _ in range(2)] == [None, None]
    assert attempts.seen == ["a", "a"]


def test_a_node_that_is_forgotten_is_attempted_again() -> None:
    memo, attempts = FailedFits(), Attempts()
    memo.attempt("a", 1, attempts)
    memo.forget("a")
    memo.forget("never seen")
    memo.attempt("a", 1, attempts)
    assert attempts.seen == ["a", "a"]


def test_nodes_in_another_state_are_untried() -> None:
    memo, attempts = FailedFits(), Attempts()
    states: Table[str, object] = Table(Journal())

    tried: dict[str, object] = {}

    def attempt(name: str) -> None:
        tried[name] = states[name]
        memo.attempt(name, states[name], attempts)

    def untried() -> list[str] | None:
        """As the memo answers, and as a new one with the same attempts."""
        fresh = FailedFits()
        for name, state in tried.items():
            fresh.attempt(name, state, Attempts())
        found = memo.untried(states, 2)
        assert fresh.untried(states, 2) == found
        return found

    for name in "cab":
        states.put(name, object())
    assert untried() is None, "more than two"
    for name in "ab":
        attempt(name)
    assert untried() == untried() == ["c"]
    before = states["a"]
    states.put("a", object())
    assert untried() == ["a", "c"]
    states.put("a", before)
    assert untried() == ["c"], "as it was when it failed"
    attempt("c")
    states.discard("a")
    states.put("d", object())
    assert untried() == untried() == ["d"]


def test_failures_on_nodes_without_changes_are_not_compared() -> None:
    memo, nodes, devices = FailedFits(), ChangeLog[str](), ChangeLog[str]()
    assert memo.unchanged("claims", nodes, devices) == set()
    memo.note_failing("abc", "claims", nodes, devices)
    assert memo.unchanged("claims", nodes, devices) == {"a", "b", "c"}
    assert memo.unchanged("other claims", nodes, devices) == set()
    nodes.note("a")
    devices.note("x")
    assert memo.unchanged("claims", nodes, devices) == {"b", "c"}
    devices.note_all()
    nodes.note("b")
    assert memo.unchanged("claims", nodes, devices) == set()
    memo.note_failing("abc", "claims", nodes, devices)
    devices.note("b")
    assert memo.unchanged("claims", nodes, devices) == {"a", "c"}
    memo.forget("a")
    assert memo.unchanged("claims", nodes, devices) == set()


def test_an_attempt_that_raises_is_no_failure() -> None:
    memo, attempts = FailedFits(), Attempts("a")

    def stop(node: str) -> str | None:
        raise TimeoutError(node)

    with pytest.raises(TimeoutError):
        memo.attempt("a", 1, stop)
    assert memo.attempt("a", 1, attempts) == "fits on a"
