"""Nodes with Intel GPUs and pods that use them, as the API has them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def gpu_node(
    name: str = "node-a",
    cards: str = "0.1",
    *,
    resource: str = "i915",
    shares: int = 10,
    memory: int = 16 * 2**30,
    tiles: int = 2,
    images: tuple[str, ...] = (),
    **labels: str,
) -> Json:
    """A node whose cards each have 1000 millicores, and so much of the rest; underscores in labels are hyphens."""
    count = len(cards.split("."))
    allocatable = {
        "cpu": "8",
        "memory": "32Gi",
        "pods": "110",
        f"gpu.intel.com/{resource}": str(shares * count),
        "gpu.intel.com/millicores": str(1000 * count),
        "gpu.intel.com/memory.max": str(memory * count),
        "gpu.intel.com/tiles": str(tiles * count),
    }
    own = {f"gpu.intel.com/{key.replace('_', '-')}": value for key, value in labels.items()}
    return {
        "metadata": {"name": name, "labels": {"gpu.intel.com/gpu-numbers": cards, **own}},
        "status": {
            "allocatable": allocatable,
            "capacity": allocatable,
            "images": [{"names": [image], "sizeBytes": 1} for image in images],
        },
    }


def with_labels(node: Json, **labels: str) -> Json:
    """The node with labels of a telemetry policy besides; underscores in their names are hyphens but the last."""
    found = {f"telemetry.aware.scheduling.heat/{key}": value for key, value in labels.items()}
    metadata = {**node["metadata"], "labels": {**node["metadata"]["labels"], **found}}
    return {**node, "metadata": metadata}


def container(name: str = "notebook", hierarchy: str = "", **limits: str | int) -> Json:
    """A container; its limits are named as ``gpu.intel.com/…``, with an underscore for the dot of ``memory.max``."""
    amounts = {f"gpu.intel.com/{key.replace('_max', '.max')}": str(value) for key, value in limits.items()}
    made: Json = {"name": name, "resources": {"limits": amounts, "requests": amounts}}
    if hierarchy:
        made["env"] = [{"name": "ZE_FLAT_DEVICE_HIERARCHY", "value": hierarchy}]
    return made


def gpu_pod(
    name: str = "ada", *containers: Json, node: str = "node-a", phase: str = "Running", **annotations: str
) -> Json:
    """A pod; underscores in the names of annotations are hyphens."""
    return {
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": name,
            "annotations": {key.replace("_", "-"): value for key, value in annotations.items()},
        },
        "spec": {"nodeName": node, "containers": list(containers) or [container(i915=1)]},
        "status": {"phase": phase},
    }
