"""How a server gets its node: what the service decides, and hub and pages say."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["PlacementKind"]


class PlacementKind(StrEnum):
    """How a server gets its node."""

    #: A warm placeholder is handed over, or preempted if it has no claims.
    WARM = "warm"
    #: A placeholder is deleted; the server gets its claims, and starts when it is gone.
    AFTER_PLACEHOLDER = "after-placeholder"
    #: Capacity is free.
    FRESH = "fresh"
    #: Placeholders of other shapes are preempted.
    PREEMPTED = "preempt"
    #: A new node is needed.
    SCALE_UP = "scale-up"
    #: No known kind of node can ever run it.
    NEVER = "never"
