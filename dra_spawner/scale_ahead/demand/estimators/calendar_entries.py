"""Users whom a calendar announces: their placeholders are warm when the first may come, until the last has joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any, Final

from dra_spawner.scale_ahead.calendars.occurrences import IN_TOTAL, Occurrence
from dra_spawner.scale_ahead.demand.estimators.estimates import Estimate, Source
from dra_spawner.scale_ahead.demand.minutes import minute_of, whole_minutes

#: Entries that a forecast's line names.
_MAX_NAMED: Final = 10
_Key = tuple[str, str, datetime]


@dataclass(frozen=True, slots=True)
class AwaitedUsers:
    """Users of an entry who have not joined yet."""

    occurrence: Occurrence
    users: int
    opens: int
    """Minute from which on users may join."""


class OpenWindows:
    """Entries whose placeholders are ordered, and entries that have begun or ended.

    What is learned of nodes meanwhile closes no window again.
    """

    def __init__(self) -> None:
        self._since: dict[_Key, int] = {}
        """Minute at which each entry was opened, by its source, name and begin."""
        self._begun: dict[_Key, tuple[int, int]] = {}
        """Minute at which each entry ends that has begun, and its users."""

    def keep(self, occurrences: Iterable[Occurrence], now: int) -> None:
        """Note the entries of a calendar; those that it has no longer are forgotten, unless they have ended."""
        present = {_key(each): each for each in occurrences}
        self._since = {key: since for key, since in self._since.items() if key in present}
        self._begun = {key: each for key, each in self._begun.items() if each[0] <= now}
        for key, each in present.items():
            if minute_of(each.begins) <= now:
                self._begun[key] = minute_of(each.ends), each.users

    def users_of_ended(self, now: int, minutes: int) -> int:
        """Announced users of entries that have ended within some minutes; earlier ones are forgotten."""
        self._begun = {key: each for key, each in self._begun.items() if each[0] >= now - minutes}
        return sum(users for ends, users in self._begun.values() if ends <= now)

    def is_open(self, occurrence: Occurrence, orders: int, now: int) -> bool:
        """Whether the placeholders of an entry are ordered: it is time for it, or it was at an earlier minute.

        Parameters
        ----------
        orders
            Minute at which they must be ordered, by what is known now.
        """
        if orders <= now:
            self._since.setdefault(_key(occurrence), now)
        return _key(occurrence) in self._since

    def minutes_since_first(self, now: int) -> int | None:
        """Minutes since the first opening of an entry that has not begun; None without one."""
        coming = [since for (_, _, begins), since in self._since.items() if minute_of(begins) >= now]
        return now - min(coming) if coming else None

    def state(self) -> list[list[list[Any]]]:
        """All that is noted, as JSON."""
        return [
            [[source, name, begins.isoformat(), since] for (source, name, begins), since in self._since.items()],
            [[source, name, begins.isoformat(), *each] for (source, name, begins), each in self._begun.items()],
        ]

    def restore(self, state: list[list[Any]]) -> None:
        """Take over what was noted."""
        if all(each and isinstance(each[0], str) for each in state):
            state = [state, []]  # of a version that noted no entries that have begun
        opened, begun = (
            {(str(a), str(b), datetime.fromisoformat(c)): rest for a, b, c, *rest in each} for each in state[:2]
        )
        self._since = {key: int(since) for key, (since, *_) in opened.items()}
        self._begun = {key: (int(ends), int(users)) for key, (ends, users, *_) in begun.items()}

    def copy(self) -> OpenWindows:
        """The same windows, to go on from apart."""
        found = OpenWindows()
        found._since, found._begun = self._since.copy(), self._begun.copy()
        return found


def awaited_users(
    occurrences: Iterable[Occurrence],
    now: int,
    lead: int,
    margin: int,
    starts_per_minute: float,
    joined: Callable[[int], float],
    present: int,
    windows: OpenWindows | None = None,
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
    windows
        Entries that were opened at earlier minutes; those that are opened now are noted there.
    """
    windows = windows or OpenWindows()
    found = []
    counted = 0.0  # launches that an earlier entry explains
    coming = sorted(occurrences, key=_begin_and_name)
    for occurrence, orders in zip(coming, _order_times(coming, lead + margin, starts_per_minute), strict=True):
        begins, ramp = minute_of(occurrence.begins), whole_minutes(occurrence.ramp)
        opens = begins - margin
        closes = min(begins + ramp + margin, minute_of(occurrence.ends))
        if now >= closes or not windows.is_open(occurrence, orders, now):
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


def _order_times(coming: Sequence[Occurrence], ahead: int, starts_per_minute: float) -> list[int]:
    """Minutes at which the placeholders of entries must be ordered: nodes of one entry start before those of the next.

    Parameters
    ----------
    coming
        In the order of their begin.
    ahead
        Minutes before the begin by which the last node has started.
    """
    found: list[int] = []
    for occurrence in reversed(coming):
        started = minute_of(occurrence.begins) - ahead
        if starts_per_minute != float("inf"):
            started = min(started, found[-1] if found else started) - ceil(occurrence.users / starts_per_minute)
        found.append(started)
    return found[::-1]


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


def _key(occurrence: Occurrence) -> _Key:
    return occurrence.source, occurrence.name, occurrence.begins


def _begin_and_name(occurrence: Occurrence) -> tuple[float, str]:
    return occurrence.begins.timestamp(), occurrence.name
