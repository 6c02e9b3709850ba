"""Users whom a calendar announces: their placeholders are warm when the first may come, until the last has joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from typing import Final

from dra_spawner.calendars.occurrences import IN_TOTAL, Occurrence
from dra_spawner.placeholders.planner.demand.estimates import Estimate, Source
from dra_spawner.placeholders.planner.demand.minutes import minute_of, whole_minutes

__all__ = ["AwaitedUsers", "awaited_users", "calendar_estimate"]

#: Entries that a forecast's line names.
_MAX_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class AwaitedUsers:
    """Users of an entry who have not joined yet."""

    occurrence: Occurrence
    users: int
    opens: int
    """Minute from which on users may join."""


def awaited_users(
    occurrences: Iterable[Occurrence],
    now: int,
    lead: int,
    margin: int,
    starts_per_minute: float,
    joined: Callable[[int], float],
    present: int,
) -> tuple[AwaitedUsers, ...]:
    """Entries whose placeholders must be ordered now or earlier, with the users who are still to come.

    An entry's placeholders are ordered a lead time and a margin before it begins, earlier if the nodes start one after
    the other. It is over when its last user has joined: at the end of its ramp and the margin, not at the event's end.

    Parameters
    ----------
    occurrences
        Those of one profile group.
    now
        The minute that begins.
    lead, margin
        Minutes.
    starts_per_minute
        Placeholders that new nodes bring in a minute at most; infinite if unlimited.
    joined
        Launches since a minute, less the usual ones.
    present
        Servers that run. Of an entry "in total", they have joined already.
    """
    found = []
    counted = 0.0  # launches that an earlier entry explains
    for occurrence in sorted(occurrences, key=_begin_and_name):
        begins, ramp = minute_of(occurrence.begins), whole_minutes(occurrence.ramp)
        opens = begins - margin
        closes = min(begins + ramp + margin, minute_of(occurrence.ends))
        starting = 0 if starts_per_minute == float("inf") else ceil(occurrence.users / starts_per_minute)
        if not opens - lead - starting <= now < closes:
            continue
        if occurrence.counts == IN_TOTAL:
            users = occurrence.users - present
        else:
            came = max(joined(opens) - counted, 0.0) if now > opens else 0.0
            counted += min(came, occurrence.users)
            users = occurrence.users - int(came)
        if users > 0:
            found.append(AwaitedUsers(occurrence, users, opens))
    return tuple(found)


def calendar_estimate(awaited: Iterable[AwaitedUsers], usual: int) -> Estimate:
    """Placeholders for awaited users.

    Additional users come on top of one another and of the usual launches; of numbers in total the largest counts.

    Parameters
    ----------
    usual
        Placeholders that launches need which no entry explains.
    """
    entries = tuple(awaited)
    additional = sum(each.users for each in entries if each.occurrence.counts != IN_TOTAL)
    in_total = max((each.users for each in entries if each.occurrence.counts == IN_TOTAL), default=0)
    assured = max(additional + usual if additional else 0, in_total)
    note = ", ".join(f"{each.occurrence.name}: {each.users} to come" for each in entries[:_MAX_NAMED])
    if len(entries) > _MAX_NAMED:
        note += f", and {len(entries) - _MAX_NAMED} more entries"
    return Estimate(Source.CALENDAR, assured=assured, note=note)


def _begin_and_name(occurrence: Occurrence) -> tuple[float, str]:
    return occurrence.begins.timestamp(), occurrence.name
