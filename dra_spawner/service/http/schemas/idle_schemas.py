"""Schemas of servers that hold devices, and of what is known of their use."""

from __future__ import annotations

from typing import Final

from dra_spawner.fairness.idle.verdicts import Verdict
from dra_spawner.service.http.schemas.schema_parts import (
    choice,
    flag,
    integer,
    items,
    moment,
    nullable,
    number,
    of_hub,
    record,
    text,
)

IDLE_SERVERS: Final = record(
    {
        "items": items(
            record(
                {
                    "user": text("ada"),
                    "server": text(""),
                    "pod": text("jupyter-ada"),
                    "choice": text("gpu-slice"),
                    "node": text("n1"),
                    "devices": items(text("gpu-0")),
                    "held": nullable(number(0.25)),
                    "use": choice(Verdict, "idle"),
                    "reason": text("No kernel computes, and its devices are not used."),
                    "idle_since": nullable(moment()),
                    "idle_device_hours": nullable(number(1.5)),
                    "unused_since": nullable(moment()),
                    "connections": nullable(integer(1)),
                    "has_policy": flag(),
                    "warned_at": nullable(moment()),
                    "stops_at": nullable(moment()),
                    "kept_until": nullable(moment()),
                    "kept": integer(1),
                }
            )
        ),
        "looked_at": nullable(moment()),
        "names_are_hidden": flag(False),
        "problems": items(text("The use of devices is not known: Prometheus answers with status 503.")),
        "incomplete_because": text(""),
    }
)
KEEP_QUESTION: Final = of_hub(record({"namespace": text("jupyter"), "pod": text("jupyter-ada")}))
KEPT: Final = record({"kept_until": moment(), "kept": integer(1), "keeps_left": integer(2)})
