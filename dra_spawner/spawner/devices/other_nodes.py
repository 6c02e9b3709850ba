"""Whether a server that a node does not get to run would have its devices on another one, and which it has now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.names import RESOURCE_API
from dra_spawner.simulator.suitable_nodes import Surroundings
from dra_spawner.spawner.devices.diagnosis import assess_briefly
from dra_spawner.spawner.devices.reader import DeviceReader
from dra_spawner.spawner.objects.api_objects import CLAIMS

__all__ = ["devices_of", "fits_elsewhere"]


async def fits_elsewhere(
    reader: DeviceReader,
    claims: Mapping[str, JsonObject],
    pod: JsonObject,
    servers: Iterable[JsonObject],
    gives_way: Callable[[JsonObject], bool],
) -> bool:
    """Whether another node than a pod's has free devices for its claims, and else takes it. False if that is not known.

    Parameters
    ----------
    claims
        Specs by the claim's name; made for this pod alone.
    pod
        As the API had it when it was seen last.
    servers
        Other pods, as far as they are known.
    gives_way
        Whether the devices of an allocated claim are as good as free.
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
    """Names of the devices that a pod's claims have, each with its pool where that is not the node's; maybe none."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    names = {each.get("resourceClaimName") for each in spec.get("resourceClaims") or ()}
    names |= {each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()}
    names.add((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    path = resource_path(RESOURCE_API, CLAIMS, pod["metadata"]["namespace"])
    try:
        found = (await api.list(path))["items"]
    except KubernetesError:
        return []
    devices = []
    for claim in found:
        if claim["metadata"]["name"] in names - {None}:
            allocation = (claim.get("status") or {}).get("allocation") or {}
            for result in (allocation.get("devices") or {}).get("results") or ():
                of_pool = "" if result["pool"] == spec.get("nodeName") else f" of {result['pool']}"
                devices.append(f"{result['device']}{of_pool}")
    return list(dict.fromkeys(devices))
