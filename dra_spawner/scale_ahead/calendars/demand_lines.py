"""Lines that announce users of a profile: ``350 of gpu-slice``.

Calendar entries, events of an iCal calendar and rehearsals use the same line::

    350 of gpu-slice
    350 of gpu-slice in total
    350 of gpu-slice within 20 min
    12 of "Large GPU" additional within 5 min
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from dra_spawner.scale_ahead.calendars.occurrences import ADDITIONAL, IN_TOTAL, Counts

#: Limit of users in one line; no hub has more.
MAX_USERS: Final = 100_000
_MAX_RAMP_MINUTES: Final = 24 * 60
_LONGEST: Final = 1_000
_ALLOWED: Final = 'a line like "350 of gpu-slice", then "in total" or "additional", and "within 20 min" if needed'
_LINE: Final = re.compile(
    r'(?P<users>\d{1,9})\s+of\s+(?:"(?P<quoted>[^"]{1,250})"|(?P<plain>[^\s"]{1,250}))'
    r"(?:\s+(?P<counts>in\s+total|additional))?"
    r"(?:\s+within\s+(?P<ramp>\d{1,6})\s*min(?:utes)?)?",
    re.IGNORECASE,
)
_PARTS: Final = (
    ("a number of users", re.compile(r"\d{1,9}(?=\s|$)")),
    ('"of"', re.compile(r"\s+of(?=\s|$)", re.IGNORECASE)),
    ("a profile", re.compile(r'\s+(?:"[^"]{1,250}"|[^\s"]{1,250})(?=\s|$)')),
    ("", re.compile(r"(?:\s+(?:in\s+total|additional)(?=\s|$))?", re.IGNORECASE)),
    ("", re.compile(r"(?:\s+within\s+\d{1,6}\s*min(?:utes)?(?=\s|$))?", re.IGNORECASE)),
)
"""Parts of a line with what they are; the last ones may be missing."""
_BEGIN: Final = re.compile(r"\s*\d+\s+of\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DemandLine:
    """Announced users of one profile.

    Attributes
    ----------
    users
        Number of users.
    profile
        Name of the profile, or of one of its choices.
    counts
        Whether the number is additional to present users, or the total.
    ramp
        Time within which the users start their servers; None if the line does not name it.
    """

    users: int
    profile: str
    counts: Counts = ADDITIONAL
    ramp: timedelta | None = None


def demand_line(demand: DemandLine) -> str:
    """The line that `read_demand_line` reads so."""
    counts = f" {demand.counts}" if demand.counts != ADDITIONAL else ""
    within = f" within {demand.ramp // timedelta(minutes=1)} min" if demand.ramp is not None else ""
    return f'{demand.users} of "{demand.profile}"{counts}{within}'


def looks_like_demand(line: str) -> bool:
    """Whether a line begins like an announcement, so that a mistake in it is reported."""
    return _BEGIN.match(line) is not None


def _wrong_part(line: str) -> str:
    """The first part of an invalid line that is wrong, with what is expected in its place."""
    if not line or not line.isprintable():
        return repr(line[:100])
    at, expected = 0, ""
    for expected, pattern in _PARTS:
        match = pattern.match(line, at)
        if match is None:
            break
        at, expected = match.end(), ""
    rest = line[at:].strip()
    part = rest[:100] if not expected else rest.partition(" ")[0][:100]
    if not rest:
        return f"nothing after {line[:100]!r} where {expected} is expected"
    where = f"where {expected} is expected" if expected else "after the profile"
    return f"{part!r} {where}, in {line[:100]!r}"


def read_demand_line(line: str) -> DemandLine:
    """Read one line.

    Raises
    ------
    ValueError
        If the line is invalid; with the found and the allowed value.
    """
    # Also the spaces that web calendars write. Longer lines are no announcement.
    line = " ".join(line[:_LONGEST].split())
    found = _LINE.fullmatch(line) if line.isprintable() else None
    if found is None:
        raise ValueError(f"found {_wrong_part(line)}; allowed is {_ALLOWED}")
    users, ramp = int(found["users"]), found["ramp"]
    if users > MAX_USERS:
        raise ValueError(f"found {users} users; allowed are at most {MAX_USERS}")
    if ramp is not None and int(ramp) > _MAX_RAMP_MINUTES:
        raise ValueError(f"found {ramp} min; allowed are at most {_MAX_RAMP_MINUTES} min")
    counts = IN_TOTAL if (found["counts"] or "").lower().startswith("in") else ADDITIONAL
    within = timedelta(minutes=int(ramp)) if ramp is not None else None
    return DemandLine(users, found["quoted"] or found["plain"], counts, within)
