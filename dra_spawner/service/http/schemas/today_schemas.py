"""Schema of what an administrator looks at first."""

from __future__ import annotations

from typing import Final

from dra_spawner.doctor.findings import Severity
from dra_spawner.service.http.schemas.demand_schemas import OCCURRENCE
from dra_spawner.service.http.schemas.placeholder_schemas import PENDING_SERVER
from dra_spawner.service.http.schemas.schema_parts import choice, integer, items, moment, record, text

_HOLDER: Final = record(
    {
        "user": text("ada"),
        "server": text("jupyter-ada"),
        "device": text("gpu-0"),
        "node": text("n1"),
        "link": text("/services/dra-spawner/nodes?search=ada"),
    }
)
TODAY: Final = record(
    {
        "at": moment(),
        "wrong": items(
            record(
                {
                    "severity": choice(Severity),
                    "sentence": text("The choice gpu-slice/memory=100Gi can never start: no device has so much."),
                    "fix": text("Ask for less."),
                    "where": text("profile_list"),
                    "page": text("placeholders"),
                }
            )
        ),
        "warnings": integer(2),
        "waiting": items(record({**PENDING_SERVER["properties"], "user": text("bob"), "holders": items(_HOLDER)})),
        "all_waiting": integer(1),
        "expected": items(OCCURRENCE),
        "done": items(
            record(
                {
                    "kind": text("create-placeholder"),
                    "profile": text("gpu-slice"),
                    "count": integer(3),
                    "at": moment(),
                    "reason": text("The target of gpu-slice is 2."),
                }
            )
        ),
        "by_people": items(
            record(
                {
                    "at": moment(),
                    "by": text("user ada"),
                    "change": text("set"),
                    "subject": text("placeholders gpu-slice"),
                    "details": text("2 to 4"),
                }
            )
        ),
        "since": moment(),
        "incomplete_because": text(""),
    }
)
