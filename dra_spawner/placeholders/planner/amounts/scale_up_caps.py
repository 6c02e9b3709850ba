"""Shapes for which the autoscaler adds no node, as a node group or the cluster has reached its maximum.

The maximum is known only by the autoscaler's message about pods that stay pending. While a pending placeholder has it,
more placeholders of its shape would only be pending, too. Afterwards more are created after a time, which doubles if
they get the message again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.placeholders.planner.cluster.view import View

__all__ = ["ScaleUpCap", "ScaleUpCaps"]

_FIRST: Final = timedelta(minutes=1)
_LONGEST: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class ScaleUpCap:
    """A shape that gets no more nodes.

    Attributes
    ----------
    reason
        The autoscaler's message.
    since
        When it was first seen.
    delay
        Time from the last placeholder with this message to the next try.
    until
        Time of the next try.
    """

    reason: str
    since: datetime
    delay: timedelta
    until: datetime


@dataclass(frozen=True, slots=True)
class ScaleUpCaps:
    """The caps of all shapes, as a value."""

    of_shape: Mapping[str, ScaleUpCap] = field(default_factory=dict)

    def at(self, now: datetime) -> dict[str, ScaleUpCap]:
        """The caps that hold at a time, by shape."""
        return {shape: cap for shape, cap in self.of_shape.items() if now < cap.until}

    def after(self, view: View) -> ScaleUpCaps:
        """The value after a round."""
        return ScaleUpCaps(dict(self._after(view)))

    def without(self, shape: str) -> ScaleUpCaps:
        """The value after an administrator has resumed a shape."""
        return ScaleUpCaps({each: cap for each, cap in self.of_shape.items() if each != shape})

    def not_after(self, now: datetime) -> ScaleUpCaps:
        """The same after the clock was set back."""
        return ScaleUpCaps(
            {
                shape: replace(cap, since=min(cap.since, now), until=min(cap.until, now + cap.delay))
                for shape, cap in self.of_shape.items()
            }
        )

    def _after(self, view: View) -> Iterator[tuple[str, ScaleUpCap]]:
        said: dict[str, str] = {}
        for each in view.placeholders.values():
            if each.is_pending and each.shape not in said and (message := view.no_scale_up(each.pod)):
                said[each.shape] = message
        for shape in sorted({*self.of_shape, *said}):
            cap, now = self.of_shape.get(shape), view.now
            if shape not in said:
                # It is remembered for a time, so that the delay doubles if the next try fails.
                if cap is not None and now < cap.until + _LONGEST:
                    yield shape, cap
            elif cap is None:
                yield shape, ScaleUpCap(said[shape], now, _FIRST, now + _FIRST)
            elif now < cap.until:
                yield shape, replace(cap, reason=said[shape], until=now + cap.delay)
            else:
                delay = min(2 * cap.delay, _LONGEST)
                yield shape, ScaleUpCap(said[shape], now, delay, now + delay)
