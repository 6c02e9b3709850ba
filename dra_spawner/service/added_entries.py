"""Calendar entries that administrators add by the API; the history's database keeps them."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from dra_spawner.calendars.entries import CalendarEntry
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.placeholders.controller.demand_settings import read_calendar_entry
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController

__all__ = ["AddedEntries", "AddedEntry", "EntriesUnavailable", "TooManyEntries"]

log = logging.getLogger(__name__)

_MOST: Final = 1000
_ID_BYTES: Final = 6
#: Time for which a database that is away keeps placeholders from being surplus.
_AWAITED: Final = timedelta(days=1)


class EntriesUnavailable(Exception):
    """Raised where entries cannot be kept; the message is a sentence."""


class TooManyEntries(Exception):
    """Raised where no more can be added."""


@dataclass(frozen=True, slots=True)
class AddedEntry:
    """An entry, and how it was written."""

    id: str
    written: Mapping[str, Any]
    entry: CalendarEntry


class AddedEntries:
    """Entries of the leader: they are read when it begins to lead.

    Parameters
    ----------
    database
        Returns the history's database; None while it is not open.
    is_kept
        Whether there is to be one.
    """

    def __init__(
        self, controller: PlaceholderController, database: Callable[[], HistoryDatabase | None], *, is_kept: bool
    ) -> None:
        self._controller = controller
        self._database = database
        self._is_kept = is_kept
        self._entries: dict[str, AddedEntry] = {}
        self._is_loaded = False
        self._changing = asyncio.Lock()

    @property
    def items(self) -> tuple[AddedEntry, ...]:
        """All entries, by their first begin."""
        return tuple(sorted(self._entries.values(), key=lambda each: (each.entry.begins, each.id)))

    def begin(self) -> None:
        """Wait for the entries, as this replica leads now."""
        if self._is_kept:
            self._controller.scale_ahead.calendars.awaited_until = self._controller.now() + _AWAITED

    def end(self) -> None:
        """Another replica leads, and may change them."""
        self._entries, self._is_loaded = {}, False
        self._use()

    async def load(self) -> None:
        """Read the entries once; a database that is away is tried again at the next call."""
        database = self._database()
        if self._is_loaded or database is None:
            return
        try:
            stored = await asyncio.to_thread(database.calendar_entries)
        except SQLAlchemyError as error:
            log.warning("Calendar entries cannot be read: error=%s", error)
            return
        for name, text in stored.items():
            try:
                written = json.loads(text)
                self._entries[name] = AddedEntry(name, written, self._read(written))
            except ValueError as error:
                log.warning("A calendar entry makes no sense: id=%s problem=%s", name, error)
        self._is_loaded = True
        self._controller.scale_ahead.calendars.awaited_until = None
        self._use()

    async def add(self, written: Mapping[str, Any]) -> AddedEntry:
        """Add an entry, written as in the setting ``calendar_entries``.

        Raises
        ------
        SettingsError
            With path, found and allowed values of every problem.
        EntriesUnavailable, TooManyEntries
        """
        entry = self._read(written)
        async with self._changing:
            database = self._writable()
            if len(self._entries) >= _MOST:
                raise TooManyEntries
            added = AddedEntry(secrets.token_hex(_ID_BYTES), dict(written), entry)
            await self._write(database.add_calendar_entry, added.id, json.dumps(added.written), self._controller.now())
            self._entries[added.id] = added
            self._use()
        return added

    async def delete(self, name: str) -> bool:
        """Delete an entry; whether there was one.

        Raises
        ------
        EntriesUnavailable
        """
        if not self._controller.is_on:
            return False  # there are none
        async with self._changing:
            database = self._writable()
            if name not in self._entries:
                return False
            await self._write(database.delete_calendar_entry, name)
            del self._entries[name]
            self._use()
        return True

    def _writable(self) -> HistoryDatabase:
        if not self._controller.is_on:
            raise EntriesUnavailable("The service has no placeholders (setting placeholders) that could be more.")
        if not self._is_kept:
            raise EntriesUnavailable("Entries cannot be kept: the service has no history (setting history).")
        database = self._database()
        if database is None or not self._is_loaded:
            raise EntriesUnavailable("Entries cannot be kept at present: the history's database is not available.")
        return database

    async def _write(self, write: Callable[..., None], *arguments: object) -> None:
        try:
            await asyncio.to_thread(write, *arguments)
        except SQLAlchemyError as error:
            log.warning("Calendar entries cannot be written: error=%s", error)
            raise EntriesUnavailable(
                "Entries cannot be kept at present: the history's database is not available."
            ) from None

    def _read(self, written: object) -> CalendarEntry:
        return read_calendar_entry(written, self._controller.scale_ahead.settings.options.settings.zone, "entry")

    def _use(self) -> None:
        self._controller.scale_ahead.calendars.added = tuple(each.entry for each in self.items)
