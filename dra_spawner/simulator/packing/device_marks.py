"""Attributes that tell one device from the others of its node, for a selector: kube-scheduler's CEL sees no names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

from dra_spawner.dra.model.devices import AttributeKind, Device
from dra_spawner.dra.preferences import DeviceMark
from dra_spawner.simulator.packing.device_costs import Option

__all__ = ["mark_of"]

#: Attributes of a device that are tried, those first that fewest devices share.
_MAX_TRIED: Final = 8
#: Identifiers that are unique in the cluster, so that the selector selects nothing on another node.
_UNIQUE: Final = ("uuid", "serial", "pciaddr", "pcibusid", "pcibusaddress")


def mark_of(option: Option, others: Sequence[Option], *, alone: bool = False) -> DeviceMark | None:
    """The shortest mark of a device; None if its driver publishes nothing that tells it from a worse choice.

    Parameters
    ----------
    others
        All options of the request on the node, in kube-scheduler's order; the device is one of them.
    alone
        Whether no other device of the node may have the mark. Otherwise the first of them must be as good.
    """
    device = option.candidate.device
    for attributes in _tried(device, others):
        found = [each for each in others if _has(each.candidate.device, device.id.driver, attributes)]
        is_right = len(found) == 1 if alone else bool(found) and found[0].cost == option.cost
        mark = DeviceMark(device.id.driver, attributes)
        if is_right and mark.is_usable:
            return mark
    return None


_Attributes = tuple[tuple[str, str, str | int], ...]


def _tried(device: Device, others: Sequence[Option]) -> Iterable[_Attributes]:
    """Single attributes and pairs, the best first."""
    known = attributes_of(device)

    def shared_by(item: tuple[tuple[str, str], str | int]) -> int:
        (domain, name), value = item
        return sum(_has(each.candidate.device, device.id.driver, ((domain, name, value),)) for each in others)

    def order(item: tuple[tuple[str, str], str | int]) -> tuple[int, bool, tuple[str, str]]:
        return shared_by(item), not item[0][1].lower().endswith(_UNIQUE), item[0]

    single = [(domain, name, value) for (domain, name), value in sorted(known.items(), key=order)[:_MAX_TRIED]]
    yield from ((each,) for each in single)
    yield from combinations(single, 2)


def attributes_of(device: Device) -> dict[tuple[str, str], str | int]:
    """Texts and numbers by domain and name, without those that a driver publishes as ``x`` and as ``driver/x``."""
    driver = device.id.driver
    found: dict[tuple[str, str], str | int] = {}
    twice = set()
    for key, (kind, value) in device.description.attributes.items():
        domain, slash, name = key.rpartition("/")
        full = (domain if slash else driver, name)
        if full in found:
            twice.add(full)
        if kind in (AttributeKind.STRING, AttributeKind.INT) and isinstance(value, str | int):
            found[full] = value
    return {full: value for full, value in found.items() if full not in twice}


def _has(device: Device, driver: str, attributes: _Attributes) -> bool:
    if device.id.driver != driver:
        return False
    known = device.description.attributes
    for domain, name, value in attributes:
        found = known.get(f"{domain}/{name}") or (known.get(name) if domain == driver else None)
        if found is None or found.value != value:
            return False
    return True
