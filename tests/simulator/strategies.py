"""Hypothesis strategies for the simulator's tests: small clusters of objects that get in one another's way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from dra_spawner.dra.model.objects import DeviceClass, DeviceTaintRule, PoolId, ResourceSlice, Taint
from dra_spawner.simulator.model.claims import ClaimTemplate, ObjectKey, TrackedClaim
from dra_spawner.simulator.model.cluster_objects import BrokenObject, Kind
from dra_spawner.simulator.model.nodes import SchedulableNode
from dra_spawner.simulator.model.pods import Pod
from tests.dra.builders import DRIVER, device_json, request, slice_json
from tests.simulator.objects import node, pod, pod_term, required_pods

NODES = ("n1", "n2", "n3")
CLASSES = ("gpu", "nic", "typo")
PODS = ("p1", "p2", "p3", "p4", "p5")
CLAIMS = ("c1", "c2", "c3")
TEMPLATES = ("t1", "t2")
RULES = ("r1", "r2")
SLICES = ("n1-a", "n2-a", "n2-b", "everywhere", "counters")
NAMESPACE = "default"

names = {kind: st.sampled_from(known) for kind, known in (("node", NODES), ("pod", PODS), ("claim", CLAIMS))}


def key(name: str) -> ObjectKey:
    return ObjectKey(NAMESPACE, name)


@st.composite
def nodes(draw: st.DrawFn) -> SchedulableNode:
    fields: dict[str, Any] = {"labels": {"zone": draw(st.sampled_from("ab"))}}
    if draw(st.integers(0, 4)) == 0:
        fields["unschedulable"] = True
    if draw(st.integers(0, 4)) == 0:
        fields["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
    allocatable = {"cpu": draw(st.sampled_from(["1", "2", "4"])), "pods": draw(st.sampled_from(["2", "110"]))}
    if draw(st.integers(0, 3)) == 0:
        allocatable["example.com/gpu"] = "1"
    return node(draw(names["node"]), allocatable, **fields)


@st.composite
def devices(draw: st.DrawFn, name: str, *, with_counters: bool) -> Any:
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        more["capacity"] = {"memory": "4Gi"}
        more["allowMultipleAllocations"] = draw(st.booleans())
    if with_counters and draw(st.booleans()):
        more["counters"] = {"set": {"slots": "2"}}
    if draw(st.integers(0, 5)) == 0:
        more["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
    return device_json(name, **more)


@st.composite
def slices(draw: st.DrawFn) -> ResourceSlice:
    name = draw(st.sampled_from(SLICES))
    if name == "counters":
        sets = [{"name": "set", "counters": {"slots": {"value": "3"}}}]
        obj = slice_json(name, pool="n1", nodeName="n1", count=2, sharedCounters=sets)
        del obj["spec"]["devices"]
        return ResourceSlice.from_json(obj)
    where: dict[str, Any] = {"allNodes": True} if name == "everywhere" else {"nodeName": name[:2]}
    pool = "n1" if name == "n1-a" else name[:2] if name != "everywhere" else "fabric"
    count = draw(st.sampled_from([1, 2]))
    numbers = range(draw(st.integers(0, 3)))
    parts = [draw(devices(f"{name}-d{number}", with_counters=pool == "n1")) for number in numbers]
    generation = draw(st.sampled_from([1, 1, 1, 2]))
    return ResourceSlice.from_json(slice_json(name, parts, pool=pool, count=count, generation=generation, **where))


@st.composite
def taint_rules(draw: st.DrawFn) -> DeviceTaintRule:
    return DeviceTaintRule(
        draw(st.sampled_from(RULES)),
        Taint(draw(st.sampled_from(["sick", "upkeep"])), effect=draw(st.sampled_from(["NoSchedule", "None"]))),
        driver=draw(st.sampled_from([None, DRIVER, "other.example.com"])),
        pool=draw(st.sampled_from([None, "n1", "n2", "fabric"])),
        device=draw(st.sampled_from([None, "n1-a-d0", "d0", "f0", "whole"])),
        has_selector=draw(st.booleans()),
    )


@st.composite
def device_classes(draw: st.DrawFn) -> DeviceClass:
    name = draw(st.sampled_from(CLASSES))
    selector = {"gpu": "true", "nic": "device.allowMultipleAllocations", "typo": "device."}[name]
    return DeviceClass(
        name,
        (selector,),
        extended_resource_name="example.com/gpu" if name == "gpu" and draw(st.booleans()) else None,
    )


@st.composite
def claim_specs(draw: st.DrawFn) -> dict[str, Any]:
    wanted = []
    for number in range(draw(st.integers(1, 2))):
        more: dict[str, Any] = {"deviceClassName": draw(st.sampled_from([*["gpu", "nic"] * 4, "typo", "none"]))}
        match draw(st.integers(0, 5)):
            case 0:
                more["adminAccess"] = True
            case 1:
                more["count"] = 2
            case 2:
                more["allocationMode"] = "All"
            case 3:
                more["capacity"] = {"memory": draw(st.sampled_from(["1Gi", "3Gi", "5Gi"]))}
        wanted.append(request(f"r{number}", **more))
    return {"devices": {"requests": wanted}}


@st.composite
def claims(draw: st.DrawFn) -> TrackedClaim:
    """A shared claim, or one that says it was made for a pod."""
    name = draw(names["claim"])
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE, "uid": name}
    if draw(st.integers(0, 3)) == 0:
        owner = draw(names["pod"])
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}
        ]
        metadata["annotations"] = {"resource.kubernetes.io/pod-claim-name": "made"}
    if draw(st.integers(0, 5)) == 0:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return TrackedClaim.from_json({"metadata": metadata, "spec": draw(claim_specs())})


@st.composite
def templates(draw: st.DrawFn) -> ClaimTemplate:
    metadata = {"name": draw(st.sampled_from(TEMPLATES)), "namespace": NAMESPACE}
    return ClaimTemplate.from_json({"metadata": metadata, "spec": {"spec": draw(claim_specs())}})


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A pod without a node, which may be nominated for one, be gated, deleted or have ended."""
    name = draw(names["pod"])
    spec: dict[str, Any] = {"labels": {"app": draw(st.sampled_from("xy"))}, "priority": draw(st.sampled_from([0, 10]))}
    references: list[dict[str, str]] = []
    for number in range(draw(st.integers(0, 2))):
        if draw(st.booleans()):
            references.append({"name": f"e{number}", "resourceClaimName": draw(names["claim"])})
        else:
            template = draw(st.sampled_from((*TEMPLATES, "missing")))
            references.append({"name": f"e{number}", "resourceClaimTemplateName": template})
    spec["resourceClaims"] = references
    requests = {"cpu": draw(st.sampled_from(["500m", "1", "3"]))}
    match draw(st.integers(0, 9)):
        case 0:
            spec["affinity"] = required_pods("podAntiAffinity", pod_term(app="x"))
        case 1:
            spec["affinity"] = required_pods("podAffinity", pod_term("zone", app="x"))
        case 2:
            selector = {"labelSelector": {"matchLabels": {"app": "x"}}}
            spec["topologySpreadConstraints"] = [
                {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **selector}
            ]
        case 3:
            requests["example.com/gpu"] = "1"
        case 4:
            spec["tolerations"] = [{"operator": "Exists"}]
        case 5:
            spec["status"] = {"nominatedNodeName": draw(names["node"])}
        case 6:
            spec["status"] = {"phase": "Succeeded"}
        case 7:
            spec["nodeSelector"] = {"zone": "a"}
    return replace(pod(name, requests, **spec), controller=draw(st.sampled_from(("", "", "DaemonSet"))))


@st.composite
def broken_objects(draw: st.DrawFn) -> BrokenObject:
    """An object of a name that others have, too, and that makes no sense."""
    kind = draw(st.sampled_from(list(Kind)))
    name = draw(
        {
            Kind.NODE: names["node"],
            Kind.POD: names["pod"],
            Kind.RESOURCE_CLAIM: names["claim"],
            Kind.RESOURCE_CLAIM_TEMPLATE: st.sampled_from(TEMPLATES),
            Kind.DEVICE_CLASS: st.sampled_from(CLASSES),
            Kind.RESOURCE_SLICE: st.sampled_from(SLICES),
            Kind.DEVICE_TAINT_RULE: st.sampled_from(RULES),
        }[kind]
    )
    namespace = NAMESPACE if kind in (Kind.POD, Kind.RESOURCE_CLAIM, Kind.RESOURCE_CLAIM_TEMPLATE) else ""
    where = draw(st.sampled_from(("", *NODES)))
    pool_id = PoolId(DRIVER, "n1") if kind is Kind.RESOURCE_SLICE and draw(st.booleans()) else None
    return BrokenObject(kind, ObjectKey(namespace, name), "makes no sense", where, pool_id)


objects = st.one_of(nodes(), slices(), taint_rules(), device_classes(), claims(), templates(), pods(), broken_objects())
"""Any object; pods have no place yet."""


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    """Three nodes with devices, some of them shared, others parts of a whole; classes, templates and claims."""
    shared = {"capacity": {"memory": "4Gi"}, "allowMultipleAllocations": True}
    sets = [{"name": "set", "counters": {"slots": {"value": "3"}}}]
    parts = [device_json(f"part-{number}", counters={"set": {"slots": "2"}}) for number in range(2)]
    counters = slice_json("counters", pool="n1", nodeName="n1", count=2, sharedCounters=sets)
    del counters["spec"]["devices"]
    published = [
        counters,
        slice_json("n1-a", [*parts, device_json("whole")], pool="n1", nodeName="n1", count=2),
        slice_json("n2-a", [device_json("d0", **shared), device_json("d1")], pool="n2", nodeName="n2"),
        slice_json("everywhere", [device_json("f0", **shared)], pool="fabric", allNodes=True),
    ]
    return [
        *(node(name, {"cpu": "4"}, labels={"zone": zone}) for name, zone in zip(NODES, "aab", strict=True)),
        *map(ResourceSlice.from_json, published),
        DeviceClass("gpu", ("true",), extended_resource_name="example.com/gpu"),
        DeviceClass("nic", ("device.allowMultipleAllocations",)),
        *draw(st.lists(claims(), min_size=2, max_size=5)),
        *draw(st.lists(templates(), min_size=2, max_size=4)),
    ]
