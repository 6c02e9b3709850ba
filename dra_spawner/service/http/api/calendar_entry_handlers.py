"""Handlers of calendar entries that administrators add."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado.web import HTTPError

from dra_spawner.placeholders.controller.sources.override_store import OverridesUnavailable
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.service.ahead.added_entries import AddedEntries, AddedEntry, TooManyEntries
from dra_spawner.service.http.api.override_handlers import OverrideHandler
from dra_spawner.service.http.requests.endpoints import CONTINUE, LIMIT_OR_ALL, Access, endpoint
from dra_spawner.service.http.requests.json_body import json_value
from dra_spawner.service.http.schemas.demand_schemas import CALENDAR_ENTRIES, CALENDAR_ENTRY, NEW_CALENDAR_ENTRY

_PUT: Final[Mapping[str, Any]] = {"problems": (404, 409), "precondition": True}


class _EntriesHandler(OverrideHandler):
    """Base of both handlers."""

    @property
    def entries(self) -> AddedEntries:
        """The entries; 503 while the cluster is not found."""
        if self.context.scale_ahead is None:
            raise HTTPError(503, "The cluster is not found yet.")
        return self.context.scale_ahead.added

    @contextlib.contextmanager
    def problems(self) -> Iterator[None]:
        """Errors of a change as answers."""
        try:
            yield
        except SettingsError as error:
            raise HTTPError(400, "%s.", "; ".join(map(str, error.problems))) from None
        except TooManyEntries:
            raise HTTPError(409, "There are too many entries. Delete old ones.") from None
        except OverridesUnavailable as error:
            raise HTTPError(503, "%s", error) from None

    def check(self, present: AddedEntry | None) -> None:
        """Refuse to change an entry that does not exist, or is another version than `If-Match` says."""
        if present is None:
            raise HTTPError(404, "There is no entry with this id.")
        self.require_match(entry_json(present))


class CalendarEntriesHandler(_EntriesHandler):
    """``api/calendar-entries``.

    ``GET``: the added entries. ``POST`` with ``{"users": "350 of gpu-slice", "begins": "2026-11-24 17:00"}``: add an
    entry; the keys are those of the setting ``calendar_entries``.
    """

    @endpoint(
        "The calendar entries that were added by the API.",
        Access.READ,
        answer=CALENDAR_ENTRIES,
        query=(LIMIT_OR_ALL, CONTINUE),
    )
    async def get(self) -> None:
        self.require_known()
        found = self.page(self.entries.items, lambda each: f"{each.entry.begins.isoformat()} {each.id}")
        self.write_json({**found, "items": [entry_json(each) for each in found["items"]]})

    @endpoint(
        "Add a calendar entry.",
        Access.OPERATE,
        body=NEW_CALENDAR_ENTRY,
        answer=CALENDAR_ENTRY,
        status=201,
        problems=(409,),
    )
    async def post(self) -> None:
        written = json_value(bytes(self.body))
        with self.problems():
            self.entries.read(written)
            self.require_placeholders()
            added = await self.entries.add(written, self.caller)
        self.set_status(201)
        self.set_header("Location", f"{self.web.prefix}api/calendar-entries/{added.id}")
        self.write_version(entry_json(added))


class CalendarEntryHandler(_EntriesHandler):
    """``api/calendar-entries/<id>``."""

    @endpoint("An added calendar entry.", Access.READ, answer=CALENDAR_ENTRY, problems=(404,))
    async def get(self, name: str) -> None:
        self.require_known()
        found = next((each for each in self.entries.items if each.id == name), None)
        if found is None:
            raise HTTPError(404, "There is no entry with this id.")
        self.write_json(entry_json(found))

    @endpoint(
        "Write another calendar entry in place of an added one.",
        Access.OPERATE,
        body=NEW_CALENDAR_ENTRY,
        answer=CALENDAR_ENTRY,
        **_PUT,
    )
    async def put(self, name: str) -> None:
        written = json_value(bytes(self.body))
        with self.problems():
            self.entries.read(written)
            self.require_placeholders()
            changed = await self.entries.replace(name, written, self.caller, self.check)
        self.write_version(entry_json(changed))

    @endpoint("Delete an added calendar entry.", Access.OPERATE, **{**_PUT, "status": 204})
    async def delete(self, name: str) -> None:
        with self.problems():
            self.require_placeholders()
            await self.entries.delete(name, self.caller, self.check)
        self.set_status(204)


def entry_json(added: AddedEntry) -> dict[str, Any]:
    """An added entry as JSON."""
    named = {"name": added.entry.name} if "name" in added.written else {}
    at = added.at.isoformat() if added.at else None
    return {"id": added.id, "by": added.by, "at": at, **added.written, **named}
