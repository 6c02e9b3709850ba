"""Estimates of waits while a replica leads: it learns lengths of sessions, and compares estimates with waits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

from dra_spawner.common.owned_tasks import OwnedTasks
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch, NodeLeadTime
from dra_spawner.placeholders.controller.answers.availability import Availability
from dra_spawner.placeholders.controller.answers.wait_calibration import WaitCalibration
from dra_spawner.placeholders.controller.records.launch_waits import BoundServer
from dra_spawner.placeholders.planner.cluster.view import age
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.history_recording import HistoryLearning, HistoryRecording

log = logging.getLogger(__name__)

_PAST: Final = timedelta(days=14)
_LOOK_AGAIN_SECONDS: Final = 1.0
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
        self._tasks = OwnedTasks()
        self._learning = HistoryLearning(history, controller.now, "The estimate of waits", self._read, self._take)
        controller.launch_waits.on_launch(self._note_bound)

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Learn and compare until the context ends."""
        if not self._controller.is_on:
            yield
            return
        self._learning.begin()
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
            await self._learning.learn()
            try:
                await self.look()
            except Exception:  # users are served without estimates
                log.exception("Waits of pending servers are not estimated.")
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

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

    def _read(self, database: HistoryDatabase) -> tuple[list[Launch], list[NodeLeadTime]]:
        """Launches that have ended, and nodes. It blocks."""
        since = self._controller.now() - _PAST
        ended = [each for each in database.launches(since) if each.ended is not None]
        return ended, list(database.lead_times(begin=since))

    async def _take(self, past: tuple[list[Launch], list[NodeLeadTime]]) -> None:
        launches, nodes = past
        if launches:
            self._controller.sessions.learn(launches, launches[0].asked)
        self._controller.node_ceilings.record_all(nodes)
