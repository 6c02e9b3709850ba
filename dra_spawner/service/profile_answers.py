"""Availability as JSON, computed again only after something has changed, or after a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.planner.policy import Policy

__all__ = ["ProfileAnswers"]

#: Age after which an answer is computed again although nothing has changed: waits pass.
_MAX_SECONDS: Final = 1.0
#: Limit of names that are remembered.
_MAX_NAMES: Final = 64

_Items = list[dict[str, Any]]


class ProfileAnswers:
    """Remembers the last answer for each name; callers at the same time share one computation.

    Parameters
    ----------
    seconds
        Returns the seconds of a monotonic clock.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._known: dict[str, tuple[tuple[int, int], Policy, float, _Items]] = {}
        self._working = asyncio.Lock()

    async def items(
        self, controller: PlaceholderController, name: str, compute: Callable[[], Awaitable[_Items]]
    ) -> _Items:
        """The answer; the caller must not change it.

        Parameters
        ----------
        name
            Of one choice; empty for all.
        """
        found = self._fresh(controller, name)
        if found is None:
            async with self._working:
                found = self._fresh(controller, name)
                if found is None:
                    version, policy = (controller.watch.version, controller.changes), controller.policy
                    found = await compute()
                    if len(self._known) >= _MAX_NAMES:
                        self._known.clear()
                    self._known[name] = version, policy, self._seconds(), found
        return found

    def _fresh(self, controller: PlaceholderController, name: str) -> _Items | None:
        known = self._known.get(name)
        if known is None or self._seconds() - known[2] > _MAX_SECONDS:
            return None
        is_same = known[0] == (controller.watch.version, controller.changes) and known[1] is controller.policy
        return known[3] if is_same else None
