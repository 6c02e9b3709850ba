"""Where pods go and which devices they get, alike on the embedded cluster and on the real control plane."""

from __future__ import annotations

import random

import pytest

from dra_spawner.devcluster.demo.example_nodes import (
    GPU_CLASS,
    GPU_SHARE_CLASS,
    MIG_CLASS,
    VLAN_NIC_CLASS,
    example_objects,
    resource_slices,
)
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from tests.cluster.fixtures import newest_only
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.scheduling_script import (
    NO_DEVICES,
    ONE_G,
    Script,
    pod,
    request,
    scheduled,
    share,
    template,
)


async def test_whole_devices(script: Script):
    only_whole = 'device.attributes["gpu.example.com"].productName == "Example H100 80GB"'
    await script.publish(template("gpu", request(GPU_CLASS, where=only_whole)))
    await script.run(*(pod(f"user-{number}", template="gpu") for number in range(4)))
    taken = [await script.devices_of(f"user-{number}") for number in range(4)]
    assert taken == [[("whole-gpus", f"gpu-{number}")] for number in range(4)]
    assert await script.waits(pod("late", template="gpu")) == NO_DEVICES
    await script.delete("user-2")
    assert await script.node_of("late") == "whole-gpus"
    assert await script.devices_of("late") == [("whole-gpus", "gpu-2")]


@pytest.mark.promise("Shares of a device are given until it is full.")
async def test_shares(script: Script):
    """Steps of 5 GiB: a request for 12 GiB consumes 15 GiB."""
    await script.publish(
        template("t12", share("12Gi")), template("t40", share("40Gi")), template("all", request(GPU_SHARE_CLASS))
    )
    await script.run(pod("one", template="t12"), pod("two", template="t12"), pod("three", template="t12"))
    gpu_0, gpu_1 = ("shared-gpus", "gpu-0", {"memory": "15Gi"}), ("shared-gpus", "gpu-1", {"memory": "15Gi"})
    assert [await script.devices_of(name) for name in ("one", "two", "three")] == [[gpu_0], [gpu_0], [gpu_1]]
    shares = {
        (await script.claim_of(name))["status"]["allocation"]["devices"]["results"][0]["shareID"]
        for name in ("one", "two")
    }
    assert len(shares) == 2
    assert await script.waits(pod("large", template="t40")) == NO_DEVICES
    await script.delete("three")
    assert await script.node_of("large") == "shared-gpus"
    # A request without an amount consumes the whole device.
    assert await script.waits(pod("greedy", template="all")) == NO_DEVICES
    await script.delete("large")
    assert await script.node_of("greedy") == "shared-gpus"
    assert await script.devices_of("greedy") == [("shared-gpus", "gpu-1", {"memory": "40Gi"})]


@pytest.mark.promise("Partitions of a device are given as its counters allow.")
async def test_partitions_draw_on_shared_counters(script: Script):
    first_gpu = resource_slices()[2]
    parent = first_gpu["spec"]["devices"][0]["attributes"]["uuid"]["string"]
    of_first = f'device.attributes["gpu.example.com"].parentUUID == "{parent}"'
    profile = 'device.attributes["gpu.example.com"].profile == "{}" && ' + of_first
    whole = 'device.attributes["gpu.example.com"].productName == "Example A100 40GB"'
    await script.publish(
        template("small", request(MIG_CLASS, where=profile.format("1g.5gb"))),
        template("medium", request(MIG_CLASS, where=profile.format("2g.10gb"))),
        template("large", request(MIG_CLASS, where=profile.format("3g.20gb"))),
        template("whole", request(GPU_CLASS, where=whole)),
    )
    await script.run(*(pod(name, template=name) for name in ("large", "medium", "small")))
    # The half that begins at slice 0, then two slices at 4 and one at 6.
    assert [await script.devices_of(name) for name in ("large", "medium", "small")] == [
        [("partitioned-gpus", "gpu-0-mig-3g20gb-9-0")],
        [("partitioned-gpus", "gpu-0-mig-2g10gb-14-4")],
        [("partitioned-gpus", "gpu-0-mig-1g5gb-19-6")],
    ]
    # Its own engines are used up, so no partition fits although a memory slice is left.
    assert await script.waits(pod("more", template="small")) == NO_DEVICES
    await script.run(pod("whole", template="whole"))
    assert await script.devices_of("whole") == [("partitioned-gpus", "gpu-1")]
    assert await script.waits(pod("second", template="whole")) == NO_DEVICES
    await script.delete("large")
    assert await script.node_of("more") == "partitioned-gpus"
    assert await script.devices_of("more") == [("partitioned-gpus", "gpu-0-mig-1g5gb-19-0")]


@pytest.mark.promise("A profile can ask for a network interface in a VLAN.")
async def test_a_network_interface_in_a_vlan(script: Script):
    wanted = {"requests": {"bandwidth": "950M", "vlans": "1"}}
    await script.publish(template("nic", request(VLAN_NIC_CLASS, capacity=wanted)))
    await script.run(pod("user", template="nic"))
    assert await script.devices_of("user") == [("vlan-nics", "nic-0", {"bandwidth": "1G", "vlans": "1"})]


async def test_several_requests_of_one_claim(script: Script):
    await script.publish(template("both", share("10Gi"), {**share("20Gi"), "name": "s"}))
    await script.run(pod("user", template="both"))
    results = (await script.claim_of("user"))["status"]["allocation"]["devices"]["results"]
    assert [(each["request"], each["device"], each["consumedCapacity"]) for each in results] == [
        ("r", "gpu-0", {"memory": "10Gi"}),
        ("s", "gpu-0", {"memory": "20Gi"}),
    ]


@pytest.mark.parametrize("seed", [20, 21])
@newest_only
async def test_both_clusters_choose_alike(
    embedded_cluster: ClusterUnderTest, real_cluster: ClusterUnderTest, seed: int
):
    """A random script of many small steps: each has the same outcome, word for word, on both."""
    clusters = (embedded_cluster, real_cluster)
    several_small = {"name": "small", **request(MIG_CLASS, where=ONE_G, count=3)["exactly"]}
    whole = {"name": "whole", **request(GPU_CLASS)["exactly"]}
    wishes = {
        **{f"share-{size}": [share(f"{size}Gi")] for size in (1, 5, 8, 12, 27, 40, 41)},
        "pair": [share("6Gi"), {**share("30Gi"), "name": "s"}],
        "whole": [request(GPU_CLASS)],
        "two-whole": [request(GPU_CLASS, count=2)],
        "small": [request(MIG_CLASS, where=ONE_G)],
        "any-partition": [request(MIG_CLASS)],
        "three-small": [request(MIG_CLASS, where=ONE_G, count=3)],
        "both-kinds": [request(MIG_CLASS), share("10Gi") | {"name": "s"}],
        "nic": [request(VLAN_NIC_CLASS, capacity={"requests": {"bandwidth": "3333M"}})],
        "nic-on-each": [request(VLAN_NIC_CLASS, allocationMode="All", capacity={"requests": {"bandwidth": "100M"}})],
        "all-kinds": [request(MIG_CLASS, count=2), share("3Gi") | {"name": "s"}, request(VLAN_NIC_CLASS, name="t")],
        "small-or-whole": [{"name": "r", "firstAvailable": [several_small, whole]}],
    }
    # All devices on one node, so that no choice between equals is left to chance.
    slices = [{**each, "spec": {**each["spec"], "nodeName": "node"}} for each in resource_slices()]
    others = [each for each in example_objects() if each["kind"] == "DeviceClass"]
    capacity = {"cpu": "64", "memory": "64Gi"}
    objects = [{"apiVersion": "v1", "kind": "Node", **node_manifest("node", capacity=capacity)}, *others, *slices]
    for cluster in clusters:
        await cluster.start_kubelet(fake=True)
        await cluster.publish(*objects, *(template(name, *requests) for name, requests in wishes.items()))
    scripts = [Script(cluster) for cluster in clusters]
    chance = random.Random(seed)
    placed: list[str] = []
    for step in range(60):
        if placed and chance.random() < 0.35:
            gone = placed.pop(chance.randrange(len(placed)))
            for each in scripts:
                claim_name = (await each.claim_of(gone))["metadata"]["name"]
                await each.delete(gone)
                await each.cluster.wait_gone(each.cluster.path("resourceclaims", claim_name))
            continue
        name, wish = f"pod-{step}", chance.choice(sorted(wishes))
        outcomes = []
        for each in scripts:
            condition = scheduled(await each.outcome(pod(name, template=wish)))
            assert condition is not None
            given = await each.devices_of(name) if condition["status"] == "True" else None
            outcomes.append((condition.get("message"), given))
        assert outcomes[0] == outcomes[1], f"step {step}: {wish}"
        if outcomes[0][1] is not None:
            placed.append(name)
        else:
            for each in scripts:
                await each.delete(name)
    assert placed
