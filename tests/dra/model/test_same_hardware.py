"""Devices that are the same hardware, by what drivers publish of them."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.model.objects import Device
from dra_spawner.dra.model.same_hardware import same_hardware
from tests.all_of_them import all_of_them
from tests.dra.builders import make_slice

BUS = "resource.kubernetes.io/pciBusID"


def device(name: str, counters: Any = None, **attributes: str) -> dict[str, Any]:
    named = {key.replace("__", "/").replace("_dot_", "."): {"string": value} for key, value in attributes.items()}
    item: dict[str, Any] = {"name": name, "attributes": named}
    if counters:
        values = {"memory": {"value": "1"}}
        item["consumesCounters"] = [{"counterSet": each, "counters": values} for each in counters]
    return item


def on_bus(name: str, address: str, **more: str) -> dict[str, Any]:
    item = device(name, **more)
    item["attributes"][BUS] = {"string": address}
    return item


def pairs(devices: list[Device]) -> list[tuple[str, str, bool]]:
    return [(each.device.id.device, each.other.id.device, each.is_part) for each in same_hardware(devices)]


@all_of_them(
    "devices, expected",
    {
        "nothing is known": ([device("a"), device("b")], []),
        "others": ([device("a", uuid="1"), device("b", uuid="2")], []),
        "a slice and its GPU": ([device("p", parentUUID="1"), device("w", uuid="1")], [("w", "p", True)]),
        "with a domain": (
            [device("w", gpu_dot_nvidia_dot_com__uuid="1"), device("p", gpu_dot_nvidia_dot_com__parentUUID="1")],
            [("w", "p", True)],
        ),
        "slices of one GPU": ([device("p", parentUUID="1", uuid="2"), device("q", parentUUID="1", uuid="3")], []),
        "a partition of an AMD GPU": (
            [device("w", pciAddr="0000:0b:00.0"), device("p", parentPciAddr="0000:0B:00.0")],
            [("w", "p", True)],
        ),
        "slices with the address of their GPU": (
            [on_bus("p", "0000:0b:00.0", profile="1g"), on_bus("q", "0000:0b:00.0", profile="1g")],
            [],
        ),
        "and the GPU": (
            [on_bus("p", "0000:0b:00.0", profile="1g"), on_bus("w", "00000000:0b:00.0")],
            [("w", "p", True)],
        ),
        "counters say so": (
            [device("w", ["gpu"], uuid="1"), device("p", ["gpu"], parentUUID="1")],
            [],
        ),
        "counters of others": (
            [device("w", ["gpu"], uuid="1"), device("p", ["mig"], parentUUID="1")],
            [("w", "p", True)],
        ),
        "only the part draws on counters": (
            [device("w", uuid="1"), device("p", ["gpu"], parentUUID="1")],
            [("w", "p", True)],
        ),
        "twice": ([device("a", uuid="1"), device("b", uuid="1")], [("a", "b", False)]),
        "a card with two interfaces": (
            [on_bus("a", "0000:0b:00.0", ifName="eth0"), on_bus("b", "0000:0b:00.0", ifName="eth1")],
            [],
        ),
        "an interface twice": (
            [on_bus("a", "0000:0b:00.0", ifName="eth0"), on_bus("b", "0000:0b:00.0", ifName="eth0")],
            [("a", "b", False)],
        ),
        "no address": ([on_bus("a", ":::"), on_bus("b", "::x")], []),
    },
)
def test_pairs(devices: list[dict[str, Any]], expected: list[tuple[str, str, bool]]) -> None:
    assert pairs(list(make_slice(devices=devices).devices)) == expected


def test_two_drivers_publish_one_gpu() -> None:
    one = make_slice(devices=[device("a", ["gpu"], uuid="GPU-1")])
    other = make_slice(devices=[device("b", ["gpu"], uuid="gpu-1")], driver="other.example.com")
    assert pairs([*one.devices, *other.devices]) == [("a", "b", False)]
