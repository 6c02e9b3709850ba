"""Decoding API objects: defaults, optional fields, and errors that name the field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dra_spawner.dra.model.objects import (
    Attribute,
    AttributeKind,
    CounterName,
    DeviceClass,
    DeviceId,
    Node,
    ObjectError,
    PoolId,
    ResourceClaim,
    ResourceSlice,
)
from dra_spawner.dra.quantity import Quantity
from tests.all_of_them import all_of_them
from tests.dra.builders import attribute, device_json, first_available, make_claim, make_device, request, slice_json

SLICE = slice_json(
    "s1",
    [
        device_json(
            "gpu-0",
            attributes={"model": "A100", "index": 3, "resource.kubernetes.io/pcieRoot": "pci0"},
            capacity={"memory": {"value": "40Gi", "requestPolicy": {"default": "5Gi", "validRange": {"min": "5Gi"}}}},
            counters={"mem": {"slots": "1500m"}},
            taints=[{"key": "bad", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
            allowMultipleAllocations=True,
            bindsToNode=True,
            bindingConditions=["ready"],
            nodeAllocatableResourceMappings={"cpu": {"capacityKey": "cores"}},
        )
    ],
)
CLAIM = {
    "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
    "spec": {"devices": {"requests": [request("r", capacity={"memory": "5Gi"}, tolerations=[{"key": "bad"}])]}},
    "status": {
        "allocation": {
            "devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x", "shareID": "id"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "jupyter-ada", "uid": "1"}],
    },
}


def test_slice() -> None:
    decoded = ResourceSlice.from_json(SLICE)
    assert (decoded.name, decoded.pool_id, decoded.generation) == ("s1", PoolId("gpu.example.com", "p"), 1)
    assert decoded.node_name == "n1"
    [device] = decoded.devices
    assert device.id == DeviceId("gpu.example.com", "p", "gpu-0")
    assert str(device.id) == "gpu.example.com/p/gpu-0"
    assert device.description.attributes["index"] == Attribute(AttributeKind.INT, 3)
    memory = device.description.capacity["memory"]
    assert memory.value == Quantity.parse("40Gi")
    assert memory.policy is not None
    assert memory.policy.valid_range is not None
    assert memory.policy.valid_range.minimum == Quantity.parse("5Gi")
    assert device.consumes_counters == ((CounterName("mem", "slots"), 1_500_000_000),)
    assert device.is_shared
    assert device.binds_to_node
    assert device.binding_conditions == ("ready",)


def test_claim() -> None:
    claim = ResourceClaim.from_json(CLAIM)
    assert str(claim) == "ns/c"
    assert claim.is_allocated
    assert claim.status.devices is not None
    assert claim.status.devices[0].share_id == "id"
    assert claim.status.devices[0].consumed_capacity is None
    assert claim.status.node_selector is not None
    assert claim.status.reserved_for[0].name == "jupyter-ada"


@pytest.mark.parametrize(
    ("wanted", "mode", "count"),
    [
        pytest.param({}, "ExactCount", 1, id="nothing"),
        pytest.param({"count": 3}, "ExactCount", 3, id="count"),
        pytest.param({"allocationMode": "ExactCount"}, "ExactCount", 1, id="mode"),
        pytest.param({"allocationMode": "All"}, "All", 0, id="all"),
        pytest.param({"allocationMode": ""}, "ExactCount", 1, id="empty-mode"),
    ],
)
def test_defaults_of_requests(wanted: dict[str, Any], mode: str, count: int) -> None:
    claim = make_claim(request(**wanted), first_available("f", {"name": "s", **wanted}))
    for item in claim.requests:
        [alternative] = item.alternatives
        assert (alternative.allocation_mode, alternative.count) == (mode, count)


def test_capacity_requests_absent_and_empty_differ() -> None:
    claim = make_claim(request("a"), request("b", capacity={}), {"name": "c", "exactly": {"capacity": {}}})
    assert [item.alternatives[0].capacity_requests for item in claim.requests] == [None, {}, {}]


def test_toleration_operator_defaults_to_equal() -> None:
    claim = make_claim(
        request(tolerations=[{"key": "a", "value": "b"}, {"operator": "Exists", "tolerationSeconds": 0}])
    )
    assert [item.to_json() for item in claim.requests[0].alternatives[0].tolerations] == [
        {"key": "a", "operator": "Equal", "value": "b"},
        {"operator": "Exists", "tolerationSeconds": 0},
    ]


def test_class_without_spec() -> None:
    assert DeviceClass.from_json({"metadata": {"name": "any"}}) == DeviceClass("any")


def test_class_selector_of_unknown_kind() -> None:
    spec = {"selectors": [{"cel": {"expression": "true"}}, {"rego": "x"}], "extendedResourceName": "example.com/gpu"}
    decoded = DeviceClass.from_json({"metadata": {"name": "any"}, "spec": spec})
    assert decoded.selectors == ("true", None)
    assert decoded.extended_resource_name == "example.com/gpu"


@all_of_them(
    "value, kind",
    {
        "string": ("a", AttributeKind.STRING),
        "int": (1, AttributeKind.INT),
        "bool": (True, AttributeKind.BOOL),
        "version": ({"version": "1.0.0"}, AttributeKind.VERSION),
        "strings": (["a", "b"], AttributeKind.STRINGS),
        "ints": ({"ints": [1, 2]}, AttributeKind.INTS),
        "bools": ({"bools": [True]}, AttributeKind.BOOLS),
        "versions": ({"versions": ["1.0.0"]}, AttributeKind.VERSIONS),
        "empty-list": ({"strings": []}, AttributeKind.UNKNOWN),
        "nothing": ({}, AttributeKind.UNKNOWN),
        "from-the-future": ({"quaternion": 1}, AttributeKind.UNKNOWN),
    },
)
def test_attribute(value: Any, kind: AttributeKind) -> None:
    decoded = make_device(attributes={"a": value}).description.attributes["a"]
    assert decoded.kind is kind
    if kind is not AttributeKind.UNKNOWN:
        assert decoded.to_json() == attribute(value)


def test_devices_that_look_the_same_have_equal_descriptions() -> None:
    first = make_device("a", attributes={"x": 1, "y": "z"}, capacity={"m": "1Gi"}).description
    same = make_device("b", attributes={"y": "z", "x": 1}, capacity={"m": "1Gi"}).description
    assert first == same
    assert hash(first) == hash(same)
    assert first.capacity is same.capacity, "a cluster has thousands of them"


def test_capacities_are_shared_by_what_was_written() -> None:
    written = [make_device(capacity={"m": value}).description.capacity["m"].value.format for value in (1024, "1Ki")]
    assert len(set(written)) == 2, "the amount is the same"
    with pytest.raises(ObjectError, match=r"devices\[0\]\.capacity\[m\]"):
        make_device(capacity={"m": True})


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"attributes": {"x": True}}, id="type"),
        pytest.param({"attributes": {"x": 2}}, id="value"),
        pytest.param({"attributes": {"x": 1, "y": 1}}, id="more"),
        pytest.param({"attributes": {"x": 1}, "capacity": {"m": "1"}}, id="capacity"),
        pytest.param({"attributes": {"x": 1}, "allowMultipleAllocations": True}, id="shared"),
    ],
)
def test_devices_that_look_different(other: dict[str, Any]) -> None:
    assert make_device(attributes={"x": 1}).description != make_device(**other).description


def test_step_zero_is_a_defect_of_the_device() -> None:
    policy = {"default": "1", "validRange": {"min": "1", "step": "0"}}
    device = make_device(capacity={"cores": {"value": "8", "requestPolicy": policy}})
    assert device.defect == "capacity[cores].requestPolicy.validRange.step: must not be 0"


def test_node() -> None:
    node = Node.from_json({"kind": "Node", "metadata": {"name": "n", "labels": {"a": "b"}}})
    assert (node.name, dict(node.labels)) == ("n", {"a": "b"})
    assert not Node.from_json({"metadata": {"name": "n"}}).labels


def put(obj: Any, path: tuple[str | int, ...], value: Any) -> Any:
    obj = copy.deepcopy(obj)
    target = obj
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return obj


DEVICE = ("spec", "devices", 0)
REQUEST = ("spec", "devices", "requests", 0)


@all_of_them(
    "decode, obj, where",
    {
        "no-object": (ResourceSlice, [], "ResourceSlice: must be an object, not a list"),
        "kind": (ResourceSlice, {"kind": "Pod"}, "ResourceSlice: kind: must be ResourceSlice"),
        "no-spec": (ResourceSlice, {"metadata": {"name": "s"}}, "ResourceSlice s: spec: is required"),
        "no-name": (ResourceSlice, {"metadata": {}}, "ResourceSlice: metadata.name: is required"),
        "driver": (ResourceSlice, put(SLICE, ("spec", "driver"), ""), "ResourceSlice s1: spec.driver: is required"),
        "text-for-integer": (
            ResourceSlice,
            put(SLICE, ("spec", "pool", "generation"), "1"),
            "spec.pool.generation: must be an integer, not a string",
        ),
        "too-large": (
            ResourceSlice,
            put(SLICE, ("spec", "pool", "generation"), 2**63),
            "spec.pool.generation: must be from",
        ),
        "device": (
            ResourceSlice,
            put(SLICE, ("spec", "devices"), [1]),
            "spec.devices[0]: must be an object, not an integer",
        ),
        "quantity": (
            ResourceSlice,
            put(SLICE, (*DEVICE, "capacity", "memory", "value"), "40 GB"),
            "spec.devices[0].capacity[memory].value: ",
        ),
        "range-without-minimum": (
            ResourceSlice,
            put(SLICE, (*DEVICE, "capacity", "memory", "requestPolicy"), {"validRange": {"max": "1"}}),
            "spec.devices[0].capacity[memory].requestPolicy.validRange.min: is required",
        ),
        "list-of-quantities": (
            ResourceSlice,
            put(SLICE, (*DEVICE, "capacity", "memory", "requestPolicy"), {"validValues": ["1", "x"]}),
            "requestPolicy.validValues[1]: ",
        ),
        "two-values": (
            ResourceSlice,
            put(SLICE, (*DEVICE, "attributes", "model", "int"), 1),
            "spec.devices[0].attributes[model].int: an attribute has one value, and string is set, too",
        ),
        "boolean-for-integer": (
            ResourceSlice,
            put(SLICE, (*DEVICE, "attributes", "index", "int"), True),
            "spec.devices[0].attributes[index].int: must be an integer, not a boolean",
        ),
        "list-of-texts": (
            ResourceSlice,
            put(SLICE, (*DEVICE, "bindingConditions"), ["a", 1]),
            "spec.devices[0].bindingConditions[1]: must be a string, not an integer",
        ),
        "no-request-type": (
            ResourceClaim,
            put(CLAIM, REQUEST, {"name": "r"}),
            "ResourceClaim c: spec.devices.requests[0]: one of exactly and firstAvailable is required",
        ),
        "count": (
            ResourceClaim,
            put(CLAIM, (*REQUEST, "exactly", "count"), -1),
            "spec.devices.requests[0].exactly.count: must be from 0",
        ),
        "float": (
            ResourceClaim,
            put(CLAIM, (*REQUEST, "exactly", "capacity", "requests", "memory"), 1.5),
            "spec.devices.requests[0].exactly.capacity.requests[memory]: ",
        ),
        "status": (
            ResourceClaim,
            put(CLAIM, ("status", "allocation", "devices", "results", 0, "driver"), None),
            "status.allocation.devices.results[0].driver: is required",
        ),
        "label": (Node, {"metadata": {"name": "n", "labels": {"a": 1}}}, "metadata.labels.a: must be"),
    },
)
def test_errors_name_the_field(decode: Any, obj: Any, where: str) -> None:
    with pytest.raises(ObjectError) as caught:
        decode.from_json(obj)
    assert where in str(caught.value)
