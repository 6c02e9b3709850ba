"""Reports of the history in answers, and why there is none."""

from __future__ import annotations

import logging

from sqlalchemy.exc import SQLAlchemyError
from tornado.web import HTTPError

from dra_spawner.service.context import ServiceContext
from dra_spawner.service.figures.history_report import HistoryReport, ReportT

__all__ = ["found_report"]

log = logging.getLogger(__name__)


async def found_report(context: ServiceContext, cached: HistoryReport[ReportT]) -> ReportT:
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
        return await cached.report(database, context.now())
    except TimeoutError:
        raise HTTPError(503, "The history does not answer in time. Try again in some minutes.") from None
    except SQLAlchemyError as error:
        log.error("The history cannot be read: error=%s", type(error).__name__)
        raise HTTPError(503, "The history is not available: it cannot be read.") from None
