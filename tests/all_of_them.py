"""One test for a whole table: it checks every row, and its message names all rows that fail."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest


def all_of_them(rows: Mapping[Any, Any] | Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make a function that checks one row a test of all rows, as ``pytest.mark.parametrize`` makes many tests of it.

    A row is a ``pytest.param``, a tuple with a value for each parameter, or the value of the only parameter. Its name is its
    ``id``, its key, or the row itself. A check has no fixtures, because rows would share them: within a test that has
    fixtures, decorate an inner function and call it.
    """

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        table = list(_named(rows, len(inspect.signature(check).parameters)))
        assert table, "there are no rows"

        @functools.wraps(check)
        def test() -> None:
            problems = []
            for name, arguments in table:
                try:
                    check(*arguments)
                except (Exception, pytest.fail.Exception) as error:
                    if "from pytest-timeout" in str(error):
                        raise  # it is raised once, and is of the whole test
                    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                    problems.append(f"{name}: {kind}{error}")
            assert not problems, f"{len(problems)} wrong:\n" + "\n".join(problems)

        # Without it, pytest would take the parameters of the check for fixtures.
        test.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return test

    return decorate


def _named(rows: Mapping[Any, Any] | Iterable[Any], parameters: int) -> Iterator[tuple[object, tuple[Any, ...]]]:
    """Name and arguments of each row."""
    for row in rows.items() if isinstance(rows, Mapping) else rows:
        if isinstance(rows, Mapping):
            name, value = row
        elif isinstance(row, type(pytest.param())):
            yield row.id or row.values, tuple(row.values)
            continue
        else:
            name, value = repr(row)[:200], row
        yield name, (value,) if parameters == 1 else tuple(value)
