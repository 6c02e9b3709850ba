"""Schemas of answers about the service, nodes and their devices, and decisions."""

from __future__ import annotations

from typing import Final

from dra_spawner import names
from dra_spawner.kube.informers import InformerState
from dra_spawner.service.context import Role
from dra_spawner.service.figures.device_bars import HolderKind
from dra_spawner.service.http.schemas.schema_parts import (
    Schema,
    choice,
    flag,
    integer,
    items,
    mapping,
    moment,
    nullable,
    number,
    record,
    text,
)

_INCOMPLETE: Final = text("This replica stands by: the leader is dra-spawner-service-x. Only the leader knows reasons.")

PROBLEM: Final = record(
    {
        "type": text("about:blank"),
        "title": text("Forbidden"),
        "status": integer(403),
        "detail": text("user ada has none of the scopes that this address needs: custom:dra-spawner:read."),
        "kind": text("unknown"),
    },
    optional=("kind",),
)
"""A problem, as in RFC 9457; `kind` tells an unknown shape from a wrong address."""


def paged(item: Schema, total: bool = True, **more: Schema) -> Schema:
    """A page of a list, with further members."""
    counted: dict[str, Schema] = {"total": integer(1)} if total else {}
    return record({"items": items(item), "continue": text(""), **counted, **more})


LIVENESS: Final = record({"alive": flag()})
READINESS: Final = record({"ready": flag(), "role": choice(Role), "reasons": items(text("No leader is known."))})

STATUS: Final = record(
    {
        "version": text("1.0.0"),
        "ready": flag(),
        "reasons": items(text("No leader is known.")),
        "problems": items(text("Placeholders: ConfigMap dra-spawner-shapes does not exist.")),
        "role": choice(Role),
        "identity": text("dra-spawner-service-x"),
        "leader": text("dra-spawner-service-x"),
        "staleness_seconds": nullable(number(1.5)),
        "wait_estimates": record(
            {
                "inside": integer(8),
                "early": integer(1),
                "late": integer(1),
                "share_inside": nullable(number(0.8)),
                "aim": number(0.8),
            }
        ),
        "resources": items(
            record(
                {
                    "resource": text("nodes"),
                    "state": choice(InformerState),
                    "synced": flag(),
                    "staleness_seconds": nullable(number(1.5)),
                    "objects": integer(12),
                    "problem": text(""),
                }
            )
        ),
    }
)

_FIGURE: Final = record({"value": nullable(number(0.25)), "unknown_because": text("")})
_CLAIM: Final = record(
    {
        "namespace": text("hub"),
        "name": text("jupyter-ada-gpu"),
        "consumed": mapping(text("10Gi"), "memory"),
        "admin_access": flag(False),
        "pods": items(text("jupyter-ada")),
        "reserved_for": text(""),
    }
)
_DEVICE: Final = record(
    {
        "driver": text("gpu.example.com"),
        "pool": text("n1"),
        "name": text("gpu-0"),
        "classes": items(text("gpu.example.com")),
        "shared": flag(),
        "attributes": {"type": "object", "examples": [{"product": "a100"}]},
        "capacity": mapping(text("40Gi"), "memory"),
        "use": number(0.25),
        "blocked": flag(False),
        "claims": items(_CLAIM),
    }
)
_NODE: Final = record(
    {
        "name": text("n1"),
        "labels": mapping(text("n1"), names.HOSTNAME),
        "node_pool": text("gpus"),
        "created": moment("2026-11-24T08:00:00Z"),
        "ready": flag(),
        "schedulable": flag(),
        "taints": items(record({"key": text("gpu"), "value": text(""), "effect": text("NoSchedule")})),
        "pods": integer(3),
        "utilization": record(
            {
                "autoscaler": _FIGURE,
                "weighted": _FIGURE,
                "pools": items(
                    record(
                        {
                            "driver": text("gpu.example.com"),
                            "pool": text("n1"),
                            "autoscaler": nullable(number(1.0)),
                            "weighted": nullable(number(0.25)),
                            "unknown_because": text(""),
                        }
                    )
                ),
            }
        ),
        "devices": items(_DEVICE),
    }
)
NODES: Final = paged(_NODE, broken=items(text("ResourceSlice n2-gpu: spec.pool: missing")))

_PART: Final = record(
    {
        "kind": choice(HolderKind),
        "share": number(0.25),
        "users": items(text("ada")),
        "servers": items(record({"user": text("ada"), "name": text("")})),
        "pods": items(text("jupyter-ada")),
        "more_pods": integer(0),
        "claim": text("hub/jupyter-ada-gpu"),
        "profile": text("gpu-slice"),
        "amounts": mapping(text("10Gi"), "memory"),
        "partition": text(""),
        "admin_access": flag(False),
        "reserved_for": text(""),
    },
    optional=("users", "servers", "more_pods", "profile", "amounts", "partition", "admin_access", "reserved_for"),
)
_BAR: Final = record(
    {
        "name": text("gpu-0"),
        "driver": text("gpu.example.com"),
        "product": text("a100"),
        "pool": text("n1"),
        "parts": items(_PART),
        "blocked": number(0.5),
        "free_partitions": mapping(integer(6), "1g.5gb"),
        "is_boundless": flag(),
        "closed": text("drained"),
    },
    optional=("pool", "blocked", "free_partitions", "is_boundless", "closed"),
)
NODE_SUMMARIES: Final = paged(
    record(
        {
            "name": text("n1"),
            "node_pool": text("gpus"),
            "kind": text("8 x a100"),
            "marks": items(text("ready")),
            "is_drain_ordered": flag(False),
            "pods": integer(3),
            "utilization": nullable(number(0.25)),
            "devices": items(_BAR),
            "unknown": items(
                record({"driver": text("gpu.example.com"), "pool": text("n1"), "because": text("incomplete")})
            ),
            "unknown_because": text(""),
            "is_waiting": flag(False),
            "waiting_because": text(""),
        }
    )
)
"""Parts of a bar are shares from 0 to 1; what neither a part nor `blocked` has is free. Optional members are absent
where they would be empty, zero or false."""

DECISION: Final = record(
    {
        "number": integer(17),
        "at": moment(),
        "kind": text("delete-placeholder"),
        "subject": text("Pod hub/placeholder-1"),
        "reason": text("A user's server waits for its device."),
        "code": text("preempted"),
        "node": text("n1"),
        "profile": text("gpu-slice"),
        "outcome": text("done"),
        "details": {"type": "object", "examples": [{"pod": "jupyter-ada"}]},
    }
)
DECISIONS: Final = paged(DECISION, incomplete_because=_INCOMPLETE)
