"""Decisions in words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from dra_spawner.cluster.cluster_watch import ClusterWatch
from dra_spawner.headroom import labels
from dra_spawner.headroom.actions import (
    Action,
    CreatePlaceholder,
    DeleteClaim,
    EndPlaceholder,
    LabelNode,
    LabelPod,
    ReserveClaim,
    UngatePod,
)
from dra_spawner.history.decision_log import Decision

__all__ = ["KINDS_OF_DECISIONS", "PROMISE", "REFUSAL", "decision_of", "kind_of"]

_KINDS = {
    CreatePlaceholder: "create-placeholder",
    EndPlaceholder: "end-placeholder",
    LabelNode: "label-node",
    LabelPod: "label-pod",
    ReserveClaim: "reserve-claim",
    UngatePod: "ungate-pod",
    DeleteClaim: "delete-claim",
}

PROMISE = "promise-place"
REFUSAL = "refuse-promise"

KINDS_OF_DECISIONS = (*_KINDS.values(), PROMISE, REFUSAL)
"""What `Decision.kind` may be."""


def kind_of(action: Action) -> str:
    """Which of these an action is."""
    return _KINDS[type(action)]


def decision_of(action: Action, watch: ClusterWatch, now: datetime, name_of: Callable[[str], str]) -> Decision:
    """A decision as people and programs read it.

    Parameters
    ----------
    name_of
        See `Reconciler`.
    """
    node = code = shape = ""
    details: dict[str, str] = {}
    match action:
        case CreatePlaceholder():
            subject, shape = f"shape {action.shape}", action.shape
            if action.beside is not None:
                details["beside"] = str(action.beside)
        case EndPlaceholder():
            subject, code = f"Pod {action.key}", action.cause.value
            pod = watch.snapshot.pods.get(action.key)
            if pod is not None:
                node, shape = pod.node_name, pod.labels.get(labels.SHAPE, "")
            if action.pod is not None:
                details["for"] = str(action.pod)
        case LabelNode():
            subject, node = f"Node {action.node}", action.node
            code = f"{action.label}={action.value}" if action.value is not None else f"{action.label}-"
        case LabelPod() | UngatePod():
            subject = f"Pod {action.key}"
        case ReserveClaim():
            subject = f"ResourceClaim {action.claim}"
            details["for"] = str(action.pod)
        case DeleteClaim():
            subject = f"ResourceClaim {action.claim}"
    if shape:
        details["shape"] = shape
    kind = kind_of(action)
    profile = name_of(shape) if shape else ""
    return Decision(now, kind, subject, action.reason, code, node, profile, details=details)
