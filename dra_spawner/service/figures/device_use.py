"""Device-hours of the last 30 days, and what the budgets of the settings would have done."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.fairness.budget_replay import Memberships, UseReport, use_report
from dra_spawner.fairness.budget_settings import ReadBudgets
from dra_spawner.fairness.report_notes import report_notes
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.imports.hub_groups import read_groups
from dra_spawner.history.imports.imported_rows import SourceError
from dra_spawner.service.figures.history_report import HistoryReport

log = logging.getLogger(__name__)

_DAYS: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class DeviceUseReport:
    """What was used, and what the figures do not contain."""

    used: UseReport
    notes: tuple[str, ...] = ()

    @property
    def end(self) -> datetime:
        return self.used.end


class DeviceUse(HistoryReport[DeviceUseReport]):
    """The use of devices; see the base class.

    Parameters
    ----------
    budgets
        Returns the budgets of the settings.
    hub
        Returns the address of the hub's REST API and a token for it; an empty address without a hub.
    """

    def __init__(self, budgets: ReadBudgets, hub: Callable[[], tuple[str, str]]) -> None:
        super().__init__(self._report_of, "use")
        self._budgets = budgets
        self._hub = hub

    def _report_of(self, database: HistoryDatabase, now: datetime) -> DeviceUseReport:
        memberships: Memberships = {}
        problem = ""
        try:
            memberships = read_groups(*self._hub(), database.names.stored)
        except SourceError as error:
            log.warning("Groups are not known: error=%s", error)
            problem = (
                "Groups are not known: the hub does not tell them to the service. Its role in the hub may lack "
                "the scopes list:groups and read:groups; the log has the reason."
            )
        policy = self._budgets.policy
        launches = list(database.launches(now - _DAYS - policy.reach, now))
        used = use_report(launches, now - _DAYS, now, policy, memberships)
        notes = report_notes(used, self._budgets, memberships)
        return DeviceUseReport(used, (problem, *notes) if problem else tuple(notes))
