"""A claim waits for all of its alternatives at once: their order decides which device it gets, never whether it gets one."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.dra.allocation.allocator import DoesNotFit
from dra_spawner.dra.model.objects import Node
from tests.dra.builders import (
    counter_slice,
    device_json,
    first_available,
    make_allocator,
    make_claim,
    make_slice,
    request,
    share,
    used,
)
from tests.examples import example_count

NODES = [Node(name, {"tier": "a"}) for name in ("n1", "n2")]
KINDS = ("small", "large", "shared", "part")


@st.composite
def device(draw: st.DrawFn, name: str) -> Any:
    """A whole device, one with shares, or a partition that takes of the node's counters."""
    kind = draw(st.sampled_from(KINDS))
    more: dict[str, Any] = {"attributes": {"kind": kind, "bus": draw(st.integers(0, 1))}}
    if kind == "shared":
        more |= {"capacity": {"memory": "40Gi"}, "allowMultipleAllocations": True}
    if kind == "part":
        more["counters"] = {"slices": {"memory": f"{draw(st.integers(1, 3))}"}}
    return device_json(name, **more)


@st.composite
def alternative(draw: st.DrawFn, name: str) -> Any:
    kind = draw(st.sampled_from(KINDS))
    cel = f'device.attributes["gpu.example.com"].kind == "{kind}"'
    found: dict[str, Any] = {"name": name, "selectors": [{"cel": {"expression": cel}}]}
    if kind == "shared" and draw(st.booleans()):
        found["capacity"] = {"requests": {"memory": f"{draw(st.integers(1, 5)) * 10}Gi"}}
    if draw(st.integers(0, 3)) == 0:
        found["count"] = draw(st.integers(2, 3))
    return found


@st.composite
def situations(draw: st.DrawFn) -> tuple[Any, list[list[Any]], Any, Any]:
    """Slices, the alternatives of each request, constraints, and claims that have devices already."""
    slices, taken = [], []
    for node in NODES:
        pool, where = f"p-{node.name}", {"nodeName": node.name}
        names = [f"d{number}" for number in range(draw(st.integers(1, 5)))]
        devices = [draw(device(name)) for name in names]
        counters = {"slices": {"memory": str(draw(st.integers(1, 5)))}}
        slices.append(counter_slice(f"{node.name}-counters", counters, pool=pool, count=2, **where))
        slices.append(make_slice(f"{node.name}-devices", devices, pool=pool, count=2, **where))
        for each in devices:
            if draw(st.integers(0, 3)) == 0:
                is_shared = "allowMultipleAllocations" in each
                taken.append(
                    share(each["name"], memory="20Gi") | {"pool": pool}
                    if is_shared
                    else {"request": "r", "driver": "gpu.example.com", "pool": pool, "device": each["name"]}
                )
    requests = [
        [draw(alternative(f"a{number}")) for number in range(draw(st.integers(2, 3)))]
        for _ in range(draw(st.integers(1, 2)))
    ]
    together = [{"matchAttribute": "gpu.example.com/bus"}] if draw(st.booleans()) else []
    return slices, requests, {"constraints": together} if together else {}, [used(*taken)] if taken else []


@settings(max_examples=example_count(400))
@given(situations())
def test_their_order_never_changes_whether_a_claim_fits(situation: Any) -> None:
    slices, requests, constraints, taken = situation
    allocator = make_allocator(slices, taken)
    beside = make_claim(request(count=1), name="beside")
    for node in NODES:
        for others in ([], [beside]):
            fits = {
                not isinstance(allocator.allocate(node, [claim, *others]), DoesNotFit)
                for orders in product(*(permutations(each) for each in requests))
                for claim in [
                    make_claim(*(first_available(f"r{n}", *each) for n, each in enumerate(orders)), **constraints)
                ]
            }
            assert len(fits) == 1, (node, requests)
