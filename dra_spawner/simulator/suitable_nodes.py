"""On which nodes a pod that is to be created would fit, devices apart: for who pins it to one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dra_spawner.dra.objects import ObjectError
from dra_spawner.simulator.node_fit import FitCode, NodeFit
from dra_spawner.simulator.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.pods import Pod

__all__ = ["as_admitted", "suitable_nodes"]

JsonObject = Mapping[str, Any]


def suitable_nodes(pod: JsonObject, nodes: Sequence[JsonObject], pods: Sequence[JsonObject]) -> frozenset[str]:
    """Names of the nodes that kube-scheduler's filters leave, of what is known.

    Where no node is left because of pods of lower priority, such as placeholders that give way, those are left out.
    What cannot be judged, because an object makes no sense or uses what is not modelled, counts as suitable.

    Parameters
    ----------
    pod
        As it will be created.
    nodes, pods
        As the API has them; pods without a node count nowhere.
    """
    known = [node for each in nodes if (node := _decoded(SchedulableNode.from_json, each)) is not None]
    present = [found for each in pods if (found := _decoded(Pod.from_json, each)) is not None]
    candidate = _decoded(Pod.from_json, as_admitted(pod))
    if candidate is None:
        return frozenset(node.name for node in known)
    class_name = pod["spec"].get("priorityClassName")
    same_class = (each["spec"].get("priority") for each in pods if each["spec"].get("priorityClassName") == class_name)
    priority = next((each for each in same_class if class_name and isinstance(each, int)), candidate.priority)
    candidate = replace(candidate, priority=priority)
    found = _fitting(candidate, known, present)
    return found or _fitting(candidate, known, [each for each in present if each.priority >= priority])


def _fitting(candidate: Pod, nodes: Sequence[SchedulableNode], pods: Sequence[Pod]) -> frozenset[str]:
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node_name and not pod.is_finished:
            by_node.setdefault(pod.node_name, []).append(pod)
    states = [NodeState.of(node, by_node.get(node.name, ())) for node in nodes]
    fit = NodeFit(candidate, states)
    codes = (FitCode.FITS, FitCode.UNDECIDABLE)
    return frozenset(state.node.name for state in states if fit.verdict(state).code in codes)


def as_admitted(pod: JsonObject) -> JsonObject:
    """The API takes numbers for amounts and answers with text."""

    def container(each: JsonObject) -> JsonObject:
        resources = each.get("resources") or {}
        amounts = {
            kind: {name: str(value) for name, value in (resources.get(kind) or {}).items()}
            for kind in ("requests", "limits")
        }
        return {**each, "resources": {**resources, **amounts}}

    spec = pod["spec"]
    lists = {kind: list(map(container, spec[kind])) for kind in ("containers", "initContainers") if spec.get(kind)}
    return {**pod, "spec": {**spec, **lists}}


def _decoded(decode: Callable[[object], Any], obj: object) -> Any:
    """``None`` for an object that makes no sense: it is not ours to complain of."""
    try:
        return decode(obj)
    except ObjectError:
        return None
