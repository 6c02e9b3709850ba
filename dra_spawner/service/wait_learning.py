"""Estimates of waits while a replica leads: it learns lengths of sessions, and compares estimates with waits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from dra_spawner.common.log_once import LogOnce
from dra_spawner.common.owned_tasks import OwnedTasks
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch, NodeLeadTime
from dra_spawner.placeholders.controller.answers.availability import Availability
from dra_spawner.placeholders.controller.answers.wait_calibration import WaitCalibration
from dra_spawner.placeholders.controller.records.launch_waits import BoundServer
from dra_spawner.placeholders.planner.cluster.view import age
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.blocking_calls import BlockingCalls
from dra_spawner.service.history_recording import HistoryRecording

log = logging.getLogger(__name__)

_PAST: Final = timedelta(days=14)
_LOOK_AGAIN_SECONDS: Final = 1.0
#: Time in which the database is to open, before nothing is learned from it.
_OPENING_SECONDS: Final = 10.0
#: Limit of the time for reading it.
_READING_SECONDS: Final = 120.0
_READ_AGAIN_AFTER: Final = timedelta(minutes=15)
#: Servers whose waits are estimated in one look; others have no estimate.
_MAX_AT_ONCE: Final = 20
#: A server that has been pending for longer when it is seen first has no estimate at its creation.
_JUST_CREATED: Final = timedelta(seconds=30)


class WaitLearning:
    """See the module."""

    def __init__(self, controller: ScaleAheadController, availability: Availability, history: HistoryRecording) -> None:
        self.calibration = WaitCalibration()
        self._controller = controller
        self._availability = availability
        self._history = history
        self._tasks = OwnedTasks()
        self._has_learned = False
        self._not_before = datetime.min.replace(tzinfo=UTC)
        self._log_once = LogOnce(log, "Waits are not yet estimated by the history, which cannot be read: %s")
        self._reading = BlockingCalls("lengths of sessions", _READING_SECONDS)
        controller.launch_waits.on_launch(self._note_bound)

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Learn and compare until the context ends."""
        if not self._controller.is_on:
            yield
            return
        self._has_learned = False
        async with self._tasks as tasks:
            tasks.begin("estimates of waits", self._run)
            yield

    def problems(self) -> tuple[str, ...]:
        """Why waits are not estimated, as sentences."""
        return self._tasks.problems()

    async def _run(self) -> None:
        await self._controller.watch.wait_synced()
        await self._controller.shapes.wait_synced()
        while True:
            await self.learn()
            try:
                await self.look()
            except Exception:  # users are served without estimates
                log.exception("Waits of pending servers are not estimated.")
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def learn(self) -> None:
        """Learn from the history once in a term, as soon as it can be read: a database that is away is asked again."""
        if self._has_learned:
            return
        self._has_learned = True  # also after a defect, which would come again
        try:
            self._has_learned = await self._learn()
        except Exception:  # a defect here must not end decisions, which go on from what is seen
            log.exception("Waits are not estimated by the history.")

    async def look(self) -> None:
        """Estimate the waits of servers that are pending since a moment ago."""
        controller, calibration = self._controller, self.calibration
        pending = controller.view().pending_users
        calibration.keep_only({pod.uid for pod in pending}, controller.now())
        new = [pod for pod in pending if not calibration.knows(pod.uid)]
        for number, pod in enumerate(new):
            now = controller.now()
            waited = age(pod.created, now)
            interval = None
            if number < _MAX_AT_ONCE and waited < _JUST_CREATED:
                interval = await self._availability.wait_of(pod)
            calibration.note(pod.uid, now - waited, now, interval)

    def _note_bound(self, bound: BoundServer) -> None:
        self.calibration.bound(bound.pod.uid, self._controller.now())

    async def _learn(self) -> bool:
        """Learn from the history, as far as it can be read; whether nothing is left to learn."""
        now = self._controller.now()
        if not self._history.is_on:
            return True
        database = await self._database() if now >= self._not_before else None
        if database is None:
            return False
        since = now - _PAST
        try:
            launches, nodes = await self._reading(lambda: _read(database, since))
        except (SQLAlchemyError, OSError) as error:
            self._not_before = now + _READ_AGAIN_AFTER
            self._log_once.present([str(error)])
            return False
        if launches:
            self._controller.sessions.learn(launches, max(since, launches[0].asked))
        self._controller.node_ceilings.record_all(nodes)
        return True

    async def _database(self) -> HistoryDatabase | None:
        recorder = self._history.recorder
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPENING_SECONDS):
                while recorder.database is None and not recorder.problem:  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)  # the recorder's thread has no event for this
        return recorder.database


def _read(database: HistoryDatabase, since: datetime) -> tuple[list[Launch], list[NodeLeadTime]]:
    """Launches that have ended, and nodes. It blocks."""
    ended = [each for each in database.launches(since) if each.ended is not None]
    return ended, list(database.lead_times(begin=since))
