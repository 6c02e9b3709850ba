"""Nodes of a real control plane that nobody runs: they are there, report their status, and have devices."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from tests.integration.devices import PRIORITY_CLASS
from tests.placeholders.controller.objects import IMAGE

__all__ = ["DRA", "add_node", "now_text", "prepare", "report_all"]

Json = dict[str, Any]

DRA = "resource.k8s.io/v1"


async def prepare(api: KubernetesApi, namespace: str, classes: Iterable[Json]) -> None:
    """Create a hub's namespace, the priority of its placeholders, and device classes."""
    await api.create(resource_path("v1", "namespaces"), {"metadata": {"name": namespace}})
    priority = {"metadata": {"name": PRIORITY_CLASS}, "value": -10}
    await api.create(resource_path("scheduling.k8s.io/v1", "priorityclasses"), priority)
    for each in classes:
        await api.create(resource_path(DRA, "deviceclasses"), each)


async def add_node(api: KubernetesApi, name: str, amounts: Json, labels: Json, devices: Json) -> None:
    """Create a node that is ready and has the image of users, and its slice of devices."""
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    await api.create(resource_path("v1", "nodes"), {"metadata": metadata, "spec": {}})
    images = [{"names": [IMAGE], "sizeBytes": 1}]
    await _report(api, name, allocatable=amounts, capacity=amounts, images=images)
    await api.create(resource_path(DRA, "resourceslices"), devices)


async def report_all(api: KubernetesApi, names: Callable[[], list[str]], seconds: float) -> None:
    """Let each node report its status once in so many seconds, one after the other; else it would be taken for lost."""
    while True:
        known = names()
        for name in known:
            with contextlib.suppress(KubernetesError):  # it may not be there yet
                await _report(api, name)
            await asyncio.sleep(seconds / len(known))
        await asyncio.sleep(0.1)


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _report(api: KubernetesApi, name: str, **more: Any) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Fake", "lastHeartbeatTime": now_text()}
    path = resource_path("v1", "nodes", name=name, subresource="status")
    await api.patch(path, {"status": {"conditions": [ready], **more}})
