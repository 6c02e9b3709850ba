"""Environment variables about a container's devices, as a driver would inject them through CDI.

For a pod's claim ``gpu`` with 10 GiB of device ``gpu-0``, pool ``node-a``, driver ``gpu.example.com``:

=============================  ===================================================================
``DRA_DEVICE_0``               ``gpu.example.com/node-a/gpu-0``; all devices of the container are counted from 0
``DRA_CLAIM_GPU_DEVICE``       ``node-a/gpu-0``; several devices of the claim are separated by commas
``DRA_CLAIM_GPU_MEMORY``       ``10Gi``: the capacity that is consumed, after rounding; of several devices separated by
                               commas in the order of ``…_DEVICE``, empty for a device without it. The variable does
                               not exist if the devices are not shared.
``DRA_DEVICES``                all devices as one JSON list with an object for each device: ``claim`` (the name in the
                               pod), ``resourceClaim``, ``request``, ``driver``, ``pool``, ``device``, and if they
                               apply ``shareID``, ``consumedCapacity``, ``adminAccess``, ``config`` (the opaque
                               parameters for this driver and request, class before claim)
=============================  ===================================================================

Names of claims and capacities are written in capitals, with ``_`` for characters that a variable's name may not have.
Of a qualified capacity (``gpu.example.com/memory``) only the part after the slash is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from dra_spawner.common.json_types import JsonObject


def device_environment(
    container: JsonObject, claims: Mapping[str, JsonObject], extra_uses: Sequence[JsonObject] = ()
) -> dict[str, str]:
    """The variables for one container.

    Parameters
    ----------
    container
        A container of a pod's spec; its ``resources.claims`` name its claims.
    claims
        ResourceClaim objects with an allocation, by their name in the pod's spec.
    extra_uses
        Further entries of ``resources.claims``, which the scheduler adds for extended resources.

    Returns
    -------
    dict
        Empty for a container without claims.
    """
    devices = container_devices(container, claims, extra_uses)
    if not devices:
        return {}
    environment = {
        f"DRA_DEVICE_{number}": f"{device['driver']}/{device['pool']}/{device['device']}"
        for number, device in enumerate(devices)
    }
    for claim in dict.fromkeys(device["claim"] for device in devices):
        of_claim = [device for device in devices if device["claim"] == claim]
        prefix = f"DRA_CLAIM_{variable_name(claim)}"
        capacities = dict.fromkeys(key for device in of_claim for key in device.get("consumedCapacity", {}))
        for capacity in capacities:
            amounts = [device.get("consumedCapacity", {}).get(capacity, "") for device in of_claim]
            environment[f"{prefix}_{variable_name(capacity.rpartition('/')[2])}"] = ",".join(amounts)
        environment[f"{prefix}_DEVICE"] = ",".join(f"{device['pool']}/{device['device']}" for device in of_claim)
    environment["DRA_DEVICES"] = json.dumps(devices, separators=(",", ":"), sort_keys=True)
    return environment


def container_devices(
    container: JsonObject, claims: Mapping[str, JsonObject], extra_uses: Sequence[JsonObject] = ()
) -> list[JsonObject]:
    """The devices of a container, in the order of its ``resources.claims``; fields as in ``DRA_DEVICES``."""
    devices = []
    seen: set[tuple[str, int]] = set()
    for use in [*((container.get("resources") or {}).get("claims") or []), *extra_uses]:
        claim = claims.get(use["name"])
        if claim is None:
            continue
        allocation = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
        for index, result in enumerate(allocation.get("results") or []):
            # A container may name a claim's requests one by one; each device counts once.
            if not _names(use.get("request"), result["request"]) or (use["name"], index) in seen:
                continue
            seen.add((use["name"], index))
            devices.append(_device(use["name"], claim["metadata"]["name"], result, allocation.get("config") or []))
    return devices


def _device(claim: str, resource_claim: str, result: JsonObject, configs: Sequence[JsonObject]) -> JsonObject:
    device: JsonObject = {
        "claim": claim,
        "resourceClaim": resource_claim,
        "request": result["request"],
        "driver": result["driver"],
        "pool": result["pool"],
        "device": result["device"],
    }
    for key in ("shareID", "consumedCapacity", "adminAccess"):
        if result.get(key):
            device[key] = result[key]
    parameters = [
        config["opaque"]["parameters"]
        for config in sorted(configs, key=lambda config: config.get("source") != "FromClass")
        if (config.get("opaque") or {}).get("driver") == result["driver"]
        and (not config.get("requests") or any(_names(name, result["request"]) for name in config["requests"]))
    ]
    if parameters:
        device["config"] = parameters
    return device


def _names(wanted: str | None, request: str) -> bool:
    """Whether `wanted` names this request; ``gpu`` also names its subrequest ``gpu/whole``."""
    return not wanted or request == wanted or request.startswith(f"{wanted}/")


def variable_name(text: str) -> str:
    """`text` as a part of an environment variable's name."""
    return re.sub(r"[^A-Z0-9]", "_", text.upper())
