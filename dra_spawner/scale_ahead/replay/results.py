"""Figures of the replay of one policy."""

from __future__ import annotations

from dataclasses import dataclass

from dra_spawner.scale_ahead.reports.misses import Miss
from dra_spawner.scale_ahead.reports.timeline import Timeline


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Figures of one policy on one trace.

    Attributes
    ----------
    policy
        Name of the policy.
    days
        Length of the judged time.
    launches
        Number of launches in this time.
    hits
        Launches that found a warm placeholder on a node with the image.
    free
        Launches that found free capacity on a node with the image, but no placeholder.
    idle_hours
        Hours of warm placeholders without a server.
    node_hours
        Hours of all nodes, from their order to their removal. Meaningless if no durations of servers are known.
    node_starts
        Number of ordered nodes.
    waits
        Number of launches by wait in minutes; `hits` and `free` have 0 minutes.
    largest_misses
        Times with the most waiting launches, the largest first.
    """

    policy: str
    days: float
    launches: int
    hits: int
    free: int
    idle_hours: float
    node_hours: float
    node_starts: int
    price: float
    waits: dict[int, int]
    largest_misses: tuple[Miss, ...]
    timeline: Timeline | None = None

    @property
    def hit_rate(self) -> float:
        """Hits per launch; 1 without launches."""
        return self.hits / self.launches if self.launches else 1.0

    @property
    def idle_hours_a_day(self) -> float:
        """Idle placeholder-hours per day."""
        return self.idle_hours / self.days if self.days else 0.0

    @property
    def node_hours_a_day(self) -> float:
        """Node-hours per day."""
        return self.node_hours / self.days if self.days else 0.0

    def wait_quantile(self, share: float) -> int:
        """Minutes within which this share of the launches was served."""
        seen = 0
        for minutes in sorted(self.waits):
            seen += self.waits[minutes]
            if seen >= share * self.launches:
                return minutes
        return 0

    def share_waiting(self, longer_than: int = 0) -> float:
        """Share of the launches that waited for more than `longer_than` minutes."""
        late = sum(count for minutes, count in self.waits.items() if minutes > longer_than)
        return late / self.launches if self.launches else 0.0
