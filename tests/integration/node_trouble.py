"""Pods that their node does not get to run, as a kubelet reports it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from tests.cluster.under_test import ClusterUnderTest


class NodeTrouble:
    """Decides which servers' pods hang, or get no devices; options of the kubelet stand-in.

    Attributes
    ----------
    hanging
        How many pods, from the first on, stay without a sandbox.
    undevised
        Of how many pods, from the first on, the driver refuses to prepare the devices.
    tries
        How often it does so, of each pod.
    why
        What the kubelet says then.
    seconds
        How long the sandbox of each other pod takes.
    """

    def __init__(
        self,
        *,
        hanging: int = 0,
        undevised: int = 0,
        tries: int = 10**6,
        why: str = "NodePrepareResources failed: the device does not answer",
        seconds: float = 0.0,
    ) -> None:
        self.hanging = hanging
        self.undevised = undevised
        self.tries = tries
        self.why = why
        self.seconds = seconds
        self._order: list[str] = []
        self._tried: dict[str, int] = {}

    def begin_again(self) -> None:
        """Count from the next pod on."""
        self._order.clear()

    @property
    def options(self) -> dict[str, Any]:
        return {"start_seconds": self._start_seconds, "refuse_devices": self._refuse_devices}

    def _index(self, pod: JsonObject) -> int:
        uid = pod["metadata"]["uid"]
        if pod["metadata"]["labels"].get(names.COMPONENT) == names.PLACEHOLDER:
            return max(self.hanging, self.undevised)
        if uid not in self._order:
            self._order.append(uid)
        return self._order.index(uid)

    def _start_seconds(self, pod: JsonObject) -> float:
        return 3600.0 if self._index(pod) < self.hanging else self.seconds

    def _refuse_devices(self, pod: JsonObject) -> str:
        uid = pod["metadata"]["uid"]
        self._tried[uid] = self._tried.get(uid, 0) + 1
        refused = self._index(pod) < self.undevised and self._tried[uid] <= self.tries
        return self.why if refused else ""


def _waiting(reason: str, message: str = "") -> Callable[[JsonObject], JsonObject]:
    def status(pod: JsonObject) -> JsonObject:
        (container,) = pod["status"]["containerStatuses"]
        return {"containerStatuses": [{**container, "state": {"waiting": {"reason": reason, "message": message}}}]}

    return status


def _refused(reason: str) -> Callable[[JsonObject], JsonObject]:
    return lambda _: {"phase": "Failed", "reason": reason, "message": "Pod was rejected"}


def _unhealthy(pod: JsonObject) -> JsonObject:
    (container,) = pod["status"]["containerStatuses"]
    health = [{"resourceID": "gpu.example.com/node/gpu", "health": "Unhealthy"}]
    return {
        "containerStatuses": [{**container, "allocatedResourcesStatus": [{"name": "claim:gpu", "resources": health}]}]
    }


#: Status that a kubelet writes for a failed pod, by `PodFailureKind`.
STATUSES = {
    "claim-lost": _waiting(
        "CreateContainerConfigError",
        "internal error: unable to get claim info for ResourceClaim jupyter-ada-gpu in namespace default",
    ),
    "not-admitted": _refused("UnexpectedAdmissionError"),
    "no-cpu-left": _refused("OutOfcpu"),
    "device-unhealthy": _unhealthy,
}


async def hanging_pod(cluster: ClusterUnderTest, other_than: str = "", user: str = "ada") -> JsonObject:
    """A server's pod that hangs on its node; not the one of that uid."""

    def is_there(pod: JsonObject) -> bool:
        return bool(pod["status"].get("containerStatuses")) and pod["metadata"]["uid"] != other_than

    return await cluster.wait_for(cluster.path("pods", f"jupyter-{user}"), is_there)


async def fail_pod(cluster: ClusterUnderTest, pod: JsonObject, kind: str) -> None:
    """Write a failure into a pod's status, as a kubelet does."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    status = STATUSES[kind](pod)
    await cluster.admin.patch(cluster.path("pods", name, "status"), {"metadata": {"uid": uid}, "status": status})


async def withdraw_device(cluster: ClusterUnderTest, pod: JsonObject, *, is_marked: bool = True) -> None:
    """Evict a pod as kube-controller-manager does for a NoExecute taint of its device.

    Without the mark it is as if the hub's watch had not seen the pod's last condition.
    """
    metadata = pod["metadata"]
    about = {"apiVersion": "v1", "kind": "Pod", **{key: metadata[key] for key in ("namespace", "name", "uid")}}
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    await cluster.admin.create(
        cluster.path("events"),
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.withdrawn", "namespace": metadata["namespace"]},
            "involvedObject": about,
            "type": "Normal",
            "reason": "DeviceTaintManagerEviction",
            "message": "Marking for deletion",
            "source": {"component": "device-taint-eviction"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        },
    )
    if is_marked:
        mark = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByDeviceTaintManager"}
        status = {"conditions": [*pod["status"]["conditions"], mark]}
        path = cluster.path("pods", metadata["name"], "status")
        await cluster.admin.patch(path, {"metadata": {"uid": metadata["uid"]}, "status": status})
    await cluster.admin.delete(cluster.path("pods", metadata["name"]), uid=metadata["uid"])
