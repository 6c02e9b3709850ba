"""A table of cases as one test: each row is tried, and the failure shows all rows that fail."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

__all__ = ["all_of_them"]

Test = Callable[..., Any]


def all_of_them(names: str, rows: Mapping[str, Any] | Iterable[Any]) -> Callable[[Test], Test]:
    """Decorate a test that is called for each row, as with ``pytest.mark.parametrize``, but is one test.

    Fixtures are made once for all rows.

    Parameters
    ----------
    names
        Arguments that a row gives, separated by commas.
    rows
        Values of the arguments, by the name of the row; without names, a row is shown as its values.
    """
    arguments = names.split(", ")
    table = rows if isinstance(rows, Mapping) else {repr(row): row for row in rows}
    cases = {
        name: dict(zip(arguments, row if len(arguments) > 1 else (row,), strict=True)) for name, row in table.items()
    }

    def decorate(test: Test) -> Test:
        async def tried_async(**fixtures: Any) -> None:
            failed: list[BaseException] = []
            for name, case in cases.items():
                try:
                    await test(**fixtures, **case)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"row: {name}")
                    failed.append(error)
            _report(failed, len(cases))

        def tried(**fixtures: Any) -> None:
            failed: list[BaseException] = []
            for name, case in cases.items():
                try:
                    test(**fixtures, **case)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"row: {name}")
                    failed.append(error)
            _report(failed, len(cases))

        found = functools.wraps(test)(tried_async if inspect.iscoroutinefunction(test) else tried)
        signature = inspect.signature(test)
        fixtures = [each for name, each in signature.parameters.items() if name not in arguments]
        vars(found)["__signature__"] = signature.replace(parameters=fixtures)
        return found

    return decorate


def _report(failed: list[BaseException], count: int) -> None:
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {count} rows fail", failed)
