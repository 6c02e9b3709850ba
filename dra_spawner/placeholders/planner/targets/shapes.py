"""Shapes: a server's needs of a node, equal for a user's pod and its placeholders.

Both come from the pod manifest that the spawner compiles. Requests, claims and node constraints count; names, users,
images and preferences do not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.quantity import Quantity

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: Further parts of a pod's spec that rule nodes out.
NODE_FIELDS = ("nodeSelector", "schedulerName", "runtimeClassName")
#: Tolerations that Kubernetes adds to every pod when it is created.
_USUAL_TAINTS = (names.NOT_READY, names.UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Shape:
    """A server's needs of a node.

    Attributes
    ----------
    id
        Hash of all other fields but the images; a label value.
    claims
        ``ResourceClaimSpec`` by the name of the pod's ``resourceClaims`` entry.
    containers
        Containers, each with name, requests and claims; init containers with ``init`` true.
    node_fields
        Parts of the pod's spec that rule nodes out.
    images
        Images that a node needs so that a user's server starts there at once.
    """

    id: str
    claims: Mapping[str, JsonObject]
    containers: tuple[JsonObject, ...]
    node_fields: Mapping[str, Any]
    images: frozenset[str] = frozenset()

    @property
    def wants_devices(self) -> bool:
        """Whether it asks for devices, by claims or by extended resources."""
        return bool(self.claims) or any(
            is_extended_resource(name) for container in self.containers for name in container["requests"]
        )


def is_extended_resource(name: str) -> bool:
    """Whether a resource stands for devices; native resources have no domain in their name."""
    return "/" in name and not name.startswith(names.KUBERNETES_PREFIX)


def device_classes(spec: Mapping[str, object]) -> Iterator[str]:
    """Names of the device classes in a claim's spec."""
    devices = spec.get("devices")
    # JSON's null is a list without items to the API server.
    for request in (devices.get("requests") or ()) if isinstance(devices, Mapping) else ():
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if each and "deviceClassName" in each:
                yield each["deviceClassName"]


def shape_of(pod: Mapping[str, Any], claims: Mapping[str, JsonObject], ignored_labels: frozenset[str]) -> Shape:
    """The shape of a user's pod.

    Parameters
    ----------
    pod
        Its manifest, as sent to the API server.
    claims
        Spec of each claim that is made for the pod, by the name of the entry.
    ignored_labels
        Node labels that the spawner itself may require; they do not count.
    """
    spec = pod["spec"]
    containers = tuple(
        _container(container, is_init)
        for is_init, each in ((True, spec.get("initContainers")), (False, spec.get("containers")))
        for container in each or ()
    )
    node_fields = {name: spec[name] for name in NODE_FIELDS if spec.get(name)}
    affinity = _required_nodes(spec, ignored_labels)
    if affinity:
        node_fields["affinity"] = affinity
    tolerations = [each for each in spec.get("tolerations") or () if each.get("key") not in _USUAL_TAINTS]
    if tolerations:
        node_fields["tolerations"] = sorted(tolerations, key=canonical)
    images = {
        container["image"]
        for container in (*(spec.get("initContainers") or ()), *spec.get("containers", ()))
        if container.get("image")
    }
    return Shape(shape_id(claims, containers, node_fields), dict(claims), containers, node_fields, frozenset(images))


def shape_id(claims: Mapping[str, JsonObject], containers: Sequence[JsonObject], node_fields: Mapping[str, Any]) -> str:
    """The hash of all that makes a shape."""
    text = canonical({"claims": claims, "containers": containers, "node": node_fields})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def definition_of(shape: Shape) -> str:
    """The definition of a shape as text, equal for equal shapes; without images. `shape_definition` reads it."""
    return canonical({"claims": shape.claims, "containers": shape.containers, "node_fields": shape.node_fields})


def _container(container: Mapping[str, Any], is_init: bool) -> JsonObject:
    resources = container.get("resources") or {}
    # A limit is also the request where no request is given.
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    found: JsonObject = {"requests": {name: str(Quantity.parse(requests[name])) for name in sorted(requests)}}
    if is_init:
        found["init"] = True
        if container.get("restartPolicy") == "Always":
            found["sidecar"] = True
    if resources.get("claims"):
        found["claims"] = list(resources["claims"])
    return found


def _required_nodes(spec: Mapping[str, Any], ignored_labels: frozenset[str]) -> JsonObject:
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = []
    for term in required.get("nodeSelectorTerms") or ():
        expressions = [each for each in term.get("matchExpressions") or () if each.get("key") not in ignored_labels]
        kept = {**term, "matchExpressions": expressions}
        if not expressions:
            del kept["matchExpressions"]
        terms.append(kept)
    # A term with only ignored conditions allows all nodes, as no terms do.
    if not terms or not all(terms):
        return {}
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": sorted(terms, key=canonical)}}}


def canonical(value: object) -> str:
    """Canonical JSON: the same text for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
