"""Selecting devices by CEL, with every verdict remembered.

A selector sees nothing but a device's description, and of that the attributes it names, so its verdict is computed once
for each pair of selector and visible part of a description, however many devices, nodes and claims there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from dra_spawner.dra.allocation.visibility import Visibility
from dra_spawner.dra.cel import (
    CelBudgetExceeded,
    CelCompileError,
    CelDevice,
    CelRuntimeError,
    CelUnsupportedError,
    compile_selector,
)
from dra_spawner.dra.errors import FatalReason
from dra_spawner.dra.model.devices import DeviceDescription

#: Steps that one selector may take for all descriptions, besides so many for each: loops over a device's attributes
#: take hundreds. Selectors without loops are not counted.
STEPS: Final = 2_000_000
STEPS_EACH: Final = 2_000
#: Selectors, and combinations of them, whose verdicts are remembered.
MAX_CACHED: Final = 4096


@dataclass(frozen=True, slots=True)
class SelectorFailure:
    """A selector that could say neither yes nor no."""

    reason: FatalReason
    message: str
    position: int = 0
    """Which selector of a filter it was."""


class DeviceFilter:
    """Selectors that must all select a device, asked in this order until one does not."""

    __slots__ = ("_cache", "_expressions", "_seen", "_verdicts", "_visibility", "attributes")

    attributes: frozenset[str] | None
    """Attributes that can change a verdict, see :class:`~dra_spawner.dra.allocation.visibility.Visibility`."""

    def __init__(self, cache: SelectorCache, expressions: tuple[str, ...]) -> None:
        # Imported here, as a hub without expressions needs no parser.
        from dra_spawner.dra.cel.evaluation.influences import attributes_that_matter

        self._cache = cache
        self._expressions = expressions
        seen = [attributes_that_matter(expression) for expression in expressions]
        self.attributes = None if None in seen else frozenset().union(*(item for item in seen if item))
        self._visibility = Visibility(self.attributes)
        self._seen: dict[Hashable, bool | SelectorFailure] = {}
        self._verdicts: dict[DeviceDescription, bool | SelectorFailure] = {}

    def verdict(self, description: DeviceDescription) -> bool | SelectorFailure:
        """Whether all selectors select devices of this description; a failure where one that was asked failed."""
        verdict = self._verdicts.get(description)
        if verdict is None:
            seen = self._visibility.seen(description)
            verdict = self._seen.get(seen)
            if verdict is None:
                verdict = self._seen[seen] = self._evaluate(description)
            self._verdicts[description] = verdict
            self._cache.kept += 1
        return verdict

    def refused_by(self, description: DeviceDescription) -> int:
        """Position of the selector that does not select the device."""
        verdicts = [self._cache.verdict(expression, description) for expression in self._expressions]
        return verdicts.index(False)

    def _evaluate(self, description: DeviceDescription) -> bool | SelectorFailure:
        for position, expression in enumerate(self._expressions):
            verdict = self._cache.verdict(expression, description)
            if isinstance(verdict, SelectorFailure):
                return SelectorFailure(verdict.reason, verdict.message, position)
            if not verdict:
                return False
        return True


class SelectorCache:
    """Verdicts of selectors on device descriptions; may be shared by all allocators with the same features.

    Parameters
    ----------
    list_attributes
        Whether selectors see attributes that are lists. If not, such an attribute makes every selector fail.

    Attributes
    ----------
    kept
        How many verdicts are remembered, here and in filters: a caller with ever new selectors or devices
        starts a new cache when there are many.
    """

    __slots__ = ("_devices", "_filters", "_list_attributes", "_steps", "_verdicts", "kept")

    def __init__(self, *, list_attributes: bool) -> None:
        self._list_attributes = list_attributes
        self._devices: dict[DeviceDescription, CelDevice] = {}
        self._verdicts: dict[str, dict[DeviceDescription, bool | SelectorFailure]] = {}
        self._filters: dict[tuple[str, ...], DeviceFilter] = {}
        self._steps: Counter[str] = Counter()
        self.kept = 0

    def filter(self, expressions: tuple[str, ...]) -> DeviceFilter:
        """Filter made of these selectors."""
        known = self._filters.get(expressions)
        if known is None:
            if len(self._filters) >= MAX_CACHED:
                self._filters.clear()
            known = self._filters[expressions] = DeviceFilter(self, expressions)
        return known

    def verdict(self, expression: str, description: DeviceDescription) -> bool | SelectorFailure:
        """Whether one selector selects devices of this description."""
        verdicts = self._verdicts.get(expression)
        if verdicts is None:
            if len(self._verdicts) >= MAX_CACHED:
                self._verdicts.clear()
                self._steps.clear()
            verdicts = self._verdicts[expression] = {}
        verdict = verdicts.get(description)
        if verdict is None:
            verdict = verdicts[description] = self._evaluate(expression, description, len(verdicts))
            self.kept += 1
        return verdict

    def _evaluate(self, expression: str, description: DeviceDescription, known: int) -> bool | SelectorFailure:
        try:
            selector = compile_selector(expression, list_attributes=self._list_attributes)
        except CelUnsupportedError as error:
            return SelectorFailure(FatalReason.SELECTOR_UNSUPPORTED, f"unsupported CEL expression: {error}")
        except CelCompileError as error:
            return SelectorFailure(FatalReason.SELECTOR, f"CEL does not compile: {error}")
        device = self._devices.get(description)
        if device is None:
            device = self._devices[description] = self._prepare(description)
        if self._steps[expression] > STEPS + STEPS_EACH * known:
            text = "no verdict on CEL expression: evaluating it on all devices takes too many steps"
            return SelectorFailure(FatalReason.SELECTOR_UNSUPPORTED, text)
        outcome, steps = selector.evaluate(device)
        if steps:
            self._steps[expression] += steps
        if isinstance(outcome, CelBudgetExceeded):
            return SelectorFailure(FatalReason.SELECTOR_UNSUPPORTED, f"no verdict on CEL expression: {outcome}")
        if isinstance(outcome, CelRuntimeError):
            return SelectorFailure(FatalReason.SELECTOR, f"CEL runtime error: {outcome}")
        return outcome

    def _prepare(self, description: DeviceDescription) -> CelDevice:
        attributes = {name: attribute.to_json() for name, attribute in description.attributes.items()}
        capacity = {name: item.value for name, item in description.capacity.items()}
        return CelDevice.from_device(
            description.driver,
            attributes,
            capacity,
            description.allow_multiple_allocations,
            list_attributes=self._list_attributes,
        )
