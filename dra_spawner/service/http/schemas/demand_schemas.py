"""Schemas of forecasts, calendar entries, rehearsals and misses."""

from __future__ import annotations

from typing import Final

from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode
from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.service.http.schemas.cluster_schemas import paged
from dra_spawner.service.http.schemas.schema_parts import (
    choice,
    either,
    flag,
    integer,
    items,
    mapping,
    moment,
    nullable,
    number,
    of_hub,
    record,
    text,
)

_PROFILE: Final = text("gpu-slice")
_COUNTS: Final = choice(("additional", "in total"))

_FORECAST: Final = record(
    {
        "name": _PROFILE,
        "at": moment(),
        "placeholders": integer(3),
        "reason": text("3 launches are expected within the lead time"),
        "target": integer(3),
        "is_target": flag(),
        "configured": record({"min": integer(1), "max": integer(10)}),
        "lead_minutes": number(6.0),
        "in_use": integer(4),
        "pending": integer(0),
        "reserved": integer(0),
        "expected": number(2.4),
        "deviation": number(0.6),
        "safety_factor": number(1.3),
        "decided_by": text(Source.REACTIVE),
        "is_held": flag(False),
        "inputs": items(
            record(
                {
                    "source": text(Source.REACTIVE),
                    "expected": number(2.4),
                    "launches": number(3.0),
                    "placeholders": number(0),
                    "note": text(""),
                }
            )
        ),
    }
)
OCCURRENCE: Final = record(
    {
        "name": text("350 of gpu-slice"),
        "profile": _PROFILE,
        "users": integer(350),
        "counts": _COUNTS,
        "begins": moment(),
        "ends": moment("2026-11-24T18:30:00+00:00"),
        "zone": nullable(text("CET")),
        "ramp_minutes": number(10.0),
        "source": text("calendar_entries"),
        "unusable_because": nullable(text("the hub publishes no such choice")),
        "not_prepared_because": nullable(text("scale-ahead only advises")),
        "rehearsal": nullable(
            record({"is_possible": flag(), "verdict": text("Yes: all 350 users can start."), "at": moment()})
        ),
        "added_by": text("user ada"),
    }
)
FORECASTS: Final = paged(
    _FORECAST,
    mode=choice(ScaleAheadMode),
    expected=items(OCCURRENCE),
    problems=items(text("calendar physics cannot be read")),
    incomplete_because=text(""),
)

_ENTRY: Final = {
    "users": text("350 of gpu-slice"),
    "begins": text("2026-11-24 17:00"),
    "minutes": number(90),
    "weekly_until": text("2027-02-12"),
    "skipped": items(text("2026-12-24")),
    "timezone": text("Europe/Berlin"),
    "name": text("Physics lab"),
}
_OPTIONAL: Final = tuple(each for each in _ENTRY if each not in ("users", "begins"))
NEW_CALENDAR_ENTRY: Final = record(_ENTRY, optional=_OPTIONAL)
CALENDAR_ENTRY: Final = record(
    {"id": text("0123456789ab"), "by": text("user ada"), "at": nullable(moment()), **_ENTRY}, optional=_OPTIONAL
)
CALENDAR_ENTRIES: Final = paged(CALENDAR_ENTRY)

_MINUTES: Final = number(10, minimum=0, maximum=7 * 24 * 60)
REHEARSAL_QUESTION: Final = record(
    {
        "line": text("350 of gpu-slice at 17:00", minLength=1, maxLength=500),
        "zone": text("Europe/Berlin"),
        "lead_minutes": _MINUTES,
        "image_minutes": _MINUTES,
        "margin_minutes": _MINUTES,
        "entry": NEW_CALENDAR_ENTRY,
    },
    optional=("line", "zone", "lead_minutes", "image_minutes", "margin_minutes", "entry"),
)
_WAITS: Final = record(
    {"users": integer(350), "longest_seconds": number(0.0), "mean_seconds": number(0.0), "without_end": integer(0)}
)
REHEARSAL: Final = record(
    {
        "verdict": text("Yes: all 350 users can start."),
        "is_possible": flag(),
        "first_order_at": nullable(moment()),
        "profile": _PROFILE,
        "users": integer(350),
        "counts": _COUNTS,
        "begins": moment(),
        "ramp_seconds": number(600.0),
        "now": moment(),
        "running": integer(0),
        "wanted": integer(350),
        "on_placeholders": integer(2),
        "on_present_nodes": integer(348),
        "on_present_nodes_without_image": integer(0),
        "lacking": integer(0),
        "orders": items(
            record(
                {
                    "kind": text("gpu-large"),
                    "nodes": integer(4),
                    "servers": integer(28),
                    "servers_on_a_node": integer(7),
                    "present_nodes": integer(2),
                    "max_nodes": nullable(integer(10)),
                    "lead_seconds": number(360.0),
                    "image_seconds": number(120.0),
                    "order_at": moment(),
                    "is_on_order": flag(False),
                    "usable_at": moment(),
                    "template_node": nullable(text("n1")),
                }
            )
        ),
        "waits_without_orders": _WAITS,
        "waits_with_orders": _WAITS,
        "problems": items(
            record(
                {
                    "code": text("quota"),
                    "message": text("The quota of claims is used up."),
                    "users": integer(3),
                    "blocks": flag(),
                }
            )
        ),
    }
)

_NODE: Final = text("n1", maxLength=253)
_ADDED: Final = integer(1, minimum=1, maximum=50)
_USERS: Final = integer(10, maximum=1000)
SIMULATION_QUESTION: Final = record(
    {
        "profile": text("gpu-slice", minLength=1, maxLength=1000),
        "users": _USERS,
        "added_nodes": items(
            either(
                record({"like": _NODE, "count": _ADDED}),
                record({"kind": text("a100", maxLength=253), "count": _ADDED}),
            ),
            maxItems=5,
        ),
        "lost_nodes": items(text("n2", maxLength=253), maxItems=50),
    },
    optional=("users", "added_nodes", "lost_nodes"),
)
SIMULATION: Final = record(
    {
        "sentence": text("8 of 10 more users of gpu-slice can start: no node has a free device."),
        "profile": _PROFILE,
        "users": _USERS,
        "starting": integer(8),
        "on_placeholders": integer(2),
        "on_ready_nodes": integer(6),
        "on_other_nodes": integer(0),
        "because": text("no node has a free device"),
        "lost_servers": integer(3),
        "moved_servers": integer(2),
        "on_free_capacity": integer(1),
        "after_preemption": integer(1),
        "not_starting": items(
            record(
                {
                    "profile": _PROFILE,
                    "servers": integer(2),
                    "is_lost": flag(False),
                    "because": text("all 4 devices in use"),
                }
            )
        ),
    }
)

MISSES: Final = record(
    {
        "begin": moment(),
        "end": moment(),
        "launches": integer(120),
        "hits": integer(110),
        "waited": integer(10),
        "items": items(
            record(
                {
                    "profile": _PROFILE,
                    "begins": moment(),
                    "ends": moment(),
                    "misses": integer(7),
                    "launches": integer(20),
                    "expected": nullable(number(3.0)),
                    "placeholders": nullable(integer(4)),
                    "reason": text("3 started within 2 min, none was expected; 2 waited: too many at once"),
                    "isPreventable": flag(),
                    "calendarEntry": record(
                        {
                            "profile": _PROFILE,
                            "begins": moment(),
                            "ends": moment(),
                            "users": integer(20),
                            "counts": _COUNTS,
                            "ramp_minutes": integer(10),
                        }
                    ),
                    "waitedFor": text("a node"),
                    "line": text("20 of gpu-slice additional within 10 min"),
                }
            )
        ),
        "days": items(record({"day": text("2026-11-24"), "launches": integer(30), "waited": integer(2)})),
    }
)

TIMELINE: Final = record(
    {
        "begin": moment(),
        "now": moment(),
        "end": moment(),
        "step_minutes": integer(15),
        "profile": text("gpu-slice"),
        "items": items(
            record(
                {
                    "begin": moment(),
                    "launches": nullable(integer(12)),
                    "waited": nullable(integer(1)),
                    "wait_median_seconds": nullable(number(1.2)),
                    "wait_p95_seconds": nullable(number(31.0)),
                    "warm": nullable(number(3.5)),
                    "servers": nullable(number(41.0)),
                    "target": nullable(integer(4)),
                    "forecast": nullable(integer(4)),
                    "usual_launches": nullable(number(9.5)),
                }
            )
        ),
        "entries": items(
            record(
                {
                    "name": text("Physics lab"),
                    "profile": _PROFILE,
                    "users": integer(350),
                    "begins": moment(),
                    "ends": moment("2026-11-24T18:30:00+00:00"),
                    "source": text("calendar_entries"),
                    "is_possible": nullable(flag()),
                }
            )
        ),
        "unknown_because": items(text("No history is recorded: keep_days is 0 in the service's setting history.")),
        "placeholders_since": nullable(moment()),
    }
)

_HOURS_OF: Final = mapping(number(212.5), "ada")
_EFFECT: Final = {"launchesOverBudget": integer(3), "launchesBehindOthers": integer(1)}

STANDING_QUESTION: Final = of_hub(
    record({"user": text("ada", maxLength=255), "groups": items(text("maths", maxLength=255))}, optional=("groups",))
)
STANDING: Final = record(
    {
        "hasBudgets": flag(),
        "isKnown": flag(),
        "isEnforced": flag(False),
        "isOver": flag(False),
        "sentences": items(text("You have used 12 of your 40 device-hours in the last 7 days.")),
    }
)
USE: Final = record(
    {
        "begin": moment(),
        "end": moment(),
        "launches": integer(120),
        "launchesWithUnknownDevices": integer(0),
        "deviceHours": record({"byUser": _HOURS_OF, "byGroup": _HOURS_OF, "byChoice": _HOURS_OF}),
        "costByUser": mapping(number(12.5), "ada"),
        "budgets": items(
            record(
                {
                    "subject": text("ada"),
                    "per": text("user"),
                    "resource": text("devices"),
                    "limit": number(40.0),
                    "windowDays": number(7.0),
                    "used": number(12.5),
                    "isOver": flag(),
                }
            )
        ),
        "effect": record({**_EFFECT, "byUser": mapping(record(_EFFECT), "ada")}),
        "notes": items(text("No groups are known, so budgets for groups hold for no user.")),
    }
)
