"""The devices that a server's pod has, and their words for users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.quantity import Quantity, amount_text
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.names import RESOURCE_API
from dra_spawner.spawner.objects.api_objects import CLAIMS

#: A pod has some claims; more than this are not read.
_MAX_CLAIMS: Final = 32
#: More devices than this are counted, not named.
_MAX_NAMED: Final = 3
#: Capacities whose amounts say it all.
_NAMELESS: Final = ("bandwidth", "memory")
#: Capacity that counts network interfaces in VLANs.
_VLANS: Final = "vlans"


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """A device, or a share of one, of a server.

    Attributes
    ----------
    pool
        The node's name for most drivers.
    share
        Amount by capacity, of those that the server asked for.
    """

    name: str
    pool: str
    share: Mapping[str, str] = field(default_factory=dict)


async def held_devices(api: KubernetesApi, pod: JsonObject) -> list[HeldDevice]:
    """Read the devices of a pod's claims; one request for each claim.

    Raises
    ------
    KubernetesError
        If a claim cannot be read.
    """
    return devices_of(await held_claims(api, pod))


async def held_claims(api: KubernetesApi, pod: JsonObject) -> list[JsonObject]:
    """Read the claims that a pod names; one request for each claim.

    Raises
    ------
    KubernetesError
        If a claim cannot be read.
    """
    path = resource_path(RESOURCE_API, CLAIMS, pod["metadata"]["namespace"])
    found: list[JsonObject] = []
    for name in claim_names(pod)[:_MAX_CLAIMS]:
        # A list of one: the hub's account has the right to list.
        found += (await api.list(path, field_selector=f"metadata.name={name}"))["items"]
    return found


def devices_of(claims: Iterable[JsonObject]) -> list[HeldDevice]:
    """The devices of claims, each once."""
    found = [device for claim in claims for device in devices_in(claim)]
    return list({(each.pool, each.name): each for each in found}.values())


def claim_names(pod: JsonObject) -> list[str]:
    """Names of a pod's claims, those made for it among them."""
    return list(claim_entries(pod))


def claim_entries(pod: JsonObject) -> dict[str, str]:
    """Names of the pod's entries by the name of their claim; empty for a claim of extended resources."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    entries = [*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ())]
    found = {str(each["resourceClaimName"]): str(each["name"]) for each in entries if each.get("resourceClaimName")}
    if extended := (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"):
        found.setdefault(str(extended), "")
    return found


def devices_in(claim: JsonObject) -> list[HeldDevice]:
    """The devices of an allocated claim; none of another one."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    asked = asked_capacities(claim)
    return [
        HeldDevice(
            str(result["device"]),
            str(result["pool"]),
            {
                name: str(amount)
                for name, amount in (result.get("consumedCapacity") or {}).items()
                if name in asked.get(str(result.get("request")).partition("/")[0], ())
            },
        )
        for result in (allocation.get("devices") or {}).get("results") or ()
    ]


def place_text(devices: Sequence[HeldDevice], node: str, *, warm: bool = False) -> str:
    """Devices and node of a server, such as ``15 GiB of gpu-3 on node-2``; empty without devices.

    Parameters
    ----------
    warm
        Whether the devices were prepared before the server started.
    """
    if not devices:
        return ""
    if len(devices) > _MAX_NAMED:
        words = f"{len(devices)} devices"
    else:
        words = _listed(_device_text(each, node) for each in devices)
    where = f" on {node}" if node else ""
    return f"{words}{where}{', already prepared' if warm else ''}"


def _device_text(device: HeldDevice, node: str) -> str:
    name = device.name if device.pool == node else f"{device.name} of {device.pool}"
    amounts = {capacity.rpartition("/")[2]: amount for capacity, amount in device.share.items()}
    vlans = amounts.pop(_VLANS, "")
    share = _listed(_share_text(capacity, amount) for capacity, amount in sorted(amounts.items()))
    if vlans:
        in_vlans = "a VLAN" if vlans == "1" else f"{vlans} VLANs"
        share = f"{share} in {in_vlans}" if share else in_vlans
    return f"{share} of {name}" if share else name


def _share_text(capacity: str, amount: str) -> str:
    text = amount
    with suppress(ValueError):
        text = amount_text(Quantity.parse(amount), capacity)
    if capacity in _NAMELESS:
        return text
    return f"{text} {capacity.removesuffix('s') if text == '1' else capacity}"


def _listed(words: Iterable[str]) -> str:
    *most, last = [*words] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def asked_capacities(claim: JsonObject) -> dict[str, set[str]]:
    """Names of the capacities that each request of a claim asks for."""
    asked: dict[str, set[str]] = {}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            names = ((each or {}).get("capacity") or {}).get("requests") or {}
            asked.setdefault(request["name"], set()).update(names)
    return asked
