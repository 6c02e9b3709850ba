"""The miss report of the service's own history, with its picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.scale_ahead.reports.history_misses import MissReport, read_miss_report
from dra_spawner.scale_ahead.reports.plots import timeline_svg
from dra_spawner.scale_ahead.reports.timeline import steps
from dra_spawner.service.figures.history_report import HistoryReport

#: One step an hour.
_MAX_STEPS: Final = 7 * 24 + 1


class WeeklyMisses(HistoryReport[MissReport]):
    """The misses of the last seven days; see the base class."""

    def __init__(
        self, read: Callable[[HistoryDatabase, datetime], MissReport] = read_miss_report, **options: Any
    ) -> None:
        super().__init__(read, "misses", **options)
        self._picture: tuple[MissReport, str] | None = None

    async def picture(self, report: MissReport) -> str:
        """The timeline of a report as inline SVG, drawn once; empty without launches."""
        if self._picture is None or self._picture[0] is not report:
            self._picture = report, await asyncio.to_thread(_drawn, report)
        return self._picture[1]


def _drawn(report: MissReport) -> str:
    if not report.launches:
        return ""
    found = steps(report.timeline, most=_MAX_STEPS)
    return timeline_svg(found, UTC, label="Launches of the last seven days")
