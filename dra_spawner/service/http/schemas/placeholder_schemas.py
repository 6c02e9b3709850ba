"""Schemas of questions and answers about placeholders, profiles, pending servers and placements."""

from __future__ import annotations

from typing import Final

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import PlaceholderState
from dra_spawner.placeholders.planner.actions import Hold
from dra_spawner.placeholders.planner.round import DenialCause
from dra_spawner.service.http.schemas.cluster_schemas import paged
from dra_spawner.service.http.schemas.schema_parts import (
    choice,
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

_SHAPE: Final = text("0123456789abcdef")
_PROFILE: Final = text("gpu-slice")
_INCOMPLETE: Final = text("")

_PLACEHOLDER: Final = record(
    {
        "name": text("placeholder-01234567-89abcdef"),
        "namespace": text("hub"),
        "shape": _SHAPE,
        "profiles": items(_PROFILE),
        "node": text("n1"),
        "state": choice(PlaceholderState, PlaceholderState.WARM),
        "created": moment("2026-11-24T08:00:00Z"),
        "age_seconds": integer(3600),
        "claims": mapping(text("placeholder-01234567-89abcdef-gpu"), "gpu"),
        "reserved_for": text(""),
        "reserved_until": nullable(moment()),
        "reason": text("The target of gpu-slice is 2."),
        "scheduled_because": text("it is the only node with a free device"),
        "decided_at": nullable(moment()),
        "stays_because": text(""),
        "starting_because": text(""),
        "pending_because": text(""),
    }
)
_SAFEGUARD: Final = record(
    {
        "rule": choice(Hold, Hold.PENDING),
        "reason": text("no placeholder is evicted while one is pending"),
        "holds_everything": flag(False),
    }
)
_LIMITED: Final = record(
    {
        "shape": _SHAPE,
        "profiles": items(_PROFILE),
        "cause": choice(DenialCause, DenialCause.QUOTA),
        "wanted": integer(3),
        "allowed": integer(1),
        "reason": text("Placeholders of gpu-slice: 3 are wanted, 1 is allowed by the quota."),
        "is_resumable": flag(False),
    }
)
PLACEHOLDERS: Final = paged(
    _PLACEHOLDER,
    on_hold=text(""),
    safeguard=nullable(_SAFEGUARD),
    limited=items(_LIMITED),
    incomplete_because=_INCOMPLETE,
)

_AVAILABILITY: Final = record(
    {
        "state": choice(AvailabilityState),
        "node": text("n1"),
        "reason": text("warm on node n1"),
        "sentence": text("It starts within seconds, as everything is prepared for it."),
        "wait": nullable(record({"low_seconds": nullable(number(60)), "high_seconds": nullable(number(180))})),
    }
)
_CHOICE: Final = record(
    {
        "name": _PROFILE,
        "shape": _SHAPE,
        "wants_devices": nullable(flag()),
        "availability": nullable(_AVAILABILITY),
        "skipped_because": text(""),
        "replicas": nullable(record({"min": integer(2), "max": integer(10), "floor": integer(1)})),
        "target": nullable(integer(2)),
        "placeholders": record({each.value: integer(0) for each in PlaceholderState}),
        "in_use": integer(4),
        "pending": integer(0),
    }
)
PROFILES: Final = paged(_CHOICE, problem=text(""))

PENDING_SERVER: Final = record(
    {
        "name": text("jupyter-ada"),
        "namespace": text("hub"),
        "shape": _SHAPE,
        "profiles": items(_PROFILE),
        "created": moment("2026-11-24T08:00:00Z"),
        "wait_seconds": integer(12),
        "sentence": text("All devices of this kind are in use. The server starts as soon as one is free."),
        "cause": text("all 4 devices in use (2 nodes)"),
        "needs_node": flag(),
        "is_known": flag(),
        "scheduler_message": text("0/2 nodes are available: 2 cannot allocate all claims."),
    }
)
PENDING_SERVERS: Final = paged(PENDING_SERVER, incomplete_because=_INCOMPLETE)

PLACEMENT_QUESTION: Final = of_hub(
    record(
        {
            "shape": text("0123456789abcdef", pattern="^[0-9a-f]{16}$"),
            "pod": text("jupyter-ada", maxLength=253),
            "namespace": text("hub", maxLength=253),
            "definition": text("{}"),
            "tickets": items(text("0123456789abcdef", pattern="^[0-9a-f]{16}$")),
            "user": text("ada", maxLength=255),
            "groups": items(text("maths", maxLength=255)),
        },
        optional=("definition", "tickets", "user", "groups"),
    )
)
_DEVICE_MARK: Final = record(
    {
        "driver": text("gpu.example.com"),
        "attributes": mapping(text("gpu-01234567-89ab-cdef"), "gpu.example.com/uuid"),
    }
)
PLACEMENT: Final = record(
    {
        "state": choice(AvailabilityState),
        "node": text("n1"),
        "reason": text("warm on node n1"),
        "sentence": text("It starts within seconds, as everything is prepared for it."),
        "claims": mapping(text("placeholder-01234567-89abcdef-gpu"), "gpu"),
        "after": text(""),
        "until": nullable(moment()),
        "preferences": mapping(mapping(items(items(_DEVICE_MARK)), "gpu"), "gpu"),
        "before": integer(0),
        "behind": flag(False),
        "note": text(""),
    }
)
RESUME_QUESTION: Final = record({"profile": text("gpu-slice", minLength=1, maxLength=1000)})
RESUMED: Final = record({"profile": _PROFILE, "resumed": flag()})
