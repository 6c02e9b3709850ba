"""One profile group, minute by minute. The service and the replay take these same steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.demand_record import DemandRecord
from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.scale_ahead.demand.forecast import Forecast, GroupSituation
from dra_spawner.scale_ahead.demand.policies import DemandPolicy, Question, WebhookAnswer
from dra_spawner.scale_ahead.demand.settings import DemandSettings

#: Of the state; one of another version is not read. It changes only if a program of before would take the state for
#: something else: what a state has more than a program knows is ignored, and what a later version adds is optional.
_VERSION: Final = 2
#: Minutes by which the clocks of two leaders may differ.
_MAX_SKEW: Final = 5
#: Inputs that hits and misses tell something of.
_LEARNED: Final = (Source.REACTIVE, Source.SEASONAL, Source.STEADY)
#: What a state has of the last situation, beside the lead time.
_LASTING: Final = ("present", "floor", "most", "slots_per_node", "node_starts_per_minute")


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
        self._situation = GroupSituation(timedelta(0))
        self._is_learned = False
        """Whether the last answer follows from what was learned of launches alone."""

    def step(
        self,
        minute: int,
        arrivals: int,
        departures: int,
        situation: GroupSituation,
        webhooks: Mapping[str, WebhookAnswer] | None = None,
        served: tuple[int, int] = (0, 0),
    ) -> Forecast | None:
        """Observe a minute that is over, and answer for the one that begins; None if the policy does not apply.

        Parameters
        ----------
        served
            Launches of the minute that found a warm placeholder, and that did not, while there were as many
            placeholders as answered.
        """
        if self._is_learned:
            self.record.allowed_misses.add(*served)
        self.record.observe(minute, arrivals, departures)
        self._situation = situation
        answer = self.policy(Question(minute + 1, situation, self.record, webhooks or {}))
        self._is_learned = answer is not None and answer.decided_by in _LEARNED and answer.limited_to is None
        return answer

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

    def learn(
        self,
        counts: Iterable[tuple[int, int, int]],
        situation: GroupSituation,
        occurrences: Callable[[int], tuple[Occurrence, ...]] = lambda minute: (),
    ) -> None:
        """Observe past minutes: forecasts are made as they would have been, so that their safety is learned, too.

        Parameters
        ----------
        counts
            Minute, arrivals and departures, in the order of time, each minute.
        situation
            Of the first minute. The servers that run follow from the counts; all else is taken for all minutes.
        occurrences
            Calendar entries that are near at a minute.
        """
        present = situation.present
        for minute, arrivals, departures in counts:
            present = max(present + arrivals - departures, 0)
            then = replace(situation, present=present, occurrences=occurrences(minute))
            self.step(minute, arrivals, departures, then)

    def state(self) -> dict[str, Any]:
        """What was learned, without the counts, as JSON, and the last situation."""
        last = self._situation
        return {
            "version": _VERSION,
            "begin": self.record.counts.begin,
            "end": self.record.counts.end,
            "record": self.record.state(),
            "is_learned": self._is_learned,
            "situation": {
                "lead": last.lead.total_seconds(),
                **{name: getattr(last, name) for name in _LASTING},
            },
        }

    @classmethod
    def restored(
        cls,
        state: Mapping[str, Any],
        counts: Mapping[int, tuple[int, int]],
        settings: DemandSettings,
        policy: DemandPolicy,
        *,
        earliest: int,
        latest: int,
    ) -> GroupDemand:
        """The demand that goes on where another one has ended.

        Parameters
        ----------
        state
            Of the other one.
        counts
            Arrivals and departures by minute; minutes without any are left out.
        earliest, latest
            Minutes from which on, and before which, the counts are complete.

        Raises
        ------
        ValueError
            If the state cannot be used: it is of another version, too old, or of the future.
        """
        try:
            if state["version"] != _VERSION:
                raise ValueError(f"the state has version {state['version']}")
            begin, end = int(state["begin"]), int(state["end"])
            situation = _situation(state["situation"])
            record, is_learned = state["record"], bool(state["is_learned"])
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"this is no state of a demand: {error!r}") from None
        if not earliest <= end <= latest + _MAX_SKEW:
            raise ValueError(f"the state is of minute {end}, and counts are known from {earliest} to {latest}")
        end = min(end, latest)
        begin = min(max(begin, earliest), end, min(counts, default=end))
        found = cls(begin, settings, policy)
        for minute in sorted(counts):
            if minute < end - 1:
                found.record.counts.record(minute, *counts[minute])
        if end > begin:
            found.record.counts.record(end - 1, *counts.get(end - 1, (0, 0)))
        found.record.restore(record)
        found._situation, found._is_learned = situation, is_learned
        return found

    @property
    def situation(self) -> GroupSituation:
        """The last situation, without what lasts for a moment only."""
        return replace(self._situation, occurrences=(), pending_spawns=0, reserved=0)


def _situation(state: Mapping[str, Any]) -> GroupSituation:
    """The situation that was stored, as far as it is known here."""
    most, slots, starts = (state.get(name) for name in ("most", "slots_per_node", "node_starts_per_minute"))
    return GroupSituation(
        timedelta(seconds=state["lead"]),
        present=int(state["present"]),
        floor=int(state["floor"]),
        most=int(most) if most is not None else None,
        slots_per_node=int(slots) if slots is not None else None,
        node_starts_per_minute=float(starts) if starts is not None else None,
    )
