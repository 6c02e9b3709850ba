"""Nodes on which a new pod would fit, without regard to devices: for a caller that pins the pod to one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.simulator.model.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.node_fit import FitCode, NodeFit


class SuitableNodes:
    """Finds suitable nodes, by the nodes and pods of the last `read`. Unchanged pods are not decoded again."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str, str], Pod | None] = {}
        self._nodes: list[SchedulableNode] = []
        self._states: list[NodeState] = []
        self._priorities: dict[str, int] = {}

    def read(self, nodes: Sequence[JsonObject], pods: Sequence[tuple[JsonObject, str]]) -> None:
        """Replace nodes and pods by these API objects, each pod with its present or future node (empty: none)."""
        self._nodes = [node for each in nodes if (node := _decoded(SchedulableNode.from_json, each)) is not None]
        before, self._pods = self._pods, {}
        self._priorities = {}
        present: dict[str, list[Pod]] = {}
        for pod, node in pods:
            metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
            key = (str(metadata.get("uid")), str(metadata.get("resourceVersion")), node)
            known = before[key] if key in before else _pod_on(pod, node)
            self._pods[key] = known
            if isinstance(spec.get("priority"), int):
                self._priorities[str(spec.get("priorityClassName") or "")] = spec["priority"]
            if known is not None and node and not known.is_finished:
                present.setdefault(node, []).append(known)
        self._states = [NodeState.of(node, present.get(node.name, ())) for node in self._nodes]

    def for_pod(self, pod: JsonObject, coming: Mapping[str, Sequence[JsonObject]] | None = None) -> frozenset[str]:
        """Names of the nodes that pass kube-scheduler's filters, without those for devices.

        If no node is left, pods of lower priority, such as placeholders, do not count. A node that cannot be judged,
        because an object is invalid or uses a field that is not modelled, counts as suitable.

        Parameters
        ----------
        pod
            The pod as it will be created.
        coming
            Pods that will run on a node but have not been read yet, by that node.
        """
        candidate = _pod_on(pod, "")
        if candidate is None:
            return frozenset(node.name for node in self._nodes)
        class_name = str(pod["spec"].get("priorityClassName") or "")
        if class_name:
            # PriorityClasses are not read; the value is known from pods with the same class.
            candidate = replace(candidate, priority=self._priorities.get(class_name, candidate.priority))
        states = [
            state.with_pods([found for each in more if (found := _pod_on(each, state.node.name)) is not None])
            if (more := (coming or {}).get(state.node.name))
            else state
            for state in self._states
        ]
        fitting = _fitting(candidate, states)
        if fitting:
            return fitting
        lower = [[pod for pod in state.pods if pod.priority < candidate.priority] for state in states]
        return _fitting(candidate, [state.without_pods(pods) for state, pods in zip(states, lower, strict=True)])


def _fitting(candidate: Pod, states: Sequence[NodeState]) -> frozenset[str]:
    fit = NodeFit(candidate, states)
    codes = (FitCode.FITS, FitCode.UNDECIDABLE)
    return frozenset(state.node.name for state in states if fit.verdict(state).code in codes)


def _pod_on(pod: JsonObject, node: str) -> Pod | None:
    """The pod, existing or not yet created, on a node; None if it is invalid."""
    try:
        admitted = _as_admitted(pod)
    except (KeyError, AttributeError, TypeError):
        return None
    found: Pod | None = _decoded(Pod.from_json, admitted)
    return replace(found, node_name=node) if found is not None and node else found


def _as_admitted(pod: JsonObject) -> JsonObject:
    """The pod with amounts as text, as the API server returns them."""

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
    """The object, or ``None`` if it is invalid."""
    try:
        return decode(obj)
    except Exception:  # whatever it is, it is the fault of this one object
        return None
