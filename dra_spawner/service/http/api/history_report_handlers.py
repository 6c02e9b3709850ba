"""Handlers of reports from the service's own history: the largest misses of the last week, and the use of devices."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError
from tornado.web import HTTPError

from dra_spawner.common.counted_text import percent
from dra_spawner.fairness.report_notes import effect_text
from dra_spawner.fairness.standing_text import standing_sentences
from dra_spawner.fairness.use_json import use_json
from dra_spawner.scale_ahead.reports.fragments import miss_table
from dra_spawner.scale_ahead.reports.history_misses import MissReport
from dra_spawner.scale_ahead.reports.miss_rows import entry_line, miss_json, miss_row
from dra_spawner.scale_ahead.reports.timeline import days
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.figures.device_use import DeviceUseReport
from dra_spawner.service.figures.history_report import HistoryReport, ReportT
from dra_spawner.service.http.requests.authentication import ApiHandler, PageHandler
from dra_spawner.service.http.requests.endpoints import HTML, Access, endpoint
from dra_spawner.service.http.requests.json_body import json_object
from dra_spawner.service.http.requests.users_named import USER_KEYS, user_and_groups
from dra_spawner.service.http.schemas.demand_schemas import MISSES, STANDING, STANDING_QUESTION, USE

#: Rows of each table of the page; the API has all.
_MOST_ROWS: Final = 50


_ENFORCED: Final = "They are enforced: who is over one gets no warm placeholder while devices are scarce."
_NOT_ENFORCED: Final = "Nothing is enforced."


class MissReportPage(PageHandler):
    """``GET report``: the ten largest misses of the last seven days, and the launches of each day."""

    @endpoint("Page: the largest misses of the last seven days.", Access.READ, media_type=HTML, is_page=True)
    async def get(self) -> None:
        found = await found_report(self.context, self.context.misses)
        await self.render(
            "miss_report.html",
            found=found,
            percent=percent,
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
        self.write_json(_report_json(await found_report(self.context, self.context.misses)))


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


class UseHandler(ApiHandler):
    """``GET api/use``: for administrators only, as it names what each user has used."""

    @endpoint("Device-hours of the last 30 days, and the budgets.", Access.ADMIN, answer=USE)
    async def get(self) -> None:
        found = await found_report(self.context, self.context.use)
        self.write_json({**use_json(found.used), "notes": list(found.notes)})


class StandingHandler(ApiHandler):
    """``POST api/standing`` with ``{"user", "groups"}``: one user's budgets, for the hub.

    The hub shows each user only the own ones.
    """

    @endpoint(
        "The budgets of one user, with sentences for the user.",
        Access.ADMIN,
        body=STANDING_QUESTION,
        answer=STANDING,
        hub=True,
        cookie=False,
    )
    async def post(self) -> None:
        question = json_object(bytes(self.body), USER_KEYS, is_of_hub=True)
        user, groups = user_and_groups(question)
        if not user:
            raise HTTPError(400, "user: nothing found; allowed: a name of a user.")
        use = self.context.budget_use
        found = use.standings(user, groups)
        self.write_json(
            {
                "hasBudgets": use.is_on,
                "isKnown": use.is_known,
                "isEnforced": self.context.enforces_budgets,
                "isOver": any(each.is_over for each in found),
                "sentences": list(standing_sentences(found)),
            }
        )


class UsePage(PageHandler):
    """``GET use``: the same as a page."""

    @endpoint("Page: who used the devices in the last 30 days.", Access.ADMIN, media_type=HTML, is_page=True)
    async def get(self) -> None:
        found = await found_report(self.context, self.context.use)
        enforced = _ENFORCED if self.context.enforces_budgets else _NOT_ENFORCED
        await self.render("use_page.html", found=found.used, notes=found.notes, enforced=enforced, **_tables(found))


def _tables(found: DeviceUseReport) -> Mapping[str, Any]:
    used = found.used
    tables = {"User": used.by_user, "Group": used.by_group, "Choice": used.by_choice}
    return {
        "tables": {
            name: sorted(hours.items(), key=lambda each: (-each[1], each[0])) for name, hours in tables.items() if hours
        },
        "most_rows": _MOST_ROWS,
        "standings": used.standings[:_MOST_ROWS],
        "effect": effect_text(used) if used.standings else "",
    }


log = logging.getLogger(__name__)


async def found_report(context: ServiceContext, cached: HistoryReport[ReportT]) -> ReportT:
    """The report.

    Raises
    ------
    HTTPError
        503, with the reason, if the history cannot be read.
    """
    database, because = context.open_history()
    if database is None:
        # The text of an error may have a percent sign.
        raise HTTPError(503, "%s", because)
    try:
        return await cached.report(database, context.now())
    except TimeoutError:
        raise HTTPError(503, "The history does not answer in time. Try again in some minutes.") from None
    except SQLAlchemyError as error:
        log.error("The history cannot be read: error=%s", type(error).__name__)
        raise HTTPError(503, "The history is not available: it cannot be read.") from None
