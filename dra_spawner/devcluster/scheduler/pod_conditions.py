"""Pod conditions of the control plane."""

from __future__ import annotations

from datetime import datetime

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.clock import timestamp

__all__ = ["set_condition"]


def set_condition(pod: JsonObject, now: datetime, kind: str, value: str, reason: str, message: str) -> None:
    """Set a condition in ``status.conditions``, in place; its time changes only with its status."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    before = next((condition for condition in conditions if condition["type"] == kind), None)
    changed = before is None or before["status"] != value
    condition = {
        "type": kind,
        "observedGeneration": pod["metadata"].get("generation", 1),
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now) if changed or before is None else before["lastTransitionTime"],
        "reason": reason,
        "message": message,
    }
    if before is None:
        conditions.append(condition)
    else:
        conditions[conditions.index(before)] = condition
