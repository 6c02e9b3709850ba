"""Rehearsals of classes that are not of the coming day: once after they are announced, and of requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from dra_spawner.kube.cordons import on_cordon
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
from dra_spawner.service.ahead.rehearsed_entries import SETTLE_SECONDS

log = logging.getLogger(__name__)

_SECONDS: Final = 20.0
#: The same after a class was announced or changed.
_SOON_SECONDS: Final = 1.0
#: Rehearsals that are remembered of forms, whose class may be announced soon.
_MAX_ASKED: Final = 100
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
        self._asked: dict[Occurrence, Rehearsal] = {}
        self._trusted: set[Occurrence] | None = None
        """Times whose stored verdict is that of this very class: their number of users has not changed since."""
        self._is_changed = asyncio.Event()
        self._is_closed_anew = asyncio.Event()
        controller.overrides.on_change(self._is_changed.set)
        controller.overrides.on_change_of(lambda each: each.closed, self._is_closed_anew.set)
        on_cordon(controller.watch, self._note_cordon)
        self.of_entries: Mapping[Occurrence, Rehearsal] = {}
        """Of the next time of each entry."""
        self.of_requests: Mapping[str, Rehearsal] = {}
        """By id of the request."""

    def forget(self) -> None:
        """Forget all: another replica leads."""
        self.of_entries, self.of_requests, self._asked, self._trusted = {}, {}, {}, None

    def last(self, time: Occurrence) -> Rehearsal | None:
        """The last rehearsal of a time of a class, also one that a form has asked for before it was announced."""
        return self.of_entries.get(time) or self._asked.get(_not_added(time))

    def last_of(self, entry: CalendarEntry) -> Rehearsal | None:
        """The last rehearsal of the next time of a class."""
        time = self.next_time(entry)
        return self.last(time) if time is not None else None

    def renew(self, name: str) -> None:
        """Rehearse a class anew: it may have another number of placeholders now."""
        for time in (self.next_time(each.entry) for each in self._added.items if each.id == name):
            self.of_entries = {each: found for each, found in self.of_entries.items() if each != time}
            if time is not None:
                self._asked.pop(_not_added(time), None)
                (self._trusted or set()).discard(time)
        self._is_changed.set()

    def _note_cordon(self) -> None:
        self._is_closed_anew.set()
        self._is_changed.set()

    async def _doubt_refusals(self) -> None:
        """Forget each verdict No, as nodes or devices were closed or opened. A Yes is looked at a day before."""
        self._is_closed_anew.clear()
        await asyncio.sleep(SETTLE_SECONDS)
        outcomes = self._controller.overrides.present.classes.outcomes
        if self._trusted is not None:
            stored = {each: outcomes.get(outcome_key(each)) for each in self._trusted}
            self._trusted = {each for each, found in stored.items() if found is not None and found.is_possible}
        self._asked = {each: found for each, found in self._asked.items() if found.is_possible}
        self.of_entries = {each: found for each, found in self.of_entries.items() if found.is_possible}
        self.of_requests = {each: found for each, found in self.of_requests.items() if found.is_possible}

    async def run(self) -> None:
        """Rehearse what is new, until cancelled."""
        while True:
            self._is_changed.clear()
            if self._is_closed_anew.is_set():
                await self._doubt_refusals()
            try:
                await self.refresh()
            except TooManyRehearsals:
                log.debug("Classes are rehearsed later: too many rehearsals wait.")
            except Exception:  # a defect here must not end the service
                log.exception("Classes are not rehearsed.")
            await asyncio.sleep(_SOON_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS - _SOON_SECONDS):
                    await self._is_changed.wait()

    async def refresh(self) -> None:
        """Rehearse some classes and requests that were not yet."""
        now, done = self._controller.now(), 0
        known = self._controller.overrides.present.classes
        entries = [each for added in self._added.items if (each := self.next_time(added.entry)) is not None]
        self.of_entries = {each: found for each, found in self.of_entries.items() if each in entries}
        asked = sorted(known.requests.items(), key=lambda each: each[1].at)
        opened = {name: each for name, each in asked if each.is_open}
        self.of_requests = {name: found for name, found in self.of_requests.items() if name in opened}
        if self._trusted is None:
            stored = {each: known.outcomes.get(outcome_key(each)) for each in entries}
            self._trusted = {each for each, found in stored.items() if found is not None and found.rehearsed_at}
        self._trusted.intersection_update(entries)
        for each in entries:
            if done >= _AT_ONCE or each in self.of_entries or each in self._trusted:
                continue
            # One whose choice is removed costs no time, and so does not use up the turn.
            if (found := self._fresh(each, now) or await self.of_time(each)) is not None:
                done += 1
                self.of_entries = {**self.of_entries, each: found}
                self._asked.pop(_not_added(each), None)  # it says nothing of another class like this one
        for name, entry, time in islice(self._askable(opened), _MAX_REQUESTS):
            last = self.of_requests.get(name)
            if done >= _AT_ONCE or (last is not None and now - last.now < _FRESH):
                continue
            if (found := self._fresh(time, now) or await self.of_time(time, entry)) is not None:
                done += 1
                self.of_requests = {**self.of_requests, name: found}

    def _fresh(self, time: Occurrence, now: datetime) -> Rehearsal | None:
        found = self._asked.get(_not_added(time))
        return found if found is not None and now - found.now < _FRESH else None

    def _askable(self, requests: Mapping[str, ClassRequest]) -> Iterator[tuple[str, CalendarEntry, Occurrence]]:
        """Requests that can be rehearsed, with their next time: not over, and of a choice that the hub offers."""
        for name, request in requests.items():
            try:
                entry = replace(self._added.read(request.written), id=name)  # as it will be when it is approved
            except ValueError:  # another writer wrote it
                continue
            time = self.next_time(entry)
            if time is not None and find_choice(time.profile, self._controller.published.shapes) is not None:
                yield name, entry, time

    def next_time(self, entry: CalendarEntry) -> Occurrence | None:
        """The next time of a class that has not begun; None if there is none."""
        now = self._controller.now()
        return next((each for each in self._times(entry) if each.begins > now), None)

    def _times(self, entry: CalendarEntry) -> Iterable[Occurrence]:
        now = self._controller.now()
        return entry.occurrences(now, max(last_end(entry), now), ADDED_ENTRIES)

    async def of_time(self, occurrence: Occurrence, preview: CalendarEntry | None = None) -> Rehearsal | None:
        """Rehearse one time of a class beside the entries of the same time; None if the hub publishes no such choice.

        Parameters
        ----------
        preview
            The class, if it is not added, or is added otherwise: it is rehearsed where it will be among the others,
            and in place of the one with its id.

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
        added = self._added.with_entry(preview) if preview is not None else None
        found = await self._rehearsals.of_users(expected, entry=occurrence, added=added)
        asked = _not_added(occurrence)
        self._asked.pop(asked, None)
        self._asked[asked] = found
        if len(self._asked) > _MAX_ASKED:
            del self._asked[next(iter(self._asked))]
        return found


def _not_added(time: Occurrence) -> Occurrence:
    """A time as the form knows it, before its class is added."""
    return replace(time, entry_id="")
