"""Limits of the classes that a person may announce, set by person or group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner.profiles.syntax.settings_reader import SettingsReader, refuse_settings
from dra_spawner.scale_ahead.calendars.demand_lines import MAX_USERS
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry

ALL_PEOPLE: Final = "*"
_MAX_ROWS: Final = 1_000
_MAX_WEEKS: Final = 520
_FAR: Final = timedelta(days=5 * 366)


@dataclass(frozen=True, slots=True)
class ClassLimits:
    """What one person may announce.

    Attributes
    ----------
    users
        Users of all own classes at the same time.
    classes
        Own classes that are not over; one that takes place every week counts once.
    minutes
        Duration of a class.
    weeks
        Weeks from now until the last time of a class.
    choices
        Choices that may be announced, or profiles with all their choices; None for all.
    """

    users: int = 100
    classes: int = 20
    minutes: int = 480
    weeks: int = 30
    choices: frozenset[str] | None = None

    def allows_choice(self, choice: str) -> bool:
        """Whether a choice may be announced."""
        return self.choices is None or bool({choice, choice.partition("/")[0]} & self.choices)

    def refusal(self, entry: CalendarEntry, others: Iterable[CalendarEntry], now: datetime) -> str:
        """Why a class is beyond the limits, as a sentence; empty if it is not.

        Parameters
        ----------
        others
            The person's own entries, without the one that it replaces.
        """
        coming = [each for each in others if last_end(each) > now]
        if not self.allows_choice(entry.demand.profile):
            return "You may not announce this choice."
        if not self.classes:
            return "You may not announce classes."
        if len(coming) >= self.classes:
            found = "1 class that is" if len(coming) == 1 else f"{len(coming)} classes that are"
            return f"You have {found} not over; the limit is {self.classes}. Cancel one."
        if entry.lasts > timedelta(minutes=self.minutes):
            return f"The class takes {entry.lasts.total_seconds() / 60:.0f} minutes; your limit is {self.minutes}."
        if last_end(entry) > now + timedelta(weeks=self.weeks) + entry.lasts:
            return f"The class ends more than {self.weeks} weeks from now, which is your limit."
        if (users := most_at_once(entry, coming)) > self.users:
            return f"Your classes would have {users} users at the same time; your limit is {self.users}."
        return ""


@dataclass(frozen=True, slots=True)
class ClassLimitsByPerson:
    """Limits as an administrator has set them, by ``user:ada``, ``group:physics``, or ``*``."""

    rows: Mapping[str, ClassLimits]

    def of(self, user: str, groups: Collection[str]) -> ClassLimits:
        """A person's own limits; else the largest of each limit of the groups; else those of `*`."""
        own = self.rows.get(f"user:{user}")
        if own is not None:
            return own
        found = [self.rows[f"group:{each}"] for each in sorted(groups) if f"group:{each}" in self.rows]
        if not found:
            return self.rows.get(ALL_PEOPLE, ClassLimits())
        choices = [each.choices for each in found if each.choices is not None]
        largest = ClassLimits(
            max(each.users for each in found),
            max(each.classes for each in found),
            max(each.minutes for each in found),
            max(each.weeks for each in found),
        )
        return replace(largest, choices=frozenset().union(*choices)) if len(choices) == len(found) else largest


def read_class_limits(value: object, path: str = "class_limits") -> ClassLimitsByPerson:
    """Limits, as configured: ``{"*": {"users": 60}, "group:physics": {"users": 350, "weeks": 20}}``.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem.
    """
    table = SettingsReader(value, path, 'a mapping like {"group:physics": {"users": 350}}')
    if len(table.given) > _MAX_ROWS:
        table.refuse_itself(f"{len(table.given)} rows", f"at most {_MAX_ROWS} rows")
    rows = {}
    for name, each in table.given.items():
        if name != ALL_PEOPLE and not (isinstance(name, str) and name.startswith(("user:", "group:"))):
            table.refuse(name, 'a name like "user:ada" or "group:physics", or "*"', repr(name))
            continue
        reader = table.inner(name, each, 'a mapping like {"users": 60}')
        default = ClassLimits()
        rows[str(name)] = ClassLimits(
            reader.whole_number("users", default.users, 0, MAX_USERS),
            reader.whole_number("classes", default.classes, 0, 1_000),
            reader.whole_number("minutes", default.minutes, 1, 7 * 24 * 60),
            reader.whole_number("weeks", default.weeks, 0, _MAX_WEEKS),
            frozenset(reader.texts("choices")) if reader.value("choices") is not None else None,
        )
        reader.refuse_other_keys()
    refuse_settings(table.problems)
    return ClassLimitsByPerson(rows)


def last_end(entry: CalendarEntry) -> datetime:
    """The end of the last time of a class, in UTC; of breaks, too."""
    weeks = 0
    if entry.weekly_until is not None:
        weeks = min(max((entry.weekly_until - entry.begins.date()).days // 7, 0), _MAX_WEEKS - 1)
    return (entry.begins + timedelta(weeks=weeks)).replace(tzinfo=entry.zone).astimezone(UTC) + entry.lasts


def most_at_once(entry: CalendarEntry, others: Iterable[CalendarEntry]) -> int:
    """The most users of an entry and of other entries at the same time, while the entry's users are there."""
    begin, end = entry.begins.replace(tzinfo=entry.zone).astimezone(UTC), last_end(entry)
    mine = list(entry.occurrences(begin, min(end, begin + _FAR), ""))
    if not mine:
        return entry.demand.users
    changes: list[tuple[datetime, int]] = []
    for other in others:
        for each in other.occurrences(begin, min(end, begin + _FAR), ""):
            changes += (
                (each.begins.astimezone(UTC), other.demand.users),
                (each.ends.astimezone(UTC), -other.demand.users),
            )
    changes += ((each.begins.astimezone(UTC), 0) for each in mine)
    spans = [(each.begins.astimezone(UTC), each.ends.astimezone(UTC)) for each in mine]
    most = present = at = 0
    # At one moment users leave before others come.
    for moment, users in sorted(changes):
        present += users
        while at < len(spans) and spans[at][1] <= moment:
            at += 1
        if at < len(spans) and spans[at][0] <= moment:
            most = max(most, present)
    return entry.demand.users + most
