"""A recorder whose work is done by hand, by a clock of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.recorder import Recorder, RecorderLimits, RecordOutcome
from dra_spawner.history.stored_settings import Writer
from tests.history.records import after

LIMITS: Final = RecorderLimits(queue=10, batch=4, interval=1, first_retry=1, longest_retry=8, seen=60, expiry=3600)


class Working:
    """A recorder whose work is done by hand, by a clock of its own."""

    def __init__(self, url: str, **more: Any) -> None:
        self.url = url
        self.seconds = 0.0
        self.gaps = 0
        self.recorder = Recorder(
            lambda: HistoryDatabase.open(url),
            more.pop("keep", timedelta(days=100)),
            on_gap=self._note_gap,
            writer=more.pop("writer", Writer()),
            limits=replace(LIMITS, **more),
            clock=lambda: self.seconds,
            now=lambda: after(self.seconds),
        )
        # Without its thread.
        self.recorder.resume(threaded=False)

    def work(self, seconds: float = 0) -> float:
        self.seconds += seconds
        return self.recorder.work()

    def written(self) -> list[str]:
        database = HistoryDatabase.open(self.url)
        found = [each.uid for each in database.launches()]
        database.close()
        return found

    def counts(self) -> tuple[int, int]:
        counts = self.recorder.counts
        return counts[RecordOutcome.WRITTEN], counts[RecordOutcome.DROPPED]

    def _note_gap(self) -> None:
        self.gaps += 1
