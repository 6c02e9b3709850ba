"""Whether another node has free devices for a server that fails on its node; and names of its present devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError
from dra_spawner.simulator.scheduler.suitable_nodes import SuitableNodes
from dra_spawner.spawner.devices.diagnosis import assess_within_limits
from dra_spawner.spawner.devices.held import held_devices
from dra_spawner.spawner.devices.reader import DeviceReader


async def fits_elsewhere(
    reader: DeviceReader,
    claims: Mapping[str, JsonObject],
    pod: JsonObject,
    servers: Iterable[JsonObject],
    is_preemptible: Callable[[JsonObject], bool],
) -> bool:
    """Whether another node has free devices for a pod's claims and can run the pod. False if that is not known.

    Parameters
    ----------
    claims
        Specs of claims of this pod alone, by the claim's name.
    pod
        The last seen state of the pod.
    servers
        Pods of other servers.
    is_preemptible
        Whether an allocated claim is a placeholder's, whose devices count as free.
    """
    avoided = pod["spec"].get("nodeName")
    if not claims or not avoided:
        return False
    try:
        seen = await reader.objects()
    except KubernetesError:
        return False
    others = [node for node in seen.nodes if node["metadata"]["name"] != avoided]
    suitable_nodes = SuitableNodes()
    suitable_nodes.read(others, [(each, each["spec"].get("nodeName") or "") for each in servers])
    unbound = {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"}}
    suitable = suitable_nodes.for_pod(unbound)
    nodes = [node for node in others if node["metadata"]["name"] in suitable]
    existing = [claim for claim in seen.claims if not is_preemptible(claim)]
    assessment = await assess_within_limits(claims, seen, nodes, existing)
    return assessment.fits is True


async def devices_of(api: KubernetesApi, pod: JsonObject) -> list[str]:
    """Names of the devices of a pod's claims, each with its pool if that is not the node's."""
    try:
        held = await held_devices(api, pod)
    except KubernetesError:
        return []
    node = (pod.get("spec") or {}).get("nodeName")
    return [each.name if each.pool == node else f"{each.name} of {each.pool}" for each in held]
