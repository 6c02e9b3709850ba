"""Objects as large, deep and odd as the API server stores them, by kind; some as text, which ``json.dumps`` cannot write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

Json = dict[str, Any]

RESOURCE_API: Final = "resource.k8s.io/v1"
PARAMETERS_BYTES: Final = 10 * 1024
"""Of opaque parameters (``OpaqueParametersMaxLength``)."""
_MAX_CONFIGS: Final = 32
_MAX_REQUESTS: Final = 32
_HERE: Final = "@parameters@"


def nested(levels: int, opening: str = "[", closing: str = "]") -> str:
    """JSON text that is nested so deeply."""
    return opening * levels + closing * levels


DEEP_PARAMETERS: Final = '{"a":' + nested(5000) + "}"
"""The deepest that the API server admits, by their length."""
NOT_UTF8: Final = b'{"a":"\xff\xfe \\ud800","\\udfff":1e-999999}'
"""Text that the API server stores as it is: no UTF-8, half of a surrogate pair, a number that no float has."""


_WITH_PARAMETERS: Final = [{"opaque": {"driver": "gpu.example.com", "parameters": _HERE}}]


def _with(parameters: bytes | str, obj: Json) -> bytes:
    """The text of an object with these parameters, which may be no UTF-8."""
    raw = parameters.encode() if isinstance(parameters, str) else parameters
    return json.dumps(obj).encode().replace(f'"{_HERE}"'.encode(), raw)


def claim_text(name: str, parameters: bytes | str) -> bytes:
    """A ResourceClaim with these opaque parameters."""
    return _with(parameters, claim_with(name, config=_WITH_PARAMETERS))


def template_text(name: str, parameters: str) -> bytes:
    """A ResourceClaimTemplate with these opaque parameters."""
    spec = {"spec": claim_with(name, config=_WITH_PARAMETERS)["spec"]}
    return _with(parameters, {**_of("ResourceClaimTemplate", name, RESOURCE_API), "spec": spec})


def class_text(name: str, parameters: str) -> bytes:
    """A DeviceClass with these opaque parameters."""
    return _with(parameters, {**_of("DeviceClass", name, RESOURCE_API), "spec": {"config": _WITH_PARAMETERS}})


def with_deep_managed_fields(obj: Json, levels: int = 3000) -> bytes:
    """Any object, with fields of a manager that are nested so deeply: its text."""
    entry = {
        "manager": "stranger",
        "operation": "Update",
        "apiVersion": obj["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": _HERE,
    }
    fields = nested(levels, '{"f:a":', "}").replace(":}", ":{}}", 1)
    return _with(fields, {**obj, "metadata": {**obj["metadata"], "managedFields": [entry]}})


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
    requests = [{"name": f"r{each}", "firstAvailable": alternatives} for each in range(_MAX_REQUESTS)]
    constraints = [{"matchAttribute": f"example.com/a{each}"} for each in range(32)]
    config = [{"opaque": {"driver": "gpu.example.com", "parameters": {"text": text}}} for _ in range(_MAX_CONFIGS)]
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


def _containers(**parts: Any) -> Json:
    """One container with these parts."""
    return {"containers": [{"name": "c", "image": "i", **parts}]}


def _resources(requests: Json, limits: Json) -> Json:
    return _containers(resources={"requests": requests, "limits": limits})


def _expressions(key: str, operator: str, *values: str) -> Json:
    """A node selector's term."""
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": values} if values else {})}]}


def _node_affinity(terms: list[Json], preferred: Iterable[Json] = ()) -> Json:
    preferences = [{"weight": 1, "preference": each} for each in preferred]
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}, _PREFERRED: preferences}}}


def _pod_affinity() -> Json:
    preferred = [{"weight": 1, "podAffinityTerm": _affinity_term(each)} for each in range(2000)]
    required = [_affinity_term(each) for each in range(8000)]
    return {"affinity": {"podAntiAffinity": {_REQUIRED: required}, "podAffinity": {_PREFERRED: preferred}}}


def _spread(number: int) -> Json:
    return {
        "maxSkew": 2**31 - 1,
        "topologyKey": f"example.com/{number}",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"a": f"v{number}"}},
    }


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MANY_AMOUNTS: Final = {f"example.com/r{each}": "9223372036854775807" for each in range(15_000)}
_ODD_AMOUNTS: Final = {"cpu": "10e399", "memory": "1e-99", "ephemeral-storage": "9" * 200, "hugepages-2Mi": "0"}

_LARGE_SPECS: Final[dict[str, Callable[[], Json]]] = {
    "containers": lambda: {"containers": [{"name": f"c{each}", "image": "i"} for each in range(5000)]},
    "initContainers": lambda: {"initContainers": [{"name": f"i{each}", "image": "i"} for each in range(5000)]},
    "env": lambda: _containers(env=[{"name": f"E{each}", "value": "x" * 50} for each in range(15_000)]),
    "tolerations": lambda: {"tolerations": [{"key": f"k{each}", "operator": "Exists"} for each in range(20_000)]},
    "nodeSelector": lambda: {"nodeSelector": {f"example.com/{each}": "x" for each in range(30_000)}},
    "nodeTerms": lambda: _node_affinity(
        [_expressions(f"k{each}", "In", "a", "b") for each in range(15_000)],
        [_expressions(f"k{each}", "Exists") for each in range(5000)],
    ),
    "nodeValues": lambda: _node_affinity([_expressions("k", "NotIn", *(f"v{each}" for each in range(90_000)))]),
    "podTerms": _pod_affinity,
    "spread": lambda: {"topologySpreadConstraints": [_spread(each) for each in range(8000)]},
    "ports": lambda: _containers(
        ports=[
            {"containerPort": number, "hostPort": number} for number in (1 + each % 65_535 for each in range(20_000))
        ]
    ),
    "volumes": lambda: {
        "volumes": [{"name": f"v{each}", "persistentVolumeClaim": {"claimName": f"c{each}"}} for each in range(15_000)]
    },
    "gates": lambda: {"schedulingGates": [{"name": f"example.com/g{each}"} for each in range(30_000)]},
    "requests": lambda: _resources(_MANY_AMOUNTS, _MANY_AMOUNTS),
    "amounts": lambda: _resources(_ODD_AMOUNTS, {"hugepages-2Mi": "0"}),
}


def _of(kind: str, name: str, group_version: str, **metadata: Any) -> Json:
    return {"apiVersion": group_version, "kind": kind, "metadata": {"name": name, **metadata}}


# --- sent objects, by kind --------------------------------------------------------------------------------------------

_METADATA_BYTES: Final = 256 * 1024
"""Of all annotations (``TotalAnnotationSizeLimitB``)."""
_OBJECT_BYTES: Final = 1_400_000
"""That etcd takes, with what the API server adds."""
_DATA_BYTES: Final = 1024 * 1024
"""Of a ConfigMap (``MaxSecretSize``)."""


def full_annotations() -> Json:
    """As many as an object may have."""
    return {"example.com/full": "x" * (_METADATA_BYTES - 100)}


def large_config_maps(name: str, key: str) -> dict[str, Json | bytes]:
    """ConfigMaps of this name, with all that may stand under a key."""
    content = {"format": 2, "shapes": {}, "choices": {}, "skipped": {}}
    shape = {"claims": {}, "containers": [{"requests": {"cpu": "1"}}], "node_fields": {}}
    texts = {
        "nested": nested((_DATA_BYTES - 100) // 2),
        "digits": "9" * (_DATA_BYTES - 100),
        "format": json.dumps({**content, "format": "x" * (_DATA_BYTES - 100)}),
        "skipped": json.dumps({**content, "skipped": {f"c{each}": "x" for each in range(60_000)}}),
        "choices": json.dumps({**content, "choices": {f"c{each}": 0 for each in range(60_000)}}),
        "shapes": json.dumps({**content, "shapes": {f"{each:016x}": shape for each in range(8_000)}}),
        "key": json.dumps({"x" * (_DATA_BYTES - 100): 1}),
        "surrogates": '{"format": 2, "skipped": {"\\ud800": "\\udfff"}, "shapes": {}, "choices": {"\\ud800": 0}}',
        "holders": json.dumps([{"owner": f"user:{each}"} for each in range(40_000)]),
        "until": json.dumps([{"owner": "user:ada", "until": "9999-12-31T23:59:59-23:59"}]),
    }
    maps: dict[str, Json | bytes] = {
        label: {**_of("ConfigMap", name, "v1"), "data": {key: text}} for label, text in texts.items()
    }
    binary = {key: "//79" * ((_DATA_BYTES - 100) // 3)}
    maps["binary"] = {**_of("ConfigMap", name, "v1"), "binaryData": binary}
    maps["keys"] = {**_of("ConfigMap", name, "v1"), "data": {f"{each}.x": "y" * 10 for each in range(30_000)}}
    maps["annotations"] = {**_of("ConfigMap", name, "v1", annotations=full_annotations()), "data": {key: "{}"}}
    maps["fields"] = with_deep_managed_fields(_of("ConfigMap", name, "v1"))
    return maps


def large_leases(name: str) -> dict[str, Json | bytes]:
    """Expired leases of this name."""
    version = "coordination.k8s.io/v1"

    def lease(metadata: Json | None = None, **spec: Any) -> Json:
        return {**_of("Lease", name, version, **(metadata or {})), "spec": spec}

    expired: Json = {"leaseDurationSeconds": 1, "renewTime": "0001-01-01T00:00:00.000000Z"}
    labels = {f"example.com/l{each}": "y" * 60 for each in range(_OBJECT_BYTES // 90)}
    return {
        "annotations": lease({"annotations": full_annotations()}),
        "labels": lease({"labels": labels}),
        "transitions": lease(holderIdentity="a", leaseTransitions=2**31 - 1, **expired),
        "holder": lease(holderIdentity="x" * (_OBJECT_BYTES - 1000), **expired),
        "never": lease(holderIdentity="a", acquireTime="9999-12-31T23:59:59.999999Z", **expired),
        "fields": with_deep_managed_fields(lease()),
    }


def large_nodes() -> dict[str, Json | bytes]:
    """Nodes, with each list and map as large as an object may be."""

    def node(name: str, spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
        obj = _of("Node", name, "v1", **metadata)
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        # Nothing is to run there: no kubelet serves them.
        taints = [{"key": "example.com/none", "effect": "NoSchedule"}]
        return {
            **obj,
            "spec": {"taints": taints, **(spec or {})},
            "status": {"allocatable": allocatable, **(status or {})},
        }

    effects = ("NoSchedule", "NoExecute", "PreferNoSchedule")
    amounts = {f"example.com/r{each}": "9223372036854775807" for each in range(20_000)}
    stamp = "0001-01-01T00:00:00Z"
    gpus = {"gpu.intel.com/gpu-numbers": "0.1", "gpu.intel.com/pci-groups": "0." * 30 + "1"}
    gpus |= {f"gpu.intel.com/gpu-numbers{each}": "Z" + ".1" * 31 for each in range(2, 12_000)}
    return {
        "labels": node("large-labels", labels={f"example.com/l{each}": "y" * 60 for each in range(14_000)}),
        "gpus": node("large-gpus", labels=gpus),
        "annotations": node("large-annotations", annotations=full_annotations()),
        "taints": node(
            "large-taints",
            {"taints": [{"key": f"k{each}", "value": "v", "effect": effects[each % 3]} for each in range(18_000)]},
        ),
        "images": node(
            "large-images",
            status={"images": [{"names": [f"i{each}", f"j{each}"], "sizeBytes": 2**62} for each in range(20_000)]},
        ),
        "allocatable": node("large-allocatable", status={"allocatable": {**amounts, "cpu": "10e399", "pods": "1e18"}}),
        "conditions": node(
            "large-conditions",
            status={
                "conditions": [
                    {"type": f"T{each}", "status": "True", "message": "m" * 50, "lastTransitionTime": stamp}
                    for each in range(9_000)
                ]
            },
        ),
        "fields": with_deep_managed_fields(node("large-fields")),
    }


def large_slices() -> dict[str, Json | bytes]:
    """ResourceSlices with as much of everything as the API server admits, each of a pool of its own."""

    def item(name: str, **spec: Any) -> Json:
        pool = {"name": name, "generation": 2**63 - 1, "resourceSliceCount": 1}
        parts = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node-a", **spec}
        return {**_of("ResourceSlice", f"large-{name}", RESOURCE_API), "spec": parts}

    attributes = {f"a{each}": {"string": "x" * 64} for each in range(16)}
    values = [str(each) for each in range(1, 11)]
    capacity: Json = {
        f"c{each}": {"value": "9223372036854775807", "requestPolicy": {"default": "1", "validValues": values}}
        for each in range(16)
    }
    odd = {"value": "10e399"}, {"value": "1e-99"}, {"value": "9" * 200}, {"value": "0"}
    counters = {f"m{each}": {"value": "9223372036854775807"} for each in range(32)}
    taints = [{"key": f"k{each}", "value": "v", "effect": "NoExecute"} for each in range(16)]
    devices: list[Json] = [{"name": f"d{each}", "attributes": attributes, "capacity": capacity} for each in range(128)]
    for device in devices:
        device["allowMultipleAllocations"] = True
    term = {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": [f"v{each}" for each in range(60_000)]}]}
    selecting = item("selector", nodeSelector={"nodeSelectorTerms": [term]}, devices=[{"name": "d"}])
    del selecting["spec"]["nodeName"]
    return {
        "devices": item("devices", devices=devices),
        "taints": item("taints", devices=[{"name": f"d{each}", "taints": taints} for each in range(64)]),
        "counters": item("counters", sharedCounters=[{"name": f"s{each}", "counters": counters} for each in range(8)]),
        "selector": selecting,
        "amounts": item(
            "amounts", devices=[{"name": f"d{each}", "capacity": {"c": value}} for each, value in enumerate(odd)]
        ),
        "annotations": {
            **item("annotated"),
            "metadata": {"name": "large-annotated", "annotations": full_annotations()},
        },
        "fields": with_deep_managed_fields(item("fields")),
    }


def large_namespaces() -> dict[str, Json | bytes]:
    """Namespaces with the largest metadata."""
    labels = {f"example.com/l{each}": "y" * 60 for each in range(14_000)}
    return {"labels": _of("Namespace", "large-labels", "v1", labels=labels, annotations=full_annotations())}


SENT_PODS: Final = ("large-nodeterms", "large-podterms", "large-amounts")
"""Those that are sent to a cluster; the API server's own components suffer from the others, too."""


def sent_pods() -> dict[str, Json | bytes]:
    """Pods with large parts."""
    return {each["metadata"]["name"]: each for each in large_pods() if each["metadata"]["name"] in SENT_PODS}


LARGEST: Final[Mapping[str, Callable[..., dict[str, Json | bytes]]]] = {
    "configmaps": large_config_maps,
    "deviceclasses": lambda: {"deep": class_text("large-deep", DEEP_PARAMETERS)},
    "leases": large_leases,
    "namespaces": large_namespaces,
    "nodes": large_nodes,
    "pods": sent_pods,
    "resourceclaims": lambda: {"claim": largest_claim("largest")},
    "resourceclaimtemplates": lambda: {"template": largest_template("largest")},
    "resourceslices": large_slices,
}
"""Kind by its plural -> the largest and deepest objects that the real API server stores, which test_objects sends."""

NOT_SENT: Final[Mapping[str, str]] = {
    "devicetaintrules": "only administrators write them, and each field that is read has at most 253 characters",
    "daemonsets": "only administrators of the hub's namespace write those that are read",
    "deployments": "only administrators of the hub's namespace write those that are read",
    "networkpolicies": "only administrators of the hub's namespace write those that are read",
    "priorityclasses": "only their names are read",
    "services": "only names and labels are read",
    "events": "only the reason, the pod and the first characters of the message are read, of the placeholders' namespace",
    "resourcequotas": "only administrators of the namespace of placeholders write them",
    "network-attachment-definitions": "only their names and namespaces are read",
    "validatingwebhookconfigurations": "only who may change every request in the cluster writes them",
}
"""Kinds that are read and not in `LARGEST`, and why."""
