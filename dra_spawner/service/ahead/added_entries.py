"""Calendar entries that administrators add by the API; they are stored beside the settings."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.log_once import LogOnce
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.placeholders.controller.sources.override_store import OverridesUnavailable
from dra_spawner.placeholders.planner.targets.overrides import Overrides
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.controller.demand_settings import read_calendar_entry
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.ahead.class_notices import with_notice
from dra_spawner.service.blocking_calls import BlockingCalls

log = logging.getLogger(__name__)

_ID_BYTES: Final = 6
#: Limit of the time in which no placeholder counts as surplus because earlier entries could not be read yet.
_LOAD_TIMEOUT: Final = timedelta(days=1)
_ANSWER_SECONDS: Final = 10.0
_MOVED_BY: Final = "an earlier version"


class TooManyEntries(Exception):
    """Raised where the limit of entries is reached."""


@dataclass(frozen=True, slots=True)
class AddedEntry:
    """An entry, and the JSON that it was read from.

    Attributes
    ----------
    by, at
        Who added it, and when; empty and None for one of an earlier version.
    """

    id: str
    written: JsonObject
    entry: CalendarEntry
    by: str = ""
    at: datetime | None = None


class AddedEntries:
    """The added entries: every replica knows them, and the leader uses them.

    Parameters
    ----------
    database
        Returns the history's database, in which earlier versions stored entries; None while it is not open.
    has_history
        Whether a history is configured.
    answer_seconds
        Until a database that does not answer counts as not available.
    """

    def __init__(
        self,
        controller: ScaleAheadController,
        database: Callable[[], HistoryDatabase | None],
        *,
        has_history: bool,
        answer_seconds: float = _ANSWER_SECONDS,
    ) -> None:
        self._controller = controller
        self._database = database
        self._has_history = has_history
        self._read_last: tuple[Overrides | None, tuple[AddedEntry, ...]] = None, ()
        self._leads = self._is_moved = False
        self._log_once = LogOnce(log, "Calendar entries cannot be read: error=%s")
        self._ask = BlockingCalls("calendar entries", answer_seconds)
        controller.overrides.on_change(self._use)

    @property
    def items(self) -> tuple[AddedEntry, ...]:
        """All entries, sorted by their first begin."""
        present = self._controller.overrides.present
        last = self._read_last[0]
        if last is not present:
            is_same = last is not None and _same_entries(last, present)
            self._read_last = present, self._read_last[1] if is_same else self._read_all(present)
        return self._read_last[1]

    def with_entry(self, entry: CalendarEntry) -> list[CalendarEntry]:
        """All entries as they are after one is added or replaced; one without an id comes behind others like it."""
        others = [each.entry for each in self.items if each.id != entry.id]
        return sorted((*others, entry), key=lambda each: (each.begins, not each.id, each.id))

    def begin(self) -> None:
        """Use the entries. Keep surplus placeholders until those of earlier versions are known."""
        self._leads = True
        if self._has_history:
            self._controller.scale_ahead.calendars.awaited_until = self._controller.now() + _LOAD_TIMEOUT
        self._use()

    def end(self) -> None:
        """Use them no more: another replica leads."""
        self._leads = self._is_moved = False
        self._use()

    async def move(self) -> None:
        """Move entries that an earlier version stored in the database; the next call tries again if that fails."""
        database = self._database()
        if self._is_moved or database is None:
            return
        try:
            stored = await self._ask(database.calendar_entries)
            if stored:
                await self._controller.overrides.change(lambda settings: self._with_earlier(settings, stored))
                for name in stored:
                    await self._ask(partial(database.delete_calendar_entry, name))
        except (SQLAlchemyError, TimeoutError, OverridesUnavailable) as error:
            self._log_once.present({"move": error})  # it is tried again each minute
            return
        self._log_once.present(())
        self._is_moved = True
        self._controller.scale_ahead.calendars.awaited_until = None

    async def add(self, written: object, by: str) -> AddedEntry:
        """Add an entry, written as in the setting ``calendar_entries``.

        Raises
        ------
        SettingsError
            If the entry is invalid; with path, found and allowed values of every problem.
        OverridesUnavailable
            If entries cannot be stored.
        TooManyEntries
            If the limit is reached.
        """
        return await self._set(secrets.token_hex(_ID_BYTES), written, by, lambda present: None)

    async def replace(
        self, name: str, written: object, by: str, check: Callable[[AddedEntry | None], None]
    ) -> AddedEntry:
        """Write another entry in place of one.

        It raises as `add`.

        Parameters
        ----------
        check
            Called with the present entry, perhaps several times; what it raises refuses the change.
        """
        return await self._set(name, written, by, check)

    async def delete(self, name: str, by: str, check: Callable[[AddedEntry | None], None]) -> None:
        """Delete an entry.

        Parameters
        ----------
        check
            As of `replace`.

        Raises
        ------
        OverridesUnavailable
        """

        def change(present: Overrides) -> Overrides:
            check(self._find(present, name))
            now = self._controller.now()
            return with_notice(present, present.without_entry(name, by, now), name, self.read, by, now)

        await self._controller.overrides.change(change)

    async def _set(self, name: str, written: object, by: str, check: Callable[[AddedEntry | None], None]) -> AddedEntry:
        self.read(written)
        assert isinstance(written, dict)  # or it was refused

        def change(present: Overrides) -> Overrides:
            check(self._find(present, name))
            now = self._controller.now()
            changed = with_notice(present, present.with_entry(name, written, by, now), name, self.read, by, now)
            if not changed.fits_storage:
                raise TooManyEntries
            return changed

        found = self._find(await self._controller.overrides.change(change), name)
        assert found is not None  # it was just written
        return found

    def read(self, written: object) -> CalendarEntry:
        """The entry as the calendars use it.

        Raises
        ------
        SettingsError
        """
        return read_calendar_entry(written, self._controller.scale_ahead.settings.options.settings.zone, "entry")

    def _find(self, settings: Overrides, name: str) -> AddedEntry | None:
        return next((each for each in self._read_all(settings) if each.id == name), None)

    def _read_all(self, settings: Overrides) -> tuple[AddedEntry, ...]:
        found, owners = [], settings.classes.owners
        for name, written in settings.entries.items():
            owner = owners.get(name)
            by, at = (owner.by, owner.at) if owner is not None else ("", None)
            try:
                found.append(AddedEntry(name, written, replace(self.read(written), id=name), by, at))
            except ValueError as error:
                log.warning("An added calendar entry is invalid, and ignored: id=%s problem=%s", name, error)
        return tuple(sorted(found, key=lambda each: (each.entry.begins, each.id)))

    def _with_earlier(self, settings: Overrides, stored: Mapping[str, str]) -> Overrides:
        for name, text in stored.items():
            try:
                written = json.loads(text)
                self.read(written)
            except ValueError as error:
                log.warning("An added calendar entry is invalid, and ignored: id=%s problem=%s", name, error)
                continue
            if name not in settings.entries:
                more = settings.with_entry(name, written, _MOVED_BY, self._controller.now())
                settings = more if more.fits_storage else settings
        return settings

    def _use(self) -> None:
        items = self.items if self._leads else ()
        self._controller.scale_ahead.calendars.added = tuple(each.entry for each in items)


def _same_entries(one: Overrides, other: Overrides) -> bool:
    """Whether entries and owners are equal: other settings, and figures of classes, change more often."""
    return one.entries == other.entries and one.classes.owners == other.classes.owners
