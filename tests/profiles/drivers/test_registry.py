"""The driver of a class, and that the knowledge about drivers agrees with published devices."""

from __future__ import annotations

import sys

import pytest

from dra_spawner.dra.model.devices import Device
from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.profiles.drivers import driver_findings, driver_of_class, known_driver, known_drivers
from dra_spawner.profiles.drivers.vocabulary import Presence
from dra_spawner.profiles.facts import ClusterFacts
from tests.all_of_them import all_of_them
from tests.profiles.drivers.bed import CLASSES
from tests.profiles.drivers.beds import BEDS, FACTS
from tests.profiles.drivers.choices import choice_of


def facts_with_class(*expressions: str, bed: str = "") -> ClusterFacts:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    own = DeviceClass.from_json({"metadata": {"name": "own"}, "spec": {"selectors": selectors}})
    classes = {"own": own, "gpu.nvidia.com": DeviceClass.from_json({"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": selectors}})}  # fmt: skip
    return BEDS[bed].facts(device_classes=classes) if bed else ClusterFacts(device_classes=classes)


@all_of_them("name", [each for each in CLASSES if each != "mig-1g-5gb.gpu.nvidia.com"])
def test_the_classes_that_drivers_bring(name: str):
    without, with_cluster = driver_of_class(name, None), driver_of_class(name, FACTS["a100-efa"])
    assert without is not None
    assert without is with_cluster


OWN = {
    "its CEL names the driver": (("device.driver == 'gpu.nvidia.com'",), "", "gpu.nvidia.com"),
    "one of several does": (('device.driver=="dra.net"', 'device.attributes["dra.net"].rdma'), "", "dra.net"),
    "it names two": (('device.driver == "a" || device.driver == "b"',), "", None),
    "it names one that is not known": (('device.driver == "gpu.example.org"',), "", None),
    "it selects devices of one": (('device.attributes["dra.net"].?rdma.orValue(false)',), "a100-efa", "dra.net"),
    "it selects devices of several": (("true",), "a100-efa", None),
    "it selects everything, and one driver is there": (("true",), "hami", "hami-core-gpu.project-hami.io"),
    "it says nothing": ((), "", None),
}


@pytest.mark.parametrize(("expressions", "bed", "driver"), OWN.values(), ids=OWN)
def test_a_class_of_the_cluster(expressions: tuple[str, ...], bed: str, driver: str | None):
    found = driver_of_class("own", facts_with_class(*expressions, bed=bed))
    assert (found.name if found else None) == driver


def test_the_clusters_class_counts_more_than_its_name():
    assert driver_of_class("gpu.nvidia.com", facts_with_class("device.driver == 'gpu.amd.com'")) is known_driver("gpu.amd.com")  # fmt: skip
    assert driver_of_class("gpu.nvidia.com", facts_with_class("device.driver == 'gpu.example.org'")) is None


def test_drivers_are_known_by_their_names():
    assert all(known_driver(driver.name) is driver for driver in known_drivers())
    assert known_driver("gpu.example.org") is None
    assert driver_of_class("gpu.example.org", None) is None


def published() -> dict[str, list[Device]]:
    devices: dict[str, list[Device]] = {}
    for name, facts in FACTS.items():
        for each in facts.slices or ():
            if name != "broken":
                devices.setdefault(each.pool_id.driver, []).extend(each.devices)
    return devices


PUBLISHED = published()


@all_of_them("driver", [pytest.param(each, id=each.name) for each in known_drivers()])
def test_knowledge_agrees_with_published_devices(driver):
    """Every attribute and capacity of the beds is known, with its type; attributes that are always present exist."""
    attributes = {each.name: each for each in driver.attributes}
    capacities = {each.name: each for each in driver.capacities}
    assert PUBLISHED[driver.name]
    for device in PUBLISHED[driver.name]:
        own = {name.removeprefix(f"{driver.name}/"): value for name, value in device.description.attributes.items()}
        kind = str(own["type"].value) if "type" in own else ""
        for name, attribute in own.items():
            assert attributes[name].kind.value == attribute.kind.value, name
            assert attributes[name].presence is not Presence.DROPPED, name
            assert not attributes[name].types or kind in attributes[name].types, name
            assert not attributes[name].values or attribute.value in attributes[name].values, name
        for each in driver.attributes:
            if each.presence is Presence.ALWAYS and (not each.types or kind in each.types):
                assert each.name in own, (device.id, each.name)
        for name in device.description.capacity:
            assert name in capacities or name.startswith("memorySlice"), name
        for each in driver.capacities:
            if each.presence is Presence.ALWAYS and (not each.types or kind in each.types):
                assert each.name in device.description.capacity, (device.id, each.name)


def test_the_cost_of_a_check_grows_with_the_choices_alone():
    """In function calls: what a check of 200 choices costs is mostly not looked up again for each of them."""
    choices = [
        choice_of(
            {"gpu": {"device_class": "gpu.nvidia.com", "min_memory": f"{number + 1}Gi", "capacity": {"memory": "4Gi"}}}
        )
        for number in range(200)
    ]
    facts = FACTS["memory-shares"]
    _calls(choices, facts)  # fills caches
    few, many = _calls(choices[:100], facts), _calls(choices, facts)
    assert few < many < 2.1 * few
    assert many < 500 * len(choices)


def _calls(choices, facts) -> int:
    found = 0

    def count(_frame, event, _value) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        findings = [each for choice in choices for each in driver_findings(choice, facts)]
    finally:
        sys.setprofile(None)
    assert findings
    return found
