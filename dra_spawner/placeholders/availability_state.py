"""How soon a server runs: one vocabulary of answers, form, progress, decisions and metrics."""

from __future__ import annotations

from enum import StrEnum


class AvailabilityState(StrEnum):
    """How soon a server runs, and what it runs on."""

    #: A warm placeholder is handed over, or preempted if it has no claims.
    READY = "ready"
    #: A placeholder is deleted; the server gets its claims, and starts when it is gone.
    AFTER_PLACEHOLDER = "after-placeholder"
    #: Capacity is free; for a label, on a node that has the images.
    FREE = "free"
    #: Placeholders of other shapes are preempted.
    AFTER_PREEMPTION = "after-preemption"
    #: Nothing is free. What ends the wait is not looked for: the answer of a placement.
    WAITS = "waits"
    #: Nothing is free, and a node is certain to come.
    NEEDS_NODE = "needs-node"
    #: Nothing is free until a server of another user ends, as far as it is known.
    WHEN_STOPPED = "when-stopped"
    #: What could run it takes no new server: nodes or devices that somebody has closed.
    CLOSED = "closed"
    #: No known kind of node can ever run it.
    NEVER = "never"
    #: It is not known.
    UNKNOWN = "unknown"

    @property
    def is_now(self) -> bool:
        """Whether a server starts without waiting for anybody else's end, or for a node."""
        return self in _NOW


_NOW = frozenset(
    (
        AvailabilityState.READY,
        AvailabilityState.FREE,
        AvailabilityState.AFTER_PLACEHOLDER,
        AvailabilityState.AFTER_PREEMPTION,
    )
)
