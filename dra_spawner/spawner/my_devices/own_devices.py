"""The devices of one server, as its user may know them. Pure.

Nothing here tells of other servers: of a claim that several servers share, only that it is shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.claims import Toleration
from dra_spawner.dra.model.decoding import Reader
from dra_spawner.dra.model.devices import Device, DeviceId
from dra_spawner.dra.quantity import Quantity, amount_text
from dra_spawner.profiles.compiler.extended_resources import extended_resource_names
from dra_spawner.profiles.drivers.allocated import allocated_share
from dra_spawner.profiles.drivers.published import own_attribute
from dra_spawner.profiles.drivers.registry import known_driver
from dra_spawner.simulator.usage.device_doubts import withdraws_held_devices
from dra_spawner.spawner.devices.held import asked_capacities, claim_entries, devices_in, place_text
from dra_spawner.spawner.my_devices.device_health import (
    DeviceHealth,
    HealthState,
    device_health,
    one_line,
    reported_names,
)
from dra_spawner.spawner.my_devices.published import PublishedDevice, PublishedDevices
from dra_spawner.spawner.placement.pod import waits_for_placeholder

#: Version of the answer: a server's software may be older or newer than the hub's.
VERSION: Final = 1
#: Attributes in which drivers publish the name of the product.
_PRODUCT: Final = ("productName", "model")
#: Capacity of a whole device that users know it by.
_MEMORY: Final = "memory"

_WHOLE: Final = "This device is yours alone."
_TOGETHER: Final = "Other servers use this device together with yours; nothing divides it between them."
_ADMINISTRATION: Final = "This is access for administration: other servers use the device, too."
_COUNTED: Final = "Only the number is known here, not which devices these are."
_NOT_KNOWN: Final = "It is not known what keeps users of this device to their share."


@dataclass(frozen=True, slots=True)
class ShareOfCapacity:
    """Amount of one capacity.

    Attributes
    ----------
    amount, total
        Amounts of the server and of the device, as Kubernetes writes them; the second is empty if it is not known.
    """

    name: str
    amount: str
    total: str = ""

    @property
    def text(self) -> str:
        """The share in words, such as ``10 GiB of 40 GiB``."""
        amount = _readable(self.amount, self.name)
        if not self.total:
            return amount
        return f"all {amount}" if self.total == self.amount else f"{amount} of {_readable(self.total, self.name)}"


@dataclass(frozen=True, slots=True)
class Protection:
    """What enforces the share of a device.

    Attributes
    ----------
    by
        ``hardware``, ``library``, ``daemon``, ``none``; ``whole`` where nobody else has the device; else ``unknown``.
    sentence
        Sentence for the user.
    """

    by: str
    sentence: str


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """A network interface in the server.

    Attributes
    ----------
    addresses
        IP addresses with the length of their network's prefix.
    """

    name: str
    hardware_address: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OwnDevice:
    """A device, or a share of one, of the server.

    Attributes
    ----------
    claim, request
        Names in the profile.
    device_class
        Name of the device's class; empty if it is not known.
    product
        Name of the product; empty if the driver publishes none.
    """

    claim: str
    request: str
    id: DeviceId
    device_class: str
    product: str
    share: tuple[ShareOfCapacity, ...]
    protection: Protection
    network: NetworkInterface | None
    health: DeviceHealth

    def as_json(self) -> JsonObject:
        """The device in the hub's answer."""
        network = None
        if self.network is not None:
            network = {
                "interface": self.network.name,
                "hardware_address": self.network.hardware_address,
                "addresses": list(self.network.addresses),
            }
        return {
            "claim": self.claim,
            "request": self.request,
            "driver": self.id.driver,
            "pool": self.id.pool,
            "name": self.id.device,
            "device_class": self.device_class,
            "product": self.product,
            "share": [
                {"capacity": each.name, "amount": each.amount, "total": each.total, "text": each.text}
                for each in self.share
            ],
            "enforcement": {"by": self.protection.by, "sentence": self.protection.sentence},
            "network": network,
            "health": {"state": self.health.state.value, "sentence": self.health.sentence},
        }


@dataclass(frozen=True, slots=True)
class OwnDevices:
    """All devices of the server.

    Attributes
    ----------
    node
        Name of the node; empty before it is known.
    warm
        Whether they were allocated before the server started.
    place
        Devices and node, as on the home page; empty without devices.
    """

    node: str = ""
    warm: bool = False
    place: str = ""
    devices: tuple[OwnDevice, ...] = ()

    @property
    def withdrawn(self) -> str:
        """Why a device is out of use; empty if none is."""
        states = (each.health for each in self.devices)
        return next((each.sentence for each in states if each.state is HealthState.WITHDRAWN), "")

    def as_json(self) -> JsonObject:
        """The hub's answer."""
        return {
            "version": VERSION,
            "node": self.node,
            "warm": self.warm,
            "place": self.place,
            "devices": [each.as_json() for each in self.devices],
        }


def is_consumer(pod: JsonObject, claim: JsonObject) -> bool:
    """Whether a claim is reserved for a pod: a pod may name a claim that it has not got."""
    uid = pod["metadata"].get("uid")
    return any(uid and each.get("uid") == uid for each in (claim.get("status") or {}).get("reservedFor") or ())


def own_devices(pod: JsonObject, claims: Sequence[JsonObject], published: PublishedDevices) -> OwnDevices:
    """Return the devices of a pod.

    Parameters
    ----------
    claims
        Its claims; those that are not reserved for it do not count.
    published
        Devices that include the pod's; a device that is missing has no total, and its health is unknown.
    """
    own = [claim for claim in claims if is_consumer(pod, claim)]
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    warm = any(map(_is_warm, own)) and not waits_for_placeholder(pod)
    held = {(each.pool, each.name): each for claim in own for each in devices_in(claim)}
    entries = claim_entries(pod)
    return OwnDevices(
        node=node,
        warm=warm,
        place=place_text(list(held.values()), node, warm=warm),
        devices=(
            *(
                device
                for claim in own
                for device in _devices(pod, claim, entries.get(claim["metadata"]["name"], ""), published)
            ),
            *_counted_devices(pod, node),
        ),
    )


def _devices(pod: JsonObject, claim: JsonObject, entry: str, published: PublishedDevices) -> Iterator[OwnDevice]:
    allocation = claim["status"].get("allocation") or {}
    networks = {
        (each.get("driver"), each.get("pool"), each.get("device"), each.get("shareID")): each.get("networkData")
        for each in claim["status"].get("devices") or ()
    }
    for result in (allocation.get("devices") or {}).get("results") or ():
        name = DeviceId(str(result["driver"]), str(result["pool"]), str(result["device"]))
        request, found = str(result.get("request") or ""), _found(published, name)
        yield OwnDevice(
            claim=entry,
            request=request,
            id=name,
            device_class=_class_of(claim, request),
            product=_product(found.device),
            share=_share(claim, result, found.device),
            protection=_protection(pod, claim, entry, result, found.device),
            network=_interface(networks.get((*name, result.get("shareID")))),
            health=device_health(pod, reported_names(entry, request), name, found, _tolerations(result)),
        )


def _found(published: PublishedDevices, name: DeviceId) -> PublishedDevice:
    """A device as its driver publishes it; a driver that withdraws what pods use says nothing by that."""
    found = published.find(name)
    return PublishedDevice() if found.is_gone and withdraws_held_devices(name.driver) else found


def _counted_devices(pod: JsonObject, node: str) -> Iterator[OwnDevice]:
    """Devices of which only the number is known, from device plugins: those of claims are told with their claim."""
    mappings = ((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("requestMappings") or ()
    of_claims = {each.get("resourceName") for each in mappings}
    counts: dict[str, Quantity] = {}
    for container in (pod.get("spec") or {}).get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        for name in extended_resource_names(limits.keys() - of_claims):
            counts[name] = counts.get(name, Quantity(0)) + Quantity.parse(str(limits[name]))
    vendors: dict[str, list[str]] = {}
    for name in sorted(name for name, count in counts.items() if count):
        vendors.setdefault(name.partition("/")[0], []).append(name)
    for vendor, resources in vendors.items():
        device = DeviceId("", node, vendor)
        yield OwnDevice(
            claim="",
            request="",
            id=device,
            device_class=vendor,
            product="",
            share=tuple(ShareOfCapacity(name.partition("/")[2], str(counts[name])) for name in resources),
            protection=Protection("unknown", _COUNTED),
            network=None,
            health=device_health(pod, resources, device, PublishedDevice(), ()),
        )


def _is_warm(claim: JsonObject) -> bool:
    """Whether a claim was made for a placeholder, from which the server has it."""
    return (claim["metadata"].get("labels") or {}).get(names.COMPONENT) == names.PLACEHOLDER


def _class_of(claim: JsonObject, request: str) -> str:
    """Name of the class of a request, or of an alternative of it."""
    name, _, alternative = request.partition("/")
    for each in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        if each.get("name") == name:
            options = each.get("firstAvailable") or ()
            chosen = next((one for one in options if one.get("name") == alternative), each.get("exactly") or {})
            return str(chosen.get("deviceClassName") or "")
    return ""


def _product(device: Device | None) -> str:
    for name in _PRODUCT:
        attribute = own_attribute(device, name) if device is not None else None
        if attribute is not None and isinstance(attribute.value, str):
            return one_line(attribute.value)
    return ""


def _share(claim: JsonObject, result: Mapping[str, Any], device: Device | None) -> tuple[ShareOfCapacity, ...]:
    """Amounts that the claim asked for, or all that it got; of a whole device, its memory."""
    totals = {name: str(each.value) for name, each in device.description.capacity.items()} if device else {}
    consumed = result.get("consumedCapacity") or {}
    if not consumed:
        memory = [name for name in totals if name.rpartition("/")[2] == _MEMORY]
        return tuple(ShareOfCapacity(name, totals[name], totals[name]) for name in memory)
    asked = asked_capacities(claim).get(str(result.get("request") or "").partition("/")[0], set())
    told = sorted(asked & consumed.keys()) or sorted(consumed)
    return tuple(ShareOfCapacity(name, str(consumed[name]), totals.get(name, "")) for name in told)


def _protection(
    pod: JsonObject, claim: JsonObject, entry: str, result: Mapping[str, Any], device: Device | None
) -> Protection:
    if result.get("adminAccess"):
        return Protection("none", _ADMINISTRATION)
    # The other consumer of a warm claim is its placeholder, until the server runs.
    if len(claim["status"].get("reservedFor") or ()) > 1 and not _is_warm(claim):
        return Protection("none", _TOGETHER)
    known = allocated_share(claim, result, device, _containers_with(pod, entry))
    if known is not None:
        return Protection(known.enforcement.value, known.sentence)
    is_whole = not result.get("consumedCapacity") and (
        not device.is_shared
        if device is not None
        else withdraws_held_devices(str(result["driver"])) and not result.get("shareID")
    )
    if is_whole or (device is not None and known_driver(device.id.driver) is not None):
        return Protection("whole", _WHOLE)
    return Protection("unknown", _NOT_KNOWN)


def _containers_with(pod: JsonObject, entry: str) -> int:
    spec = pod.get("spec") or {}
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    claims = ((each.get("resources") or {}).get("claims") or () for each in containers)
    return sum(any(claim.get("name") == entry for claim in each) for each in claims)


def _interface(data: Mapping[str, Any] | None) -> NetworkInterface | None:
    if not data:
        return None
    addresses = (one_line(each) for each in data.get("ips") or ())
    return NetworkInterface(
        one_line(data.get("interfaceName")), one_line(data.get("hardwareAddress")), tuple(filter(None, addresses))
    )


def _tolerations(result: Mapping[str, Any]) -> list[Toleration]:
    reader = Reader.root({"tolerations": result.get("tolerations") or []}, "allocated device")
    return [Toleration.decode(each) for each in reader.children("tolerations")]


def _readable(amount: str, capacity: str) -> str:
    with suppress(ValueError):
        return amount_text(Quantity.parse(amount), capacity)
    return amount
