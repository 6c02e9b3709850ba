from __future__ import annotations

from collections import Counter

import pytest

from dra_spawner.devcluster.demo.example_nodes import (
    DRIVERS_PREPARE_FOR,
    GPU_CLASS,
    GPU_SHARE_CLASS,
    MIG_CLASS,
    PARTITIONED_NODE,
    SHARED_NODE,
    VLAN_NIC_CLASS,
    WHOLE_NODE,
    device_classes,
    example_nodes,
    example_objects,
    resource_slices,
)
from dra_spawner.dra.allocation.allocator import AllocatedState, Allocation, Allocator, DoesNotFit
from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.model.objects import DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.profiles.drivers import drivers_prepare_for
from tests.cluster.under_test import ClusterUnderTest
from tests.presence import present

SLICES = [ResourceSlice.from_json(each) for each in resource_slices()]
CLASSES = [DeviceClass.from_json(each) for each in device_classes()]
NODES = {each["metadata"]["name"]: Node.from_json(each) for each in example_nodes()}


def claim(device_class: str, where: str = "", count: int = 1, **capacity: str) -> ResourceClaim:
    exactly = {"deviceClassName": device_class, "count": count, "allocationMode": "ExactCount"}
    if where:
        exactly["selectors"] = [{"cel": {"expression": where}}]
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return ResourceClaim.from_json({"metadata": {"name": "claim"}, "spec": spec})


class Devices:
    """The devices of one example node, given to claims one after the other."""

    def __init__(self, name: str) -> None:
        self.node = NODES[name]
        self.state = AllocatedState()

    def take(self, wanted: ResourceClaim) -> Allocation | None:
        found = Allocator(SLICES, CLASSES, self.state).allocate(self.node, [wanted])
        if isinstance(found, DoesNotFit):
            return None
        self.state.add([result.as_allocated() for result in found[0].results])
        return found[0]

    def take_all(self, wanted: ResourceClaim) -> list[str]:
        """The devices given until no more are."""
        given = []
        while (allocation := self.take(wanted)) is not None:
            given.append(allocation.results[0].id.device)
        return given


def profile(name: str) -> str:
    return f'device.attributes["gpu.example.com"].profile == "{name}"'


async def test_api_servers_accept_the_examples_unchanged(cluster: ClusterUnderTest):
    await cluster.start_kubelet(fake=True)
    await cluster.publish(*example_nodes())
    others = [*device_classes(), *resource_slices()]
    created = await cluster.publish(*others)
    assert [each["spec"] for each in created] == [each["spec"] for each in others]


def test_four_nodes_have_the_resources_of_pods():
    assert len(NODES) == 4
    for each in example_nodes():
        assert {"cpu", "memory", "ephemeral-storage", "pods"} <= each["status"]["allocatable"].keys()
        assert each["metadata"]["labels"]["kubernetes.io/hostname"] == each["metadata"]["name"]


def test_objects_are_new_each_time():
    example_objects()[0]["spec"].clear()
    assert example_objects()[0]["spec"]


@pytest.mark.parametrize(
    ("device_class", "node", "devices"),
    [
        (GPU_SHARE_CLASS, SHARED_NODE, 2),
        (MIG_CLASS, PARTITIONED_NODE, 24),
        (GPU_CLASS, WHOLE_NODE, 4),
        (GPU_CLASS, PARTITIONED_NODE, 2),
        (VLAN_NIC_CLASS, "vlan-nics", 2),
    ],
)
def test_classes_select_their_devices_and_fail_on_none(device_class, node, devices):
    (expression,) = next(each.selectors for each in CLASSES if each.name == device_class)
    cache = SelectorCache(list_attributes=False)
    verdicts = [
        (part.node_name, cache.verdict(present(expression), device.description))
        for part in SLICES
        for device in part.devices
    ]
    assert all(isinstance(verdict, bool) for _, verdict in verdicts)
    selected = Counter(name for name, verdict in verdicts if verdict)
    assert selected[node] == devices


def test_shares_come_in_steps_and_default_to_all():
    node = Devices(SHARED_NODE)
    for asked, consumed in (("1Gi", "5Gi"), ("12Gi", "15Gi"), ("20Gi", "20Gi")):
        allocation = node.take(claim(GPU_SHARE_CLASS, memory=asked))
        assert allocation is not None
        (result,) = allocation.results
        assert (result.id.device, str(present(result.consumed_capacity)["memory"])) == ("gpu-0", consumed)
    (result,) = present(node.take(claim(GPU_SHARE_CLASS))).results
    assert str(present(result.consumed_capacity)["memory"]) == "40Gi"
    assert node.take(claim(GPU_SHARE_CLASS, memory="1Gi")) is None


@pytest.mark.parametrize(("name", "each_gpu"), [("1g.5gb", 7), ("2g.10gb", 3), ("3g.20gb", 2)])
def test_as_many_partitions_as_a_gpu_has(name, each_gpu):
    given = Devices(PARTITIONED_NODE).take_all(claim(MIG_CLASS, profile(name)))
    assert Counter(device[:5] for device in given) == {"gpu-0": each_gpu, "gpu-1": each_gpu}


def test_partitions_do_not_overlap():
    node = Devices(PARTITIONED_NODE)
    assert present(node.take(claim(MIG_CLASS, profile("3g.20gb")))).results[0].id.device == "gpu-0-mig-3g20gb-9-0"
    small = node.take_all(claim(MIG_CLASS, profile("1g.5gb")))
    # The slices 0 to 3 of the first GPU are taken.
    assert [device for device in small if device.startswith("gpu-0")] == [f"gpu-0-mig-1g5gb-19-{n}" for n in (4, 5, 6)]


def test_gpu_that_is_cut_cannot_be_had_whole():
    node = Devices(PARTITIONED_NODE)
    node.take(claim(MIG_CLASS, profile("1g.5gb")))
    assert node.take_all(claim(GPU_CLASS)) == ["gpu-1"]
    assert present(node.take(claim(MIG_CLASS, profile("3g.20gb")))).results[0].id.device == "gpu-0-mig-3g20gb-9-4"


def test_whole_gpus_are_had_once():
    assert Devices(WHOLE_NODE).take_all(claim(GPU_CLASS)) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]


def test_network_interfaces_are_limited_by_bandwidth_and_count():
    bandwidth = Devices("vlan-nics").take_all(claim(VLAN_NIC_CLASS, bandwidth="4G"))
    assert Counter(bandwidth) == {"nic-0": 2, "nic-1": 2}
    assert Counter(Devices("vlan-nics").take_all(claim(VLAN_NIC_CLASS, bandwidth="100M"))) == {"nic-0": 64, "nic-1": 64}
    (result,) = present(Devices("vlan-nics").take(claim(VLAN_NIC_CLASS))).results
    consumed = {name: str(amount) for name, amount in present(result.consumed_capacity).items()}
    assert consumed == {"bandwidth": "1G", "vlans": "1"}


def test_it_is_known_what_each_driver_prepares_for():
    """Of a driver that is not known, a placeholder gives its devices to nobody else, and is called free, not warm."""
    unknown = {each.pool_id.driver for each in SLICES} - drivers_prepare_for().keys()
    assert unknown == DRIVERS_PREPARE_FOR.keys()
