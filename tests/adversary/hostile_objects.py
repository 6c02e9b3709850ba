"""Objects as large, deep and odd as the API server stores them, by kind; some as text, which ``json.dumps`` cannot write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

Json = dict[str, Any]

RESOURCE_API: Final = "resource.k8s.io/v1"
PARAMETERS_BYTES: Final = 10 * 1024
"""Of opaque parameters (``OpaqueParametersMaxLength``)."""
_MOST_CONFIGS: Final = 32
_MOST_REQUESTS: Final = 32
_HERE: Final = "@parameters@"


def nested(levels: int, opening: str = "[", closing: str = "]") -> str:
    """JSON text that is nested so deeply."""
    return opening * levels + closing * levels


DEEP_PARAMETERS: Final = '{"a":' + nested(5000) + "}"
"""The deepest that the API server admits, by their length."""
NOT_UTF8: Final = b'{"a":"\xff\xfe \\ud800","\\udfff":1e-999999}'
"""Text that the API server stores as it is: no UTF-8, half of a surrogate pair, a number that no float has."""


def claim_text(name: str, parameters: bytes | str, **metadata: Any) -> bytes:
    """A ResourceClaim with these opaque parameters, which may be no UTF-8."""
    claim = claim_with(name, config=[{"opaque": {"driver": "gpu.example.com", "parameters": _HERE}}], metadata=metadata)
    raw = parameters.encode() if isinstance(parameters, str) else parameters
    return json.dumps(claim).encode().replace(f'"{_HERE}"'.encode(), raw)


def template_text(name: str, parameters: str) -> bytes:
    """A ResourceClaimTemplate with these opaque parameters."""
    spec = claim_with(name, config=[{"opaque": {"driver": "gpu.example.com", "parameters": _HERE}}])["spec"]
    template = {**_of("ResourceClaimTemplate", name, RESOURCE_API), "spec": {"spec": spec}}
    return json.dumps(template).replace(f'"{_HERE}"', parameters).encode()


def class_text(name: str, parameters: str) -> bytes:
    """A DeviceClass with these opaque parameters."""
    config = [{"opaque": {"driver": "gpu.example.com", "parameters": _HERE}}]
    obj = {**_of("DeviceClass", name, RESOURCE_API), "spec": {"config": config}}
    return json.dumps(obj).replace(f'"{_HERE}"', parameters).encode()


def with_deep_managed_fields(obj: Json, levels: int = 3000) -> bytes:
    """Any object, with fields of a manager that are nested so deeply: its text."""
    entry = {
        "manager": "stranger",
        "operation": "Update",
        "apiVersion": obj["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": _HERE,
    }
    text = json.dumps({**obj, "metadata": {**obj["metadata"], "managedFields": [entry]}})
    return text.replace(f'"{_HERE}"', nested(levels, '{"f:a":', "}").replace(":}", ":{}}", 1)).encode()


def claim_with(name: str, *, metadata: Json | None = None, **devices: Any) -> Json:
    """A ResourceClaim of one request, and more."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    obj = _of("ResourceClaim", name, RESOURCE_API, **(metadata or {}))
    return {**obj, "spec": {"devices": {"requests": [request], **devices}}}


def largest_devices() -> Json:
    """The ``devices`` of a claim with as much of everything as the API server admits."""
    text = "x" * (PARAMETERS_BYTES - 100)
    tolerations = [{"key": f"key{each}", "operator": "Exists"} for each in range(16)]
    selectors = [{"cel": {"expression": f"device.driver != '{'y' * 9000}{each}'"}} for each in range(2)]
    capacity = {"requests": {f"c{each}": "1e18" for each in range(32)}}
    alternatives = [
        {
            "name": f"a{each}",
            "deviceClassName": "gpu.example.com",
            "tolerations": tolerations,
            "selectors": selectors if each == 0 else [],
            "capacity": capacity,
        }
        for each in range(8)
    ]
    requests = [{"name": f"r{each}", "firstAvailable": alternatives} for each in range(_MOST_REQUESTS)]
    constraints = [{"matchAttribute": f"example.com/a{each}"} for each in range(32)]
    config = [{"opaque": {"driver": "gpu.example.com", "parameters": {"text": text}}} for _ in range(_MOST_CONFIGS)]
    return {"requests": requests, "constraints": constraints, "config": config}


def largest_claim(name: str) -> Json:
    """A ResourceClaim of the greatest size."""
    return {**_of("ResourceClaim", name, RESOURCE_API), "spec": {"devices": largest_devices()}}


def largest_template(name: str) -> Json:
    """A ResourceClaimTemplate of the greatest size."""
    return {**_of("ResourceClaimTemplate", name, RESOURCE_API), "spec": {"spec": {"devices": largest_devices()}}}


def annotated(obj: Json) -> Json:
    """The object with as many annotations and labels as are admitted."""
    annotations = {f"example.com/a{each}": "x" * 100 for each in range(2000)}
    labels = {f"example.com/l{each}": "y" * 60 for each in range(5000)}
    metadata = obj["metadata"]
    return {
        **obj,
        "metadata": {
            **metadata,
            "annotations": {**metadata.get("annotations", {}), **annotations},
            "labels": {**metadata.get("labels", {}), **labels},
        },
    }


def large_pods() -> Iterable[Json]:
    """Pods, each with one part of the spec as large as an object may be."""
    for part, spec in _LARGE_SPECS.items():
        container: Json = {"name": "main", "image": "example.com/image:1"}
        yield {**_of("Pod", f"large-{part.lower()}", "v1"), "spec": {"containers": [container], **spec()}}


def _affinity_term(number: int) -> Json:
    expressions = [{"key": "hub.jupyter.org/none", "operator": "In", "values": [f"v{number}", "w"]}]
    return {"labelSelector": {"matchExpressions": expressions}, "topologyKey": "kubernetes.io/hostname"}


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

_LARGE_SPECS: Final[dict[str, Callable[[], Json]]] = {
    "containers": lambda: {"containers": [{"name": f"c{each}", "image": "i"} for each in range(5000)]},
    "initContainers": lambda: {"initContainers": [{"name": f"i{each}", "image": "i"} for each in range(5000)]},
    "env": lambda: {
        "containers": [
            {"name": "c", "image": "i", "env": [{"name": f"E{each}", "value": "x" * 50} for each in range(15_000)]}
        ]
    },
    "tolerations": lambda: {
        "tolerations": [{"key": f"k{each}", "operator": "Exists"} for each in range(20_000)],
    },
    "nodeSelector": lambda: {"nodeSelector": {f"example.com/{each}": "x" for each in range(30_000)}},
    "nodeTerms": lambda: {
        "affinity": {
            "nodeAffinity": {
                _REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": f"k{each}", "operator": "In", "values": ["a", "b"]}]}
                        for each in range(15_000)
                    ]
                },
                _PREFERRED: [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": f"k{each}", "operator": "Exists"}]}}
                    for each in range(5000)
                ],
            }
        }
    },
    "nodeValues": lambda: {
        "affinity": {
            "nodeAffinity": {
                _REQUIRED: {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "k", "operator": "NotIn", "values": [f"v{n}" for n in range(90_000)]}
                            ]
                        }
                    ]
                }
            }
        }
    },
    "podTerms": lambda: {
        "affinity": {
            "podAntiAffinity": {_REQUIRED: [_affinity_term(each) for each in range(8000)]},
            "podAffinity": {
                _PREFERRED: [{"weight": 1, "podAffinityTerm": _affinity_term(each)} for each in range(2000)]
            },
        }
    },
    "spread": lambda: {
        "topologySpreadConstraints": [
            {
                "maxSkew": 2**31 - 1,
                "topologyKey": f"example.com/{each}",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"a": f"v{each}"}},
            }
            for each in range(8000)
        ]
    },
    "ports": lambda: {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [
                    {"containerPort": 1 + each % 65_535, "hostPort": 1 + each % 65_535} for each in range(20_000)
                ],
            }
        ]
    },
    "volumes": lambda: {
        "volumes": [{"name": f"v{each}", "persistentVolumeClaim": {"claimName": f"c{each}"}} for each in range(15_000)]
    },
    "gates": lambda: {"schedulingGates": [{"name": f"example.com/g{each}"} for each in range(30_000)]},
    "requests": lambda: {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {
                    "requests": {f"example.com/r{each}": "9223372036854775807" for each in range(15_000)},
                    "limits": {f"example.com/r{each}": "9223372036854775807" for each in range(15_000)},
                },
            }
        ]
    },
    "amounts": lambda: {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {
                    "requests": {
                        "cpu": "10e399",
                        "memory": "1e-99",
                        "ephemeral-storage": "9" * 200,
                        "hugepages-2Mi": "0",
                    },
                    "limits": {"hugepages-2Mi": "0"},
                },
            }
        ]
    },
}


def _of(kind: str, name: str, group_version: str, **metadata: Any) -> Json:
    return {"apiVersion": group_version, "kind": kind, "metadata": {"name": name, **metadata}}
