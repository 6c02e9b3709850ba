"""Selectors that the API server would refuse, told by the object that has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dra_spawner.dra.cel import CelCompileError, CelUnsupportedError, compile_selector
from dra_spawner.dra.objects import DeviceClass, ObjectError, ResourceClaim

__all__ = ["check_selectors"]


def check_selectors(item: DeviceClass | ResourceClaim) -> None:
    """Compile the selectors of a class, or of a claim that is still to be allocated.

    Raises
    ------
    ObjectError
        When one is no CEL.
    """
    for path, expression in _expressions(item):
        problem = _problem(expression)
        if problem:
            raise ObjectError(f"{type(item).__name__} {item.name}", path, f"CEL does not compile: {problem}")


def _problem(expression: str) -> str:
    problem = ""
    # Which feature gates the API server has is not known: what it would take with any of them counts as right.
    for list_attributes in (False, True):
        try:
            compile_selector(expression, list_attributes=list_attributes)
        except CelUnsupportedError:
            return ""
        except CelCompileError as error:
            problem = problem or str(error)
        else:
            return ""
    return problem


def _expressions(item: DeviceClass | ResourceClaim) -> Iterator[tuple[str, str]]:
    if isinstance(item, DeviceClass):
        yield from _named(item.selectors, "spec")
    elif not item.is_allocated:
        for number, request in enumerate(item.requests):
            path = f"spec.devices.requests[{number}]"
            if request.exactly is not None:
                yield from _named(request.exactly.selectors, f"{path}.exactly")
            for at, alternative in enumerate(request.first_available):
                yield from _named(alternative.selectors, f"{path}.firstAvailable[{at}]")


def _named(selectors: Iterable[str | None], path: str) -> Iterator[tuple[str, str]]:
    for number, expression in enumerate(selectors):
        if expression is not None:
            yield f"{path}.selectors[{number}].cel.expression", expression
