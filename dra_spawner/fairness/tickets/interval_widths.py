"""How wide expected waits are told, from how earlier ones came true.

Usual lengths of sessions change: on weekends, before an exam, in a new course. Then intervals from past sessions are
too narrow, or lie beside. Each wait that ends outside of its interval makes the next intervals wider at this end, and
each that ends inside makes them a little narrower. In the long run a tenth of all waits is early and a tenth late,
whatever users do, while the limit of the widths is not reached (Gibbs and Candès 2021, adaptive conformal inference).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Final

#: Part of the waits that should be early, and the same of late ones.
_TAIL: Final = 0.1
#: How much one wait changes the logarithm of a width.
_STEP: Final = 0.15
#: Limit of the logarithm: the widest is twelve times as wide as computed, the narrowest a twelfth.
MOST_STRETCH: Final = 2.5


@dataclass(frozen=True, slots=True)
class IntervalWidths:
    """How much wider an interval is than computed, below and above its median: logarithms of two factors.

    Attributes
    ----------
    below, above
        Zero as computed; more is wider.
    """

    below: float = 0.0
    above: float = 0.0

    def after(self, *, is_early: bool, is_late: bool) -> IntervalWidths:
        """The widths after one more wait has ended, before its interval, in it, or behind it."""
        return IntervalWidths(_changed(self.below, is_outside=is_early), _changed(self.above, is_outside=is_late))

    def stretched(self, low: float, median: float, high: float) -> tuple[float, float]:
        """Both ends of an interval in seconds; the first is never below zero."""
        return max(median - (median - low) * exp(self.below), 0.0), median + (high - median) * exp(self.above)


#: Before any wait has ended.
AS_COMPUTED: Final = IntervalWidths()


def _changed(width: float, *, is_outside: bool) -> float:
    changed = width + _STEP * ((1.0 - _TAIL) if is_outside else -_TAIL)
    return min(max(changed, -MOST_STRETCH), MOST_STRETCH)
