"""One profile group, minute by minute. The service and the replay take these same steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dra_spawner.placeholders.planner.demand.demand_record import DemandRecord
from dra_spawner.placeholders.planner.demand.forecast import Forecast, GroupSituation
from dra_spawner.placeholders.planner.demand.policies import DemandPolicy, Question, WebhookAnswer
from dra_spawner.placeholders.planner.demand.settings import DemandSettings

__all__ = ["GroupDemand"]


class GroupDemand:
    """What was learned of one profile group, and the policy that answers for it.

    Parameters
    ----------
    begin
        The first minute that will be observed.
    settings
        Of forecasts.
    """

    def __init__(self, begin: int, settings: DemandSettings, policy: DemandPolicy) -> None:
        self.policy = policy
        self.record = DemandRecord(begin, settings)

    def step(
        self,
        minute: int,
        arrivals: int,
        departures: int,
        situation: GroupSituation,
        webhooks: Mapping[str, WebhookAnswer] | None = None,
    ) -> Forecast | None:
        """Observe a minute that is over, and answer for the one that begins; None if the policy does not apply."""
        self.record.observe(minute, arrivals, departures)
        return self.policy(Question(minute + 1, situation, self.record, webhooks or {}))

    def ahead(self, minutes: Iterable[int], situation: GroupSituation) -> Sequence[Forecast | None]:
        """Answers for later minutes, if no server comes or ends until then; nothing is learned.

        Past weeks, calendar entries, windows of policies and the floor count as ever. Recent launches fade. Webhooks
        say nothing of later minutes.

        Parameters
        ----------
        minutes
            In the order of time, later than the last observed one.
        situation
            Taken for all of them; its calendar entries must reach as far, and a lead time more.
        """
        record, before, found = self.record.later(), self.record.counts.end, []
        for minute in minutes:
            record.skip(minute - before)
            found.append(self.policy(Question(minute, situation, record)))
            before = minute
        return found

    def learn(self, counts: Iterable[tuple[int, int, int]], situation: GroupSituation) -> None:
        """Observe past minutes: forecasts are made as they would have been, so that their safety is learned, too.

        Parameters
        ----------
        counts
            Minute, arrivals and departures, in the order of time, each minute.
        situation
            Taken for all of them.
        """
        for minute, arrivals, departures in counts:
            self.step(minute, arrivals, departures, situation)
