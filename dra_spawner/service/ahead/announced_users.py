"""Users who are announced by the calendars, and whether others are announced beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.demand.forecast import users_to_come, usual_growth
from dra_spawner.scale_ahead.demand.minutes import minute_of, whole_minutes
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, expected_by_occurrence
from dra_spawner.scale_ahead.rehearsal.timetable import arrivals


@dataclass(frozen=True, slots=True)
class AnnouncedUsers:
    """Users who are announced, by an entry of a calendar or by a line.

    Attributes
    ----------
    not_prepared
        Why scale-ahead creates no placeholders for them; empty if it does.
    entry
        None for a line.
    usual
        Number of servers that usually start while they come, less those that stop.
    """

    expected: ExpectedUsers
    ends: datetime
    not_prepared: str
    entry: Occurrence | None = None
    usual: int = 0

    def is_beside(self, other: ExpectedUsers) -> bool:
        """Whether the users begin before others or with them, and have not ended when these come."""
        # In UTC: Python compares local times of one zone without regard to changes of the clock.
        begins = other.begins.astimezone(UTC)
        return self.expected.begins.astimezone(UTC) <= begins < self.ends.astimezone(UTC)

    def announces(self, other: ExpectedUsers) -> bool:
        """Whether these are the same users."""
        mine = self.expected
        return (mine.shape.id, mine.begins.astimezone(UTC), mine.users, mine.counts) == (
            other.shape.id,
            other.begins.astimezone(UTC),
            other.users,
            other.counts,
        )


class Announcements:
    """Users of the calendars' entries, as a rehearsal takes them."""

    def __init__(self, controller: ScaleAheadController) -> None:
        self._controller = controller

    def of(self, occurrence: Occurrence) -> AnnouncedUsers | None:
        """The users of an entry; None if the hub does not publish its profile."""
        shapes = self._controller.published.shapes
        choice = find_choice(occurrence.profile, shapes)
        if choice is None:
            return None
        expected = expected_by_occurrence(occurrence, choice, shapes[choice])
        return AnnouncedUsers(
            expected, occurrence.ends, self.not_prepared(expected), occurrence, self._usual_launches(expected)
        )

    def begun(self, added: Sequence[CalendarEntry] | None = None) -> list[AnnouncedUsers]:
        """Entries that have begun, with the users who are still to come: placeholders wait for these.

        Parameters
        ----------
        added
            Added entries as they will be; None: as they are.
        """
        now, ahead, found = self._controller.now(), self._controller.scale_ahead, []
        known = ahead.calendars.occurrences(now, timedelta(0), added)
        begun = [each for each in known if each.begins <= now < each.ends]
        to_come: dict[Occurrence, int] = {}
        for group in self._controller.groups():
            if (demand := ahead.demand_of(group.name)) is not None:
                same = [each for each in begun if find_choice(each.profile, group.choices) is not None]
                to_come |= dict.fromkeys(same, 0) | users_to_come(demand.record, same)
        for entry in begun:
            announced, first = self.of(entry), entry.begins.astimezone(UTC)
            # Without what was counted, users come as a replay's do.
            users = to_come.get(entry, sum(at > now for at in arrivals(first, entry.ramp, entry.users)))
            if announced is not None and users:
                ramp = max(first + entry.ramp - now, timedelta(0))
                begins = now.astimezone(entry.begins.tzinfo)
                left = replace(announced.expected, users=users, begins=begins, ramp=ramp)
                found.append(replace(announced, expected=left, usual=0))
        return found

    def _usual_launches(self, expected: ExpectedUsers) -> int:
        """The number of servers that usually start while the users come, less those that stop; by past weeks."""
        group = next((each for each in self._controller.groups() if each.shape == expected.shape.id), None)
        demand = self._controller.scale_ahead.demand_of(group.name) if group is not None else None
        if demand is None:
            return 0
        minutes = max(whole_minutes(expected.ramp), 1)
        return round(usual_growth(demand.record, minute_of(expected.begins), minutes) or 0.0)

    def not_prepared(self, expected: ExpectedUsers) -> str:
        """Why scale-ahead creates no placeholders for the users of an entry; empty if it does."""
        return self._controller.not_prepared_because(expected.profile, expected.shape.id)
