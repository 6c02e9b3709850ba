"""Each known trouble appears where a driver publishes its cause, and nowhere else."""

from __future__ import annotations

from typing import Any

from dra_spawner.doctor.rules.driver_troubles import trouble_findings
from dra_spawner.dra.model.objects import DeviceClass, ResourceSlice
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


@all_of_them("part, classes, wrong, right", {
    "intel memory": ("0 bytes", (), [device(INTEL, capacity=EMPTY)], [device(INTEL)]),
    "amd memory": ("AMD's driver publishes GPUs with 0 bytes", (), [device(AMD, capacity=EMPTY)], [device(AMD)]),
    "amd names": ("renamed", (), [device(AMD, attributes={"pciAddr": {"string": "0"}})], [device(AMD, attributes={"resource.kubernetes.io/pciBusID": {"string": "0"}})]),
    "nvidia memory": ("min_memory", (), [device(NVIDIA, capacity={}, attributes={"type": {"string": "gpu"}})], [device(NVIDIA, capacity={}, attributes={"type": {"string": "vfio"}})]),
    "sriov": ("SriovResourcePolicy", (device_class(SRIOV),), [], [device(SRIOV)]),
    "hami": ("60 %", (), [device(HAMI)], []),
    "nvidia shares": ("enforces neither", (), [device(NVIDIA, allowMultipleAllocations=True)], [device(NVIDIA)]),
    "dranet class": ("brings no DeviceClass", (device_class(NVIDIA),), [device(NET)], []),
    "root": ("PCIe root", CLASS, [device(NET, **at("b", **RDMA)), device(NVIDIA, **at("a"))], [device(NET, **at("a", **RDMA)), device(NVIDIA, **at("a"))]),
    "no root": ("PCIe root", CLASS, [device(NET, attributes=RDMA), device(AMD, **at("a"))], [device(NET, **at("b")), device(AMD, **at("a"))]),
})  # fmt: skip
def test_a_trouble_appears_only_where_its_cause_is_published(
    part: str, classes: tuple[DeviceClass, ...], wrong: list[ResourceSlice], right: list[ResourceSlice]
) -> None:
    (sentence,) = sentences_of(classes, *wrong)
    assert part in sentence
    assert sentences_of(classes, *right) == []


def test_a_class_for_dranet_ends_its_trouble() -> None:
    assert sentences_of(CLASS, device(NET)) == []
