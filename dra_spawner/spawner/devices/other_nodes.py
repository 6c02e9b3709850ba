"""Whether a server that fails on a node has free devices on another one, and its present devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError
from dra_spawner.simulator.suitable_nodes import Surroundings
from dra_spawner.spawner.devices.diagnosis import assess_briefly
from dra_spawner.spawner.devices.held import held_devices
from dra_spawner.spawner.devices.reader import DeviceReader

__all__ = ["devices_of", "fits_elsewhere"]


async def fits_elsewhere(
    reader: DeviceReader,
    claims: Mapping[str, JsonObject],
    pod: JsonObject,
    servers: Iterable[JsonObject],
    gives_way: Callable[[JsonObject], bool],
) -> bool:
    """Whether another node has free devices for a pod's claims and allows the pod. False if that is not known.

    Parameters
    ----------
    claims
        Specs by the claim's name; of this pod alone.
    pod
        Its last seen state.
    servers
        Other known pods.
    gives_way
        Whether the devices of an allocated claim count as free.
    """
    avoided = pod["spec"].get("nodeName")
    if not claims or not avoided:
        return False
    try:
        seen = await reader.objects()
    except KubernetesError:
        return False
    others = [node for node in seen.nodes if node["metadata"]["name"] != avoided]
    surroundings = Surroundings()
    surroundings.read(others, [(each, each["spec"].get("nodeName") or "") for each in servers])
    unbound = {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"}}
    suitable = surroundings.suitable_for(unbound)
    nodes = [node for node in others if node["metadata"]["name"] in suitable]
    existing = [claim for claim in seen.claims if not gives_way(claim)]
    assessment = await assess_briefly(claims, seen, nodes, existing)
    return assessment.fits is True


async def devices_of(api: KubernetesApi, pod: JsonObject) -> list[str]:
    """Names of the devices of a pod's claims, each with its pool if that is not the node's."""
    try:
        held = await held_devices(api, pod)
    except KubernetesError:
        return []
    node = (pod.get("spec") or {}).get("nodeName")
    return [each.name if each.pool == node else f"{each.name} of {each.pool}" for each in held]
