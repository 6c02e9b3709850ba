"""Pods and nodes for the simulator's tests, written as the API has them."""

from __future__ import annotations

from typing import Any

from dra_spawner.simulator.model.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.model.pods import Pod


def pod(name: str = "pod", requests: dict[str, str] | None = None, **spec: Any) -> Pod:
    """A pod with one container; ``labels``, ``uid`` and ``status`` go where they belong."""
    metadata = {"name": name, "namespace": "default", "uid": spec.pop("uid", name), "labels": spec.pop("labels", {})}
    status = spec.pop("status", {})
    container = {"name": "main", "image": "example.com/image:1", "resources": {"requests": requests or {}}}
    return Pod.from_json({"metadata": metadata, "spec": {"containers": [container], **spec}, "status": status})


def node(name: str = "node", allocatable: dict[str, str] | None = None, **fields: Any) -> SchedulableNode:
    """A node of 4 CPUs and 8 GiB."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", **(allocatable or {})}
    labels = {"kubernetes.io/hostname": name, **fields.pop("labels", {})}
    status = {"allocatable": amounts, "images": fields.pop("images", [])}
    return SchedulableNode.from_json({"metadata": {"name": name, "labels": labels}, "spec": fields, "status": status})


def state(name: str = "node", *pods: Pod, **fields: Any) -> NodeState:
    """That node with pods on it."""
    return NodeState.of(node(name, **fields), pods)


def required_nodes(*terms: dict[str, Any]) -> dict[str, Any]:
    """An affinity that requires nodes."""
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def pod_term(topology_key: str = "kubernetes.io/hostname", /, **labels: str) -> dict[str, Any]:
    """A pod affinity term for pods with these labels."""
    return {"topologyKey": topology_key, "labelSelector": {"matchLabels": labels}}


def required_pods(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    """An affinity (``podAffinity`` or ``podAntiAffinity``) that requires company, or solitude."""
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}
