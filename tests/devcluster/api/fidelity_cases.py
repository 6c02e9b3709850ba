"""Bodies that API servers accept or refuse: the tables of `test_fidelity`."""

from __future__ import annotations

from typing import Any

from dra_spawner.devcluster.api import resource_types as types

from .fidelity import pod


def exact(**fields: Any) -> dict[str, Any]:
    return {"deviceClassName": "gpu.example.com", **fields}


def request(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, "exactly": exact(**fields)}


def selector(expression: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}}]}


def opaque(driver: str = "a", parameters: Any = None, **fields: Any) -> dict[str, Any]:
    return {"opaque": {"driver": driver, "parameters": {} if parameters is None else parameters}, **fields}


def config(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"requests": [request()], "config": list(entries)}


def constraint(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"requests": [request()], "constraints": list(entries)}


def first(*alternatives: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"requests": [{"name": "a", "firstAvailable": list(alternatives)}], **fields}


# spec.devices of a ResourceClaim
CLAIMS: dict[str, dict[str, Any]] = {
    "plain": {"requests": [request()]},
    "everything": {
        "requests": [
            request(
                tolerations=[{"key": "a"}],
                capacity={"requests": {"memory": "10240Mi"}},
                **selector("device.driver == 'x'"),
            )
        ],
        "constraints": [{"matchAttribute": "a.b/c"}],
        "config": [opaque("X.y", {"a": [None, 1.5], "b": 1})],
    },
    "no-type": {"requests": [{"name": "a"}]},
    "two-types": {"requests": [{"name": "a", "exactly": exact(), "firstAvailable": [{"name": "b", **exact()}]}]},
    "same-name": {"requests": [request(), request()]},
    "bad-name": {"requests": [request("A_")]},
    "long-name": {"requests": [request("a" * 64)]},
    "no-name": {"requests": [request("")]},
    "no-class": {"requests": [{"name": "a", "exactly": {}}]},
    "bad-class": {"requests": [request(deviceClassName="A_")]},
    "bad-mode": {"requests": [request(allocationMode="Some")]},
    "count-zero": {"requests": [request(count=0, allocationMode="ExactCount")]},
    "count-negative": {"requests": [request(count=-1)]},
    "count-huge": {"requests": [request(count=10**9)]},
    "count-text": {"requests": [request(count="1")]},
    "all-with-count": {"requests": [request(count=2, allocationMode="All")]},
    "all": {"requests": [request(allocationMode="All")]},
    "33-requests": {"requests": [request(f"r{i}") for i in range(33)]},
    "requests-object": {"requests": {}},
    "selector-empty": {"requests": [request(selectors=[{}])]},
    "selector-unknown-field": {"requests": [request(**selector("device.foo"))]},
    "selector-unfinished": {"requests": [request(**selector("device.driver =="))]},
    "selector-unknown-name": {"requests": [request(**selector("dev.driver == 'a'"))]},
    "selector-second-line": {"requests": [request(**selector("device.driver == 'a' &&\n  device.driver == 1"))]},
    "selector-not-bool": {"requests": [request(**selector("device.driver"))]},
    "selector-dyn": {"requests": [request(**selector("device.attributes['a'].b"))]},
    "selector-long": {"requests": [request(**selector("true" + " " * 10240))]},
    "33-selectors": {"requests": [request(selectors=[{"cel": {"expression": "true"}}] * 33)]},
    "constraint-empty": constraint({}),
    "constraint-no-domain": constraint({"matchAttribute": "x"}),
    "constraint-bad-domain": constraint({"matchAttribute": "A_b/1x"}),
    "constraint-unknown-request": constraint({"matchAttribute": "a/x", "requests": ["q"]}),
    "constraint-twice": constraint({"matchAttribute": "a/x", "requests": ["a", "a"]}),
    "constraint-distinct": constraint({"distinctAttribute": "x"}),
    "33-constraints": constraint(*[{"matchAttribute": "a/x"}] * 33),
    "config-empty": config({}),
    "config-no-driver": config({"opaque": {"parameters": {}}}),
    "config-bad-driver": config(opaque("a_b")),
    "config-no-parameters": config({"opaque": {"driver": "a"}}),
    "config-null": config({"opaque": {"driver": "a", "parameters": None}}),
    "config-array": config(opaque(parameters=[1])),
    "config-string": config(opaque(parameters="x")),
    "config-long": config(opaque(parameters={"x": "y" * 10240})),
    "config-unknown-request": config(opaque(requests=["q"])),
    "33-configs": config(*[opaque()] * 33),
    "first": first({"name": "x", **exact()}),
    "first-same-name": first({"name": "x", **exact()}, {"name": "x", **exact()}),
    "9-alternatives": first(*[{"name": f"x{i}", **exact()} for i in range(9)]),
    "first-bad": first({"name": "X"}),
    "first-reference": first(
        {"name": "x", **exact()}, constraints=[{"matchAttribute": "a/x", "requests": ["a/x", "a/q"]}]
    ),
    "tolerations": {
        "requests": [
            request(
                tolerations=[
                    {"operator": "Exists", "value": "x", "key": "k"},
                    {"operator": "Foo"},
                    {"effect": "Foo", "key": "k"},
                    {"key": "_", "operator": "Exists"},
                    {},
                ]
            )
        ]
    },
    "admin": {"requests": [request(adminAccess=True)]},
    "capacity-negative": {"requests": [request(capacity={"requests": {"memory": "-1"}})]},
    "capacity-bad-suffix": {"requests": [request(capacity={"requests": {"memory": "1K"}})]},
    "capacity-no-number": {"requests": [request(capacity={"requests": {"memory": "ten"}})]},
    "capacity-number": {"requests": [request(capacity={"requests": {"memory": 5}})]},
    "unknown-field": {"requests": [request(capacityy={})], "foo": 1},
}

# spec of a ResourceClaimTemplate
TEMPLATES: dict[str, dict[str, Any]] = {
    "plain": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [request()]}}},
    "bad-request": {"spec": {"devices": {"requests": [request("A"), {"name": "b"}]}}},
    "named": {"metadata": {"name": "x"}, "spec": {"devices": {"requests": [request()]}}},
    "bad-label": {"metadata": {"labels": {"a": "b b"}}, "spec": {"devices": {"requests": [request()]}}},
    "admin": {"spec": {"devices": {"requests": [request(adminAccess=True)]}}},
}

# name and spec of a DeviceClass
CLASSES: dict[str, tuple[str, dict[str, Any] | None]] = {
    "empty": ("fidelity-a", None),
    "selectors": ("fidelity-b", {**selector("device.driver == 'x'"), "config": [opaque()]}),
    "all-bad": ("a_b", {**selector("devic"), "extendedResourceName": "foo", "config": [{}]}),
    "extended": ("fidelity-c", {"extendedResourceName": "example.com/gpu"}),
    "extended-quota": ("fidelity-d", {"extendedResourceName": "requests.foo/x"}),
    "extended-native": ("fidelity-e", {"extendedResourceName": "x.kubernetes.io/x"}),
}


def slice_spec(devices: Any = None, **fields: Any) -> dict[str, Any]:
    spec = {
        "driver": "d.example.com",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n1",
        "devices": devices,
        **fields,
    }
    return {key: value for key, value in spec.items() if value is not None}


def device(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def policy(request_policy: dict[str, Any]) -> dict[str, Any]:
    capacity = {"m": {"value": "10Gi", "requestPolicy": request_policy}}
    return slice_spec([device(allowMultipleAllocations=True, capacity=capacity)])


def limits(default: str, **valid_range: str) -> dict[str, Any]:
    return policy({"default": default, "validRange": valid_range})


def counters(*sets: dict[str, Any]) -> dict[str, Any]:
    return slice_spec(None, sharedCounters=list(sets))


def values(names: list[str]) -> dict[str, Any]:
    return {name: {"value": "1"} for name in names}


# spec of a ResourceSlice
SLICES: dict[str, dict[str, Any]] = {
    "plain": slice_spec([device(attributes={"a": {"string": "x"}}, capacity={"memory": {"value": "10240Mi"}})]),
    "neither": slice_spec(),
    "both": slice_spec([device()], sharedCounters=[{"name": "c", "counters": values(["m"])}]),
    "no-driver": slice_spec([device()], driver=None),
    "bad-driver": slice_spec([device()], driver="A_b"),
    "no-pool": slice_spec([device()], pool=None),
    "bad-pool": slice_spec([device()], pool={"name": "A", "generation": -1, "resourceSliceCount": 0}),
    "no-node": slice_spec([device()], nodeName=None),
    "two-nodes": slice_spec([device()], allNodes=True),
    "all-false": slice_spec([device()], nodeName=None, allNodes=False),
    "no-term": slice_spec([device()], nodeName=None, nodeSelector={"nodeSelectorTerms": []}),
    "bad-operator": slice_spec(
        [device()],
        nodeName=None,
        nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Foo"}]}]},
    ),
    "per-device": slice_spec(
        [device(), device("b", nodeName="n", allNodes=True), device("c", nodeName="n")],
        nodeName=None,
        perDeviceNodeSelection=True,
    ),
    "device-node": slice_spec([device(nodeName="n")]),
    "same-name": slice_spec([device(), device()]),
    "bad-name": slice_spec([device("A")]),
    "129-devices": slice_spec([device(f"d{i}") for i in range(129)]),
    "65-tainted": slice_spec([device(f"d{i}", taints=[{"key": "a", "effect": "NoSchedule"}]) for i in range(65)]),
    "attribute-two-values": slice_spec([device(attributes={"b": {"string": "x", "int": 1}})]),
    "attribute-empty": slice_spec([device(attributes={"b": {}})]),
    "attribute-long": slice_spec([device(attributes={"c": {"string": "x" * 65}})]),
    "attribute-version": slice_spec([device(attributes={"d": {"version": "1.x"}})]),
    "attribute-name": slice_spec([device(attributes={"1e": {"bool": True}})]),
    "attribute-domain": slice_spec([device(attributes={"A_b/x": {"bool": True}})]),
    "attribute-long-name": slice_spec([device(attributes={"f" * 33: {"int": 1}})]),
    "33-attributes": slice_spec([device(attributes={f"a{i}": {"int": 1} for i in range(33)})]),
    "capacity-name": slice_spec([device(capacity={"1e": {"value": "1"}})]),
    "capacity-negative": slice_spec([device(capacity={"ok": {"value": "-1"}})]),
    "policy-dedicated": slice_spec([device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}})]),
    "policy-both": policy({"default": "1Gi", "validValues": ["1Gi"], "validRange": {"min": "1Gi"}}),
    "values-no-default": policy({"validValues": ["1Gi"]}),
    "values-bad": policy({"default": "3Gi", "validValues": ["2Gi", "1Gi", "1Gi", "20Gi"]}),
    "11-values": policy({"default": "1", "validValues": [str(i) for i in range(1, 12)]}),
    "range-no-min": limits("1Gi"),
    "range-no-default": policy({"validRange": {"min": "1Gi"}}),
    "range-max-below-min": limits("20Gi", min="5Gi", max="4Gi", step="3Gi"),
    "range-max-above": limits("6Gi", min="5Gi", max="20Gi", step="5Gi"),
    "range-max-off-step": limits("5Gi", min="5Gi", max="9Gi", step="5Gi"),
    "range-step-above": limits("5Gi", min="5Gi", step="50Gi"),
    "range-default-below": limits("1Gi", min="5Gi", step="1Gi"),
    "range-min-above": limits("15Gi", min="15Gi", step="1Gi"),
    "range-good": limits("5Gi", min="5Gi", max="10Gi", step="5Gi"),
    "counters-bad": counters(
        {"name": "A", "counters": {}},
        {"name": "b", "counters": values(["B_"])},
        {"name": "b", "counters": values(["x"])},
    ),
    "9-counter-sets": counters(*[{"name": f"c{i}", "counters": values(["x"])} for i in range(9)]),
    "33-counters": counters({"name": "c", "counters": values([f"x{i}" for i in range(33)])}),
    "consumes-three": slice_spec(
        [device(consumesCounters=[{"counterSet": name, "counters": values(["x"])} for name in "abc"])]
    ),
    "consumes-twice": slice_spec(
        [device(consumesCounters=[{"counterSet": "b", "counters": values(["x"])} for _ in range(2)])]
    ),
    "taints": slice_spec(
        [device(taints=[{}, {"key": "a", "effect": "Foo"}, {"key": "a", "value": "b b", "effect": "None"}])]
    ),
    "17-taints": slice_spec([device(taints=[{"key": f"a{i}", "effect": "NoSchedule"} for i in range(17)])]),
    "binding-alone": slice_spec([device(bindingConditions=["a"])]),
    "binding-overlap": slice_spec([device(bindingConditions=["a", "a"], bindingFailureConditions=["a"])]),
    "5-binding": slice_spec([device(bindingConditions=list("abcde"), bindingFailureConditions=list("vwxyz"))]),
}


def container(name: str = "c", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "i:1", **fields}


def claims(*names: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [container(resources={"claims": list(names)})]}


_VOLUMES = [
    {"name": "v", "persistentVolumeClaim": {"claimName": "x"}},
    {"name": "w", "configMap": {"name": "x"}},
    {"name": "s", "secret": {"secretName": "x"}},
    {"name": "e", "emptyDir": {}},
]
_SHARED = {"name": "a", "resourceClaimName": "x"}

# metadata and spec of a Pod
PODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "claim": ({}, {"resourceClaims": [_SHARED], **claims({"name": "a"})}),
    "claim-request": ({}, {"resourceClaims": [_SHARED], **claims({"name": "a", "request": "r"})}),
    "claim-twice": ({}, {"resourceClaims": [_SHARED, _SHARED]}),
    "claim-no-source": ({}, {"resourceClaims": [{"name": "a"}]}),
    "claim-two-sources": ({}, {"resourceClaims": [{**_SHARED, "resourceClaimTemplateName": "y"}]}),
    "claim-bad-names": ({}, {"resourceClaims": [{"name": "A", "resourceClaimName": "X_"}]}),
    "claim-no-name": ({}, {"resourceClaims": [{"resourceClaimTemplateName": "X_"}]}),
    "container-claims-unknown": ({}, claims({"name": "a"}, {"name": ""}, {"name": "a"})),
    "container-claims-other": ({}, {"resourceClaims": [_SHARED], **claims({"name": "b"})}),
    "container-claims-twice": (
        {},
        {"resourceClaims": [_SHARED], **claims({"name": "a", "request": "R"}, {"name": "a"})},
    ),
    "no-containers": ({}, {"containers": []}),
    "bad-containers": ({}, {"containers": [{"image": "i"}, {"name": "A"}, {"name": "d"}, container("d")]}),
    "containers-object": ({}, {"containers": {}}),
    "container-name-number": ({}, {"containers": [{"name": 1}]}),
    "bad-restart-policy": ({}, {"restartPolicy": "Foo"}),
    "bad-label-key": ({"labels": {"a b": "c"}}, {}),
    "bad-label-value": ({"labels": {"x": "y y"}}, {}),
    "bad-annotation": ({"annotations": {"a b": "c"}}, {}),
    "bad-finalizer": ({"finalizers": ["x"]}, {}),
    "owner-no-uid": ({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]}, {}),
    "unknown-priority": ({}, {"priorityClassName": "nope"}),
    "system-priority": ({}, {"priorityClassName": "system-node-critical"}),
    "own-priority": ({}, {"priority": 7}),
    "own-values": (
        {},
        {
            "tolerations": [{"key": "a"}],
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"a": "b"},
            "serviceAccountName": "x",
        },
    ),
    "tolerates-all": ({}, {"tolerations": [{"operator": "Exists"}]}),
    "quantities": ({}, {"containers": [container(resources={"limits": {"cpu": "1000m", "memory": "1024Mi"}})]}),
    "requests-only": ({}, {"containers": [container(resources={"requests": {"cpu": "0.5"}})]}),
    "above-limit": ({}, {"containers": [container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})]}),
    "negative": ({}, {"containers": [container(resources={"requests": {"memory": "-1"}})]}),
    "volumes": (
        {},
        {
            "volumes": _VOLUMES,
            "containers": [
                container(
                    volumeMounts=[{"name": "v", "mountPath": "/x"}],
                    ports=[{"containerPort": 8888}],
                    env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    livenessProbe={"httpGet": {"port": 80}},
                )
            ],
        },
    ),
    "bad-mounts": (
        {},
        {
            "volumes": _VOLUMES,
            "containers": [
                container(volumeMounts=[{"name": "nov", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}])
            ],
        },
    ),
    "gated": ({}, {"schedulingGates": [{"name": "x"}]}),
    "latest": ({}, {"containers": [container(image="a/b:latest"), container("d", image="r:5000/b")]}),
    "empty-collections": ({"labels": {}, "annotations": {}}, {"nodeSelector": {}, "volumes": [], "affinity": {}}),
    "nulls": ({"labels": None}, {"nodeSelector": None, "hostname": None}),
    "unknown-fields": ({"foo": 1}, {"bar": {"a": 1}}),
}

_ACCEPTED = {
    "claim": {"plain", "everything", "count-zero", "count-huge", "all", "selector-dyn", "first"}
    | {"capacity-negative", "capacity-number", "unknown-field"},
    "template": {"plain"},
    "class": {"empty", "selectors", "extended"},
    "slice": {"plain", "neither", "range-good", "capacity-negative"},
    "pod": {"plain", "claim", "claim-request", "system-priority", "own-values", "tolerates-all", "quantities"}
    | {"requests-only", "volumes", "gated", "latest", "empty-collections", "nulls", "unknown-fields"},
}
_BODIES: dict[str, tuple[types.ResourceType, dict[str, dict[str, Any]]]] = {
    "claim": (types.RESOURCECLAIMS, {name: {"spec": {"devices": devices}} for name, devices in CLAIMS.items()}),
    "template": (types.RESOURCECLAIMTEMPLATES, {name: {"spec": spec} for name, spec in TEMPLATES.items()}),
    "slice": (types.RESOURCESLICES, {name: {"spec": spec} for name, spec in SLICES.items()}),
    "class": (types.DEVICECLASSES, {case: {"metadata": {"name": name}, "spec": spec} for case, (name, spec) in CLASSES.items()}),
    "pod": (types.PODS, {name: pod("x", metadata, **spec) for name, (metadata, spec) in PODS.items()}),
}  # fmt: skip

#: Name -> type and body of an object, and whether API servers accept it.
BODIES: dict[str, tuple[types.ResourceType, dict[str, Any], bool]] = {
    f"{kind}-{name}": (resource_type, {"metadata": {"name": "x"}, **body}, name in _ACCEPTED[kind])
    for kind, (resource_type, bodies) in _BODIES.items()
    for name, body in bodies.items()
}

LABEL_SELECTORS = (
    "app=a",
    "app==a",
    "app!=a",
    "app in (a, b)",
    "app notin (a,b)",
    "app",
    "!app",
    "!app,tier",
    "tier>1",
    "tier<3",
    "tier=",
    "app=a,tier=2",
    "app in ()",
    "x.io/k=v",
    "in in (in)",
    " app =a , tier",
    "a in b",
    "=a",
    "a b",
    "a=b=c",
    "a in (",
    "a notin (x",
    "a,",
    "a,,b",
    ",a",
    "!",
    "!a=b",
    "a>x",
    "a>=1",
    "a/b/c=d",
    "a!b",
    "_a=1",
    "a=_",
    "a in (x y)",
    "notin",
    "a=(b)",
    "x/=1",
    "/x=1",
)

FIELD_SELECTORS = (
    "metadata.name=p1",
    "metadata.name!=p1",
    "metadata.name==p1,",
    "metadata.namespace={ns}",
    "status.phase=Pending",
    "status.phase!=Pending",
    "spec.nodeName=",
    "spec.nodeName=n1",
    "spec.schedulerName=nobody,metadata.name=p2",
    "spec.restartPolicy=Always",
    "foo=bar",
    "metadata.name",
    "metadata.name=a=b",
    "=x",
    ",",
)
