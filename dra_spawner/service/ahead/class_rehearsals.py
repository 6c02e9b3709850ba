"""Rehearsals of classes that are not of the coming day: once after they are announced, and of requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Final

from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.class_records import ClassRequest
from dra_spawner.scale_ahead.calendars.calendar_book import ADDED_ENTRIES
from dra_spawner.scale_ahead.calendars.class_limits import last_end
from dra_spawner.scale_ahead.calendars.class_progress import outcome_key
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import Rehearsal, expected_by_occurrence
from dra_spawner.service.ahead.added_entries import AddedEntries
from dra_spawner.service.ahead.rehearsals import Rehearsals, TooManyRehearsals

log = logging.getLogger(__name__)

_SECONDS: Final = 20.0
#: Rehearsals in one turn: others ask, too.
_AT_ONCE: Final = 5
#: Requests that are rehearsed, the oldest first; others come when these are answered or over.
_MAX_REQUESTS: Final = 20
#: Time after which the rehearsal of a request is old.
_FRESH: Final = timedelta(hours=1)


class ClassRehearsals:
    """See the module. Entries of the coming day are `RehearsedEntries`'."""

    def __init__(self, controller: ScaleAheadController, rehearsals: Rehearsals, added: AddedEntries) -> None:
        self._controller = controller
        self._rehearsals = rehearsals
        self._added = added
        self.of_entries: Mapping[Occurrence, Rehearsal] = {}
        """Of the next time of each entry."""
        self.of_requests: Mapping[str, Rehearsal] = {}
        """By id of the request."""

    def forget(self) -> None:
        """Forget all: another replica leads."""
        self.of_entries, self.of_requests = {}, {}

    async def run(self) -> None:
        """Rehearse what is new, until cancelled."""
        while True:
            try:
                await self.refresh()
            except TooManyRehearsals:
                log.debug("Classes are rehearsed later: too many rehearsals wait.")
            except Exception:  # a defect here must not end the service
                log.exception("Classes are not rehearsed.")
            await asyncio.sleep(_SECONDS)

    async def refresh(self) -> None:
        """Rehearse some classes and requests that were not yet."""
        now, done = self._controller.now(), 0
        known = self._controller.overrides.present.classes
        entries = [each for added in self._added.items if (each := self.next_time(added.entry)) is not None]
        self.of_entries = {each: found for each, found in self.of_entries.items() if each in entries}
        asked = sorted(known.requests.items(), key=lambda each: each[1].at)
        opened = {name: each for name, each in asked if each.is_open}
        self.of_requests = {name: found for name, found in self.of_requests.items() if name in opened}
        for each in entries:
            outcome = known.outcomes.get(outcome_key(each))
            if (
                done >= _AT_ONCE
                or each in self.of_entries
                or (outcome is not None and outcome.rehearsed_at is not None)
            ):
                continue
            # One whose choice is removed costs no time, and so does not use up the turn.
            if (found := await self.of_time(each)) is not None:
                done += 1
                self.of_entries = {**self.of_entries, each: found}
        for name, time in islice(self._askable(opened), _MAX_REQUESTS):
            last = self.of_requests.get(name)
            if done >= _AT_ONCE or (last is not None and now - last.now < _FRESH):
                continue
            if (found := await self.of_time(time)) is not None:
                done += 1
                self.of_requests = {**self.of_requests, name: found}

    def _askable(self, requests: Mapping[str, ClassRequest]) -> Iterator[tuple[str, Occurrence]]:
        """Requests that can be rehearsed, with their next time: not over, and of a choice that the hub offers."""
        for name, request in requests.items():
            try:
                time = self.next_time(self._added.read(request.written))
            except ValueError:  # another writer wrote it
                continue
            if time is not None and find_choice(time.profile, self._controller.published.shapes) is not None:
                yield name, time

    def next_time(self, entry: CalendarEntry) -> Occurrence | None:
        """The next time of a class that has not begun; None if there is none."""
        now = self._controller.now()
        times = entry.occurrences(now, max(last_end(entry), now), ADDED_ENTRIES)
        return next((each for each in times if each.begins > now), None)

    async def of_time(self, occurrence: Occurrence) -> Rehearsal | None:
        """Rehearse one time of a class beside the entries of the same time; None if the hub publishes no such choice.

        Raises
        ------
        TooManyRehearsals
            If the limit of waiting rehearsals is reached.
        """
        shapes = self._controller.published.shapes
        choice = find_choice(occurrence.profile, shapes)
        if choice is None:
            return None
        expected = expected_by_occurrence(occurrence, choice, shapes[choice])
        return await self._rehearsals.of_users(expected, entry=occurrence)
