"""Handlers of calendar entries that administrators add."""

from __future__ import annotations

from typing import Any

from tornado.web import HTTPError

from dra_spawner.profiles.settings_reader import SettingsError
from dra_spawner.service.added_entries import AddedEntries, AddedEntry, EntriesUnavailable, TooManyEntries
from dra_spawner.service.context import Role
from dra_spawner.service.http.demand_schemas import CALENDAR_ENTRIES, CALENDAR_ENTRY, NEW_CALENDAR_ENTRY
from dra_spawner.service.http.endpoints import CONTINUE, LIMIT_OR_ALL, Access, endpoint
from dra_spawner.service.http.json_body import json_value
from dra_spawner.service.http.placeholder_handlers import PlaceholderHandler

__all__ = ["CalendarEntriesHandler", "CalendarEntryHandler"]


class _EntriesHandler(PlaceholderHandler):
    """Base: only the leader knows the entries."""

    @property
    def entries(self) -> AddedEntries:
        """The entries; 503 on a replica that does not lead."""
        if self.context.role is not Role.LEADER or self.context.scale_ahead is None:
            raise HTTPError(503, "%s", self.context.not_leading_because() or "The cluster is not found yet.")
        return self.context.scale_ahead.added


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
        found = self.page(self.entries.items, lambda each: f"{each.entry.begins.isoformat()} {each.id}")
        self.write_json({**found, "items": [_json(each) for each in found["items"]]})

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
        try:
            added = await self.entries.add(written)
        except SettingsError as error:
            raise HTTPError(400, "%s.", "; ".join(map(str, error.problems))) from None
        except TooManyEntries:
            raise HTTPError(409, "There are too many entries. Delete old ones.") from None
        except EntriesUnavailable as error:
            raise HTTPError(503, "%s", error) from None
        self.set_status(201)
        self.write_json(_json(added))


class CalendarEntryHandler(_EntriesHandler):
    """``DELETE api/calendar-entries/<id>``."""

    @endpoint("Delete an added calendar entry.", Access.OPERATE, status=204, problems=(404,))
    async def delete(self, name: str) -> None:
        try:
            if not await self.entries.delete(name):
                raise HTTPError(404, "There is no entry with this id.")
        except EntriesUnavailable as error:
            raise HTTPError(503, "%s", error) from None
        self.set_status(204)


def _json(added: AddedEntry) -> dict[str, Any]:
    return {"id": added.id, **added.written}
