"""The allocator as its callers see it; the quirks and the differential test show its decisions in detail."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dra_spawner.dra.allocation.allocator import Allocation, AllocationError, DoesNotFit, FatalReason, NoFitKind
from dra_spawner.dra.model.objects import DeviceClass, Node
from tests.all_of_them import all_of_them
from tests.dra.builders import (
    NODE,
    counter_slice,
    device_json,
    devices_of,
    first_available,
    make_allocator,
    make_claim,
    make_slice,
    request,
    result,
    used,
)

TWO = make_slice(devices=[device_json("d0", attributes={"big": True}), device_json("d1")])
SHARED = device_json("d0", capacity={"memory": "40Gi"}, allowMultipleAllocations=True)


def cel(expression: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}}]}


def test_whole_device() -> None:
    found = make_allocator([TWO], [used(result("d0"))]).allocate(NODE, [make_claim(request())])
    assert not isinstance(found, DoesNotFit)
    assert [allocation.to_json(lambda: pytest.fail("no share, no id")) for allocation in found] == [
        {
            "devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d1"}]},
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
            },
        }
    ]


def test_shares_get_ids_of_their_own() -> None:
    claim = make_claim(request("a", capacity={"memory": "5Gi"}), request("b", capacity={"memory": "6Gi"}))
    found = make_allocator([make_slice(devices=[SHARED])]).allocate(NODE, [claim])
    assert not isinstance(found, DoesNotFit)
    ids = (f"id-{number}" for number in itertools.count())
    shown: Any = found[0].to_json(lambda: next(ids))
    results = shown["devices"]["results"]
    assert [(item["shareID"], item["consumedCapacity"]) for item in results] == [
        ("id-0", {"memory": "5Gi"}),
        ("id-1", {"memory": "6Gi"}),
    ]


def test_result_has_fields_of_the_request_and_the_device() -> None:
    device = device_json(
        "d0",
        taints=[{"key": "bad", "effect": "NoExecute"}],
        bindingConditions=["ready"],
        bindingFailureConditions=["failed"],
    )
    claim = make_claim(request(adminAccess=True, tolerations=[{"operator": "Exists", "tolerationSeconds": 60}]))
    found = make_allocator([make_slice(devices=[device], allNodes=True)]).allocate(NODE, [claim])
    assert not isinstance(found, DoesNotFit)
    assert found[0].to_json(str) == {
        "devices": {
            "results": [
                {
                    "request": "r",
                    "driver": "gpu.example.com",
                    "pool": "p",
                    "device": "d0",
                    "adminAccess": True,
                    "tolerations": [{"operator": "Exists", "tolerationSeconds": 60}],
                    "bindingConditions": ["ready"],
                    "bindingFailureConditions": ["failed"],
                }
            ]
        }
    }


def test_results_can_be_counted_as_in_use() -> None:
    allocator = make_allocator([make_slice(devices=[SHARED])])
    claim = make_claim(request(capacity={"memory": "25Gi"}))
    found = allocator.allocate(NODE, [claim])
    assert not isinstance(found, DoesNotFit)
    # Nothing is recorded by the allocator itself.
    assert isinstance(allocator.allocate(NODE, [claim]), tuple)
    holder = used(found[0].results[0].to_json("id"))
    again = make_allocator([make_slice(devices=[SHARED])], [holder]).allocate(NODE, [claim])
    assert isinstance(again, DoesNotFit)
    assert str(again) == "memory: 15Gi left, 25Gi needed"


@pytest.mark.parametrize(
    ("claims", "devices"),
    [
        pytest.param([], [], id="no-claims"),
        pytest.param([make_claim()], [[]], id="no-requests"),
        pytest.param([make_claim(request(), name="a"), make_claim(request(), name="b")], [["d0"], ["d1"]], id="claims"),
        pytest.param([make_claim(request(count=2))], [["d0", "d1"]], id="count"),
        pytest.param([make_claim(request(allocationMode="All"))], [["d0", "d1"]], id="all"),
        pytest.param(
            [make_claim(request("a"), request("b", **cel("'big' in device.attributes['gpu.example.com']")))],
            [["d1", "d0"]],
            id="backtracking",
        ),
        pytest.param(
            [make_claim(first_available("a", {"name": "x", "count": 3}, {"name": "y", "count": 2}))],
            [["d0", "d1"]],
            id="second-alternative",
        ),
        pytest.param(
            [
                make_claim(first_available("a", {"name": "x", "count": 2}, {"name": "y"}), name="a"),
                make_claim(request(), name="b"),
            ],
            [["d0"], ["d1"]],
            id="a-later-claim-changes-the-alternative",
        ),
    ],
)
def test_devices(claims: list[Any], devices: list[list[str]]) -> None:
    found = make_allocator([TWO]).allocate(NODE, claims)
    assert isinstance(found, tuple)
    assert devices_of(found) == devices


def test_alternatives_are_named_in_results() -> None:
    claim = make_claim(first_available("a", {"name": "x", "count": 3}, {"name": "y", "count": 2}))
    found = make_allocator([TWO]).allocate(NODE, [claim])
    assert isinstance(found, tuple)
    assert [item.request for item in found[0].results] == ["a/y", "a/y"]


def test_one_allocator_serves_many_nodes() -> None:
    slices = [TWO, make_slice("t", [device_json("e0")], pool="q", nodeName="n2")]
    allocator = make_allocator(slices)
    claim = make_claim(request(count=2))
    assert isinstance(allocator.allocate(NODE, [claim]), tuple)
    assert isinstance(allocator.allocate(Node("n2"), [claim]), DoesNotFit)
    assert isinstance(allocator.allocate(NODE, [claim]), tuple)


@all_of_them(
    "claim, features, reason",
    {
        "class": (request(deviceClassName="none"), {}, FatalReason.CLASS_NOT_FOUND),
        "no-class": (request(deviceClassName=""), {}, FatalReason.CLAIM),
        "mode": (request(allocationMode="Some"), {}, FatalReason.CLAIM),
        "selector-kind": (request(selectors=[{}]), {}, FatalReason.CLAIM),
        "count": (request(count=33), {}, FatalReason.TOO_MANY_DEVICES),
        "does-not-compile": (request(**cel("device.nothing")), {}, FatalReason.SELECTOR),
        "no-boolean": (request(**cel("device.driver")), {}, FatalReason.SELECTOR),
        "run-time": (request(**cel("device.attributes['gpu.example.com'].none == 1")), {}, FatalReason.SELECTOR),
        "capacity": (request(capacity={}), {"consumable_capacity": False}, FatalReason.FEATURE_DISABLED),
        "admin": (request(adminAccess=False), {"admin_access": False}, FatalReason.FEATURE_DISABLED),
        "first": (first_available("r", {"name": "x"}), {"prioritized_list": False}, FatalReason.FEATURE_DISABLED),
        "capacity-of-alternative": (
            first_available("r", {"name": "x", "capacity": {}}),
            {"consumable_capacity": False},
            FatalReason.FEATURE_DISABLED,
        ),
    },
)
def test_fatal(claim: Any, features: dict[str, bool], reason: FatalReason) -> None:
    allocator = make_allocator([TWO], features=features)
    with pytest.raises(AllocationError) as caught:
        allocator.allocate(NODE, [make_claim(claim)])
    assert caught.value.reason is reason
    if reason is not FatalReason.TOO_MANY_DEVICES:
        assert "ns/c" in str(caught.value)


def test_errors_name_the_class_whose_selector_failed() -> None:
    broken = DeviceClass("gpu", ("true", "device.attributes['gpu.example.com'].none == 1"))
    with pytest.raises(AllocationError, match=r"^class gpu: selector #1: CEL runtime error: ") as caught:
        make_allocator([TWO], classes=[broken]).allocate(NODE, [make_claim(request())])
    assert caught.value.reason is FatalReason.SELECTOR


def test_constraint_without_attribute_is_fatal() -> None:
    with pytest.raises(AllocationError, match="constraint 0"):
        make_allocator([TWO]).allocate(NODE, [make_claim(request(), constraints=[{"requests": ["r"]}])])


def test_invalid_pools_are_an_error_on_the_node() -> None:
    twice = make_slice("b", [device_json("d0"), device_json("d0")], pool="q")
    allocator = make_allocator([TWO, twice])
    assert isinstance(allocator.allocate(NODE, [make_claim(request(count=2))]), tuple)
    missing = allocator.allocate(NODE, [make_claim(request(count=3))])
    assert isinstance(missing, DoesNotFit)
    assert missing.kind is NoFitKind.INVALID_POOLS


@pytest.mark.parametrize(
    ("feature", "device"),
    [
        pytest.param("device_binding_and_status", device_json("d0", bindingConditions=["a"]), id="binding"),
        pytest.param("partitionable_devices", device_json("d0", counters={"x": {"m": "1"}}), id="counters"),
    ],
)
def test_devices_that_need_a_disabled_feature(feature: str, device: Any) -> None:
    slices = [make_slice("a", [device], count=2), counter_slice("b", {"x": {"m": "1"}}, count=2)]
    if feature == "partitionable_devices":
        slices = [make_slice("a", [device])]
    allocator = make_allocator(slices, features={feature: False})
    assert isinstance(allocator.allocate(NODE, [make_claim(request())]), DoesNotFit)


def test_disabled_taints_are_ignored() -> None:
    tainted = make_slice(devices=[device_json("d0", taints=[{"key": "a", "effect": "NoSchedule"}])])
    claim = make_claim(request())
    assert isinstance(make_allocator([tainted]).allocate(NODE, [claim]), DoesNotFit)
    assert isinstance(make_allocator([tainted], features={"device_taints": False}).allocate(NODE, [claim]), tuple)


def test_a_search_of_any_depth() -> None:
    """400 claims are far more nested steps than Python has stack."""
    devices = [device_json(f"d{number:03}") for number in range(400)]
    # A slice has at most 128 devices.
    slices = [make_slice(f"s{at}", devices[at * 100 : at * 100 + 100], count=4) for at in range(4)]
    claims = [make_claim(request(), name=f"c{number}") for number in range(400)]
    found = make_allocator(slices).allocate(NODE, claims)
    assert isinstance(found, tuple)
    assert devices_of(found) == [[f"d{number:03}"] for number in range(400)]


def test_a_search_can_be_stopped() -> None:
    devices = make_slice(devices=[device_json(f"d{number:02}") for number in range(24)])
    claim = make_claim(request("a", count=12), request("b", count=13))
    steps = itertools.count()
    with pytest.raises(AllocationError) as caught:
        make_allocator([devices]).allocate(NODE, [claim], cancelled=lambda: next(steps) >= 1000)
    assert caught.value.reason is FatalReason.ABORTED
    assert next(steps) == 1001


def test_no_reason_unless_asked() -> None:
    found = make_allocator([TWO]).allocate(NODE, [make_claim(request(count=3))], explain=False)
    assert isinstance(found, DoesNotFit)
    assert found.reason is None
    assert found.steps == 4


def test_allocation_without_devices() -> None:
    assert Allocation(()).to_json(str) == {"devices": {}}
