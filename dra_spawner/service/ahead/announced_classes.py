"""Classes that people announce or ask for: calendar entries with an owner, and requests that administrators answer.

All is stored where calendar entries are. Each change is checked again for the version that it is written to, so two
changes at the same time cannot pass a limit together.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.class_records import ClassRecords, ClassRequest, RaisedMax
from dra_spawner.placeholders.planner.targets.overrides import AuditEntry, Overrides
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS
from dra_spawner.scale_ahead.calendars.calendar_book import ADDED_ENTRIES
from dra_spawner.scale_ahead.calendars.class_limits import ClassLimits, last_end, most_at_once
from dra_spawner.scale_ahead.calendars.demand_lines import DemandLine, demand_line
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.ahead.added_entries import AddedEntries, AddedEntry, TooManyEntries
from dra_spawner.service.ahead.class_notices import with_notice

_ID_BYTES: Final = 6
#: Limit of open requests of one person.
_MAX_OPEN: Final = 5
#: Time after which the own classes that are over are removed with the next change.
_KEPT: Final = timedelta(days=14)
_ANOTHER: Final = "If there is another one at the same time, give it another title."


class ClassRefused(Exception):
    """Raised for a class or a request that is not allowed; the message is a sentence."""


class UnknownClass(Exception):
    """Raised for a class or a request that does not exist, or that the caller may not see."""


@dataclass(frozen=True, slots=True)
class Announcer:
    """Who asks.

    Attributes
    ----------
    name
        Kind and name at the hub, such as ``user ada``.
    limits
        Limits of own classes; None for an operator, who may change all classes.
    """

    name: str
    limits: ClassLimits | None

    @property
    def is_operator(self) -> bool:
        return self.limits is None

    def may_see(self, by: str) -> bool:
        """Whether the person may see what somebody has announced."""
        return self.is_operator or by == self.name


class AnnouncedClasses:
    """See the module."""

    def __init__(self, controller: ScaleAheadController, added: AddedEntries) -> None:
        self._controller = controller
        self._added = added
        self._owners: tuple[tuple[AddedEntry, ...], dict[str, str]] = (), {}

    @property
    def records(self) -> ClassRecords:
        """What is stored beside the entries."""
        return self._controller.overrides.present.classes

    def visible(self, who: Announcer) -> list[AddedEntry]:
        """Entries that a person may see, sorted by their first begin."""
        return [each for each in self._added.items if who.may_see(each.by)]

    def preview(self, written: JsonObject, name: str, who: Announcer) -> CalendarEntry:
        """A class as an entry, as it will be when it is stored.

        Parameters
        ----------
        name
            Id of the class in whose place it is written; empty for a new one.

        Raises
        ------
        SettingsError
        ClassRefused
        UnknownClass
            If the person may not see the one that it replaces.
        """
        entry = self.read(written)
        if not name:
            return entry
        earlier = next((each.written for each in self.visible(who) if each.id == name), None)
        if earlier is None:
            raise UnknownClass
        return replace(self._added.read({**written, "users": self._counted_as(earlier, entry.demand)}), id=name)

    def owner_of_time(self, occurrence: Occurrence) -> str:
        """Who announced a time of a class; empty if that is not known."""
        if occurrence.source != ADDED_ENTRIES:
            return ""
        items = self._added.items
        if self._owners[0] is not items:
            self._owners = items, {each.id: each.by for each in items}
        return self._owners[1].get(occurrence.entry_id, "")

    def requests(self, who: Announcer) -> dict[str, ClassRequest]:
        """Requests that a person may see, the oldest first."""
        found = sorted(self.records.requests.items(), key=lambda each: (each[1].at, each[0]))
        return {name: each for name, each in found if who.may_see(each.by)}

    def read(self, written: JsonObject) -> CalendarEntry:
        """A class as an entry.

        Raises
        ------
        SettingsError
        ClassRefused
            If the hub publishes no such choice, or the class is over.
        """
        entry = self._added.read(written)
        if find_choice(entry.demand.profile, self._controller.published.shapes) is None:
            raise ClassRefused("The hub offers this choice no longer. Reload the page, and choose another.")
        if entry.weekly_until is not None and entry.weekly_until < entry.begins.date():
            raise ClassRefused("The last day of the class is before its first day.")
        if last_end(entry) <= self._controller.now():
            raise ClassRefused("The class is over already.")
        if next(self._coming(entry), None) is None:
            raise ClassRefused("The class never takes place: each of its days is a break.")
        return entry

    def needed_max(self, entry: CalendarEntry, name: str = "") -> int | None:
        """Placeholders of the choice for an entry and for others of its time; None if ``max`` allows as many.

        Parameters
        ----------
        name
            Id of the entry, if it is added already.
        """
        shapes = self._controller.published.shapes
        choice = find_choice(entry.demand.profile, shapes)
        if choice is None:
            return None
        same = [each.entry for each in self._added.items if each.id != name and _is_of(each.entry, choice, shapes)]
        needed = min(most_at_once(entry, same), MAX_PLACEHOLDERS)
        wanted = {each.shape: each.replicas.max for each in self._controller.groups()}
        return needed if needed > wanted.get(shapes[choice].id, 0) else None

    async def announce(self, written: JsonObject, group: str, who: Announcer) -> str:
        """Add a class; returns its id.

        Raises
        ------
        SettingsError
        ClassRefused
        TooManyEntries
        OverridesUnavailable
        """
        name, entry = secrets.token_hex(_ID_BYTES), self.read(written)

        def change(present: Overrides) -> Overrides:
            self._refuse_second(present, who, entry, group)
            self._check_limits(present, who, entry)
            return _fitting(self._tidied(present, who).with_entry(name, written, who.name, self._now, group))

        await self._change(change)
        return name

    async def replace(self, name: str, written: JsonObject, group: str, who: Announcer) -> None:
        """Write another class in place of one. A consent to a larger ``max`` stays if it covers the class as it is now.

        What a class cannot say stays as it was: whether its users are all users of the choice ("in total").

        Raises
        ------
        UnknownClass
        SettingsError
        ClassRefused
        TooManyEntries
        OverridesUnavailable
        """
        entry = self.read(written)

        def change(present: Overrides) -> Overrides:
            self._require(present, name, who)
            self._refuse_second(present, who, entry, group, name)
            self._check_limits(present, who, entry, name)
            kept = {**written, "users": self._counted_as(present.entries[name], entry.demand)}
            changed = present.with_entry(name, kept, who.name, self._now, group)
            raised = changed.classes.raised.get(name)
            if raised is not None and (raised.choice != entry.demand.profile or raised.until < last_end(entry)):
                changed = replace(changed, classes=changed.classes.with_raised(name, None))
            return _fitting(with_notice(present, changed, name, self._added.read, who.name, self._now))

        await self._change(change)

    async def cancel(self, name: str, who: Announcer) -> None:
        """Delete a class.

        Raises
        ------
        UnknownClass
        OverridesUnavailable
        """

        def change(present: Overrides) -> Overrides:
            self._require(present, name, who)
            changed = present.without_entry(name, who.name, self._now)
            return with_notice(present, changed, name, self._added.read, who.name, self._now)

        await self._change(change)

    async def raise_max(self, name: str, most: int | None, who: Announcer) -> RaisedMax:
        """Allow as many placeholders as a class needs until its last time is over.

        Parameters
        ----------
        most
            Another number than the needed one.

        Raises
        ------
        UnknownClass
        ClassRefused
            If `max` is not too small.
        OverridesUnavailable
        """
        found: list[RaisedMax] = []

        def change(present: Overrides) -> Overrides:
            self._require(present, name, who)
            changed, raised = self._raised(present, name, self._added.read(present.entries[name]), most, who)
            if raised is None:
                raise ClassRefused("The choice may have as many placeholders already.")
            found[:] = [raised]
            return changed

        await self._change(change)
        return found[0]

    async def lower_max(self, name: str, who: Announcer) -> None:
        """End the consent to a larger ``max``.

        Raises
        ------
        UnknownClass
        OverridesUnavailable
        """

        def change(present: Overrides) -> Overrides:
            if name not in present.classes.raised:
                raise UnknownClass
            changed = replace(present, classes=present.classes.with_raised(name, None))
            return changed.audited(AuditEntry(self._now, who.name, "deleted", f"max of class {name}"))

        await self._change(change)

    async def ask(self, written: JsonObject, group: str, who: Announcer) -> str:
        """Store a request; returns its id. It is not in the audit trail, which requests could fill.

        Raises
        ------
        SettingsError
        ClassRefused
        TooManyEntries
        OverridesUnavailable
        """
        name = secrets.token_hex(_ID_BYTES)
        self.read(written)

        def change(present: Overrides) -> Overrides:
            mine = [each for each in present.classes.requests.values() if each.by == who.name and each.is_open]
            if len(mine) >= _MAX_OPEN:
                raise ClassRefused(f"You have {len(mine)} requests that are not answered. Withdraw one.")
            if any((each.written, each.group) == (written, group) for each in mine):
                raise ClassRefused(f"You have asked for this class already. {_ANOTHER}")
            request = ClassRequest(written, who.name, self._now, group)
            return _fitting(replace(present, classes=present.classes.with_request(name, request)))

        await self._change(change)
        return name

    async def withdraw(self, name: str, who: Announcer) -> None:
        """Delete a request, answered or not.

        Raises
        ------
        UnknownClass
        OverridesUnavailable
        """

        def change(present: Overrides) -> Overrides:
            self._require_request(present, name, who)
            return replace(present, classes=present.classes.without_request(name))

        await self._change(change)

    async def approve(self, name: str, who: Announcer, *, raises_max: bool) -> None:
        """Make an entry of a request; its owner is the person who asked.

        Parameters
        ----------
        raises_max
            Whether the choice may have more placeholders than configured until the class is over, if it needs them.

        Raises
        ------
        UnknownClass
        SettingsError
        ClassRefused
        TooManyEntries
        OverridesUnavailable
        """

        def change(present: Overrides) -> Overrides:
            request = self._require_request(present, name, who)
            if not request.is_open:
                raise ClassRefused("The request is answered already.")
            entry = self.read(request.written)
            found = replace(present, classes=present.classes.without_request(name))
            found = found.with_entry(name, request.written, request.by, self._now, request.group)
            found = found.audited(AuditEntry(self._now, who.name, "approved", f"calendar-entry {name}"))
            if raises_max:
                found, _ = self._raised(found, name, entry, None, who)
            return _fitting(found)

        await self._change(change)

    async def decline(self, name: str, because: str, who: Announcer) -> None:
        """Answer a request with a sentence.

        Raises
        ------
        UnknownClass
        ClassRefused
        OverridesUnavailable
        """

        def change(present: Overrides) -> Overrides:
            request = self._require_request(present, name, who)
            if not request.is_open:
                raise ClassRefused("The request is answered already.")
            answered = replace(request, declined_by=who.name, declined_at=self._now, because=because)
            entry = AuditEntry(self._now, who.name, "declined", f"class request {name}", because)
            return replace(present, classes=present.classes.with_request(name, answered)).audited(entry)

        await self._change(change)

    @property
    def _now(self) -> datetime:
        return self._controller.now()

    async def _change(self, change: Callable[[Overrides], Overrides]) -> None:
        await self._controller.overrides.change(change)

    def _coming(self, entry: CalendarEntry) -> Iterator[object]:
        return entry.occurrences(self._now, max(last_end(entry), self._now), "")

    def _counted_as(self, earlier: JsonObject, demand: DemandLine) -> str:
        """The line of a demand that counts its users as an earlier entry did."""
        try:
            counts = self._added.read(earlier).demand.counts
        except ValueError:  # another writer wrote it, and it counts nowhere
            counts = demand.counts
        return demand_line(replace(demand, counts=counts))

    def _entries_of(self, present: Overrides, by: str, without: str = "") -> dict[str, CalendarEntry]:
        found = {}
        for name, owner in present.classes.owners.items():
            if owner.by == by and name != without and name in present.entries:
                try:
                    found[name] = self._added.read(present.entries[name])
                except ValueError:  # another writer wrote it, and it counts nowhere
                    continue
        return found

    def _check_limits(self, present: Overrides, who: Announcer, entry: CalendarEntry, name: str = "") -> None:
        if who.limits is None:
            return
        if refusal := who.limits.refusal(entry, self._entries_of(present, who.name, name).values(), self._now):
            raise ClassRefused(f"{refusal} An administrator may allow more: ask for the class.")

    def _refuse_second(
        self, present: Overrides, who: Announcer, entry: CalendarEntry, group: str, name: str = ""
    ) -> None:
        """Refuse a class that the person has announced already, as by a form that is sent twice."""
        for other, known in self._entries_of(present, who.name, name).items():
            if known == entry and present.classes.owners[other].group == group:
                raise ClassRefused(f"You have announced this class already. {_ANOTHER}")

    def _tidied(self, present: Overrides, who: Announcer) -> Overrides:
        """The same without own classes that are long over, so that they do not use up the storage."""
        for name, entry in self._entries_of(present, who.name).items():
            if last_end(entry) < self._now - _KEPT:
                rest = {key: each for key, each in present.entries.items() if key != name}
                present = replace(present, entries=rest, classes=present.classes.without_entry(name))
        return present

    def _require(self, present: Overrides, name: str, who: Announcer) -> None:
        owner = present.classes.owners.get(name)
        if name not in present.entries or not who.may_see(owner.by if owner is not None else ""):
            raise UnknownClass

    def _require_request(self, present: Overrides, name: str, who: Announcer) -> ClassRequest:
        request = present.classes.requests.get(name)
        if request is None or not who.may_see(request.by):
            raise UnknownClass
        return request

    def _raised(
        self, present: Overrides, name: str, entry: CalendarEntry, most: int | None, who: Announcer
    ) -> tuple[Overrides, RaisedMax | None]:
        """With the consent, if the class needs it."""
        needed = most if most is not None else self.needed_max(entry, name)
        if needed is None:
            return present, None
        raised = RaisedMax(entry.demand.profile, needed, last_end(entry), who.name)
        entry_of_audit = AuditEntry(self._now, who.name, "set", f"max of class {name}", f"{raised.choice}: {needed}")
        return replace(present, classes=present.classes.with_raised(name, raised)).audited(entry_of_audit), raised


def _is_of(entry: CalendarEntry, choice: str, shapes: Mapping[str, object]) -> bool:
    return find_choice(entry.demand.profile, shapes) == choice


def _fitting(changed: Overrides) -> Overrides:
    if not changed.fits_storage:
        raise TooManyEntries
    return changed
