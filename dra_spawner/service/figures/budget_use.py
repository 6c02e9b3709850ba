"""Who has used up a budget: asked at each start, so it is computed beside, and an answer never waits for the database.

While nothing is known, as after a start of the service or without the history, no user is over a budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from dra_spawner.fairness.budget_replay import BudgetCheck, Memberships, Standing
from dra_spawner.fairness.budget_settings import ReadBudgets
from dra_spawner.fairness.budgets import Per
from dra_spawner.fairness.device_hours import held_times
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.imports.hub_groups import read_groups
from dra_spawner.history.imports.imported_rows import SourceError
from dra_spawner.service.blocking_calls import in_daemon_thread

log = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 300.0
#: Until the history is looked for again.
_UNTIL_OPEN_SECONDS: Final = 10.0
#: Until a figure says nothing any more.
_LONGEST_AGE: Final = timedelta(hours=1)
#: Part of the time for which launches are read, at most.
_LONGEST_PART: Final = 0.05
#: Groups that a sentence names.
_MOST_NAMED: Final = 10


class BudgetUse:
    """The standing of users, at most some minutes old.

    Parameters
    ----------
    budgets
        Of the settings.
    database
        Returns the history; None while it is not open.
    hub
        See `DeviceUse`.
    """

    def __init__(
        self,
        budgets: ReadBudgets,
        database: Callable[[], HistoryDatabase | None],
        hub: Callable[[], tuple[str, str]],
        now: Callable[[], datetime],
    ) -> None:
        self._policy = budgets.policy
        self._database = database
        self._hub = hub
        self._now = now
        self._check: BudgetCheck | None = None
        self._read_at: datetime | None = None
        self._stored: Callable[[str], str] = str
        self._problems: tuple[str, ...] = ()

    def problems(self) -> tuple[str, ...]:
        """Why some budgets limit nobody, as sentences."""
        return self._problems

    @property
    def is_on(self) -> bool:
        """Whether there are budgets."""
        return bool(self._policy.drivers)

    @property
    def is_known(self) -> bool:
        """Whether the figures are recent enough."""
        # A clock that jumped makes them unknown, too.
        return self._read_at is not None and timedelta(0) <= self._now() - self._read_at < _LONGEST_AGE

    def standings(self, user: str, groups: Iterable[str]) -> tuple[Standing, ...]:
        """The budgets of a user; none while they are not known.

        Parameters
        ----------
        user, groups
            Names in JupyterHub.
        """
        if self._check is None or not self.is_known:
            return ()
        return tuple(self._check.standings(self._stored(user), self._now().timestamp(), groups))

    def over(self, user: str, groups: Iterable[str]) -> Standing | None:
        """The budget that a user has used up most; None while the user is within all, and while they are not known."""
        if self._check is None or not self.is_known:
            return None
        return self._check.worst(self._stored(user), self._now().timestamp(), groups)

    async def run(self) -> None:
        """Read launches again and again, until cancelled."""
        while self.is_on:
            began = monotonic()
            await self.refresh()
            seconds = _INTERVAL_SECONDS if self.is_known else _UNTIL_OPEN_SECONDS
            await asyncio.sleep(max(seconds, (monotonic() - began) / _LONGEST_PART))

    async def refresh(self) -> None:
        """Read launches once."""
        database = self._database()
        if database is None:
            return
        now = self._now()
        try:
            self._check, found = await in_daemon_thread(lambda: self._read(database, now), "budgets")
            self._read_at, self._stored = now, database.names.stored
        except SQLAlchemyError as error:
            found = (f"Budgets are not known, so none is enforced: the history fails ({type(error).__name__}).",)
        for sentence in found:
            if sentence not in self._problems:
                log.warning("%s", sentence)
        self._problems = found

    def _read(self, database: HistoryDatabase, now: datetime) -> tuple[BudgetCheck, tuple[str, ...]]:
        memberships: Memberships = {}
        problems: tuple[str, ...] = ()
        if any(each.per is Per.GROUP for each in self._policy.budgets):
            try:
                memberships = read_groups(*self._hub(), database.names.stored)
                problems = tuple(self._empty_groups(memberships))
            except SourceError as error:
                problems = (f"Budgets of whole groups are not enforced, as groups are not known: {error}.",)
        # Servers that run count until now: never as more than they have used.
        launches = database.launches(now - self._policy.reach, now)
        # An end in the future is one of a clock that was set since: what the server held is not known.
        times, _ = held_times(
            [each for each in launches if each.ended is None or each.ended <= now + _LONGEST_AGE], now
        )
        return BudgetCheck(times, self._policy, memberships), problems

    def _empty_groups(self, memberships: Memberships) -> Iterator[str]:
        """A sentence for groups that budgets name and that have no user, as after a new name."""
        known = {group for groups in memberships.values() for group in groups}
        named = {group for each in self._policy.budgets for group in each.groups}
        if missing := sorted(named - known):
            yield (
                f"Budgets name groups in which the hub has no user, so they limit nobody: "
                f"{', '.join(missing[:_MOST_NAMED])}{', …' if len(missing) > _MOST_NAMED else ''}."
            )
