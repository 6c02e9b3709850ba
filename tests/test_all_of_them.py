"""A test of a whole table names each row that fails, and why."""

from __future__ import annotations

import traceback

import pytest

from tests.all_of_them import all_of_them

ROWS = {"sound": (2, 2), "one": (3, 2), "two": (3, 1), "three": [3, 0]}


@pytest.mark.parametrize("rows", [ROWS, [pytest.param(*row, id=name) for name, row in ROWS.items()]], ids=["mapping", "parameters"])  # fmt: skip
def test_each_row_that_fails_is_named(rows: object) -> None:
    @all_of_them("one, other", rows)  # type: ignore[arg-type]
    def check(one: int, other: int) -> None:
        if other == 0:
            pytest.fail("nothing")
        assert one // (other - 1) == 2

    with pytest.raises(ExceptionGroup, match="3 of 4 rows fail") as caught:
        check()
    shown = "".join(traceback.format_exception(caught.value))
    assert [each in shown for each in ("row: one", "row: two", "row: three", "row: sound")] == [True, True, True, False]
    assert [each in shown for each in ("assert (3 // (2 - 1)) == 2", "ZeroDivisionError", "nothing")] == [True] * 3


def test_a_row_without_a_name_is_shown() -> None:
    @all_of_them("one", [(2, 2), (3, 2)])
    def check(one: tuple[int, int]) -> None:
        assert one[0] == one[1]

    with pytest.raises(ExceptionGroup) as caught:
        check()
    assert caught.value.exceptions[0].__notes__ == ["row: (3, 2)"]


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(AssertionError, match="there are no rows"):
        all_of_them("one", [])
