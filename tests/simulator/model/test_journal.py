"""The undo log: nested marks, reverting, and recorded changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.simulator.model.journal import Journal
from tests.all_of_them import all_of_them
from tests.examples import example_count

EXAMPLES = 100


class Log:
    """A list whose changes are journaled."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.items: list[int] = []

    def append(self, item: int) -> None:
        self.items.append(item)
        self.journal.record(self.items.pop)


def test_revert_undoes_the_latest_change_first():
    log = Log()
    log.append(1)
    mark = log.journal.mark()
    order: list[str] = []
    log.journal.record(lambda: order.append("first change"))
    log.journal.record(lambda: order.append("second change"))
    log.append(2)
    log.journal.revert_to(mark)
    assert log.items == [1]
    assert order == ["second change", "first change"]
    assert log.journal.depth == 0


def test_an_outer_mark_undoes_changes_of_an_inner_mark():
    log = Log()
    outer = log.journal.mark()
    log.append(1)
    inner = log.journal.mark()
    log.append(2)
    log.journal.forget_to(inner)
    assert log.items == [1, 2]
    log.journal.revert_to(outer)
    assert log.items == []


@all_of_them("close", ["revert_to", "forget_to"])
def test_closing_a_mark_closes_those_inside(close):
    journal = Journal()
    outer, inner = journal.mark(), journal.mark()
    getattr(journal, close)(outer)
    with pytest.raises(ValueError, match=f"mark {inner} is not open; 0 marks are"):
        journal.revert_to(inner)


def test_nothing_is_recorded_while_no_mark_is_open():
    journal = Journal()
    undone: list[str] = []
    journal.record(lambda: undone.append("before the mark"))
    mark = journal.mark()
    journal.record(lambda: undone.append("after the mark"))
    journal.revert_to(mark)
    assert undone == ["after the mark"]
    mark = journal.mark()
    journal.record(lambda: undone.append("forgotten"))
    journal.forget_to(mark)
    journal.revert_to(journal.mark())
    assert undone == ["after the mark"]


def test_an_undo_must_not_record():
    journal = Journal()
    mark = journal.mark()
    journal.record(lambda: journal.record(lambda: None))
    with pytest.raises(RuntimeError, match="an undo recorded a change"):
        journal.revert_to(mark)


def test_all_or_nothing():
    log = Log()
    with log.journal.all_or_nothing():
        log.append(1)

    def fail() -> None:
        with log.journal.all_or_nothing():
            log.append(2)
            log.append(1 // 0)

    with pytest.raises(ZeroDivisionError):
        fail()
    assert log.items == [1]
    assert log.journal.depth == 0


@settings(max_examples=example_count(EXAMPLES))
@given(st.lists(st.sampled_from(["append", "mark", "revert", "forget"]), max_size=60))
def test_any_sequence_agrees_with_copies(steps):
    log = Log()
    copies: list[list[int]] = []
    for number, step in enumerate(steps):
        match step:
            case "append":
                log.append(number)
            case "mark":
                assert log.journal.mark() == len(copies)
                copies.append(list(log.items))
            case "revert" if copies:
                log.journal.revert_to(len(copies) - 1)
                assert log.items == copies.pop()
            case "forget" if copies:
                log.journal.forget_to(len(copies) - 1)
                copies.pop()
    if copies:
        log.journal.revert_to(0)
        assert log.items == copies[0]
