"""The lead time to count with, from the lead times that were seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import timedelta
from math import ceil
from typing import Final

_REMEMBERED: Final = 50


def lead_time_quantile(seen: Iterable[timedelta], share: float = 0.9) -> timedelta | None:
    """The lead time that this share of nodes has kept; None if none was seen."""
    ordered = sorted(seen)
    return ordered[max(ceil(share * len(ordered)) - 1, 0)] if ordered else None


class SeenLeadTimes:
    """The last lead times of one kind of node, and the one to count with.

    Parameters
    ----------
    configured
        What is taken until a node was seen.
    """

    def __init__(self, configured: timedelta) -> None:
        self._seen: deque[timedelta] = deque(maxlen=_REMEMBERED)
        self._quantile = configured
        self._is_current = True

    def add(self, lead: timedelta) -> None:
        """Record the time from a node's order until it became useful."""
        seen = self._seen
        # The same times again have the same quantile.
        self._is_current = self._is_current and len(seen) == _REMEMBERED and seen[0] == lead
        seen.append(lead)

    @property
    def quantile(self) -> timedelta:
        """The 0.9 quantile of what was seen."""
        if not self._is_current:
            self._quantile = lead_time_quantile(self._seen) or self._quantile
            self._is_current = True
        return self._quantile
