"""Runs a scenario through the Python allocator and shows where its verdicts differ from the Go allocator's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from dra_spawner.dra.allocation.allocator import AllocatedState, Allocator, DoesNotFit, NoFitKind
from dra_spawner.dra.errors import AllocationError, FatalReason
from dra_spawner.dra.features import Features
from dra_spawner.dra.model.objects import DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.quantity import Quantity
from dra_spawner.dra.scheduler_rules import SchedulerRules

__all__ = ["Comparison", "comparable", "compared", "differences", "features_of", "verdicts"]

_FEATURES = {
    "AdminAccess": "admin_access",
    "ConsumableCapacity": "consumable_capacity",
    "DeviceBindingAndStatus": "device_binding_and_status",
    "DeviceTaints": "device_taints",
    "FractionalCapacityRange": "fractional_capacity_range",
    "ListTypeAttributes": "list_type_attributes",
    "PartitionableDevices": "partitionable_devices",
    "PrioritizedList": "prioritized_list",
}

Verdict = dict[str, Any]
Ask = Callable[[Iterable[dict[str, Any]]], Iterator[tuple[dict[str, Any], dict[str, Any]]]]
"""Asks the Go allocator about scenarios."""

#: How often the Go allocator is asked again about a scenario with a difference, and about each node in one attempt.
_AGAIN, _AGAIN_IN_ATTEMPT = 100, 3


@dataclass(frozen=True)
class Comparison:
    """What came of the comparison of one scenario.

    Attributes
    ----------
    differences
        A line for each node with another verdict than the Go allocator's.
    is_random
        Whether the Go allocator contradicts itself on this scenario, so that none of its answers is the right one: the order
        of its maps is random, and it changes numbers that it was given. ``differences`` is empty where one of its answers
        is ours.
    """

    differences: tuple[str, ...] = ()
    is_random: bool = False


def compared(scenario: dict[str, Any], answer: dict[str, Any], rules: SchedulerRules, ask: Ask) -> Comparison:
    """Compare our verdicts on a scenario with the Go allocator's answer, and where they differ with more answers of it."""
    mine = verdicts(scenario, rules)
    if not differences(mine, answer["verdicts"]):
        return Comparison()
    longer = {**scenario, "nodes": [node for node in scenario["nodes"] for _ in range(_AGAIN_IN_ATTEMPT)]}
    [(_, long)] = ask([longer])
    again = [answer["verdicts"], *(other["verdicts"] for _, other in ask([scenario] * _AGAIN))]
    again += [long["verdicts"][start::_AGAIN_IN_ATTEMPT] for start in range(_AGAIN_IN_ATTEMPT)]
    distinct = {json.dumps([[comparable(each), each["steps"]] for each in one]) for one in again}
    lines = [
        line
        for position, verdict in enumerate(mine)
        if not any(not differences([verdict], [theirs[position]]) for theirs in again)
        for line in differences([verdict], [answer["verdicts"][position]])
    ]
    return Comparison(tuple(lines), len(distinct) > 1)


def features_of(scenario: dict[str, Any]) -> Features:
    """The features that the scenario asks for."""
    return Features(**{_FEATURES[name]: value for name, value in scenario["features"].items()})


def verdicts(scenario: dict[str, Any], rules: SchedulerRules) -> list[Verdict]:
    """One verdict for each node: outcome, results, error, and with reasons for "none".

    Parameters
    ----------
    rules
        Of the release; the scenario says which features are on.
    """
    rules = replace(rules, features=features_of(scenario))
    allocator = Allocator(
        [ResourceSlice.from_json(item) for item in scenario["slices"]],
        [DeviceClass.from_json(item) for item in scenario["classes"]],
        AllocatedState.from_claims([ResourceClaim.from_json(item) for item in scenario["existing"]], rules),
        rules,
    )
    claims = [ResourceClaim.from_json(item) for item in scenario["claims"]]
    return [_verdict(allocator, Node.from_json(node), claims, scenario["maxSteps"]) for node in scenario["nodes"]]


def _verdict(allocator: Allocator, node: Node, claims: list[ResourceClaim], max_steps: int) -> Verdict:
    steps = count(1)
    try:
        found = allocator.allocate(node, claims, cancelled=lambda: next(steps) > max_steps)
    except AllocationError as error:
        return {"outcome": "fatal", "error": str(error), "reason": error.reason}
    if isinstance(found, DoesNotFit):
        outcome = "on-node" if found.kind is NoFitKind.INVALID_POOLS else "none"
        return {"outcome": outcome, "error": str(found), "steps": found.steps}
    return {"outcome": "fits", "results": [allocation.to_json(lambda: "share") for allocation in found]}


def differences(mine: list[Verdict], reference: list[Verdict]) -> list[str]:
    """Differences, a line for each node; empty when there is none.

    Compared are outcome, order and content of results, node selectors, configurations, and consumed capacity by value
    and as text. Share ids are random: only whether there is one counts. Steps are compared where nothing fits, if they are
    known.
    """
    lines = []
    for position, (ours, theirs) in enumerate(zip(mine, reference, strict=True)):
        if ours.get("reason") is FatalReason.SELECTOR_UNSUPPORTED:
            continue
        if ours["outcome"] != _expected_outcome(theirs):
            lines.append(f"node {position}: {_show(ours)} instead of {_show(theirs)}")
        elif ours["outcome"] == "fits":
            left = [_canonical(item) for item in ours["results"]]
            right = [_canonical(item) for item in theirs.get("results", [])]
            if left != right:
                lines.append(f"node {position}: {json.dumps(left)} instead of {json.dumps(right)}")
        elif theirs["steps"] and "steps" in ours and ours["steps"] != theirs["steps"]:
            lines.append(f"node {position}: {ours['steps']} steps instead of {theirs['steps']}")
    return lines


def comparable(verdict: Verdict) -> Any:
    """All of a verdict that is compared, but for steps, as JSON."""
    outcome = _expected_outcome(verdict)
    return [outcome, [_canonical(item) for item in verdict.get("results", [])] if outcome == "fits" else []]


def _expected_outcome(reference: Verdict) -> str:
    """A crash of the scheduler is as fatal as its errors."""
    return "fatal" if reference["outcome"] == "panic" else str(reference["outcome"])


def _show(verdict: Verdict) -> str:
    return f"{verdict['outcome']} ({verdict.get('error') or json.dumps(verdict.get('results'))})"


def _canonical(allocation: dict[str, Any]) -> dict[str, Any]:
    devices = dict(allocation.get("devices") or {})
    devices["results"] = [_canonical_result(result) for result in devices.get("results") or []]
    return {**allocation, "devices": devices}


def _canonical_result(result: dict[str, Any]) -> dict[str, Any]:
    result = dict(result)
    if "shareID" in result:
        result["shareID"] = "share"
    if "consumedCapacity" in result:
        result["consumedCapacity"] = {
            name: [text, Quantity.parse(text).nano] for name, text in sorted(result["consumedCapacity"].items())
        }
    return result
