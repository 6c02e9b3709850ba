"""What an administrator may set about forecasts. The defaults need no change."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, timedelta, tzinfo

from dra_spawner.scale_ahead.demand.estimators.quantile import checked_share


@dataclass(frozen=True, slots=True)
class DemandSettings:
    """How a forecast is made. The defaults were tuned on 120 days of one public hub (docs/explanation/scale-ahead.md).

    Raises
    ------
    ValueError
        If a number is outside of its range; the message names the setting.
    """

    hit_rate: float = 0.99
    """Share of launches that should find a warm placeholder; more than 0, less than 1. `quantile.hit_rate_of_costs`
    computes one from costs."""
    memory: float = 6.0
    """Half-life of the recent rate, in launches: many launches tell a change sooner. It is at least half a lead time
    and at most six."""
    hold: float = 2.0
    """Time for which a number is kept after demand has fallen, in lead times: a node takes one to come back."""
    node_hold: float = 1.5
    """Time for which placeholders take the place of servers that have ended, in lead times, where several servers
    share a node. More of it starts fewer nodes, and keeps more idle."""
    burstiness: float = 0.5
    """Part of the expected launches that counts as their standard deviation, beside that of chance."""
    weeks: int = 4
    """Past weeks that the seasonal estimators look at; 0 switches them off."""
    around: timedelta = timedelta(minutes=15)
    """Time before and after the same minute of past weeks that they look at, too."""
    recurring_margin: float = 0.1
    """Part by which a class that recurs may grow."""
    calendar_margin: timedelta = timedelta(minutes=5)
    """Time before an entry's begin at which its placeholders are warm; its first users may come as early."""
    zone: tzinfo = UTC
    """Time zone of the site: classes keep their local time when clocks change."""
    holidays: frozenset[date] = field(default_factory=frozenset)
    """Local days on which little happens; past ones are not taken as examples."""
    holiday_share: float = 0.25
    """Part of the usual demand on such a day."""
    fill_nodes: bool = False
    """Fill the free rest of the last node, which costs no further node."""
    calibration_days: float = 14.0
    """Half-life of what was learned about the safety factor, in days."""

    def __post_init__(self) -> None:
        checked_share("hit_rate", self.hit_rate)
        for name in ("memory", "calibration_days"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be more than 0")
        for name in ("hold", "node_hold", "burstiness", "recurring_margin", "holiday_share", "weeks"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if self.weeks > 5:
            raise ValueError(f"weeks is {self.weeks}; at most 5 weeks are kept")
        for name in ("around", "calendar_margin"):
            if getattr(self, name) < timedelta(0):
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
