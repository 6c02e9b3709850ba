"""A real node with its devices, as pods and the control plane see them."""

from __future__ import annotations

from dra_spawner.common.json_types import JsonObject
from tests.cluster.harness_binary import chosen_version
from tests.cluster.under_test import ClusterUnderTest
from tests.node.devices import PREPARES_FOR
from tests.node.objects import claim, claim_template, environment, is_unschedulable, pod, server_pod

from .devices import GPU_CLASS, GPU_DRIVER, GPU_SHARE_CLASS, MIG_CLASS, NIC_DRIVER, PARTITIONED_NODE, SHARED_NODE
from .devices import VLAN_NIC_CLASS as NIC_CLASS
from .real_node import RealNode


def of_partitioned_gpu(index: int, rest: str = "") -> str:
    """CEL that selects one GPU of the partitioned ones, or parts of it."""
    root = f'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:1{index}"'
    return f'{root} && device.attributes["{GPU_DRIVER}"].productName == "Example A100 40GB"{rest}'


def profile(name: str) -> str:
    return f' && device.attributes["{GPU_DRIVER}"].profile == "{name}"'


async def test_node_is_ready(node: RealNode, node_cluster: ClusterUnderTest):
    found = node.node()
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    assert conditions == {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    assert found["status"]["nodeInfo"]["kubeletVersion"] == chosen_version()
    assert found["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
    assert {"type": "InternalIP", "address": node.address} in found["status"]["addresses"]
    slices = await node_cluster.admin.list("/apis/resource.k8s.io/v1/resourceslices")
    published = {(each["spec"]["driver"], each["spec"]["pool"]["name"]) for each in slices["items"]}
    wanted = {(name, pool) for name, driver in node.drivers.items() for pool in driver.pools}
    assert published == wanted
    assert {name for name, _ in wanted} == {GPU_DRIVER, NIC_DRIVER, *PREPARES_FOR}


async def test_pods_share_a_gpu_and_know_their_own_share(node: RealNode, node_cluster: ClusterUnderTest):
    first_gpu = 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:10"'
    await node_cluster.publish(claim_template("share", GPU_SHARE_CLASS, cel=first_gpu, memory="7Gi"))
    found = []
    for index in range(4):
        # One by one: kube-scheduler counts a share twice for a moment while it writes the allocation, and a pod that
        # it refuses then waits for another event.
        await node_cluster.publish(server_pod(f"server-{index}", template="share"))
        found.append(environment(await node_cluster.wait_running(f"server-{index}")))
    assert {variables["DEVICE_MAIN"] for variables in found} == {f"{node.pool(SHARED_NODE)}/gpu-0"}
    # In steps of 5 GiB.
    assert {variables["SHARE_MAIN"] for variables in found} == {"memory=10Gi"}
    claims = (await node_cluster.admin.list(node_cluster.path("resourceclaims")))["items"]
    results = [each["status"]["allocation"]["devices"]["results"] for each in claims]
    assert {variables["SHARE_ID_MAIN"] for variables in found} == {share["shareID"] for (share,) in results}
    assert len(results) == 4
    # The GPU is full.
    await node_cluster.publish(pod("one-more", template="share"))
    await node_cluster.wait_for(node_cluster.path("pods", "one-more"), is_unschedulable)


async def test_pod_sees_only_devices_of_claims_that_its_container_names(node: RealNode, node_cluster: ClusterUnderTest):
    waiting = server_pod("server", claim="share")
    del waiting["spec"]["containers"][0]["resources"]["claims"]
    await node_cluster.publish(claim("share", GPU_SHARE_CLASS, memory="5Gi"), waiting)
    variables = environment(await node_cluster.wait_running("server"))
    assert "DEVICE_MAIN" not in variables


async def test_partitions_use_up_the_counters_they_share(node: RealNode, node_cluster: ClusterUnderTest):
    half = of_partitioned_gpu(0, profile("3g.20gb"))
    seventh = of_partitioned_gpu(0, profile("1g.5gb"))
    await node_cluster.publish(
        claim_template("half", MIG_CLASS, cel=half), claim_template("small", MIG_CLASS, cel=seventh)
    )
    await node_cluster.publish(claim("whole", GPU_CLASS, cel=of_partitioned_gpu(0)))
    halves = [server_pod(f"half-{index}", template="half") for index in range(2)]
    await node_cluster.publish(*halves)
    devices = {environment(await node_cluster.wait_running(f"half-{i}"))["DEVICE_MAIN"] for i in range(2)}
    pool = node.pool(PARTITIONED_NODE)
    assert devices == {f"{pool}/gpu-0-mig-3g20gb-9-{start}" for start in (0, 4)}

    await node_cluster.publish(pod("small", template="small"), pod("whole", claim="whole"))
    await node_cluster.wait_for(node_cluster.path("pods", "small"), is_unschedulable)
    await node_cluster.wait_for(node_cluster.path("pods", "whole"), is_unschedulable)
    await node_cluster.admin.delete(node_cluster.path("pods", "half-1"))
    await node_cluster.wait_running("small")
    assert is_unschedulable(await node_cluster.wait_for(node_cluster.path("pods", "whole")))


async def test_driver_fills_the_status_of_network_interfaces(node: RealNode, node_cluster: ClusterUnderTest):
    await node_cluster.publish(claim("nic", NIC_CLASS, bandwidth="2G"), server_pod("server", claim="nic"))
    running = await node_cluster.wait_running("server")
    variables = environment(running)
    found = await node_cluster.wait_for(
        node_cluster.path("resourceclaims", "nic"), lambda each: each["status"].get("devices")
    )
    (device,) = found["status"]["devices"]
    (result,) = found["status"]["allocation"]["devices"]["results"]
    assert [device[key] for key in ("driver", "pool", "device", "shareID")] == [
        result[key] for key in ("driver", "pool", "device", "shareID")
    ]
    assert device["networkData"]["interfaceName"] == "net1"
    assert device["networkData"]["hardwareAddress"].startswith("02:00:")
    assert device["networkData"]["ips"][0].startswith("192.168.")
    # 2G, as the scheduler of each release writes it.
    written = "2G" if node_cluster.kubernetes >= (1, 37) else "1953125Ki"
    assert variables["SHARE_MAIN"] == f"bandwidth={written},vlans=1"


async def test_health_of_a_device_shows_in_the_status_of_its_pod(node: RealNode, node_cluster: ClusterUnderTest):
    await node_cluster.publish(claim("share", GPU_SHARE_CLASS, memory="5Gi"), server_pod("server", claim="share"))
    device = environment(await node_cluster.wait_running("server"))["DEVICE_MAIN"]

    def health(found: JsonObject) -> list[tuple[str, str]]:
        (status,) = found["status"]["containerStatuses"]
        resources = [each for claim in status.get("allocatedResourcesStatus") or [] for each in claim["resources"]]
        return [(each["health"], each.get("message", "")) for each in resources]

    path = node_cluster.path("pods", "server")
    node.gpus.unhealthy({device: "fell off the bus"})
    await node_cluster.wait_for(path, lambda found: health(found) == [("Unhealthy", "fell off the bus")])
    node.gpus.unhealthy({})
    await node_cluster.wait_for(path, lambda found: health(found) == [("Healthy", "")])
