"""Questions to the service with all their parts, to be made hostile one by one."""

from __future__ import annotations

from typing import Any

from tests.placeholders.controller.objects import WHOLE


def hostile_question(shape: str, namespace: str, definition: str) -> dict[str, Any]:
    """A question with all its parts, which are right; each is made hostile in turn."""
    return {"shape": shape, "pod": "p", "namespace": namespace, "definition": definition}


_TERM = {"key": "a", "operator": "In", "values": ["b"]}


DEFINITION: dict[str, Any] = {
    "claims": WHOLE,
    "containers": [
        {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": ["gpu"]},
        {"requests": {"cpu": "1"}, "init": True, "sidecar": True},
    ],
    "node_fields": {
        "nodeSelector": {"a": "b"},
        "runtimeClassName": "r",
        "schedulerName": "default-scheduler",
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [_TERM]}]}
            }
        },
    },
}
"""Of a shape, with all that it may have."""
