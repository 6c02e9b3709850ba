"""Published shapes that are invalid."""

from __future__ import annotations

from typing import Any

from dra_spawner.placeholders.planner.targets.shapes import Shape


def node_terms(**expression: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def tolerating(*tolerations: object) -> Shape:
    """A shape that is right but for the tolerations of its claim."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "tolerations": list(tolerations)}}
    return Shape("bad", {"gpu": {"devices": {"requests": [request]}}}, ({"requests": {}},), {})


NONSENSE = {
    "quantity": Shape("bad", {}, ({"requests": {"cpu": "abc"}},), {}),
    "no-requests": Shape("bad", {}, ({},), {}),
    "no-container": Shape("bad", {}, (), {}),
    "devices": Shape("bad", {"gpu": {"devices": "x"}}, ({"requests": {}},), {}),
    "toleration": tolerating("x"),
    "toleration-seconds": tolerating({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": "soon"}),
    "affinity": Shape("bad", {}, ({"requests": {}},), {"affinity": {"nodeAffinity": ""}}),
    "host-network": Shape("bad", {}, ({"requests": {}},), {"hostNetwork": True}),
}
