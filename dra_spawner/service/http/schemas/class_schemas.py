"""Schemas of classes, requests for them, and their rehearsals."""

from __future__ import annotations

from typing import Final

from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS
from dra_spawner.scale_ahead.calendars.demand_lines import MAX_USERS
from dra_spawner.service.http.schemas.cluster_schemas import paged
from dra_spawner.service.http.schemas.schema_parts import (
    Schema,
    choice,
    flag,
    integer,
    items,
    moment,
    nullable,
    number,
    record,
    text,
)

LONGEST_NAME: Final = 100
LONGEST_SENTENCE: Final = 300
MAX_BREAKS: Final = 100
MAX_RAISED: Final = MAX_PLACEHOLDERS

_CLASS: Final[dict[str, Schema]] = {
    "name": text("Physics lab", minLength=1, maxLength=LONGEST_NAME),
    "choice": text("gpu-slice", minLength=1, maxLength=250),
    "users": integer(60, minimum=1, maximum=MAX_USERS),
    "begins": text("2036-11-24 14:00"),
    "minutes": number(90),
    "within_minutes": integer(15),
    "weekly_until": text("2037-02-09"),
    "skipped": items(text("2036-12-22"), maxItems=MAX_BREAKS),
    "timezone": text("Europe/Berlin"),
    "group": text("physics-1", maxLength=LONGEST_NAME),
}
_OPTIONAL: Final = ("minutes", "within_minutes", "weekly_until", "skipped", "timezone", "group")
NEW_CLASS: Final = record(_CLASS, optional=_OPTIONAL)

_PHASE: Final = choice(("coming", "running", "over"))
_TIME: Final = record(
    {
        "begins": moment("2036-11-24T14:00:00+01:00"),
        "ends": moment("2036-11-24T15:30:00+01:00"),
        "zone": nullable(text("CET")),
        "phase": _PHASE,
        "sentence": text("60 of 60 prepared, ready since 13:45"),
        "users": integer(60),
        "prepared": integer(60),
        "ready_at": nullable(moment("2036-11-24T12:45:00+00:00")),
        "came": nullable(integer(0)),
        "came_is_complete": flag(),
        "running": integer(0),
        "waiting": integer(0),
        "longest_seconds": number(0.0),
        "verdict": text("Yes: 60 users can start on 2036-11-24 at 14:00 on the present nodes."),
        "is_possible": nullable(flag()),
        "rehearsed_at": nullable(moment("2036-11-24T12:00:00+00:00")),
        "turned_at": nullable(moment("2036-11-24T12:00:00+00:00")),
    }
)
_RAISED: Final = record({"max": integer(60), "until": moment("2037-02-09T14:30:00+00:00"), "by": text("user ada")})
CLASS: Final = record(
    {
        "id": text("0123456789ab"),
        **_CLASS,
        "by": text("user ada"),
        "at": nullable(moment()),
        "is_own": flag(),
        "next": nullable(_TIME),
        "last": nullable(_TIME),
        "unusable_because": nullable(text("the hub publishes no such choice")),
        "needs_max": nullable(integer(60)),
        "raised": nullable(_RAISED),
    },
    optional=_OPTIONAL,
)
CLASS_NEWS: Final = record(
    {
        "items": items(
            record(
                {
                    "user": text("ada"),
                    "group": text("physics-1"),
                    "name": text("Physics lab"),
                    "begins": text("Mon 2036-11-24 14:00 CET"),
                    "sentence": text("60 of 60 prepared, ready since 13:45"),
                    "is_problem": flag(),
                },
                optional={
                    "own_server": record(
                        {
                            "shape": text("0123456789abcdef"),
                            "has": text("Your server has “A whole GPU” already."),
                            "begins": text("Your server is starting. The choice of this class is “A whole GPU”."),
                            "starts": text("Your server is starting with “A whole GPU”."),
                            "other": text("Your server has another choice. Stop it, and start it again."),
                        }
                    )
                },
            )
        )
    }
)
CLASSES: Final = paged(CLASS, incomplete_because=text(""))
REQUEST: Final = record(
    {
        "id": text("0123456789ab"),
        **_CLASS,
        "by": text("user ben"),
        "at": moment(),
        "is_own": flag(),
        "is_open": flag(),
        "phase": _PHASE,
        "declined_by": text(""),
        "declined_at": nullable(moment()),
        "because": text(""),
        "verdict": text("Yes: 60 users can start on 2036-11-24 at 14:00 on the present nodes."),
        "is_possible": nullable(flag()),
        "rehearsed_at": nullable(moment("2036-11-24T12:00:00+00:00")),
        "needs_max": nullable(integer(60)),
    },
    optional=_OPTIONAL,
)
REQUESTS: Final = paged(REQUEST)
REQUEST_ANSWER: Final = record({"raise_max": flag(False)}, optional=("raise_max",))
DECLINED: Final = record(
    {"because": text("The devices are in use for an exam.", minLength=1, maxLength=LONGEST_SENTENCE)}
)
NEW_MAX: Final = record({"max": integer(60, minimum=1, maximum=MAX_RAISED)}, optional=("max",))
RAISED: Final = _RAISED
CLASS_REHEARSAL: Final = record(
    {
        "verdict": text("Yes: 60 users can start on 2036-11-24 at 14:00 on the present nodes."),
        "is_possible": flag(),
        "begins": moment("2036-11-24T14:00:00+01:00"),
        "rehearsed_at": moment("2036-11-20T12:00:00+00:00"),
        "needs_max": nullable(integer(60)),
        "refusal": text(""),
    }
)
