"""Results that follow from published devices and device classes, remembered until one of them changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from dra_spawner.dra.model.objects import DeviceClass

V = TypeVar("V")


class DeviceMemo:
    """See the module. A fresh memo gives the same results, later."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._classes: dict[str, DeviceClass] = {}

    def of(self, key: Hashable, compute: Callable[[], V]) -> V:
        """The result with this key; `compute` returns it where it is not known."""
        if key not in self._results:
            self._results[key] = compute()
        found: V = self._results[key]
        return found

    def forget(self, key: Hashable) -> None:
        self._results.pop(key, None)

    def devices_changed(self) -> None:
        """Forget all results."""
        self._results.clear()

    def classes_are(self, classes: Mapping[str, DeviceClass]) -> None:
        """Forget all results if the classes were others before."""
        if self._classes != classes:
            self._classes = dict(classes)
            self._results.clear()
