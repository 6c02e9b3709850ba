"""Short ways to write devices, slices, claims and nodes in tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dra_spawner.dra.allocation.allocator import AllocatedState, Allocator
from dra_spawner.dra.model.objects import Device, DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, SchedulerRules

DRIVER = "gpu.example.com"
NODE = Node("n1", {"tier": "a"})
GPU = DeviceClass("gpu")


def attribute(value: str | int | bool | list[str] | dict[str, Any]) -> dict[str, Any]:
    match value:
        case dict():
            return value
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case list():
            return {"strings": value}
        case _:
            return {"string": value}


def device_json(name: str, *, attributes: Any = None, capacity: Any = None, counters: Any = None, **more: Any) -> Any:
    """``capacity`` maps names to amounts or whole entries, ``counters`` counter sets to counters."""
    device: dict[str, Any] = {"name": name, **more}
    if attributes:
        device["attributes"] = {key: attribute(value) for key, value in attributes.items()}
    if capacity:
        device["capacity"] = {
            key: value if isinstance(value, dict) else {"value": value} for key, value in capacity.items()
        }
    if counters:
        device["consumesCounters"] = [
            {"counterSet": key, "counters": {name: {"value": amount} for name, amount in values.items()}}
            for key, values in counters.items()
        ]
    return device


def slice_json(
    name: str = "s", devices: Any = (), *, pool: str = "p", driver: str = DRIVER, count: int = 1, **spec: Any
) -> Any:
    """A slice for node n1 unless another choice of nodes is given."""
    if not {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"} & spec.keys():
        spec["nodeName"] = "n1"
    generation = spec.pop("generation", 1)
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
            **spec,
        },
    }


def make_slice(*args: Any, **more: Any) -> ResourceSlice:
    return ResourceSlice.from_json(slice_json(*args, **more))


def make_device(name: str = "d0", **more: Any) -> Device:
    return make_slice(devices=[device_json(name, **more)]).devices[0]


def counter_slice_json(name: str = "counters", counters: Any = None, **more: Any) -> Any:
    sets = [
        {"name": key, "counters": {counter: {"value": amount} for counter, amount in values.items()}}
        for key, values in (counters or {}).items()
    ]
    return slice_json(name, sharedCounters=sets, **more)


def counter_slice(*args: Any, **more: Any) -> ResourceSlice:
    return ResourceSlice.from_json(counter_slice_json(*args, **more))


def request(name: str = "r", *, capacity: Any = None, **exactly: Any) -> Any:
    if capacity is not None:
        exactly["capacity"] = {"requests": capacity}
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def first_available(name: str, *alternatives: Any) -> Any:
    return {"name": name, "firstAvailable": [{"deviceClassName": "gpu", **item} for item in alternatives]}


def make_claim(*requests: Any, name: str = "c", results: Any = None, **devices: Any) -> ResourceClaim:
    claim: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }
    if results is not None:
        claim["status"] = {"allocation": {"devices": {"results": list(results)}}}
    return ResourceClaim.from_json(claim)


def result(device: str, *, pool: str = "p", driver: str = DRIVER, **more: Any) -> Any:
    return {"request": "r", "driver": driver, "pool": pool, "device": device, **more}


def share(device: str, number: int = 1, **consumed: str) -> Any:
    """A share that consumes so much; with no amounts, one that does not say."""
    more: dict[str, Any] = {"consumedCapacity": consumed} if consumed else {}
    return result(device, shareID=f"00000000-0000-0000-0000-{number:012}", **more)


def used(*results: Any) -> ResourceClaim:
    """A claim that is allocated already."""
    return make_claim(request(), name="used", results=results)


def make_allocator(
    slices: Any,
    existing: Any = (),
    *,
    classes: Any = (GPU,),
    rules: SchedulerRules = DEFAULT_RULES,
    features: Mapping[str, bool] | None = None,
) -> Allocator:
    if features is not None:
        rules = with_features(rules, **features)
    return Allocator(slices, classes, AllocatedState.from_claims(existing, rules), rules)


def with_features(rules: SchedulerRules, **features: bool) -> SchedulerRules:
    """The rules with some features on or off."""
    return replace(rules, features=replace(rules.features, **features))


def devices_of(found: Any) -> list[list[str]]:
    """Names of the devices each claim got."""
    return [[item.id.device for item in allocation.results] for allocation in found]
