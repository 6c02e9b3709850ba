"""Finds values that can be decoded but that the API server would refuse, so that answers would be worthless."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dra_spawner.dra.cel import CelCompileError, CelUnsupportedError, compile_selector
from dra_spawner.dra.model.objects import CapacityRange, DeviceClass, ObjectError, ResourceClaim, ResourceSlice


def check_object(item: DeviceClass | ResourceClaim | ResourceSlice) -> None:
    """Check a slice's ranges of capacities and its counters, or the selectors of a class or a claim without allocation.

    Raises
    ------
    ObjectError
        If a range is malformed, a counter set has no counters, or a selector is no CEL.
    """
    if isinstance(item, ResourceSlice):
        _check_ranges(item)
        _check_counters(item)
        return
    for path, expression in _expressions(item):
        problem = _problem(expression)
        if problem:
            raise ObjectError(f"{type(item).__name__} {item.name}", path, f"CEL does not compile: {problem}")


def _check_counters(item: ResourceSlice) -> None:
    """Counter sets without counters, which some drivers have sent."""
    for at, (_, counters) in enumerate(item.shared_counters):
        if not counters:
            raise ObjectError(f"ResourceSlice {item.name}", f"spec.sharedCounters[{at}].counters", "is required")
    for at, device in enumerate(item.devices):
        consumed = {name.counter_set for name, _ in device.consumes_counters}
        for number, name in enumerate(device.counter_sets):
            if name not in consumed:
                path = f"spec.devices[{at}].consumesCounters[{number}].counters"
                raise ObjectError(f"ResourceSlice {item.name}", path, "is required")


def _check_ranges(item: ResourceSlice) -> None:
    for at, device in enumerate(item.devices):
        for name, capacity in device.description.capacity.items():
            valid_range = capacity.policy.valid_range if capacity.policy is not None else None
            field, problem = _range_problem(valid_range) if valid_range is not None else ("", "")
            if problem:
                path = f"spec.devices[{at}].capacity[{name}].requestPolicy.validRange.{field}"
                raise ObjectError(f"ResourceSlice {item.name}", path, problem)


def _range_problem(valid_range: CapacityRange) -> tuple[str, str]:
    """The field and its problem; empty if there is none."""
    if valid_range.step is not None and not valid_range.step:
        return "step", "must not be 0"
    if valid_range.maximum is not None and valid_range.maximum < valid_range.minimum:
        return "max", f"must not be less than min, which is {valid_range.minimum}"
    return "", ""


def _problem(expression: str) -> str:
    problem = ""
    # The API server's feature gates are unknown, so a value is valid if it is valid with or without a gate.
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
