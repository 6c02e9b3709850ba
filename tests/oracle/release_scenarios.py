"""What a release makes of a scenario.

Up to 1.35 the API server drops fields whose feature gates are off by default, and the allocators visit pools and slices
in an order that is random in a cluster: here it is the order of names, and the slices of a pool agree about their
number. Up to 1.36 no claim asks for an amount that Go keeps behind a pointer, as one of more than 18 digits: the allocator
adds up behind the claim's own pointer, so what it answers depends on what it was asked before.
"""

from __future__ import annotations

import random
from collections import Counter
from copy import deepcopy
from typing import Any, Final

from dra_spawner.dra.quantity import int64_scale
from dra_spawner.dra.scheduler_rules import Release

__all__ = ["as_of"]

Json = dict[str, Any]

_FIRST_WITH_ALL: Final[Release] = (1, 36)
_FIRST_WITH_FRACTIONS: Final[Release] = (1, 37)
_ON: Final = ("AdminAccess", "PrioritizedList")
_OF_DEVICE: Final = (
    "allowMultipleAllocations",
    "consumesCounters",
    "nodeName",
    "nodeSelector",
    "allNodes",
    "taints",
    "bindsToNode",
    "bindingConditions",
    "bindingFailureConditions",
)
_OF_RESULT: Final = ("shareID", "consumedCapacity")
_OF_REQUEST: Final = ("capacity", "tolerations")


def as_of(scenario: Json, release: Release) -> Json:
    """The scenario as a cluster of this release has it."""
    if release >= _FIRST_WITH_FRACTIONS:
        # A gate that half of the clusters have.
        fractions = random.Random(scenario["name"]).random() < 0.5
        return {**scenario, "features": {**scenario["features"], "FractionalCapacityRange": fractions}}
    scenario = deepcopy(scenario)
    for claim in scenario["claims"]:
        _keep_numbers_apart(claim)
    if release >= _FIRST_WITH_ALL:
        return scenario
    scenario["features"] = {name: on and name in _ON for name, on in scenario["features"].items()}
    slices = [item for item in scenario["slices"] if "perDeviceNodeSelection" not in item["spec"]]
    scenario["slices"] = sorted(slices, key=lambda item: item["metadata"]["name"])
    counts = Counter(_pool(item) for item in slices)
    for item in slices:
        _trim_slice(item["spec"], counts[_pool(item)])
    for claim in (*scenario["existing"], *scenario["claims"]):
        _trim_claim(claim)
    return scenario


def _keep_numbers_apart(claim: Json) -> None:
    for request in claim["spec"]["devices"].get("requests", ()):
        for wanted in (request.get("exactly"), *request.get("firstAvailable", ())):
            asked = ((wanted or {}).get("capacity") or {}).get("requests", {})
            for name, amount in asked.items():
                if int64_scale(amount) is None:
                    asked[name] = "1"


def _pool(item: Json) -> tuple[str, str, int]:
    spec = item["spec"]
    return spec["driver"], spec["pool"]["name"], spec["pool"]["generation"]


def _trim_slice(spec: Json, present: int) -> None:
    spec.pop("sharedCounters", None)
    # Of those that told different numbers, complete and incomplete pools remain.
    spec["pool"]["resourceSliceCount"] = present + (spec["pool"]["generation"] % 5 == 2)
    for device in spec.get("devices", ()):
        for name in _OF_DEVICE:
            device.pop(name, None)
        for capacity in device.get("capacity", {}).values():
            capacity.pop("requestPolicy", None)
        attributes = device.get("attributes", {})
        device["attributes"] = {
            name: value for name, value in attributes.items() if not {*value} & {"ints", "bools", "strings", "versions"}
        }


def _trim_claim(claim: Json) -> None:
    devices = claim["spec"]["devices"]
    for request in devices.get("requests", ()):
        for wanted in (request.get("exactly"), *request.get("firstAvailable", ())):
            for name in _OF_REQUEST:
                if wanted is not None:
                    wanted.pop(name, None)
            if wanted is not None and "selectors" in wanted:
                # These API servers do not know the function, and refuse the claim.
                wanted["selectors"] = [item for item in wanted["selectors"] if "includes" not in str(item)]
    constraints = [item for item in devices.get("constraints", ()) if "distinctAttribute" not in item]
    if "constraints" in devices:
        devices["constraints"] = constraints
    for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
        for name in _OF_RESULT:
            result.pop(name, None)
