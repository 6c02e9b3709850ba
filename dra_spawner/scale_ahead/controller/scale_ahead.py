"""Scale-ahead: targets of placeholders that follow demand, minute by minute, while this replica leads.

It learns from the records of the history (launches, lead times of nodes), whether or not a history is kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.history.records import Launch, LearnedDemand, NodeLeadTime, Record, RecordSink
from dra_spawner.placeholders.controller.sources.target_source import ProfileGroup
from dra_spawner.placeholders.planner.cluster.pod_kinds import is_demand
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.demand_learning import (
    PAST_DAYS,
    CountedMinute,
    PastOfGroup,
    counts_by_group,
    learned_demand,
)
from dra_spawner.scale_ahead.controller.demand_settings import DemandOptions, ScaleAheadMode
from dra_spawner.scale_ahead.controller.group_forecast import GroupForecast
from dra_spawner.scale_ahead.controller.own_nodes import free_slots
from dra_spawner.scale_ahead.controller.policy_settings import policy_for
from dra_spawner.scale_ahead.demand.estimators.whole_nodes import NewNodeSlots
from dra_spawner.scale_ahead.demand.forecast import GroupSituation
from dra_spawner.scale_ahead.demand.group_demand import GroupDemand
from dra_spawner.scale_ahead.demand.launch_counter import GroupCounts, LaunchCounter
from dra_spawner.scale_ahead.demand.lead_times import SeenLeadTimes
from dra_spawner.scale_ahead.demand.minutes import datetime_of, minute_of
from dra_spawner.scale_ahead.demand.near_entries import LONGEST_LEAD, NearEntries
from dra_spawner.scale_ahead.demand.policies import DemandPolicy, WebhookAnswer, follows_calendar
from dra_spawner.simulator.model.pods import Pod

#: Entries of which it is told that they are about no choice.
_TOLD_AHEAD: Final = timedelta(days=7)
_MAX_TOLD: Final = 20
_REMEMBERED_NODES: Final = 1_000
#: Answers about later minutes that are kept until the next forecasts: many pages ask the same.
_MAX_AHEAD: Final = 500


@dataclass(frozen=True, slots=True)
class ScaleAheadSettings:
    """All settings of scale-ahead.

    Attributes
    ----------
    policies
        By name of a choice, as `policy_settings.read_policies` returns them.
    """

    mode: ScaleAheadMode = ScaleAheadMode.ADVISE
    options: DemandOptions = field(default_factory=DemandOptions)
    policies: Mapping[str, DemandPolicy] = field(default_factory=dict)

    def named_choice(self, group: ProfileGroup) -> str:
        """The choice of a group that has a policy of its own; the first choice, if none has."""
        own = (name for name in sorted(group.choices) if find_choice(name, self.policies) is not None)
        return next(own, group.name)

    def policy_of(self, group: ProfileGroup) -> DemandPolicy:
        """The policy of a group."""
        return policy_for(self.named_choice(group), self.policies)


class ScaleAhead(RecordSink):
    """See the module. It takes records, and is asked for ranges of placeholders.

    Parameters
    ----------
    calendars
        Says when more users than usual are expected.
    """

    def __init__(self, settings: ScaleAheadSettings, calendars: CalendarBook | None = None) -> None:
        self.settings = settings
        self.calendars = calendars or CalendarBook()
        self.is_told_to_act: Callable[[], bool] = lambda: False
        """Returns whether a person has ordered that forecasts are the targets for a time."""
        self.webhooks: Callable[[str], Mapping[str, WebhookAnswer]] = lambda choice: {}
        """Returns the last good answers of webhooks about a choice."""
        self.situations: Mapping[str, GroupSituation] = {}
        """What was so in the last minute, by the choice that webhooks are asked about."""
        self.pending_spawns: Callable[[str], int] = lambda choice: 0
        """Returns the number of servers of a choice that the hub is about to start, and that have no pod yet."""
        self.slots: Callable[[View, ProfileGroup], NewNodeSlots] = lambda view, group: NewNodeSlots()
        """Returns what a new node brings for a group. It must not depend on what runs now, as forecasts change that."""
        self.has_autoscaler: Callable[[], bool] = lambda: True
        """Returns whether nodes are known to come and go; else a placeholder costs no node, and none is left out."""
        self.store: Callable[[Iterable[LearnedDemand]], None] = lambda learned: None
        """Stores what is learned, each minute."""
        self.forecasts: dict[str, GroupForecast] = {}
        """By name of the group."""
        self.version = 0
        """Changes with the forecasts."""
        self.is_ready = False
        """Whether forecasts are made, and calendars are read. Before that no placeholder is surplus."""
        self.idle_hours: dict[str, float] = {}
        """Hours of warm placeholders that no server got, by group, since the start of the process."""
        self.launches: Counter[tuple[str, bool]] = Counter()
        """Servers that got a node, by group, and whether they took a warm placeholder, since the start."""
        self.judged: Counter[tuple[str, bool]] = Counter()
        """Forecasts whose lead time is over, by group, and whether their placeholders were enough, since the start."""
        self._demands: dict[str, GroupDemand] = {}
        self._leads: dict[str, SeenLeadTimes] = {}
        self._nodes: dict[str, None] = {}
        self._fullest: dict[str, int] = {}
        """The most servers and placeholders that a node ever had, by shape: a guess where slots are not known."""
        self._counter: LaunchCounter | None = None
        self._problems: tuple[str, ...] = ()
        self._ahead: dict[tuple[ProfileGroup, tuple[int, ...], tuple[Occurrence, ...]], list[int]] = {}

    @property
    def mode(self) -> ScaleAheadMode:
        """What is done with forecasts now."""
        return ScaleAheadMode.ACT if self.is_told_to_act() else self.settings.mode

    # --- records ------------------------------------------------------------------------------------------------------

    def record(self, record: Record) -> None:
        """Take a record in; a record that says nothing about demand is ignored."""
        match record:
            case Launch():
                self._note_launch(record)
            case NodeLeadTime():
                self._note_lead_time(record)

    def _note_launch(self, launch: Launch) -> None:
        if self._counter is None or not launch.choice or not launch.is_demand:
            return
        # A server that was bound before the service watched: whether it was warm is not known.
        known_bound = launch.bound if launch.warm is not None else None
        bound, ended = (minute_of(each) if each is not None else None for each in (known_bound, launch.ended))
        asked, is_warm = minute_of(launch.asked), bool(launch.warm)
        self._counter.add(launch.uid, launch.choice, asked, bound=bound, is_warm=is_warm, ended=ended)

    def _note_lead_time(self, seen: NodeLeadTime) -> None:
        if seen.images is None or seen.uid in self._nodes:
            return
        self._nodes[seen.uid] = None
        if len(self._nodes) > _REMEMBERED_NODES:
            del self._nodes[next(iter(self._nodes))]
        lead = seen.images - (seen.asked or seen.created)
        self._leads.setdefault(seen.kind, SeenLeadTimes(self.settings.options.node_lead)).add(lead)

    # --- leading ------------------------------------------------------------------------------------------------------

    def begin(self, now: datetime) -> None:
        """Count launches from now on: this replica leads."""
        self._counter = LaunchCounter(minute_of(now))
        self.version += 1

    def end(self) -> None:
        """Forget all that is learned: another replica leads, and learns on."""
        self._counter = None
        self._demands = {}
        self.is_ready = False
        self._set({}, ())

    async def learn(
        self,
        past: Iterable[CountedMinute],
        groups: Sequence[ProfileGroup],
        states: Mapping[str, str] | None = None,
        view: View | None = None,
    ) -> None:
        """Learn from what was counted before `begin`; the event loop gets many turns.

        Parameters
        ----------
        past
            Minutes without launches and departures are left out.
        states
            Stored by the leader before (`learned`), by group.
        view
            Shows what nodes are like; None if it is not known.
        """
        counter = self._counter
        if counter is None:
            return
        until, options = counter.next_minute, self.settings.options
        counts = counts_by_group(past, {choice: each.name for each in groups for choice in each.choices})
        days = timedelta(days=PAST_DAYS)
        entries = self.calendars.occurrences(datetime_of(until) - days, days + LONGEST_LEAD)
        for group in groups:
            near = NearEntries([each for each in entries if find_choice(each.profile, group.choices) is not None])
            slots, starts = self._new_node(view, group)
            situation = replace(self._situation_of(group), slots_per_node=slots.slots, node_starts_per_minute=starts)
            known = PastOfGroup(counts.get(group.name, {}), (states or {}).get(group.name, ""), situation, near.near)
            policy = self.settings.policy_of(group)
            if (found := await learned_demand(group.name, known, until, options.settings, policy)) is not None:
                self._demands[group.name] = found

    def learned(self) -> Iterator[LearnedDemand]:
        """What is learned of each group, to be stored for the next leader."""
        for name, demand in self._demands.items():
            at = datetime_of(demand.record.counts.end)
            yield LearnedDemand(name, at, json.dumps(demand.state(), separators=(",", ":")))

    def advance(self, view: View, groups: Sequence[ProfileGroup], kind_label: str) -> bool:
        """Make the forecasts of the present minute, if it is a new one.

        Parameters
        ----------
        groups
            All that have placeholders.
        kind_label
            Nodes with the same value of this label are of one kind.

        Returns
        -------
        bool
            Whether any forecast was made.
        """
        counter, now = self._counter, minute_of(view.now)
        # Without groups, which the hub has yet to publish, the minutes wait.
        if counter is None or counter.next_minute >= now or not groups:
            return False
        occurrences, problems = self._occurrences(view.now, groups)
        servers: dict[str, list[Pod]] = {}
        for pod in view.users.values():
            servers.setdefault(view.shape_of(pod), []).append(pod)
        situations = {
            each.name: self._situation(each, view, servers.get(each.shape, []), occurrences[each.name], kind_label)
            for each in groups
        }
        for each in groups:
            hours = len(view.warm(each.shape)) * (now - counter.next_minute) / 60
            self.idle_hours[each.name] = self.idle_hours.get(each.name, 0.0) + hours
        self.situations = {self.settings.named_choice(each): situations[each.name] for each in groups}
        made: dict[str, GroupForecast] = {}
        while counter.next_minute < now:
            minute = counter.next_minute
            made = self._step(minute, counter.take(), groups, situations)
        coming = counter.not_taken()
        for name, answer in made.items():
            group = answer.group
            counted = sum(map(is_demand, servers.get(group.shape, ()))) - sum(
                coming[choice] for choice in group.choices
            )
            made[name] = replace(answer, servers=max(counted, 0))
        self.is_ready = self.calendars.is_complete(view.now)
        self._set(made, (*problems, *filter(None, (each.cut for each in made.values()))))
        self.store(self.learned())
        return True

    def _step(
        self,
        minute: int,
        counts: GroupCounts,
        groups: Sequence[ProfileGroup],
        situations: Mapping[str, GroupSituation],
    ) -> dict[str, GroupForecast]:
        made = {}
        for group in groups:
            demand = self._demands[group.name] = self._demands.get(group.name) or self._new_demand(minute, group)
            arrivals, departures, hits, misses = counts.of(group.choices)
            self.launches[group.name, True] += hits
            self.launches[group.name, False] += misses
            webhooks = self.webhooks(self.settings.named_choice(group))
            served = (hits, misses) if self.mode is ScaleAheadMode.ACT else (0, 0)
            answer = demand.step(minute, arrivals, departures, situations[group.name], webhooks, served)
            if (judged := demand.record.judged) is not None:
                self.judged[group.name, judged.is_enough] += 1
            if answer is not None:
                made[group.name] = GroupForecast(group, minute + 1, situations[group.name], answer)
        return made

    def _new_demand(self, begin: int, group: ProfileGroup) -> GroupDemand:
        return GroupDemand(begin, self.settings.options.settings, self.settings.policy_of(group))

    def _situation_of(self, group: ProfileGroup) -> GroupSituation:
        """What is known of a group without a look at the cluster."""
        return GroupSituation(self._lead_of(frozenset()), floor=group.replicas.min, most=group.replicas.max)

    def _set(self, forecasts: dict[str, GroupForecast], problems: tuple[str, ...]) -> None:
        self.forecasts, self._problems = forecasts, problems
        self._ahead.clear()
        self.version += 1

    # --- the present situation ----------------------------------------------------------------------------------------

    def _occurrences(
        self, now: datetime, groups: Sequence[ProfileGroup]
    ) -> tuple[Mapping[str, tuple[Occurrence, ...]], list[str]]:
        """Calendar entries by group, and problems of entries without a group."""
        group_of = {choice: each.name for each in groups for choice in each.choices}
        found: dict[str, list[Occurrence]] = {each.name: [] for each in groups}
        problems = []
        for each in self.calendars.occurrences(now, _TOLD_AHEAD):
            choice = find_choice(each.profile, group_of)
            if choice is not None:
                if each.begins - now < LONGEST_LEAD:
                    found[group_of[choice]].append(each)
            elif now < each.ends:
                which = f"calendar entry {each.name!r} of {each.source}"
                problems.append(f"{which} is about {each.profile!r}, which has no placeholders")
        return {name: tuple(entries) for name, entries in found.items()}, _first(list(dict.fromkeys(problems)))

    def _situation(
        self,
        group: ProfileGroup,
        view: View,
        servers: Sequence[Pod],
        occurrences: tuple[Occurrence, ...],
        kind_label: str,
    ) -> GroupSituation:
        placeholders = view.placeholders_of_shape.get(group.shape, ())
        nodes = Counter(pod.node_name for pod in (*servers, *(each.pod for each in placeholders)) if pod.node_name)
        known = (view.snapshot.nodes.get(name) for name in nodes)
        kinds = frozenset(each.node.labels.get(kind_label, "") for each in known if each is not None)
        of_users = [pod for pod in servers if is_demand(pod)]
        running = sum(bool(pod.node_name) for pod in of_users)
        reserved = {each.reservation.pod for each in placeholders if each.reservation is not None}
        waiting = sum(not pod.node_name and pod.name not in reserved for pod in of_users)
        slots, starts = self._new_node(view, group)
        self._fullest[group.shape] = max(self._fullest.get(group.shape, 0), *nodes.values(), 0)
        return GroupSituation(
            lead=self._lead_of(kinds, slots.lead),
            present=running,
            pending_spawns=waiting + sum(map(self.pending_spawns, group.choices)),
            reserved=len(reserved),
            floor=group.replicas.min,
            most=group.replicas.max,
            occurrences=occurrences,
            slots_per_node=slots.slots or self._fullest[group.shape] or None,
            free_slots=free_slots(view, group.shape, nodes, servers, slots.slots)
            if self.has_autoscaler() and len(kinds) <= 1
            else None,
            node_starts_per_minute=starts,
        )

    def _new_node(self, view: View | None, group: ProfileGroup) -> tuple[NewNodeSlots, float | None]:
        """What a new node brings for a group, and how many nodes start a minute, as configured or else as described."""
        slots = self.slots(view, group) if view is not None else NewNodeSlots()
        configured = self.settings.options.node_starts_per_minute
        return slots, configured if configured is not None else slots.starts_per_minute

    def _lead_of(self, kinds: frozenset[str], described: timedelta | None = None) -> timedelta:
        """The longest lead time of some kinds of nodes; of all that were seen, if these were not; else as described."""
        seen = [self._leads[kind] for kind in kinds if kind in self._leads] or [*self._leads.values()]
        return max((each.quantile for each in seen), default=described or self.settings.options.node_lead)

    # --- results ------------------------------------------------------------------------------------------------------

    def ranges(self, groups: Iterable[ProfileGroup]) -> Mapping[str, ReplicaRange]:
        """Ranges of placeholders by shape, of groups whose target is the forecast; none unless the mode is to act."""
        if self.mode is not ScaleAheadMode.ACT:
            return {}
        return {each.shape: made.range_of(each) for each in groups if (made := self.forecasts.get(each.name))}

    def ahead(self, group: ProfileGroup, minutes: Sequence[int], occurrences: Iterable[Occurrence]) -> list[int] | None:
        """Placeholders that a group will want at later minutes, within its limits; None if this replica does not lead.

        See `GroupDemand.ahead`. Servers that run are taken as they are now.

        Parameters
        ----------
        minutes
            In the order of time.
        occurrences
            Calendar entries of this time, and of the hours after it.
        """
        if self._counter is None:
            return None
        made = self.forecasts.get(group.name)
        demand = self._demands.get(group.name) or self._new_demand(self._counter.next_minute, group)
        entries = tuple(each for each in occurrences if find_choice(each.profile, group.choices) is not None)
        asked = (group, tuple(minutes), entries)
        if (known := self._ahead.get(asked)) is not None:
            return known
        present = made.situation if made is not None else self._situation_of(group)
        situation = replace(present, pending_spawns=0, reserved=0, occurrences=entries)
        found = [
            GroupForecast(group, minute, situation, answer).target if answer is not None else group.replicas.min
            for minute, answer in zip(minutes, demand.ahead(minutes, situation), strict=True)
        ]
        if len(self._ahead) < _MAX_AHEAD:
            self._ahead[asked] = found
        return found

    def follows_calendar(self, group: ProfileGroup) -> bool:
        """Whether calendar entries change the target of a group."""
        return follows_calendar(self.settings.policy_of(group))

    @property
    def keeps_surplus(self) -> bool:
        """Whether no placeholder may count as surplus: this replica leads, and targets are not known yet."""
        return self.mode is ScaleAheadMode.ACT and self._counter is not None and not self.is_ready

    def problems(self, now: datetime) -> tuple[str, ...]:
        """Problems of calendars and limits, as sentences without their full stop."""
        return (*self.calendars.problems(now), *self._problems)

    def demand_of(self, group: str) -> GroupDemand | None:
        """What was learned of a group; None if nothing was."""
        return self._demands.get(group)


def _first(problems: list[str]) -> list[str]:
    """The first problems of entries, and the number of the others."""
    if len(problems) <= _MAX_TOLD:
        return problems
    return [*problems[:_MAX_TOLD], f"{len(problems) - _MAX_TOLD} more calendar entries are about other such choices"]
