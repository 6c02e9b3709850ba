"""Handlers of the largest misses of the last week, from the service's own history."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from tornado.web import HTTPError

from dra_spawner.scale_ahead.reports.fragments import miss_table
from dra_spawner.scale_ahead.reports.history_misses import MissReport
from dra_spawner.scale_ahead.reports.miss_rows import entry_line, miss_json, miss_row
from dra_spawner.scale_ahead.reports.timeline import days
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.requests.authentication import ApiHandler, PageHandler
from dra_spawner.service.http.requests.endpoints import HTML, Access, endpoint
from dra_spawner.service.http.schemas.demand_schemas import MISSES

__all__ = ["MissReportPage", "MissesHandler"]

log = logging.getLogger(__name__)


class MissReportPage(PageHandler):
    """``GET report``: the ten largest misses of the last seven days, and the launches of each day."""

    @endpoint("Page: the largest misses of the last seven days.", Access.READ, media_type=HTML, is_page=True)
    async def get(self) -> None:
        found = await _report(self.context)
        await self.render(
            "miss_report.html",
            found=found,
            misses=miss_table(
                [
                    miss_row(each.miss, each.profile, detail=_detail(each.profile, each.waited_for))
                    for each in found.misses
                ]
            ),
            days=list(days(found.timeline, UTC)),
            picture=await self.context.misses.picture(found),
        )


class MissesHandler(ApiHandler):
    """``GET api/misses``: the same as JSON."""

    @endpoint("The largest misses of the last seven days.", Access.READ, answer=MISSES)
    async def get(self) -> None:
        self.write_json(_report_json(await _report(self.context)))


async def _report(context: ServiceContext) -> MissReport:
    """The report.

    Raises
    ------
    HTTPError
        503, with the reason, if the history cannot be read.
    """
    if because := context.history_unavailable_because():
        # The text of an error may have a percent sign.
        raise HTTPError(503, "%s", because)
    database = context.history.recorder.database if context.history is not None else None
    assert database is not None
    try:
        return await context.misses.report(database, context.now())
    except TimeoutError:
        raise HTTPError(503, "The history does not answer in time. Try again in some minutes.") from None
    except SQLAlchemyError as error:
        log.error("The history cannot be read: error=%s", type(error).__name__)
        raise HTTPError(503, "The history is not available: it cannot be read.") from None


def _detail(profile: str, waited_for: str) -> str:
    return " · ".join(filter(None, (profile or "profile not known", waited_for and f"most of them: {waited_for}")))


def _report_json(found: MissReport) -> Mapping[str, Any]:
    return {
        "begin": found.begin.isoformat(),
        "end": found.end.isoformat(),
        "launches": found.launches,
        "hits": found.hits,
        "waited": found.waited,
        "items": [
            {
                "profile": each.profile,
                **miss_json(each.miss, each.profile),
                "waitedFor": each.waited_for,
                "line": entry_line(each.miss.calendar_entry(each.profile)) if each.miss.is_preventable else "",
            }
            for each in found.misses
        ],
        "days": [
            {"day": each.day.isoformat(), "launches": each.launches, "waited": each.missed}
            for each in days(found.timeline, UTC)
        ],
    }
