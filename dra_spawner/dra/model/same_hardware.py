"""Published devices that are the same hardware: a GPU and its slices, or one card that two drivers publish.

kube-scheduler knows only by shared counters that two devices exclude each other. Without counters it gives the same
hardware away twice. Attributes say that devices are the same: a UUID, a PCI address, or the UUID or PCI address of a
parent (``parentUUID``, ``parentPciAddr``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dra_spawner.dra.model.devices import Device, PoolId, ResourceSlice

_PARENT: Final = "parent"
_PCI: Final = frozenset({"pcibusid", "pciaddr", "pciaddress", "pcibusaddress"})
_UUID: Final = "uuid"
#: Names of network interfaces: one card with one PCI address may have several.
_INTERFACES: Final = frozenset({"ifname", "interfacename", "mac", "macaddress"})
#: Limit of equal devices to which each one is compared: a driver may give thousands of them one UUID.
_MAX_EQUAL: Final = 8

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SameHardware:
    """Two devices of one node that are the same hardware, and share no counters.

    Attributes
    ----------
    device
        The whole one, if the other is a part of it.
    is_part
        Whether the other is a part of the device, so that the device cannot be had while it is divided.
    """

    device: Device
    other: Device
    is_part: bool


@dataclass(frozen=True, slots=True)
class _Identity:
    own: frozenset[_Key]
    parents: frozenset[_Key]
    interfaces: Mapping[str, str]


def same_hardware(devices: Iterable[Device]) -> tuple[SameHardware, ...]:
    """Pairs of devices that are the same hardware, in the order of the devices.

    Parameters
    ----------
    devices
        All devices of one node; PCI addresses are unique there only.
    """
    identities = [(device, identity) for device in devices if (identity := _identity(device)) is not None]
    owners: dict[_Key, list[tuple[Device, _Identity]]] = {}
    for device, identity in identities:
        for key in identity.own:
            owners.setdefault(key, []).append((device, identity))
    found: dict[tuple[int, int], SameHardware] = {}
    places = {id(device): place for place, (device, _) in enumerate(identities)}
    for device, identity in identities:
        for key in sorted(identity.own | identity.parents):
            for other, its in owners.get(key, ())[:_MAX_EQUAL]:
                is_part = key in identity.parents
                if other is device or _exclude_each_other(device, other):
                    continue
                if not is_part and (bool(identity.parents) != bool(its.parents) or _differ(key, identity, its)):
                    continue
                if is_part and its.parents:
                    continue  # another part of the same parent
                pair = (places[id(other)], places[id(device)])
                if is_part or pair[0] < pair[1]:
                    found.setdefault(pair, SameHardware(other, device, is_part))
    return tuple(found[pair] for pair in sorted(found))


def pairs_by_node(slices: Iterable[ResourceSlice]) -> Iterator[SameHardware]:
    """One pair for each device of each node that is the same hardware as others.

    Parameters
    ----------
    slices
        All slices; of each pool, those of the newest generation count.
    """
    slices = tuple(slices)
    newest: dict[PoolId, int] = {}
    for item in slices:
        newest[item.pool_id] = max(item.generation, newest.get(item.pool_id, item.generation))
    devices: dict[str, list[Device]] = {}
    for item in slices:
        for device in item.devices if item.generation == newest[item.pool_id] else ():
            if node := item.node_name or device.node_name:
                devices.setdefault(node, []).append(device)
    for node in sorted(devices):
        first = {pair.device.id: pair for pair in reversed(same_hardware(devices[node]))}
        yield from (first[device] for device in sorted(first))


def _identity(device: Device) -> _Identity | None:
    """What a device says about its hardware; None if that is nothing."""
    own: set[_Key] = set()
    parents: set[_Key] = set()
    interfaces: dict[str, str] = {}
    is_part = False
    for name, attribute in device.description.attributes.items():
        if not isinstance(attribute.value, str) or not attribute.value:
            continue
        short = name.rpartition("/")[2].lower()
        value = attribute.value.lower()
        of_parent = short.startswith(_PARENT)
        short = short.removeprefix(_PARENT)
        if short == _UUID or short in _PCI:
            key = (_UUID, value) if short == _UUID else ("pci", _pci_address(value))
            (parents if of_parent else own).add(key)
        elif short in _INTERFACES:
            interfaces[short] = value
        is_part = is_part or of_parent or short == "profile" or (short == "type" and "partition" in value)
    if is_part:
        # The PCI address of a part is the one of its parent.
        addresses = {key for key in own if key[0] == "pci"}
        own, parents = own - addresses, parents | addresses
    return _Identity(frozenset(own), frozenset(parents), interfaces) if own or parents else None


def _exclude_each_other(device: Device, other: Device) -> bool:
    """Whether both draw on a counter set of their pool, so that kube-scheduler knows that they are the same."""
    is_same_pool = device.id[:2] == other.id[:2]
    return is_same_pool and not set(device.counter_sets).isdisjoint(other.counter_sets)


def _differ(key: _Key, identity: _Identity, other: _Identity) -> bool:
    """Whether two devices with one PCI address are different interfaces of a card."""
    if key[0] == _UUID:
        return False
    return any(other.interfaces.get(name, value) != value for name, value in identity.interfaces.items())


def _pci_address(value: str) -> str:
    """A PCI address with a domain of four digits; tools also write ``00000000:3b:00.0`` or ``3b:00.0``."""
    domain, _, rest = value.partition(":") if value.count(":") > 1 else ("0", "", value)
    try:
        return f"{int(domain, 16):04x}:{rest}"
    except ValueError:
        return value
