"""Scale-ahead while a replica leads: it learns from the history, reads calendars, and forecasts each minute."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from dra_spawner.common.owned_tasks import OwnedTasks
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import LearnedDemand, NodeLeadTime
from dra_spawner.scale_ahead.controller.demand_learning import PAST_DAYS, CountedMinute
from dra_spawner.scale_ahead.controller.policy_settings import unknown_choices
from dra_spawner.scale_ahead.controller.policy_webhooks import PolicyWebhooks
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.service.ahead.added_entries import AddedEntries
from dra_spawner.service.ahead.announced_classes import AnnouncedClasses
from dra_spawner.service.ahead.class_figures import ClassFigures
from dra_spawner.service.ahead.class_messages import ClassMessages, MessageTarget
from dra_spawner.service.ahead.class_rehearsals import ClassRehearsals
from dra_spawner.service.ahead.hub_spawns import HubSpawns
from dra_spawner.service.ahead.placeholder_samples import PlaceholderSamples, sample_groups
from dra_spawner.service.ahead.rehearsals import Rehearsals
from dra_spawner.service.ahead.rehearsed_entries import RehearsedEntries
from dra_spawner.service.history_recording import HistoryLearning, HistoryRecording

log = logging.getLogger(__name__)

_PAST: Final = timedelta(days=PAST_DAYS)
_PAST_NODES: Final = timedelta(days=30)
#: Seconds after a minute's end until its launches are seen.
_SETTLE_SECONDS: Final = 2.0

_Past: TypeAlias = tuple[list[CountedMinute], list[NodeLeadTime], dict[str, str]]


class ScaleAheadRunner:
    """Runs scale-ahead: learning, calendars, webhooks, rehearsals and forecasts.

    Parameters
    ----------
    history
        The recorded history to learn from; scale-ahead also works without records.
    rehearsals
        Rehearses calendar entries.
    spawns
        Servers that the hub is starting; None without a hub.
    messages
        Where it is told that the verdict of a class turned to No.
    """

    def __init__(
        self,
        controller: ScaleAheadController,
        history: HistoryRecording,
        rehearsals: Rehearsals,
        spawns: HubSpawns | None = None,
        messages: MessageTarget | None = None,
    ) -> None:
        self._controller = controller
        self._history = history
        self._rehearsals = rehearsals
        self._spawns = spawns
        self._tasks = OwnedTasks()
        self._may_store = False
        self.learning = HistoryLearning(history, controller.now, "Scale-ahead", self._read_past, self._take_past)
        self.rehearsed = RehearsedEntries(controller, rehearsals)
        self.added = AddedEntries(controller, lambda: history.recorder.database, has_history=history.is_on)
        self.classes = AnnouncedClasses(controller, self.added)
        self.class_rehearsals = ClassRehearsals(controller, rehearsals, self.added)
        self.class_figures = ClassFigures(controller, self.rehearsed, self.class_rehearsals)
        self._messages = ClassMessages(controller, messages or MessageTarget(), self.classes.owner_of_time)
        self.samples = PlaceholderSamples()
        ahead = controller.scale_ahead
        self._webhooks = PolicyWebhooks(ahead.settings.policies, lambda: ahead.situations, now=controller.now)
        ahead.webhooks = self._webhooks.answers
        ahead.store = self._store
        if spawns is not None:
            ahead.pending_spawns = spawns.pending

    def note_form(self) -> None:
        """Note that the hub has asked for a spawn form."""
        if self._spawns is not None:
            self._spawns.note_form()

    def problems(self) -> tuple[str, ...]:
        """Problems of policies, calendar entries, webhooks and the hub's answers, as sentences."""
        shapes, policies = self._controller.published.shapes, self._controller.scale_ahead.settings.policies
        unknown = unknown_choices(policies, shapes) if shapes else ()
        spawns = self._spawns.problems() if self._spawns is not None else ()
        policy = (f"Scale-ahead: {each}." for each in unknown)
        asked = (*self._webhooks.problems(), *self._messages.problems())
        return (*policy, *self.rehearsed.problems(), *asked, *spawns, *self._tasks.problems())

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Learn and forecast until the context ends. Enter it before `HistoryRecording.leading`."""
        if not self._controller.is_on:
            yield
            return
        ahead = self._controller.scale_ahead
        ahead.begin(self._controller.now())
        self.added.begin()
        self.class_figures.begin()
        self._may_store = False
        self.learning.begin()
        try:
            async with self._tasks as tasks:
                tasks.begin("scale-ahead", self._forecast)
                self._begin("calendars", lambda: ahead.calendars.run(self._controller.now))
                self._begin("webhooks", self._webhooks.run)
                self._begin("rehearsals of calendar entries", self.rehearsed.run)
                self._begin("rehearsals of classes", self.class_rehearsals.run)
                self._begin("figures of classes", self.class_figures.run)
                self._begin("messages about classes", self._messages.run)
                if self._spawns is not None:
                    self._begin("pending spawns", self._spawns.run)
                yield
        finally:
            ahead.end()
            self.added.end()
            self.rehearsed.forget()
            self.class_rehearsals.forget()
            self.class_figures.end()

    def _begin(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Begin a task that needs the cluster."""

        async def when_synced() -> None:
            await self._wait_synced()
            await work()

        self._tasks.begin(name, when_synced)

    async def _wait_synced(self) -> None:
        controller = self._controller
        await controller.watch.wait_synced()
        await controller.shapes.wait_synced()
        await controller.overrides.wait_synced()

    async def _forecast(self) -> None:
        await self._wait_synced()
        while True:
            await self.learning.learn()
            try:
                await self.added.move()
            except Exception:  # they count where they are, and are moved later
                log.exception("Calendar entries of an earlier version are not moved.")
            self._advance()
            await asyncio.sleep(_seconds_left(self._controller.now()) + _SETTLE_SECONDS)

    def _advance(self) -> None:
        """Forecast, and remember nodes. After a defect there, the last targets stay and everything else goes on."""
        try:
            self._controller.advance_forecasts()
            self._rehearsals.look()
            self.samples.add(*sample_groups(self._controller))
        except Exception:
            log.exception("Forecasts failed; the last targets stay.")

    def _store(self, learned: Iterable[LearnedDemand]) -> None:
        if self._may_store:
            for each in learned:
                self._history.recorder.record(each)

    def _read_past(self, database: HistoryDatabase) -> _Past:
        now = self._controller.now()
        return *read_past(database, now), database.learned_demands(now - _PAST)

    async def _take_past(self, past: _Past) -> None:
        minutes, nodes, states = past
        ahead = self._controller.scale_ahead
        ahead.record_all(nodes)
        self._may_store = True  # what was not read must not be replaced by less
        await ahead.learn(minutes, self._controller.groups(), states, self._controller.view())
        log.info("Scale-ahead has learned: minutes=%d nodes=%d", len(minutes), len(nodes))


def read_past(database: HistoryDatabase, now: datetime) -> tuple[list[CountedMinute], list[NodeLeadTime]]:
    """Counts of past minutes, and lead times of nodes. It blocks.

    Raises
    ------
    SQLAlchemyError
        If the database cannot be read.
    """
    begin, end = now - _PAST, now.replace(second=0, microsecond=0)
    past = [CountedMinute(minute_of(each.minute), each.choice, each.count) for each in database.arrivals(begin, end)]
    past += (
        CountedMinute(minute_of(each.minute), each.choice, departures=each.count)
        for each in database.departures(begin, end)
    )
    return past, list(database.lead_times(begin=now - _PAST_NODES))


def _seconds_left(now: datetime) -> float:
    """Seconds until the minute is over."""
    return 60.0 - now.timestamp() % 60.0
