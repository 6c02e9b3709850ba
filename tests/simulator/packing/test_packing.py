"""Devices are chosen so that large ones stay free, and a claim that prefers them fits wherever it did before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.dra.allocation.allocator import AllocationError
from dra_spawner.dra.model.objects import DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.preferences import with_preferences
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, RULES
from dra_spawner.simulator.devices.device_state import DeviceState
from dra_spawner.simulator.packing.device_costs import MAX_CANDIDATES
from dra_spawner.simulator.packing.packing import Packing
from tests.all_of_them import all_of_them
from tests.dra.builders import (
    DRIVER,
    counter_slice_json,
    device_json,
    request,
    result,
    share,
    slice_json,
    used,
    with_features,
)
from tests.examples import example_count
from tests.simulator.packing.states import NODES, changes, claims_of, happen, questions

GPU = DeviceClass("gpu", (f'device.driver == "{DRIVER}"',))


def state_of(*slices: Any, held: Any = (), rules: Any = DEFAULT_RULES, classes: Any = (GPU,)) -> DeviceState:
    found = [ResourceSlice.from_json(each) for each in slices]
    nodes = [Node(name, {}) for name in ("n1", "n2")]
    claims = [used(each) for each in held]
    named = [ResourceClaim(f"used-{place}", "ns", "", (), (), (), each.status) for place, each in enumerate(claims)]
    return DeviceState(found, classes, nodes, named, rules)


def preferring(state: DeviceState, specs: Any, node: str = "n1") -> Any:
    """The specs with their preferences, and the choices."""
    packing = Packing(state, claims_of(specs))
    found = packing.on_node(node)
    if found is None:
        return specs, ()
    named = [{each.request: each.groups for each in found.choices if each.claim == place and each.groups} for place in range(len(specs))]  # fmt: skip
    return [with_preferences(spec, of_claim) for spec, of_claim in zip(specs, named, strict=True)], found.choices


def answer(state: DeviceState, node: str, specs: Any) -> Any:
    """Whether the claims fit on a node; an error is another answer."""
    try:
        return isinstance(state.allocate(node, claims_of(specs)), tuple)
    except AllocationError:
        return "error"


@settings(max_examples=example_count(1500))
@given(questions(), st.data())
def test_a_claim_that_prefers_devices_fits_wherever_it_did(question: Any, data: Any) -> None:
    state = question.state
    specs, choices = preferring(state, question.specs, data.draw(st.sampled_from(NODES)))
    assert {node: answer(state, node, specs) for node in NODES} == {
        node: answer(state, node, question.specs) for node in NODES
    }
    # Up to 1.35 one request may get a shared device twice.
    if choices and all(each.is_first or each.groups for each in choices) and state.rules.release > (1, 35):
        node = next(node for node in NODES if preferring(state, question.specs, node)[1] == choices)
        found = state.allocate(node, claims_of(specs))
        given_ = {
            (place, each.request.partition("/")[0], each.id) for place, of in enumerate(found) for each in of.results
        }
        assert given_ == {(each.claim, each.request, device) for each in choices for device in each.devices}
    # What happens before the scheduler looks at the claim.
    for number in range(data.draw(st.integers(1, 4))):
        happen(state, data.draw(changes(100 + number)))
    assert {node: answer(state, node, specs) for node in NODES} == {
        node: answer(state, node, question.specs) for node in NODES
    }


def gpus(*names: str, **more: Any) -> list[Any]:
    return [device_json(name, attributes={"uuid": f"GPU-{name}"}, **more) for name in names]


SHARED = {"capacity": {"memory": "80Gi"}, "allowMultipleAllocations": True}
#: Two GPUs, each as a whole, as two halves or as four quarters.
MIG = slice_json(
    "n1-mig",
    [
        device_json(f"gpu{gpu}-{kind}{place}", attributes={"parentUUID": f"GPU-{gpu}", "profile": kind}, counters={f"gpu{gpu}": {f"slot{slot}": "1" for slot in slots}})
        for gpu in (0, 1)
        for kind, size in (("whole", 4), ("half", 2), ("quarter", 1))
        for place in range(4 // size)
        if (slots := range(place * size, place * size + size))
    ],
    count=2,
)  # fmt: skip
SLOTS = {f"gpu{gpu}": {f"slot{slot}": "1" for slot in range(4)} for gpu in (0, 1)}
COUNTERS = counter_slice_json("n1-counters", SLOTS, count=2)
COUNTERS["spec"].pop("devices", None)


def profile(kind: str) -> Any:
    return [{"cel": {"expression": f'device.attributes["{DRIVER}"].profile == "{kind}"'}}]


@all_of_them(
    "slices, held, wanted, expected",
    {
        "a share goes to the fullest device with capacity": (
            [slice_json("s", gpus("a", "b", "c", **SHARED))],
            [share("b", 1, memory="40Gi"), share("c", 2, memory="60Gi")],
            request(capacity={"memory": "20Gi"}),
            ["c"],
        ),
        "a share that fits nowhere else begins a device": (
            [slice_json("s", gpus("a", "b", **SHARED))],
            [share("b", 1, memory="70Gi")],
            request(capacity={"memory": "20Gi"}),
            ["a"],
        ),
        "a quarter goes to the GPU that is cut up": (
            [MIG, COUNTERS],
            [result("gpu1-half0")],
            request(selectors=profile("quarter")),
            ["gpu1-quarter2"],
        ),
        "a quarter goes beside a quarter, as halves stay whole": (
            [MIG, COUNTERS],
            [result("gpu0-quarter3")],
            request(selectors=profile("quarter")),
            ["gpu0-quarter2"],
        ),
        "a whole device is taken where it is": (
            [slice_json("s", gpus("a", "b"))],
            [result("a")],
            request(),
            ["b"],
        ),
    },
)
def test_large_devices_stay_free(slices: Any, held: Any, wanted: Any, expected: Any) -> None:
    state = state_of(*slices, held=held)
    specs, choices = preferring(state, [{"devices": {"requests": [wanted]}}])
    assert [device.device for each in choices for device in each.devices] == expected
    found = state.allocate("n1", claims_of(specs))
    assert isinstance(found, tuple)
    # No attribute tells partitions of one profile on one GPU apart: the first of them is given.
    assert found[0].results[0].id.device[:4] == expected[0][:4]


def test_a_node_loses_least_where_a_device_is_in_use() -> None:
    state = state_of(
        slice_json("s1", gpus("a", "b", **SHARED), pool="n1", nodeName="n1"),
        slice_json("s2", gpus("c", "d", **SHARED), pool="n2", nodeName="n2"),
        held=[{**share("c", 1, memory="40Gi"), "pool": "n2"}],
    )
    part = Packing(state, claims_of([{"devices": {"requests": [request(capacity={"memory": "20Gi"})]}}])).costs()
    whole = Packing(state, claims_of([{"devices": {"requests": [request()]}}])).costs()
    plenty = [(1, 100)]
    assert part("n2").order(plenty) < part("n1").order(plenty)  # type: ignore[union-attr]
    # The node with fewer whole devices gives its last one.
    assert whole("n2").order(plenty) < whole("n1").order(plenty)  # type: ignore[union-attr]
    # A device is begun where CPU is left for others.
    assert part("n1").order([(10, 100)]) < part("n1").order([(10, 11)])  # type: ignore[union-attr]


LIST = device_json("list", attributes={"names": ["a"]})


@all_of_them(
    "state, spec, problem",
    {
        "no list of alternatives": (
            state_of(rules=with_features(DEFAULT_RULES, prioritized_list=False)),
            {"devices": {"requests": [request()]}},
            "the scheduler knows no lists of alternatives",
        ),
        "an old scheduler": (
            state_of(rules=RULES[1, 34]),
            {"devices": {"requests": [request()]}},
            "this release of the scheduler looks at incomplete pools",
        ),
        "all devices": (
            state_of(),
            {"devices": {"requests": [request(allocationMode="All")]}},
            "a request wants all devices",
        ),
        "constraints": (
            state_of(),
            {"devices": {"requests": [request()], "constraints": [{"matchAttribute": "a/b"}]}},
            "a claim has constraints",
        ),
        "many requests": (
            state_of(),
            {"devices": {"requests": [request(f"r{number}") for number in range(5)]}},
            "there are more than 4 requests",
        ),
        "no class": (
            state_of(classes=()),
            {"devices": {"requests": [request()]}},
            "claim ns/c0, request r: device class gpu does not exist",
        ),
        "a selector that fails on a foreign device": (
            state_of(slice_json("s", [*gpus("a"), device_json("odd")]), classes=(DeviceClass("gpu", (f'device.attributes["{DRIVER}"].uuid != ""',)),)),
            {"devices": {"requests": [request()]}},
            "a selector of class gpu fails on some devices",
        ),
        "an attribute that no selector can read": (
            state_of(slice_json("s", [*gpus("a"), LIST]), classes=(DeviceClass("gpu"),), rules=RULES[1, 36]),
            {"devices": {"requests": [request()]}},
            "a selector of class gpu fails on some devices",
        ),
    },
)  # fmt: skip
def test_no_device_is_chosen_where_that_might_hurt(state: Any, spec: Any, problem: str) -> None:
    claims = [ResourceClaim.from_json({"metadata": {"name": "c0", "namespace": "ns"}, "spec": spec})]
    packing = Packing(state, claims)
    assert packing.problem == problem
    assert packing.on_node("n1") is None
    assert packing.costs()("n1") is None


@pytest.mark.parametrize("number", [MAX_CANDIDATES + 1])
def test_a_node_with_too_many_devices_is_left_to_the_scheduler(number: int) -> None:
    slices = [
        slice_json(f"s{place}", gpus(*(f"d{place}-{one}" for one in range(128))), count=-(-number // 128))
        for place in range(-(-number // 128))
    ]
    assert Packing(state_of(*slices), claims_of([{"devices": {"requests": [request()]}}])).on_node("n1") is None
