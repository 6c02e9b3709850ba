"""Rehearsals by the service: on a copy of the cluster, in a thread, so that the service's other work goes on."""

from __future__ import annotations

import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from dra_spawner.common.log_once import LogOnce
from dra_spawner.common.thread_turns import ThreadTurns, Turn
from dra_spawner.dra.budget import SearchBudget
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.seen_lead_times import seen_lead_times
from dra_spawner.placeholders.controller.sources.target_source import ProfileGroup
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.limits import Quota
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.demand.estimators.whole_nodes import NewNodeSlots
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.rehearsal.nodes.node_slots import NodeSlots
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import (
    NodeSupply,
    SeenLeads,
    described_supplies,
    supplies_of_known_kinds,
)
from dra_spawner.scale_ahead.rehearsal.nodes.seen_nodes import SeenNode, SeenNodes
from dra_spawner.scale_ahead.rehearsal.rehearsal_line import read_rehearsal_line
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import (
    ExpectedUsers,
    Rehearsal,
    RehearsalSettings,
    expected_by_line,
)
from dra_spawner.scale_ahead.rehearsal.rehearse_day import Announced, rehearse_day
from dra_spawner.scale_ahead.rehearsal.what_if import Simulation, WhatIf, simulate
from dra_spawner.service.ahead.announced_users import AnnouncedUsers, Announcements
from dra_spawner.service.blocking_calls import BlockingCalls
from dra_spawner.simulator.model.cluster_objects import BrokenObject, ClusterObject
from dra_spawner.simulator.snapshot import Snapshot

log = logging.getLogger(__name__)

#: Seconds after which a rehearsal ends without a verdict.
_MAX_SECONDS: Final = 20.0
#: The same for all entries of a day.
_MAX_DAY_SECONDS: Final = 45.0
_TIMEOUT_SECONDS: Final = 10.0
#: Age of the oldest nodes whose lead times count.
_LOOK_BACK: Final = timedelta(days=14)
#: Entries that begin later are not beside a line.
_AHEAD: Final = timedelta(days=366)
#: Time for which users of a line are taken to stay.
_AT_LEAST: Final = timedelta(hours=1)
#: Limit of waiting rehearsals.
_MAX_WAITING: Final = 8


class TooManyRehearsals(Exception):
    """Raised while the limit of waiting rehearsals is reached."""


@dataclass(frozen=True, slots=True)
class RehearsalAssumptions:
    """Assumptions about new nodes.

    Attributes
    ----------
    lead
        Lead time of a kind of node without recorded lead times.
    image_time
        Time until a node has pulled its missing images.
    margin
        Time before the begin at which all nodes should be usable.
    """

    lead: timedelta = timedelta(minutes=10)
    image_time: timedelta = timedelta(0)
    margin: timedelta = RehearsalSettings().margin


@dataclass(frozen=True, slots=True)
class _Copy:
    """The state of the cluster for one rehearsal; nothing of it changes."""

    objects: Sequence[ClusterObject | BrokenObject]
    now: datetime
    limits: Mapping[str, int]
    floors: Mapping[str, int]
    targets: Mapping[str, int]
    past: tuple[SeenNode, ...]
    back_at: Mapping[str, datetime]
    leads: SeenLeads
    rules: SchedulerRules


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Disable garbage collection: while the copy is built, it would stop all threads many times."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Rehearsals:
    """Rehearses the users that administrators or calendars announce.

    Parameters
    ----------
    database
        Returns the history's database, which has recorded lead times; None if it is not available.
    quotas
        Returns the ResourceQuotas of the servers' namespace; None while they are unknown.
    kinds
        Kinds of nodes that an administrator has described; no others exist. Without a description, present and past
        kinds count, and others may exist.
    timeout_seconds
        Seconds until a database that does not answer counts as unavailable.
    """

    def __init__(
        self,
        controller: ScaleAheadController,
        database: Callable[[], HistoryDatabase | None] = lambda: None,
        quotas: Callable[[], tuple[Quota, ...] | None] = lambda: None,
        kinds: Sequence[NodeKind] = (),
        *,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        self._controller = controller
        self._database = database
        self._quotas = quotas
        self._announced = Announcements(controller)
        self._kinds = tuple(kinds)
        kind_label = controller.settings.policy.readiness.kind_label
        self._seen = SeenNodes(kind_label)
        self._slots = NodeSlots(self._seen, kind_label, controller.settings.placeholders.namespace, self._kinds)
        controller.scale_ahead.slots = self._slots_of
        controller.scale_ahead.has_autoscaler = lambda: controller.node_ceilings.has_autoscaler
        self._turns = ThreadTurns()
        self._waiting = 0
        self._ask = BlockingCalls("lead times", timeout_seconds)
        self._log_once = LogOnce(log, "Lead times cannot be read, so assumed ones count: error=%s")

    def assumptions(self) -> RehearsalAssumptions:
        """What the service's settings say of new nodes and of the time before a begin."""
        options = self._controller.scale_ahead.settings.options
        return RehearsalAssumptions(options.node_lead, margin=options.settings.calendar_margin)

    def expected_by(self, line: str, zone: tzinfo) -> ExpectedUsers:
        """The users that a line such as ``350 of gpu-slice at 17:00`` announces.

        Raises
        ------
        ValueError
            If the line is invalid; with found and allowed values.
        """
        return expected_by_line(read_rehearsal_line(line, self._controller.now(), zone), self._controller.published)

    def _slots_of(self, view: View, group: ProfileGroup) -> NewNodeSlots:
        """What a new node brings for a group, which forecasts ask."""
        shape = self._controller.policy.shapes.get(group.shape)
        return self._slots.of(view, shape, group.choices) if shape is not None else NewNodeSlots()

    def look(self) -> None:
        """Remember present nodes, for the time when no node of a kind is left."""
        self._seen.look(self._controller.view())

    async def of_day(self, entries: Sequence[Occurrence]) -> dict[Occurrence, Rehearsal]:
        """Rehearse entries of calendars together; entries whose profile the hub does not publish are left out.

        It waits for its turn, however many other rehearsals wait.
        """
        async with self._turns.turn() as turn:
            announced = {entry: each for entry in entries if (each := self._announced.of(entry)) is not None}
            begun = [each for each in self._announced.begun() if each.entry not in announced]
            copy, assumed = await self._copy(), self.assumptions()
            found = await turn.run(self._rehearse, [*announced.values(), *begun], copy, assumed, _MAX_DAY_SECONDS)
            return dict(zip(announced, found, strict=False))

    async def of_users(
        self,
        expected: ExpectedUsers,
        assumptions: RehearsalAssumptions | None = None,
        entry: Occurrence | None = None,
        added: Sequence[CalendarEntry] | None = None,
    ) -> Rehearsal:
        """Rehearse announced users, beside the calendars' entries of the same time. Only one rehearsal runs at a time.

        Parameters
        ----------
        entry
            What announces them, or will when it is added. None: an entry that announces the same is taken for it.
        added
            Added entries as they will be; None: as they are.

        Raises
        ------
        TooManyRehearsals
            If the limit of waiting rehearsals is reached.
        """
        async with self._turn() as turn:
            now = self._controller.now()
            announced = self._announced.begun(added)
            entries = self._controller.scale_ahead.calendars.occurrences(now, _AHEAD, added)
            others = map(self._announced.of, (each for each in entries if each.begins > now))
            announced += (each for each in others if each is not None and each.is_beside(expected))
            same = next(
                (each for each in announced if (each.entry == entry if entry else each.announces(expected))), None
            )
            if same is None:
                ends = entry.ends if entry is not None else expected.begins.astimezone(UTC) + _AT_LEAST
                same = AnnouncedUsers(expected, ends, self._announced.not_prepared(expected), entry)
                announced.append(same)
            copy = await self._copy()
            found = await turn.run(self._rehearse, announced, copy, assumptions or self.assumptions())
            return found[announced.index(same)]

    async def _copy(self) -> _Copy:
        self.look()
        controller, now = self._controller, self._controller.now()
        leads = await self._seen_leads(now - _LOOK_BACK)
        limits = {shape: replicas.max for shape, replicas in controller.policy.replicas.items()}
        floors = {
            each.shape: each.replicas.min
            for each in controller.groups()
            if not controller.policy.observing_because and each.shape not in controller.policy.paused
        }
        snapshot, policy = controller.watch.snapshot, controller.policy
        ends = not policy.observing_because and not policy.keeps_surplus
        targets = {each: wanted.min for each, wanted in policy.replicas.items() if ends and each not in policy.paused}
        return _Copy(
            snapshot.items(),
            now,
            limits,
            floors,
            targets,
            self._seen.found(now),
            policy.drained_until,
            leads,
            snapshot.rules,
        )

    async def what_if(self, question: WhatIf) -> Simulation:
        """Simulate a change of the present cluster. It takes turns with rehearsals.

        Raises
        ------
        TooManyRehearsals
            If the limit of waiting rehearsals is reached.
        ImpossibleChange
        SearchStopped
            If the search takes too long.
        """
        async with self._turn() as turn:
            self.look()
            now = self._controller.now()
            snapshot = self._controller.watch.snapshot
            copy = _Copy(snapshot.items(), now, {}, {}, {}, self._seen.found(now), {}, {}, snapshot.rules)
            return await turn.run(self._simulate, question, copy)

    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds of nodes that `what_if` can add: described, present and past ones."""
        if self._kinds:
            return tuple(each.name for each in self._kinds)
        view = self._controller.view()
        label = self._controller.settings.policy.readiness.kind_label
        supplies = supplies_of_known_kinds(view, label, timedelta(0), past=self._seen.found(self._controller.now()))
        return tuple(sorted(each.name for each in supplies))

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[Turn]:
        if self._waiting >= _MAX_WAITING:
            raise TooManyRehearsals
        self._waiting += 1
        try:
            async with self._turns.turn() as turn:
                yield turn
        finally:
            self._waiting -= 1

    async def _seen_leads(self, since: datetime) -> SeenLeads:
        """Lead times of the history; none while it cannot be read, which is logged once."""
        database = self._database()
        if database is None:
            return {}
        try:
            found = await self._ask(lambda: seen_lead_times(database, since))
        except (SQLAlchemyError, TimeoutError) as error:
            self._log_once.present({"lead times": error})
            return {}
        self._log_once.present(())
        return found

    # --- in a thread --------------------------------------------------------------------------------------------------

    @_without_collections()
    def _rehearse(
        self,
        announced: Sequence[AnnouncedUsers],
        copy: _Copy,
        assumptions: RehearsalAssumptions,
        seconds: float = _MAX_SECONDS,
    ) -> list[Rehearsal]:
        end = time.monotonic() + seconds
        settings, options = self._controller.settings, self._controller.scale_ahead.settings.options
        snapshot = Snapshot(copy.objects, rules=copy.rules)
        view = View(snapshot, copy.now, namespaces=self._controller.server_namespaces.present)
        quotas = self._quotas()
        supplies = {
            each: tuple(
                replace(supply, starts_per_minute=supply.starts_per_minute or options.node_starts_per_minute)
                for supply in self._supplies(view, each, copy, assumptions)
            )
            for each in {each.expected.profile for each in announced}
        }
        entries = [
            Announced(
                each.entry.name if each.entry is not None else "",
                each.expected,
                each.ends,
                supplies[each.expected.profile],
                RehearsalSettings(
                    margin=assumptions.margin,
                    image_time=assumptions.image_time,
                    max_placeholders=copy.limits.get(each.expected.shape.id, MAX_PLACEHOLDERS),
                    min_placeholders=copy.floors.get(each.expected.shape.id, 0),
                    target=copy.targets.get(each.expected.shape.id),
                    quotas=quotas,
                    kinds_are_all=bool(self._kinds)
                    or (settings.policy.node_kinds_complete and bool(supplies[each.expected.profile])),
                    not_prepared=each.not_prepared,
                    is_announced=each.entry is not None,
                    has_autoscaler=self._controller.node_ceilings.has_autoscaler,
                    packs_devices=settings.policy.packs_devices,
                    back_at=copy.back_at,
                ),
                each.usual,
            )
            for each in announced
        ]
        namespace = settings.placeholders.namespace
        return rehearse_day(entries, view, namespace, is_over=lambda: time.monotonic() > end)

    @_without_collections()
    def _simulate(self, question: WhatIf, copy: _Copy) -> Simulation:
        end = time.monotonic() + _MAX_SECONDS
        settings, shapes = self._controller.settings, self._controller.published.shapes
        snapshot = Snapshot(copy.objects, rules=copy.rules)
        supplies: tuple[NodeSupply, ...] = ()
        if question.added_of_kind:
            view = View(snapshot, copy.now, namespaces=self._controller.server_namespaces.present)
            supplies = self._supplies(view, question.profile, copy, RehearsalAssumptions())
        return simulate(
            snapshot,
            copy.now,
            self._controller.server_namespaces.present,
            settings.placeholders.namespace,
            {each.id: each for each in shapes.values()},
            question,
            SearchBudget(None, lambda: time.monotonic() > end),
            supplies,
            packs_devices=settings.policy.packs_devices,
        )

    def _supplies(
        self, view: View, profile: str, copy: _Copy, assumptions: RehearsalAssumptions
    ) -> tuple[NodeSupply, ...]:
        label = self._controller.settings.policy.readiness.kind_label
        if self._kinds:
            return described_supplies(view, self._kinds, profile, label, copy.leads, copy.past)
        return supplies_of_known_kinds(view, label, assumptions.lead, assumptions.image_time, copy.leads, copy.past)
