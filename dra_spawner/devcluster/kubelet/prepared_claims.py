"""The prepared claims of a kubelet's nodes, and the pods and containers that get their devices.

As on a real node, a claim is prepared for its first pod there, and unprepared when its last pod has ended. What a pod
that joins in between gets, the driver decides (`dra_spawner.dra.preparation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.kubelet.container_runtime import ContainerStartFailed
from dra_spawner.dra.preparation import PreparedFor


@dataclass(slots=True)
class _Prepared:
    """One prepared claim.

    Attributes
    ----------
    served
        Uid of its first consumer at the preparation.
    pods
        Uids of the pods that use it on the node.
    container
        Uid of the pod, and name, of the first container that named it.
    """

    served: str
    pods: set[str] = field(default_factory=set)
    container: tuple[str, str] | None = None


class PreparedClaims:
    """Prepared claims by node and uid.

    Parameters
    ----------
    drivers
        What drivers prepare for, by name; others prepare for the claim.
    """

    def __init__(self, drivers: Mapping[str, PreparedFor]) -> None:
        self._drivers = drivers
        self._prepared: dict[tuple[str, str], _Prepared] = {}

    def prepare(self, pod: JsonObject, claim: JsonObject) -> None:
        """Prepare a claim for a pod, if it is not prepared on the pod's node."""
        consumers = claim["status"]["reservedFor"]
        prepared = self._prepared.setdefault(_key(pod, claim), _Prepared(consumers[0]["uid"]))
        prepared.pods.add(pod["metadata"]["uid"])

    def unprepare(self, pod: JsonObject) -> None:
        """Unprepare the claims of which a pod that has ended was the last user. Idempotent."""
        uid = pod["metadata"]["uid"]
        for key, prepared in list(self._prepared.items()):
            prepared.pods.discard(uid)
            if not prepared.pods:
                del self._prepared[key]

    def for_container(self, pod: JsonObject, container: JsonObject, name: str, claim: JsonObject) -> JsonObject:
        """A claim with the devices that a container gets.

        Parameters
        ----------
        name
            The claim's name in the pod's spec.

        Raises
        ------
        ContainerStartFailed
            If its driver keeps the claim for another container.
        """
        prepared = self._prepared.get(_key(pod, claim))
        allocation = claim["status"]["allocation"]
        results = (allocation.get("devices") or {}).get("results") or []
        if prepared is None or not any(each["driver"] in self._drivers for each in results):
            return claim
        uses = (container.get("resources") or {}).get("claims") or []
        if any(use["name"] == name for use in uses):
            self._bind(prepared, pod, container, claim, results)
        served = [each for each in results if self._serves(each["driver"], prepared, pod)]
        devices = {**(allocation.get("devices") or {}), "results": served}
        return {**claim, "status": {**claim["status"], "allocation": {**allocation, "devices": devices}}}

    def _bind(
        self, prepared: _Prepared, pod: JsonObject, container: JsonObject, claim: JsonObject, results: list[Any]
    ) -> None:
        if not any(self._drivers.get(each["driver"]) is PreparedFor.CONTAINER for each in results):
            return
        own = (pod["metadata"]["uid"], container["name"])
        prepared.container = prepared.container or own
        if prepared.container != own:
            uid, name = prepared.container
            raise ContainerStartFailed(
                f'claimUID "{claim["metadata"]["uid"]}" already bound to pod "{uid}" container "{name}"'
            )

    def _serves(self, driver: str, prepared: _Prepared, pod: JsonObject) -> bool:
        return self._drivers.get(driver) is not PreparedFor.POD or prepared.served == pod["metadata"]["uid"]


def _key(pod: JsonObject, claim: JsonObject) -> tuple[str, str]:
    return pod["spec"]["nodeName"], claim["metadata"]["uid"]
