"""A table of cases as one test: it tries every row, and its failure shows all rows that fail."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

__all__ = ["all_of_them"]

Check = Callable[..., Any]
_Rows = Mapping[Any, Any] | Iterable[Any]


def all_of_them(names: str, rows: _Rows) -> Callable[[Check], Check]:
    """Make a check of one row a test of all rows, as ``pytest.mark.parametrize`` makes many tests of it.

    Other arguments are fixtures, which all rows share.

    Parameters
    ----------
    names
        Arguments that a row gives, separated by commas.
    rows
        A ``pytest.param``, a tuple with a value for each argument, or the value of the only argument. A row's name is its
        ``id``, its key, or the row itself.
    """
    arguments = names.split(", ")
    cases = [(name, dict(zip(arguments, values, strict=True))) for name, values in _named(rows, len(arguments))]
    assert cases, "there are no rows"

    def decorate(check: Check) -> Check:
        def test(**fixtures: Any) -> None:
            failed: list[Exception] = []
            for name, case in cases:
                try:
                    check(**fixtures, **case)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(_noted(error, name))
            _report(failed, len(cases))

        async def async_test(**fixtures: Any) -> None:
            failed: list[Exception] = []
            for name, case in cases:
                try:
                    await check(**fixtures, **case)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(_noted(error, name))
            _report(failed, len(cases))

        found = functools.wraps(check)(async_test if inspect.iscoroutinefunction(check) else test)
        signature = inspect.signature(check)
        fixtures = [each for name, each in signature.parameters.items() if name not in arguments]
        vars(found)["__signature__"] = signature.replace(parameters=fixtures)
        return found

    return decorate


def _named(rows: _Rows, count: int) -> Iterator[tuple[object, tuple[Any, ...]]]:
    """Name and values of each row."""
    for row in rows.items() if isinstance(rows, Mapping) else rows:
        if isinstance(rows, Mapping):
            name, value = row
        elif isinstance(row, type(pytest.param())):
            yield row.id or row.values, tuple(row.values)
            continue
        else:
            name, value = repr(row)[:200], row
        yield name, (value,) if count == 1 else tuple(value)


def _noted(error: BaseException, name: object) -> Exception:
    """The error of a row, with the row's name."""
    if "from pytest-timeout" in str(error):
        raise error  # it is raised once, and is of the whole test
    found = error if isinstance(error, Exception) else AssertionError(str(error))
    found.add_note(f"row: {name}")
    return found


def _report(failed: list[Exception], count: int) -> None:
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {count} rows fail", failed)
