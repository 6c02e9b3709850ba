"""Schemas of answers about the queue for devices."""

from __future__ import annotations

from typing import Final

from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.service.http.schemas.cluster_schemas import paged
from dra_spawner.service.http.schemas.schema_parts import choice, flag, integer, moment, nullable, record, text

_SHOWN: Final = {
    "choice": text("gpu-slice/memory=large"),
    "state": choice(TicketState),
    "place": integer(2),
    "waiting": integer(7),
    "wait": nullable(record({"low_seconds": integer(600), "high_seconds": integer(2400)})),
    "sentence": text("One person is before you. You move up when that person gets a device or leaves."),
    "joined": moment(),
    "until": nullable(moment()),
}
OWN_TICKETS: Final = paged(record(_SHOWN), problem=text(""))
TICKETS: Final = paged(
    record(
        {
            "id": text("0123456789abcdef"),
            "number": integer(17),
            "user": text("ada"),
            "hub": text("jupyterhub/dra-spawner-shapes"),
            "over_budget": flag(),
            "placeholder": text("placeholder-01234567-89abcdef"),
            "kept_node": text("node-7"),
            "kept_until": nullable(moment()),
            **_SHOWN,
        }
    ),
    problem=text(""),
)
