"""Parts that objects of several kinds share in `examples`."""

from __future__ import annotations

from typing import Any, Final

from tests.placeholders.planner.simulated_cluster import START

Json = dict[str, Any]

STAMP: Final = START.isoformat()
DRA: Final = "resource.k8s.io/v1"


def example_object(kind: str, name: str, namespace: str = "", **parts: Any) -> Json:
    """With the metadata and conditions that are read of every kind."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "u", "uid": "u", "controller": True}
    condition = {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": STAMP}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": STAMP,
        "labels": {"a": "b"},
        "annotations": {"hub.jupyter.org/x": "y"},
        "ownerReferences": [owner],
    }
    return {
        "kind": kind,
        "metadata": metadata,
        **parts,
        # Asked for whatever the kind.
        "spec": {"serviceAccountName": "default", **parts.get("spec", {})},
        "status": {"podIP": "10.0.0.1", "conditions": [condition], **parts.get("status", {})},
    }


def terminating(obj: Json) -> Json:
    """Another of the kind, that somebody has deleted."""
    metadata = {
        **obj["metadata"],
        "name": f"{obj['metadata']['name']}-leaves",
        "deletionTimestamp": STAMP,
        "deletionGracePeriodSeconds": 30,
    }
    return {**obj, "metadata": metadata}


TAINT: Final[Json] = {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": STAMP}
TOLERATION: Final[Json] = {
    "key": "k",
    "operator": "Equal",
    "value": "v",
    "effect": "NoExecute",
    "tolerationSeconds": 5,
}
SELECTOR: Final[Json] = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}],
}
NODE_TERM: Final[Json] = {
    "matchExpressions": [{"key": "k", "operator": "Gt", "values": ["5"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}],
}
NODE_SELECTOR: Final[Json] = {"nodeSelectorTerms": [NODE_TERM]}
