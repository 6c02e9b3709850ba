"""Schemas of overrides, and of what people order once."""

from __future__ import annotations

from typing import Final

from dra_spawner.placeholders.planner.targets.overrides import OverrideKind
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS
from dra_spawner.service.http.schemas.cluster_schemas import paged
from dra_spawner.service.http.schemas.schema_parts import Schema, choice, integer, moment, nullable, record, text

_UNTIL: Final = text("2027-01-31T18:00:00+01:00", maxLength=40)
_REASON: Final = text("exam week", maxLength=200)
_COUNT: Final = integer(5, maximum=MAX_PLACEHOLDERS)

MARK: Final = record({"until": _UNTIL, "reason": _REASON}, optional=("until", "reason"))
"""Of a setting without a value."""
DEVICE_MARK: Final = record(
    {"until": _UNTIL, "reason": _REASON, "evict_at": text("2027-01-31T12:00:00+01:00", maxLength=40)},
    optional=("until", "reason", "evict_at"),
)
"""Of a drained device."""
NUMBERS: Final = record(
    {"min": _COUNT, "max": integer(20, maximum=MAX_PLACEHOLDERS), "until": _UNTIL, "reason": _REASON},
    optional=("until", "reason"),
)
"""Of numbers of placeholders."""

_SETTING: Final[dict[str, Schema]] = {
    "kind": choice(OverrideKind),
    "name": text("gpu-slice"),
    "by": text("user ada"),
    "at": moment(),
    "until": nullable(moment("2027-01-31T17:00:00+00:00")),
    "reason": text("exam week"),
    "min": _COUNT,
    "max": integer(20),
    "evict_at": moment("2027-01-31T11:00:00+00:00"),
}
SETTING: Final = record(_SETTING, optional=("min", "max", "evict_at"))
SETTINGS: Final = paged(SETTING)
AUDIT: Final = paged(
    record(
        {
            "at": moment(),
            "by": text("user ada"),
            "change": text("set"),
            "subject": text("placeholders gpu-slice"),
            "details": text('{"min": 5, "max": 20}'),
        }
    )
)
ORDER_TAKEN: Final = record({"subject": text("placeholder-01234567-89abcdef"), "order": text("evict")})
