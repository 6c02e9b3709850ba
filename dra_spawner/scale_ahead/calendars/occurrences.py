"""One time at which a number of users is expected, from any calendar."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

Counts = Literal["additional", "in total"]

ADDITIONAL: Final[Counts] = "additional"
"""The users are additional to running servers, and to the usual launches of this time."""
IN_TOTAL: Final[Counts] = "in total"
"""The users are all users that will have a server of the profile, including running servers."""

RUSH_PEAK: Final = 1 / 6
"""Part of the ramp at which most users come: their times have a triangular distribution, 47 % in the first third."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of a class, an exam or a workshop, with recurrence and time zones resolved.

    Raises
    ------
    ValueError
        If a time has no time zone, the end is not after the begin, or the number of users or the ramp is negative.
    """

    name: str
    profile: str
    begins: datetime
    """Time at which the first users start their servers; with a time zone."""

    ends: datetime
    """End of the event, with a time zone. Its placeholders end earlier, when the last user has joined."""
    users: int
    counts: Counts = ADDITIONAL
    ramp: timedelta = timedelta(minutes=15)
    """Time from `begins` within which the users start their servers."""
    source: str = ""
    """Name of the calendar or setting that has the entry, for messages."""
    uid: str = field(default="", compare=False)
    """Identifier of the event (RFC 5545), the same in each calendar that has it; empty of entries."""

    entry_id: str = ""
    """Id of an added entry, and a number where others announce the same, so that each counts; empty otherwise."""

    def __post_init__(self) -> None:
        for which, moment in (("begins", self.begins), ("ends", self.ends)):
            if moment.utcoffset() is None:
                raise ValueError(f"{which} of {self.name!r} is {moment.isoformat()}, which has no time zone")
        # In UTC: as the clock is put back, a local time of the end may be that of the begin, or earlier.
        if self.ends.astimezone(UTC) <= self.begins.astimezone(UTC):
            raise ValueError(f"{self.name!r} ends at {self.ends.isoformat()}, not after {self.begins.isoformat()}")
        if self.users < 0:
            raise ValueError(f"users of {self.name!r} is {self.users}; it must be 0 or more")
        if self.ramp < timedelta(0):
            raise ValueError(f"ramp of {self.name!r} is {self.ramp}; it must not be negative")
        if self.counts not in (ADDITIONAL, IN_TOTAL):
            raise ValueError(f"counts of {self.name!r} is {self.counts!r}; it must be {ADDITIONAL!r} or {IN_TOTAL!r}")
