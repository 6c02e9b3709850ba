"""Files as the kubelet plugin library of Kubernetes 1.36 writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def metadata(**device: Any) -> dict[str, Any]:
    return {
        "kind": "DeviceMetadata",
        "apiVersion": "metadata.resource.k8s.io/v1alpha1",
        "metadata": {"name": "c", "namespace": "hub", "uid": "u", "generation": 1},
        "podClaimName": "gpu",
        "requests": [{"name": "gpu", "devices": [{"driver": "gpu.example.com", "pool": "node-a", "name": "gpu-0", **device}]}],
    }  # fmt: skip


def write(directory: Path, *objects: Any, claim: str = "gpu", kind: str = "resourceclaimtemplates") -> Path:
    path = directory / kind / claim / "gpu" / "gpu.example.com-metadata.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in objects))
    return path
