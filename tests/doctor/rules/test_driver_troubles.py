"""Each known trouble appears where a driver publishes its cause, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.doctor.rules.driver_troubles import trouble_findings
from dra_spawner.dra.objects import DeviceClass, ResourceSlice
from tests.all_of_them import all_of_them
from tests.doctor.objects import device_class, gpu, resource_slice, sound

AMD, HAMI, INTEL, NVIDIA, NET = (
    "gpu.amd.com",
    "hami-core-gpu.project-hami.io",
    "gpu.intel.com",
    "gpu.nvidia.com",
    "dra.net",
)
SRIOV = "sriovnetwork.k8snetworkplumbingwg.io"
EMPTY = {"memory": {"value": "0"}}


def device(driver: str, **more: Any) -> ResourceSlice:
    return resource_slice("node-a", driver, gpu(**more))


def sentences_of(classes: tuple[DeviceClass, ...], *slices: ResourceSlice) -> list[str]:
    return [each.sentence for each in trouble_findings(sound(classes=classes, slices=slices))]


def at(root: str, **more: Any) -> dict[str, Any]:
    return {"attributes": {"resource.kubernetes.io/pcieRoot": {"string": root}, **more}}


RDMA = {"dra.net/rdma": {"bool": True}}
CLASS = (device_class("dranet.net", NET),)


@all_of_them([
    pytest.param("0 bytes", (), [device(INTEL, capacity=EMPTY)], [device(INTEL)], id="intel memory"),
    pytest.param("AMD's driver publishes GPUs with 0 bytes", (), [device(AMD, capacity=EMPTY)], [device(AMD)], id="amd memory"),
    pytest.param("renamed", (), [device(AMD, attributes={"pciAddr": {"string": "0"}})], [device(AMD, attributes={"resource.kubernetes.io/pciBusID": {"string": "0"}})], id="amd names"),
    pytest.param("min_memory", (), [device(NVIDIA, capacity={}, attributes={"type": {"string": "gpu"}})], [device(NVIDIA, capacity={}, attributes={"type": {"string": "vfio"}})], id="nvidia memory"),
    pytest.param("SriovResourcePolicy", (device_class(SRIOV),), [], [device(SRIOV)], id="sriov"),
    pytest.param("60 %", (), [device(HAMI)], [], id="hami"),
    pytest.param("enforces neither", (), [device(NVIDIA, allowMultipleAllocations=True)], [device(NVIDIA)], id="nvidia shares"),
    pytest.param("brings no DeviceClass", (device_class(NVIDIA),), [device(NET)], [], id="dranet class"),
    pytest.param("PCIe root", CLASS, [device(NET, **at("b", **RDMA)), device(NVIDIA, **at("a"))], [device(NET, **at("a", **RDMA)), device(NVIDIA, **at("a"))], id="root"),
    pytest.param("PCIe root", CLASS, [device(NET, attributes=RDMA), device(AMD, **at("a"))], [device(NET, **at("b")), device(AMD, **at("a"))], id="no root"),
])  # fmt: skip
def test_a_trouble_appears_only_where_its_cause_is_published(
    part: str, classes: tuple[DeviceClass, ...], wrong: list[ResourceSlice], right: list[ResourceSlice]
) -> None:
    (sentence,) = sentences_of(classes, *wrong)
    assert part in sentence
    assert sentences_of(classes, *right) == []


def test_a_class_for_dranet_ends_its_trouble() -> None:
    assert sentences_of(CLASS, device(NET)) == []
