"""The last forecast of a profile group, and what it makes of the group's range of placeholders."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dra_spawner.placeholders.controller.sources.target_source import ProfileGroup
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.scale_ahead.demand.forecast import Forecast, GroupSituation


@dataclass(frozen=True, slots=True)
class GroupForecast:
    """The last forecast of a group.

    Attributes
    ----------
    at
        The minute for which it was made.
    servers
        Servers that it knows of: all that were launched before this minute.
    """

    group: ProfileGroup
    at: int
    situation: GroupSituation
    forecast: Forecast
    servers: int = 0

    @property
    def target(self) -> int:
        """Placeholders, within the configured limits."""
        return self.range_of(self.group).min

    @property
    def cut(self) -> str:
        """That a limit leaves users of a calendar entry without placeholders; empty if it does not."""
        limit = self.forecast.limited_to
        if limit is None or self.forecast.decided_by is not Source.CALENDAR:
            return ""
        wanted = max(each.assured for each in self.forecast.estimates)
        return f"the calendar needs {wanted} placeholders of {self.group.name}, but its max is {limit}"

    def range_of(self, group: ProfileGroup) -> ReplicaRange:
        """The range of a group, which may have got other settings or another shape.

        Users whom a calendar announces come once: until the next forecast, each who came lowers the target. A forecast
        that is the configured minimum alone is replaced by the present minimum at once.
        """
        replicas, made = group.replicas, self.forecast
        if made.decided_by is Source.FLOOR and made.placeholders == self.situation.floor != replicas.min:
            return replace(replicas, least=replicas.min)
        wanted = min(max(made.placeholders, replicas.min), replicas.max)
        is_calendar = made.decided_by is Source.CALENDAR
        to_come = max((each.assured for each in made.estimates if each.source is Source.CALENDAR), default=0)
        return replace(
            replicas,
            min=wanted,
            because=made.reason,
            servers=self.servers if is_calendar else None,
            beyond=max(to_come - wanted, 0) if is_calendar else 0,
            least=replicas.min,
        )
