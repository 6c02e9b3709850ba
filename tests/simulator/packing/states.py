"""Random devices in random use, claims of a pod, and what may happen between a decision and its execution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from dra_spawner.dra.allocation.allocator import AllocationError
from dra_spawner.dra.model.objects import AllocatedDevice, DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.quantity import Quantity
from dra_spawner.dra.scheduler_rules import RULES
from dra_spawner.simulator.devices.device_state import DeviceState
from tests.dra.builders import counter_slice_json, device_json, request, slice_json

NODES = ("n1", "n2")
OWN = 'device.attributes["gpu.example.com"]'
CLASSES = {
    "all": [],
    "gpu": ['device.driver == "gpu.example.com"'],
    "strict": [f'{OWN}.kind == "gpu"'],
}
#: Texts that end a literal, escape its end, or are no plain text.
IDS = ('"', "\\", '" || true || "', "\n", "é\u2028", "'")
PARTS = ("1", "2", "4")


@dataclass(frozen=True)
class Question:
    """A pod's claims, as JSON, in a state of devices."""

    state: DeviceState
    specs: tuple[Any, ...]

    @property
    def claims(self) -> tuple[ResourceClaim, ...]:
        return claims_of(self.specs)


def _rarely(draw: st.DrawFn, times: int) -> bool:
    """Whether to do what is done once in so many times; small numbers are drawn more often."""
    return draw(st.integers(0, times)) == times


def claims_of(specs: Any) -> tuple[ResourceClaim, ...]:
    return tuple(
        ResourceClaim.from_json({"metadata": {"name": f"c{place}"}, "spec": spec}) for place, spec in enumerate(specs)
    )


@st.composite
def _attributes(draw: st.DrawFn, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not _rarely(draw, 5):
        found["uuid"] = name + draw(st.sampled_from(("", "", *IDS)))
    if not _rarely(draw, 30):
        found["kind"] = "gpu"
    if draw(st.booleans()):
        found["index"] = draw(st.integers(-1, 2))
    if _rarely(draw, 9):
        found["gpu.example.com/uuid"] = "twice"
    if _rarely(draw, 60):
        found["list"] = ["a", "b"]
    return found


@st.composite
def _slices(draw: st.DrawFn) -> list[Any]:
    found = []
    for node in NODES:
        kind = draw(st.sampled_from(("shared", "shared", "whole", "partitions")))
        devices = []
        for number in range(draw(st.integers(2, 5))):
            name = f"{node}-d{number}"
            more: dict[str, Any] = {}
            if kind == "shared":
                more = {"capacity": {"memory": "8Gi"}, "allowMultipleAllocations": True}
            elif kind == "partitions":
                amount = draw(st.sampled_from(PARTS))
                more = {"counters": {f"set{number % 2}": {"slots": amount}}}
            if _rarely(draw, 9):
                more["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
            devices.append(device_json(name, attributes=draw(_attributes(name)), **more))
        count = draw(st.sampled_from((1, 1, 1, 1, 1, 1, 1, 2))) + (kind == "partitions")
        found.append(slice_json(f"{node}-a", devices, pool=node, nodeName=node, count=count))
        if kind == "partitions":
            sets = {"set0": {"slots": "4"}, "set1": {"slots": "4"}}
            counters = counter_slice_json(f"{node}-c", sets, pool=node, nodeName=node, count=count)
            counters["spec"].pop("devices", None)
            found.append(counters)
    if draw(st.booleans()):
        everywhere = [device_json("far", attributes=draw(_attributes("far")))]
        found.append(
            slice_json(
                "far", everywhere, pool="far", driver=draw(st.sampled_from(("gpu.example.com", "a.b"))), allNodes=True
            )
        )
    return found


@st.composite
def specs(draw: st.DrawFn) -> Any:
    requests = []
    for number in range(draw(st.integers(1, 2))):
        wanted: dict[str, Any] = {"deviceClassName": draw(st.sampled_from(tuple(CLASSES)))}
        if draw(st.booleans()):
            wanted["capacity"] = {"requests": {"memory": draw(st.sampled_from(("1Gi", "3Gi", "5Gi")))}}
        if _rarely(draw, 3):
            wanted["count"] = 2
        if _rarely(draw, 30):
            wanted |= {"allocationMode": "All"}
            wanted.pop("count", None)
        if _rarely(draw, 5):
            wanted["selectors"] = [{"cel": {"expression": f"{OWN}.index >= 0"}}]
        entry: dict[str, Any] = {"name": f"r{number}", "exactly": wanted}
        if _rarely(draw, 5):
            entry = {"name": f"r{number}", "firstAvailable": [{"name": "a", **wanted}, {"name": "b", **wanted}]}
        requests.append(entry)
    spec: dict[str, Any] = {"devices": {"requests": requests}}
    if _rarely(draw, 19):
        spec["devices"]["constraints"] = [{"matchAttribute": "gpu.example.com/kind"}]
    if draw(st.booleans()):
        opaque = {"driver": "gpu.example.com", "parameters": {"a": 1}}
        spec["devices"]["config"] = [{"requests": ["r0"], "opaque": opaque}]
    return spec


@st.composite
def _plain_slices(draw: st.DrawFn) -> list[Any]:
    """Shared devices that only their identifiers tell apart."""
    return [
        slice_json(
            f"{node}-a",
            [
                device_json(
                    f"{node}-d{number}",
                    attributes={"uuid": f"{node}-{number}" + draw(st.sampled_from(("", *IDS))), "kind": "gpu"},
                    capacity={"memory": "8Gi"},
                    allowMultipleAllocations=True,
                )
                for number in range(4)
            ],
            pool=node,
            nodeName=node,
        )
        for node in NODES
    ]


@st.composite
def _plain_specs(draw: st.DrawFn) -> Any:
    sizes = draw(st.lists(st.sampled_from(("1Gi", "2Gi", "4Gi")), min_size=1, max_size=2))
    requests = [request(f"r{place}", capacity={"memory": size}) for place, size in enumerate(sizes)]
    return {"devices": {"requests": requests}}


@st.composite
def questions(draw: st.DrawFn) -> Question:
    is_plain = draw(st.booleans())
    release = draw(st.sampled_from((*sorted(RULES), (1, 36), (1, 37), (1, 37))))
    classes = [
        DeviceClass.from_json(
            {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": each}} for each in selectors]}}
        )
        for name, selectors in CLASSES.items()
    ]
    slices = [ResourceSlice.from_json(each) for each in draw(_plain_slices() if is_plain else _slices())]
    state = DeviceState(slices, classes, [Node(name, {}) for name in NODES], rules=RULES[release])
    _use(state, draw)
    return Question(state, tuple(draw(st.lists(_plain_specs() if is_plain else specs(), min_size=1, max_size=2))))


def _use(state: DeviceState, draw: st.DrawFn) -> None:
    """Hold some devices, or shares of them, as if other pods had come and gone."""
    for part in tuple(state.slices.values()):
        for device in part.devices:
            if draw(st.booleans()):
                continue
            held = AllocatedDevice(device.id)
            if device.is_shared:
                consumed = {"memory": Quantity.parse(draw(st.sampled_from(("1Gi", "3Gi", "5Gi", "7Gi"))))}
                held = AllocatedDevice(device.id, share_id="1", consumed_capacity=consumed)
            state.record(f"held-{device.id}", (held,))


@st.composite
def changes(draw: st.DrawFn, number: int) -> Any:
    """A pod that starts with some claim, a claim that ends, or a slice that goes or gets a taint."""
    kind = draw(st.sampled_from(("starts", "starts", "starts", "ends", "slice")))
    return kind, number, draw(st.sampled_from(NODES)), draw(specs())


def happen(state: DeviceState, change: Any) -> None:
    kind, number, node, spec = change
    if kind == "starts":
        try:
            found = state.allocate(node, claims_of((spec,)))
        except AllocationError:
            return
        if isinstance(found, tuple) and f"claim-{number}" not in state.holders:
            state.record(f"claim-{number}", found[0].results)
    elif kind == "ends" and state.holders:
        state.release(min(map(str, state.holders)))
    elif kind == "slice" and f"{node}-a" in state.slices:
        state.remove_slice(f"{node}-a")
