"""Random changes of a cluster's objects of all kinds that a `ClusterWatch` follows."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, PatchType, resource_path
from dra_spawner.kube.cluster_watch import RESOURCES
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.cluster.example_objects import CLASS, gpu_class, gpu_slice, pod, share_template, taint_rule

__all__ = ["NODES", "RandomChanges", "claim", "node"]

NODES = ("n1", "n2", "n3")
_NAMES = ("a", "b", "c", "d")


def node(name: str, **labels: str) -> JsonObject:
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    status = {"capacity": allocatable, "allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def claim(name: str, memory: str) -> JsonObject:
    spec = share_template(name, memory)["spec"]["spec"]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


class RandomChanges:
    """Changes of all kinds; the cluster's own scheduler and controllers add theirs."""

    def __init__(self, api: KubernetesApi, namespace: str, random: Random) -> None:
        self.api = api
        self.namespace = namespace
        self.random = random

    async def change(self) -> None:
        """One change; a refusal, for example of an absent or existing object, is none."""
        actions: list[Callable[[], Awaitable[Any]]] = [
            self.new_node, self.new_label, self.new_slice, self.new_claim, self.new_template, self.new_pod, self.new_pod,
            self.ended_pod, self.new_class, self.new_rule, self.gone, self.gone,
        ]  # fmt: skip
        with contextlib.suppress(KubernetesError):
            await self.random.choice(actions)()

    def path(self, kind: Kind, name: str | None = None, subresource: str | None = None) -> str:
        resource = RESOURCES[kind]
        is_common = kind in (Kind.NODE, Kind.RESOURCE_SLICE, Kind.DEVICE_CLASS, Kind.DEVICE_TAINT_RULE)
        return resource_path(
            resource.group_version, resource.plural, None if is_common else self.namespace, name, subresource
        )

    def pick(self, names: tuple[str, ...] = _NAMES) -> str:
        return self.random.choice(names)

    async def new_node(self) -> None:
        await self.api.create(self.path(Kind.NODE), node(self.pick(NODES)))

    async def new_label(self) -> None:
        body = {"metadata": {"labels": {"zone": self.random.choice(["x", "y", None])}}}
        await self.api.patch(self.path(Kind.NODE, self.pick(NODES)), body)

    async def new_slice(self) -> None:
        name = self.pick(NODES)
        body = gpu_slice(name, memory=self.random.choice(["40Gi", "80Gi"]))
        try:
            await self.api.create(self.path(Kind.RESOURCE_SLICE), body)
        except KubernetesError as error:
            if error.already_exists:
                await self.api.patch(self.path(Kind.RESOURCE_SLICE, f"{name}-gpus"), {"spec": body["spec"]})

    async def new_class(self) -> None:
        await self.api.create(self.path(Kind.DEVICE_CLASS), gpu_class())

    async def new_rule(self) -> None:
        body = taint_rule(self.pick(), pool=self.pick(NODES))
        await self.api.create(self.path(Kind.DEVICE_TAINT_RULE), body)

    async def new_claim(self) -> None:
        await self.api.create(self.path(Kind.RESOURCE_CLAIM), claim(self.pick(), self.pick(("5Gi", "10Gi"))))

    async def new_template(self) -> None:
        body = share_template(self.pick(), self.pick(("5Gi", "10Gi")))
        await self.api.create(self.path(Kind.RESOURCE_CLAIM_TEMPLATE), body)

    async def new_pod(self) -> None:
        entry = {"name": "gpu", self.pick(("resourceClaimName", "resourceClaimTemplateName")): self.pick()}
        body = pod(self.pick(), ["true"], resourceClaims=[entry])
        await self.api.create(self.path(Kind.POD), body)

    async def ended_pod(self) -> None:
        body = {"status": {"phase": self.pick(("Running", "Succeeded", "Failed"))}}
        path = self.path(Kind.POD, self.pick(), "status")
        await self.api.patch(path, body, patch_type=PatchType.STRATEGIC)

    async def gone(self) -> None:
        kind = self.random.choice(list(RESOURCES))
        name = {Kind.NODE: self.pick(NODES), Kind.RESOURCE_SLICE: f"{self.pick(NODES)}-gpus", Kind.DEVICE_CLASS: CLASS}
        grace = 0 if kind is Kind.POD else None
        await self.api.delete(self.path(kind, name.get(kind, self.pick())), grace_period_seconds=grace)
