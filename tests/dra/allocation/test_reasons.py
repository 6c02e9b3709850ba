"""Why not: for each kind of refusal one scenario, the numbers, and the sentence."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra.allocation.allocator import DoesNotFit
from dra_spawner.dra.allocation.reasons import ExplainingSearch, NoFitReason, Refusal, RefusalKind, shortest
from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.dra.quantity import Quantity
from tests.all_of_them import all_of_them
from tests.dra.builders import (
    NODE,
    counter_slice,
    device_json,
    first_available,
    make_allocator,
    make_claim,
    make_slice,
    request,
    result,
    share,
    used,
)

NAMED = "device.attributes['gpu.example.com'].model == '{}'"
A100 = device_json("a", attributes={"model": "A100"})
H100 = device_json("h", attributes={"model": "H100"})
POLICY = {
    "value": "40Gi",
    "requestPolicy": {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi", "max": "20Gi"}},
}
SHARED = device_json("s", capacity={"memory": POLICY}, allowMultipleAllocations=True)


def model(name: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": NAMED.format(name)}}]}


def why(slices: Any, claim: Any, existing: Any = (), **more: Any) -> NoFitReason:
    found = make_allocator(slices, existing, **more).allocate(NODE, [claim])
    assert isinstance(found, DoesNotFit)
    assert found.reason is not None
    return found.reason


@all_of_them(
    "devices, wanted, existing, kind, sentence",
    {
        "nothing": ([], request(), [], RefusalKind.NO_DEVICES, "no devices"),
        "selector": (
            [A100],
            request(**model("L4")),
            [],
            RefusalKind.SELECTOR,
            "no device selected by the request's selectors",
        ),
        "in-use": ([A100], request(), [used(result("a"))], RefusalKind.IN_USE, "in use"),
        "all-in-use": (
            [A100, H100],
            request(),
            [used(result("a"), result("h"))],
            RefusalKind.IN_USE,
            "all 2 devices in use",
        ),
        "nearer-than-the-other-model": (
            [A100, H100],
            request(**model("A100")),
            [used(result("a"))],
            RefusalKind.IN_USE,
            "in use",
        ),
        "capacity": (
            [SHARED],
            request(capacity={"memory": "12Gi"}),
            [used(share("s", memory="30Gi"))],
            RefusalKind.CAPACITY,
            "memory: 10Gi left, 15Gi needed",
        ),
        "capacity-nearer-than-no-capacity": (
            [A100, SHARED],
            request(capacity={"memory": "12Gi"}),
            [used(share("s", memory="30Gi"))],
            RefusalKind.CAPACITY,
            "memory: 10Gi left, 15Gi needed",
        ),
        "policy": (
            [SHARED],
            request(capacity={"memory": "30Gi"}),
            [],
            RefusalKind.CAPACITY_POLICY,
            "memory: a share of 30Gi is not offered",
        ),
        "too-small": (
            [device_json("a", capacity={"memory": "10Gi"})],
            request(capacity={"memory": "11Gi"}),
            [],
            RefusalKind.TOO_SMALL,
            "memory: 10Gi at most, 11Gi needed",
        ),
        "unknown-capacity": (
            [SHARED],
            request(capacity={"cores": "1"}),
            [],
            RefusalKind.UNKNOWN_CAPACITY,
            "devices have no capacity cores",
        ),
        "taint": (
            [device_json("a", taints=[{"key": "bad", "value": "y", "effect": "NoSchedule"}])],
            request(),
            [],
            RefusalKind.TAINT,
            "taint bad=y:NoSchedule not tolerated",
        ),
        "taint-and-in-use": (
            [device_json("a", taints=[{"key": "bad", "value": "y", "effect": "NoSchedule"}])],
            request(),
            [used(result("a"))],
            RefusalKind.TAINT_IN_USE,
            "taint bad=y:NoSchedule not tolerated, and in use",
        ),
        "in-use-nearer-than-that": (
            [device_json("a", taints=[{"key": "bad", "value": "y", "effect": "NoSchedule"}]), device_json("b")],
            request(),
            [used(result("a"), result("b"))],
            RefusalKind.IN_USE,
            "in use",
        ),
        "too-few": ([A100], request(count=2), [], RefusalKind.TAKEN_HERE, "only 1 of 2 devices"),
    },
)
def test_reason(devices: Any, wanted: Any, existing: Any, kind: RefusalKind, sentence: str) -> None:
    reason = why([make_slice(devices=devices)], make_claim(wanted), existing)
    assert (reason.nearest.kind, str(reason)) == (kind, sentence)
    assert (reason.claim, reason.request) == ("ns/c", "r")


def test_limit() -> None:
    devices = [device_json(f"d{number:02}") for number in range(40)]
    # With 20 devices for the first request, the second would go beyond the limit; with one, none is of its kind.
    claim = make_claim(
        first_available("a", {"name": "many", "count": 20}, {"name": "few", "count": 1, **model("none")}),
        request("b", count=31),
    )
    devices = [{**device, "attributes": {"model": {"string": "L4"}}} for device in devices]
    reason = why([make_slice(devices=devices)], claim)
    assert (reason.request, str(reason)) == ("b", "more than 32 devices in one claim")


def test_numbers() -> None:
    claim = make_claim(request(capacity={"memory": "12Gi"}))
    reason = why([make_slice(devices=[SHARED])], claim, [used(share("s", memory="33Gi"))])
    assert (reason.nearest.left, reason.nearest.needed) == (Quantity.parse("7Gi"), Quantity.parse("15Gi"))
    assert reason.nearest.subject == "memory"
    assert str(reason.nearest.device) == "gpu.example.com/p/s"
    assert reason.counts == ((RefusalKind.CAPACITY, 1),)


def test_the_device_that_lacks_least_is_nearest() -> None:
    devices = [{**SHARED, "name": name} for name in ("s0", "s1", "s2")]
    existing = [used(share("s0", memory="35Gi"), share("s1", memory="28Gi"), share("s2", memory="40Gi"))]
    reason = why([make_slice(devices=devices)], make_claim(request(capacity={"memory": "15Gi"})), existing)
    assert str(reason) == "memory: 12Gi left, 15Gi needed"
    assert reason.counts == ((RefusalKind.CAPACITY, 3),)


def test_counters() -> None:
    slices = [
        make_slice(
            "a",
            [device_json("d0", counters={"x": {"mem": "30Gi"}}), device_json("d1", counters={"x": {"mem": "20Gi"}})],
            count=2,
        ),
        counter_slice("b", {"x": {"mem": "40Gi"}}, count=2),
    ]
    reason = why(slices, make_claim(request(count=1)), [used(result("d0"))])
    assert reason.nearest.kind is RefusalKind.COUNTERS
    assert str(reason) == "counter x.mem: 10Gi left, 20Gi needed"
    # Also while it is the same pod that takes the first one.
    both = why(slices, make_claim(request(count=2)))
    assert str(both) == "1 of 2 devices, then counter x.mem: 10Gi left, 20Gi needed"


def test_constraint() -> None:
    claim = make_claim(request(count=2), constraints=[{"matchAttribute": "gpu.example.com/model"}])
    reason = why([make_slice(devices=[A100, H100])], claim)
    assert str(reason) == "1 of 2 devices, then constraint on gpu.example.com/model not met"
    assert (reason.found, reason.wanted) == (1, 2)


def test_class_selector() -> None:
    classes = [DeviceClass("gpu", ("device.driver == 'nic.example.com'",))]
    reason = why([make_slice(devices=[A100])], make_claim(request()), classes=classes)
    assert str(reason) == "no device selected by class gpu"


def test_other_node() -> None:
    devices = [device_json("a", nodeName="n2"), device_json("b", nodeName="n1")]
    part = make_slice(devices=devices, perDeviceNodeSelection=True)
    reason = why([part], make_claim(request()), [used(result("b"))])
    assert (reason.nearest.kind, reason.counts) == (
        RefusalKind.IN_USE,
        ((RefusalKind.IN_USE, 1), (RefusalKind.OTHER_NODE, 1)),
    )


@pytest.mark.parametrize(
    ("part", "kind", "sentence"),
    [
        pytest.param(
            make_slice(devices=[A100], count=2),
            RefusalKind.POOL_INCOMPLETE,
            "pool gpu.example.com/p is being updated",
            id="incomplete",
        ),
        pytest.param(
            make_slice(devices=[A100, A100]),
            RefusalKind.POOL_INVALID,
            "pool gpu.example.com/p is invalid: device a is published twice",
            id="invalid",
        ),
    ],
)
def test_pools(part: Any, kind: RefusalKind, sentence: str) -> None:
    reason = why([part], make_claim(request()))
    assert (reason.nearest.kind, str(reason)) == (kind, sentence)
    # A device that is nearly right is the better explanation.
    other = make_slice("z", [H100], pool="q")
    assert why([part, other], make_claim(request()), [used(result("h", pool="q"))]).nearest.kind is RefusalKind.IN_USE


@pytest.mark.parametrize(
    ("feature", "device", "kind"),
    [
        pytest.param(
            "device_binding_and_status",
            device_json("a", bindingConditions=["x"]),
            RefusalKind.BINDING_CONDITIONS,
            id="binding",
        ),
        pytest.param(
            "partitionable_devices",
            device_json("a", counters={"x": {"m": "1"}}),
            RefusalKind.COUNTERS_DISABLED,
            id="counters",
        ),
    ],
)
def test_disabled_features(feature: str, device: Any, kind: RefusalKind) -> None:
    reason = why([make_slice(devices=[device])], make_claim(request()), features={feature: False})
    assert reason.nearest.kind is kind
    assert "disabled" in str(reason)


def test_the_request_where_the_search_got_furthest_is_named() -> None:
    claim = make_claim(request("one"), request("two", **model("L4")))
    reason = why([make_slice(devices=[A100, H100])], claim)
    assert (reason.request, reason.nearest.kind) == ("two", RefusalKind.SELECTOR)


def test_another_request_of_the_pod_has_the_device() -> None:
    reason = why([make_slice(devices=[A100])], make_claim(request("one"), request("two")))
    assert (reason.request, str(reason)) == ("two", "needed by another request of the same pod")


def test_a_long_search_is_explained_within_bounds() -> None:
    devices = [device_json(f"d{number:02}") for number in range(10)]
    claim = make_claim(request("a", count=3), request("b", count=8))
    found = make_allocator([make_slice(devices=devices)]).allocate(NODE, [claim])
    assert isinstance(found, DoesNotFit)
    assert found.steps > 2 * ExplainingSearch.max_steps
    assert str(found) == "only 7 of 8 devices"


def test_shortest() -> None:
    def reason(kind: RefusalKind, left: int = 0, needed: int = 0) -> NoFitReason:
        return NoFitReason("ns/c", "r", Refusal(kind, left=Quantity(left), needed=Quantity(needed)))

    near = reason(RefusalKind.CAPACITY, 9, 10)
    assert shortest([reason(RefusalKind.SELECTOR), near, reason(RefusalKind.CAPACITY, 1, 10)]) is near
    assert shortest([]) is None


@all_of_them("kind", RefusalKind)
def test_every_kind_has_a_sentence(kind: RefusalKind) -> None:
    text = str(Refusal(kind, subject="memory", left=Quantity.parse("1Gi"), needed=Quantity.parse("2Gi")))
    assert text
    assert "{" not in text
