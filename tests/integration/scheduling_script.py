"""A few words for scripts that run alike on the embedded cluster and on the real control plane, on the demo's nodes."""

from __future__ import annotations

from typing import Any

from dra_spawner.devcluster.demo.example_nodes import (
    GPU_SHARE_CLASS,
)
from tests.cluster.scheduler_words import in_common_words
from tests.cluster.under_test import ClusterUnderTest

RESOURCE_API = "resource.k8s.io/v1"
FINALIZER = "resource.kubernetes.io/delete-protection"
ONE_G = 'device.attributes["gpu.example.com"].profile == "1g.5gb"'


def request(device_class: str, name: str = "r", where: str = "", **exactly: Any) -> dict[str, Any]:
    exactly["deviceClassName"] = device_class
    if where:
        exactly["selectors"] = [{"cel": {"expression": where}}]
    return {"name": name, "exactly": exactly}


def share(memory: str) -> dict[str, Any]:
    return request(GPU_SHARE_CLASS, capacity={"requests": {"memory": memory}})


def claim(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests)}}
    return {"apiVersion": RESOURCE_API, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def template(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    return {"apiVersion": RESOURCE_API, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec}


def pod(name: str, *, cpu: str = "100m", template: str = "", claim: str = "", **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "main",
        "image": "example.com/image:1",
        "resources": {"requests": {"cpu": cpu}},
    }
    if template or claim:
        source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
        spec["resourceClaims"] = [{"name": "devices", **source}]
        container["resources"]["claims"] = [{"name": "devices"}]
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Script:
    """Actions of the tests on a cluster, and their questions, in few words."""

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self.cluster = cluster

    async def publish(self, *objects: dict[str, Any]) -> None:
        await self.cluster.publish(*objects)

    async def run(self, *pods: dict[str, Any]) -> None:
        """Create pods that must be scheduled; wait until they run."""
        for each in pods:
            await self.publish(each)
            await self.cluster.wait_running(each["metadata"]["name"])

    async def outcome(self, each: dict[str, Any]) -> dict[str, Any]:
        """Create a pod; wait for the scheduler's yes or no; the pod."""
        await self.publish(each)
        return await self.decided(each["metadata"]["name"])

    async def decided(self, name: str) -> dict[str, Any]:
        return await self.cluster.wait_for(self.cluster.path("pods", name), lambda obj: scheduled(obj) is not None)

    async def waits(self, each: dict[str, Any], text: str = "") -> str:
        """Create a pod that fits on no node; the scheduler's message about the pod, in words of all releases.

        Parameters
        ----------
        text
            A part of that: before the scheduler knows all new objects, it has another one.
        """
        name = each["metadata"]["name"]
        await self.publish(each)

        def is_decided(obj: dict[str, Any]) -> bool:
            found = scheduled(obj)
            return found is not None and text in in_common_words(found.get("message", ""))

        condition = scheduled(await self.cluster.wait_for(self.cluster.path("pods", name), is_decided))
        assert condition is not None
        assert condition["status"] == "False", condition
        await self.cluster.wait_event(name, "FailedScheduling", text=condition["message"])
        return in_common_words(str(condition["message"]))

    async def node_of(self, name: str) -> str:
        return str((await self.cluster.wait_running(name))["spec"]["nodeName"])

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.cluster.admin.delete(self.cluster.path("pods", name))
            await self.cluster.wait_gone(self.cluster.path("pods", name))

    async def claim_of(self, name: str) -> dict[str, Any]:
        (entry,) = (await self.cluster.admin.get(self.cluster.path("pods", name)))["status"]["resourceClaimStatuses"]
        return await self.cluster.admin.get(self.cluster.path("resourceclaims", entry["resourceClaimName"]))

    async def claim(self, name: str) -> dict[str, Any]:
        return await self.cluster.admin.get(self.cluster.path("resourceclaims", name))

    async def devices_of(self, name: str) -> list[tuple[Any, ...]]:
        return devices(await self.claim_of(name))


def scheduled(obj: dict[str, Any]) -> dict[str, Any] | None:
    """The condition by which the scheduler says yes or no; none before it has."""
    conditions = obj["status"].get("conditions") or []
    return next((each for each in conditions if each["type"] == "PodScheduled"), None)


def devices(obj: dict[str, Any]) -> list[tuple[Any, ...]]:
    results = obj["status"]["allocation"]["devices"]["results"]
    return [
        (each["pool"], each["device"], *([each["consumedCapacity"]] if "consumedCapacity" in each else []))
        for each in results
    ]


def consumers(obj: dict[str, Any]) -> list[str]:
    return [each["name"] for each in obj["status"].get("reservedFor") or []]


NOT_HELPFUL = "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
NO_DEVICES = f"0/4 nodes are available: 4 cannot allocate all claims. {NOT_HELPFUL}"
