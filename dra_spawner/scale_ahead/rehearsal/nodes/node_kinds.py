"""Kinds of nodes that an autoscaler can add, as an administrator describes them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Equal nodes that an autoscaler can add.

    Raises
    ------
    ValueError
        If a number is outside of its range.
    """

    name: str
    slots: int
    """Servers of the profile group that fit on a node."""
    lead_times: tuple[timedelta, ...]
    """Times from the order of a node until it has its devices; one is drawn at random for each node."""
    image_time: timedelta = timedelta(0)
    """Further time until the node has the images."""
    profiles: tuple[str, ...] = ()
    """Profiles whose servers fit; together they are one group."""
    max_nodes: int | None = None
    """Limit of the number of nodes; None for no limit."""
    starts_per_minute: float | None = None
    """Limit of started nodes in a minute; None for no limit."""
    unneeded: timedelta = timedelta(minutes=10)
    """Time for which a node is empty before the autoscaler removes it."""
    price: float = 0.0
    """Price of a node for an hour, in any currency."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of these nodes in the cluster, for a rehearsal; without labels, the name is their instance type."""

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"slots is {self.slots}; it must be 1 or more")
        if not self.lead_times or min(self.lead_times) <= timedelta(0):
            raise ValueError("lead_times must have one or more times, each more than 0")
        if self.image_time < timedelta(0) or self.unneeded < timedelta(0):
            raise ValueError("image_time and unneeded must not be negative")
        if self.max_nodes is not None and self.max_nodes < 0:
            raise ValueError(f"max_nodes is {self.max_nodes}; it must be 0 or more")
        if self.starts_per_minute is not None and not self.starts_per_minute > 0:
            raise ValueError(f"starts_per_minute is {self.starts_per_minute}; it must be more than 0")
        if not 0 <= self.price < float("inf"):
            raise ValueError(f"price is {self.price}; it must be 0 or more")
