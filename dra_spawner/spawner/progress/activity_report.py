"""The last report of a server about its kernels, which the hub keeps in memory."""

from __future__ import annotations

from dataclasses import dataclass

from dra_spawner.fairness.idle.samples import ServerActivity


@dataclass(frozen=True, slots=True)
class ActivityReport:
    """A report, and its time by a monotonic clock."""

    activity: ServerActivity
    at: float
