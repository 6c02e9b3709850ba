"""Handler of rehearsals, which say whether announced users can all start at a given time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tornado.web import HTTPError

from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import Rehearsal
from dra_spawner.scale_ahead.rehearsal.rehearsal_table import rehearsal_json
from dra_spawner.service.ahead.rehearsals import Rehearsals, TooManyRehearsals
from dra_spawner.service.http.api.placeholder_handlers import PlaceholderHandler
from dra_spawner.service.http.requests.endpoints import Access, endpoint
from dra_spawner.service.http.requests.json_body import json_object
from dra_spawner.service.http.schemas.demand_schemas import REHEARSAL, REHEARSAL_QUESTION

_LONGEST_LINE: Final = 500
_LONGEST_ZONE: Final = 100
_MAX_MINUTES: Final = 7 * 24 * 60
_MINUTES: Final = ("lead_minutes", "image_minutes", "margin_minutes")
_KEYS: Final = ("line", "zone", *_MINUTES, "entry")


class RehearsalsHandler(PlaceholderHandler):
    """``POST api/rehearsals`` with ``{"line": "350 of gpu-slice at 17:00"}``: verdict, orders, problems, waits.

    Further keys: ``zone`` (of the line), ``lead_minutes`` (of kinds of nodes without recorded lead times),
    ``image_minutes``, ``margin_minutes``. Without the first and the last, the settings of `demand` count.

    ``{"entry": {…}}`` in place of all these: the next time of a calendar entry, which keeps the verdict when it is
    added.
    """

    @endpoint(
        "Whether announced users can all start at a time.",
        Access.OPERATE,
        body=REHEARSAL_QUESTION,
        answer=REHEARSAL,
        problems=(409,),
    )
    async def post(self) -> None:
        question = _question(bytes(self.body))
        rehearsals = self._rehearsals
        if not self.controller.published.shapes:
            why = self.controller.shapes.problem if self.controller.is_on else "no placeholders are configured"
            raise HTTPError(503, "The profiles are not known: %s.", why or "none is published")
        try:
            if "entry" in question:
                found = await self._of_entry(question["entry"])
            else:
                found = await self._of_line(question, rehearsals)
        except TooManyRehearsals:
            raise HTTPError(503, "Too many rehearsals wait already. Try again in a minute.") from None
        self.write_json(rehearsal_json(found))

    async def _of_line(self, question: dict[str, Any], rehearsals: Rehearsals) -> Rehearsal:
        zone = _zone(question)
        try:
            expected = rehearsals.expected_by(question["line"], zone)
        except ValueError as error:
            raise HTTPError(400, "line: %s.", error) from None
        return await rehearsals.of_users(expected, replace(rehearsals.assumptions(), **_given(question)))

    async def _of_entry(self, written: object) -> Rehearsal:
        runner = self.context.scale_ahead
        if runner is None:
            raise HTTPError(503, "The cluster is not found yet.")
        try:
            entry = runner.added.read(written)
        except SettingsError as error:
            raise HTTPError(400, "%s.", "; ".join(map(str, error.problems))) from None
        time = runner.class_rehearsals.next_time(entry)
        if time is None:
            raise HTTPError(409, "The entry has begun already.")
        if (found := await runner.class_rehearsals.of_time(time, entry)) is None:
            raise HTTPError(409, "The hub publishes no choice %s.", entry.demand.profile)
        return found

    @property
    def _rehearsals(self) -> Rehearsals:
        watch = self.context.watch
        if self.context.rehearsals is None or watch is None or not watch.synced:
            raise HTTPError(503, "The cluster is not read completely yet.")
        return self.context.rehearsals


def _question(body: bytes) -> dict[str, Any]:
    """The validated body; errors name key, found and allowed values."""
    question = json_object(body, _KEYS)
    if "entry" in question:
        if len(question) > 1:
            raise HTTPError(400, "entry: allowed: alone, without other keys.")
        return question
    line = question.get("line")
    if not isinstance(line, str) or not 0 < len(line) <= _LONGEST_LINE or not line.isprintable():
        found = f"found {line!r:.60}" if "line" in question else "nothing found"
        raise HTTPError(400, '%s: %s; allowed: a line like "350 of gpu-slice at 17:00".', "line", found)
    for key in _MINUTES:
        value = question.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MAX_MINUTES:
            raise HTTPError(400, "%s: found %s; allowed: 0 to %d.", key, f"{value!r:.60}", _MAX_MINUTES)
    return question


def _zone(question: dict[str, Any]) -> tzinfo:
    name = question.get("zone", "UTC")
    if name == "UTC":
        return UTC
    try:
        if not isinstance(name, str) or len(name) > _LONGEST_ZONE:
            raise ValueError
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise HTTPError(400, "zone: found %s; allowed: a time zone like Europe/Berlin.", f"{name!r:.60}") from None


def _given(question: dict[str, Any]) -> dict[str, timedelta]:
    """The assumptions that the question names; the service's settings count for the others."""
    names = {"lead": "lead_minutes", "image_time": "image_minutes", "margin": "margin_minutes"}
    return {name: timedelta(minutes=question[key]) for name, key in names.items() if key in question}
