"""Decisions in words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from dra_spawner import names
from dra_spawner.history.decision_log import Decision
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.planner.actions import (
    ACTIONS,
    Action,
    AddConsumer,
    ChangeTicket,
    CreatePlaceholder,
    DeletePlaceholder,
    LabelNode,
    ReservePlaceholder,
)

REFUSAL = "refuse-reservation"
PREFERENCE = "prefer-devices"

KINDS_OF_DECISIONS = (*(each.kind for each in ACTIONS), REFUSAL, PREFERENCE)
"""Values of `Decision.kind`."""


def decision_of(action: Action, watch: ClusterWatch, now: datetime, name_of: Callable[[str], str]) -> Decision:
    """The entry of an action in the log of decisions.

    Parameters
    ----------
    name_of
        See `Reconciler`.
    """
    node = code = shape = ""
    details: dict[str, str] = {}
    match action:
        case CreatePlaceholder():
            node, shape = action.node, action.shape
            if action.for_pending_pod is not None:
                details["beside"] = str(action.for_pending_pod)
        case DeletePlaceholder():
            code = action.cause.value
            pod = watch.snapshot.pods.get(action.key)
            if pod is not None:
                node, shape = pod.node_name, pod.labels.get(names.SHAPE, "")
            if action.pod is not None:
                details["for"] = str(action.pod)
        case LabelNode():
            node = action.node
            code = f"{action.label}={action.value}" if action.value is not None else f"{action.label}-"
        case ReservePlaceholder():
            node, shape, code = action.node, action.shape, action.placement
            details["placeholder"] = str(action.placeholder)
            if action.claims:
                details["until"] = action.until.isoformat()
                details |= {f"claim.{each.entry}": each.key.name for each in action.claims}
        case ChangeTicket():
            shape, code = action.shape, action.event.value
            if action.placeholder:
                details["placeholder"] = action.placeholder
        case AddConsumer():
            details["for"] = str(action.pod)
        case _:
            pass
    if shape:
        details["shape"] = shape
    profile = name_of(shape) if shape else ""
    return Decision(now, action.kind, action.subject, action.reason, code, node, profile, details=details)
