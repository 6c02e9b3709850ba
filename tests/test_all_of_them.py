"""A test of a whole table names each row that fails, and why."""

from __future__ import annotations

import pytest

from tests.all_of_them import all_of_them


def failure(rows: object) -> str:
    @all_of_them(rows)  # type: ignore[arg-type]
    def check(one: int, other: int) -> None:
        if other == 0:
            pytest.fail("nothing")
        assert one // (other - 1) == 2

    with pytest.raises(AssertionError) as caught:
        check()
    return str(caught.value)


@pytest.mark.parametrize(
    "rows",
    [
        {"sound": (2, 2), "one": (3, 2), "two": (3, 1), "three": [3, 0]},
        [pytest.param(2, 2, id="sound"), *(pytest.param(3, 2 - n, id=each) for n, each in enumerate(("one", "two", "three")))],
    ],
    ids=["mapping", "parameters"],
)  # fmt: skip
def test_each_row_that_fails_is_named(rows: object) -> None:
    assert failure(rows).splitlines()[:2] == ["3 wrong:", "one: assert (3 // (2 - 1)) == 2"]
    assert "\ntwo: ZeroDivisionError: " in failure(rows)
    assert "\nthree: Failed: nothing" in failure(rows)
    assert "sound" not in failure(rows)


def test_a_row_without_a_name_is_shown() -> None:
    assert "\n(3, 2): assert " in failure([(2, 2), (3, 2)])


@all_of_them([(1, 2), "ab"])
def test_one_parameter_takes_the_whole_row(row: object) -> None:
    assert len(row) == 2  # type: ignore[arg-type]
