"""A node whose devices are shared by memory and compute."""

from __future__ import annotations

from typing import Any

from dra_spawner.profiles.facts import ClusterFacts
from tests.profiles.drivers.bed import Bed


def facts(step: str = "1Gi", most: str = "80Gi") -> ClusterFacts:
    """Two GPUs of 80 GiB; all of their compute is the default."""
    memory = {
        "value": "80Gi",
        "requestPolicy": {"default": most, "validRange": {"min": step, "step": step, "max": most}},
    }
    compute = {"value": "100", "requestPolicy": {"default": "100", "validRange": {"min": "1", "step": "1"}}}
    if most != "80Gi":
        memory["requestPolicy"]["default"] = most  # type: ignore[index]
    devices: list[dict[str, Any]] = [
        {
            "name": f"gpu-{index}",
            "allowMultipleAllocations": True,
            "attributes": {"uuid": {"string": f"uuid-{index}"}},
            "capacity": {"memory": memory, "compute": compute},
        }
        for index in range(2)
    ]
    return Bed("shares", {"gpu.example.com": ({"devices": devices},)}).facts()
