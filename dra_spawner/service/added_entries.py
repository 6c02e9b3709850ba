"""Calendar entries that administrators add by the API; they are stored in the history's database."""

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
from dra_spawner.service.blocking_calls import BlockingCalls

__all__ = ["AddedEntries", "AddedEntry", "EntriesUnavailable", "TooManyEntries"]

log = logging.getLogger(__name__)

_MAX: Final = 1000
_ID_BYTES: Final = 6
#: Limit of the time in which no placeholder counts as surplus because the entries could not be read yet.
_LOAD_TIMEOUT: Final = timedelta(days=1)
_ANSWER_SECONDS: Final = 10.0


class EntriesUnavailable(Exception):
    """Raised where entries cannot be stored; the message is a sentence."""


class TooManyEntries(Exception):
    """Raised where the limit of entries is reached."""


@dataclass(frozen=True, slots=True)
class AddedEntry:
    """An entry, and the JSON that it was read from."""

    id: str
    written: Mapping[str, Any]
    entry: CalendarEntry


class AddedEntries:
    """The leader's added entries: it reads them when it begins to lead.

    Parameters
    ----------
    database
        Returns the history's database; None while it is not open.
    has_history
        Whether a history is configured.
    answer_seconds
        Until a database that does not answer counts as not available.
    """

    def __init__(
        self,
        controller: PlaceholderController,
        database: Callable[[], HistoryDatabase | None],
        *,
        has_history: bool,
        answer_seconds: float = _ANSWER_SECONDS,
    ) -> None:
        self._controller = controller
        self._database = database
        self._has_history = has_history
        self._entries: dict[str, AddedEntry] = {}
        self._is_loaded = False
        self._is_told = False
        self._lock = asyncio.Lock()
        self._ask = BlockingCalls("calendar entries", answer_seconds)

    @property
    def items(self) -> tuple[AddedEntry, ...]:
        """All entries, sorted by their first begin."""
        return tuple(sorted(self._entries.values(), key=lambda each: (each.entry.begins, each.id)))

    def begin(self) -> None:
        """Keep surplus placeholders until the entries are loaded. Call it when this replica begins to lead."""
        if self._has_history:
            self._controller.scale_ahead.calendars.awaited_until = self._controller.now() + _LOAD_TIMEOUT

    def end(self) -> None:
        """Forget the entries: another replica leads, and may change them."""
        self._entries, self._is_loaded = {}, False
        self._use()

    async def load(self) -> None:
        """Read the entries, unless they are read already; the next call tries again if the database cannot be read."""
        database = self._database()
        if self._is_loaded or database is None:
            return
        try:
            stored = await self._ask(database.calendar_entries)
        except (SQLAlchemyError, TimeoutError) as error:
            if not self._is_told:  # it is tried again each minute
                log.warning("Calendar entries cannot be read: error=%s", error)
            self._is_told = True
            return
        self._is_told = False
        for name, text in stored.items():
            try:
                written = json.loads(text)
                self._entries[name] = AddedEntry(name, written, self._read(written))
            except ValueError as error:
                log.warning("An added calendar entry is invalid, and ignored: id=%s problem=%s", name, error)
        self._is_loaded = True
        self._controller.scale_ahead.calendars.awaited_until = None
        self._use()

    async def add(self, written: Mapping[str, Any]) -> AddedEntry:
        """Add an entry, written as in the setting ``calendar_entries``.

        Raises
        ------
        SettingsError
            If the entry is invalid; with path, found and allowed values of every problem.
        EntriesUnavailable
            If entries cannot be stored.
        TooManyEntries
            If the limit is reached.
        """
        entry = self._read(written)
        async with self._lock:
            database = self._writable()
            if len(self._entries) >= _MAX:
                raise TooManyEntries
            added = AddedEntry(secrets.token_hex(_ID_BYTES), dict(written), entry)
            await self._write(database.add_calendar_entry, added.id, json.dumps(added.written), self._controller.now())
            self._entries[added.id] = added
            self._use()
        return added

    async def delete(self, name: str) -> bool:
        """Delete an entry.

        Returns
        -------
        bool
            Whether it existed.

        Raises
        ------
        EntriesUnavailable
            If entries cannot be stored.
        """
        if not self._controller.is_on:
            return False  # without placeholders there are no entries
        async with self._lock:
            database = self._writable()
            if name not in self._entries:
                return False
            await self._write(database.delete_calendar_entry, name)
            del self._entries[name]
            self._use()
        return True

    def _writable(self) -> HistoryDatabase:
        if not self._controller.is_on:
            raise EntriesUnavailable("Entries have no effect: the service has no placeholders (setting placeholders).")
        if not self._has_history:
            raise EntriesUnavailable("Entries cannot be stored: the service has no history (setting history).")
        database = self._database()
        if database is None or not self._is_loaded:
            raise EntriesUnavailable("Entries cannot be stored at present: the history's database is not available.")
        return database

    async def _write(self, write: Callable[..., None], *arguments: object) -> None:
        try:
            await self._ask(lambda: write(*arguments))
        except (SQLAlchemyError, TimeoutError) as error:
            log.warning("Calendar entries cannot be written: error=%s", error)
            raise EntriesUnavailable(
                "Entries cannot be stored at present: the history's database is not available."
            ) from None

    def _read(self, written: object) -> CalendarEntry:
        return read_calendar_entry(written, self._controller.scale_ahead.settings.options.settings.zone, "entry")

    def _use(self) -> None:
        self._controller.scale_ahead.calendars.added = tuple(each.entry for each in self.items)
