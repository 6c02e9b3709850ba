"""Servers that do not start on a real kubelet with a real driver are started again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jupyterhub.user import User
from prometheus_client import REGISTRY

from tests.cluster.control_plane import ControlPlane
from tests.cluster.harness_binary import chosen_release
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.faulty_hub import LEFT_BEHIND
from tests.polling import eventually
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

from .devices import GPU_SHARE_CLASS
from .images import PAUSE, QUICK_SERVER
from .machine import Machine
from .node_binaries import NodeBinaries
from .objects import claim, environment, pod
from .real_node import NodeOptions, RealNode

SERVER = "jupyter-ada"


@pytest.fixture
async def hub(node: RealNode, node_cluster: ClusterUnderTest) -> AsyncIterator[HubSide]:
    """A hub's side whose servers run on the node, with a share of a GPU each."""
    with kubernetes_of(node_cluster.hub_kubeconfig):
        side = HubSide(node_cluster.hub_kubeconfig, node_cluster.namespace)
        config = side.spawner_config
        config.image = QUICK_SERVER
        # A third of it is the most that a failing pod gets.
        config.start_timeout = 600
        config.retry_failed_pod_after_seconds = 3
        config.device_claims = {"gpu": {"device_class": GPU_SHARE_CLASS, "capacity": {"memory": "10Gi"}}}
        try:
            yield side
        finally:
            await end_hub_side()


async def start(user: User) -> BaseException | None:
    try:
        await user.spawn("", {})
    except Exception as error:
        return error
    return None


async def until_message(user: User, text: str) -> None:
    def messages() -> list[str]:
        return [event["message"] for event in user.spawner.events]

    await eventually(lambda: any(text in each for each in messages()), f"{text!r} is said", shows=messages)


async def device_of(cluster: ClusterUnderTest) -> tuple[str, str]:
    """Pool and device of the only claim, once it has them."""

    def results(found: dict[str, Any]) -> list[Any]:
        return [each for each in found["items"] if each.get("status", {}).get("allocation")]

    found = await cluster.wait_for(cluster.path("resourceclaims"), lambda found: bool(results(found)))
    (result,) = results(found)[0]["status"]["allocation"]["devices"]["results"]
    return result["pool"], result["device"]


def prepared(node: RealNode, cluster: ClusterUnderTest) -> set[str]:
    """UIDs of this test's claims that the kubelet asked the driver to prepare."""
    return {call.uid for call in node.gpus.calls("prepare") if call.claim.startswith(f"{cluster.namespace}/")}


async def nothing_is_left(cluster: ClusterUnderTest) -> None:
    for plural in LEFT_BEHIND:
        await cluster.wait_gone(cluster.path(plural))


async def test_a_driver_that_fails_once(hub: HubSide, node: RealNode, node_cluster: ClusterUnderTest):
    node.gpus.fail(prepare="the device does not answer")
    ada = hub.user("ada")
    starting = asyncio.create_task(start(ada))
    _, device = await device_of(node_cluster)
    await until_message(ada, f"Machine {node.name} could not make device {device}")
    node.gpus.fail(prepare="")
    assert await starting is None
    assert len(prepared(node, node_cluster)) == 2
    assert (await node_cluster.wait_running(SERVER))["spec"]["nodeName"] == node.name
    await ada.stop("")
    await nothing_is_left(node_cluster)


async def test_a_driver_that_fails_always(hub: HubSide, node: RealNode, node_cluster: ClusterUnderTest):
    node.gpus.fail(prepare="the device does not answer")
    ada = hub.user("ada")
    starting = asyncio.create_task(start(ada))
    pool, device = await device_of(node_cluster)
    error = str(await starting)
    failed = f"Machine {node.name} could not make device {device} of {pool} ready for this server."
    assert error.startswith("This server was tried twice and did not start. ")
    assert failed in error
    await nothing_is_left(node_cluster)


async def test_the_start_waits_for_a_slow_driver(hub: HubSide, node: RealNode, node_cluster: ClusterUnderTest):
    """The driver takes longer than the limit; nothing fails."""
    node.gpus.slow(prepare=8.0)
    ada = hub.user("ada")
    assert await start(ada) is None
    assert len(prepared(node, node_cluster)) == 1
    await ada.stop("")
    await nothing_is_left(node_cluster)


async def test_a_claim_that_the_kubelet_loses(hub: HubSide, node: RealNode, node_cluster: ClusterUnderTest):
    """The pod comes while the driver takes the claim back from the last one. Up to 1.36 it never starts without help."""
    await node_cluster.publish(claim("theirs", GPU_SHARE_CLASS, memory="10Gi"), pod("last", claim="theirs"))
    await node_cluster.wait_running("last")
    # Long enough for the start to come to the node meanwhile.
    node.gpus.slow(unprepare=12.0)
    config = hub.spawner_config
    config.device_claims = {"gpu": {"claim": "theirs", "containers": {"side": ["main"]}}}
    # The container with the device is made when the driver is done.
    config.extra_containers = [{"name": "side", "image": PAUSE}]
    config.lifecycle_hooks = {"postStart": {"sleep": {"seconds": 15}}}
    await node_cluster.admin.delete(node_cluster.path("pods", "last"))
    await asyncio.to_thread(node.gpus.wait_call, "unprepare", f"{node_cluster.namespace}/theirs")
    ada = hub.user("ada")
    assert await start(ada) is None
    said = "lost track of device" if chosen_release() == "1.36" else "is still taking device"
    assert any(f"Machine {node.name} {said}" in event["message"] for event in ada.spawner.events)
    assert len(prepared(node, node_cluster)) == 1
    await ada.stop("")
    await node_cluster.admin.delete(node_cluster.path("resourceclaims", "theirs"))
    await nothing_is_left(node_cluster)


def made_again(reason: str) -> float:
    return REGISTRY.get_sample_value("dra_spawner_pods_recreated_total", {"reason": reason}) or 0.0


@dataclass(frozen=True)
class CrowdedNode:
    """A node whose kubelet may run a pod unknown to the API server: the scheduler overestimates its capacity."""

    real: RealNode
    static_pods: Path

    @property
    def name(self) -> str:
        return self.real.name

    async def take_capacity(self) -> None:
        """Let the kubelet start a static pod, for which it can make no mirror pod: the namespace does not exist."""
        static = pod("static")
        static["metadata"]["namespace"] = "nowhere"
        del static["spec"]["resourceClaims"]
        static["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
        unfinished = self.static_pods.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(static))
        unfinished.rename(self.static_pods / "static.json")


@pytest.fixture
async def crowded(
    hub: HubSide, node_plane: ControlPlane, binaries: NodeBinaries, machine: Machine, tmp_path: Path
) -> AsyncIterator[CrowdedNode]:
    """A second node, which servers prefer. They want more than half of its processors, and so does a static pod."""
    static_pods = tmp_path / "static-pods"
    static_pods.mkdir()
    kubelet = {"staticPodPath": str(static_pods)}
    options = NodeOptions(labels={"pool": "new"}, kubelet=kubelet)
    real = RealNode(node_plane, binaries, machine, tmp_path / "crowded", options=options)
    new = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    hub.spawner_config.node_affinity_preferred = [{"weight": 100, "preference": new}]
    await asyncio.to_thread(real.start)
    try:
        cpus = int(real.node()["status"]["allocatable"]["cpu"])
        hub.spawner_config.cpu_guarantee = cpus - 0.5
        yield CrowdedNode(real, static_pods)
    finally:
        await asyncio.to_thread(real.stop)


async def until_running(node: RealNode, containers: int) -> None:
    async def are_there() -> bool:
        return len(await asyncio.to_thread(node.containerd.tasks)) >= containers

    await eventually(are_there, f"{containers} containers run", pause_seconds=0.1)


async def uids_of(cluster: ClusterUnderTest, reason: str) -> list[str]:
    """Of the server's pods with such an event, in their order."""
    return [each["involvedObject"]["uid"] for each in await cluster.events(SERVER) if each["reason"] == reason]


async def test_a_node_that_refuses_the_pod(
    hub: HubSide, crowded: CrowdedNode, node: RealNode, node_cluster: ClusterUnderTest
):
    await crowded.take_capacity()
    await until_running(crowded.real, 2)
    ada, before = hub.user("ada"), made_again("not-admitted")
    assert await start(ada) is None
    message = f"Machine {crowded.name} did not accept this server. It is started again, on another machine."
    assert message in [event["message"] for event in ada.spawner.events]
    running = await node_cluster.wait_running(SERVER)
    assert running["spec"]["nodeName"] == node.name
    assert any(value.startswith(f"{node.name}-") for key, value in environment(running).items() if "DEVICE" in key)
    (refused,) = await uids_of(node_cluster, "OutOfcpu")
    assert await uids_of(node_cluster, "Scheduled") == [refused, running["metadata"]["uid"]]
    assert made_again("not-admitted") == before + 1
    await ada.stop("")
    await nothing_is_left(node_cluster)


async def test_a_node_that_refuses_both_pods(hub: HubSide, crowded: CrowdedNode, node_cluster: ClusterUnderTest):
    """The server fits on no other node."""
    await crowded.take_capacity()
    await until_running(crowded.real, 2)
    hub.spawner_config.node_selector = {"pool": "new"}
    ada, before = hub.user("ada"), made_again("not-admitted")
    error = str(await start(ada))
    refused = f"Machine {crowded.name} did not accept this server."
    assert error.startswith(f"This server was tried twice and did not start. Both times: {refused} ")
    assert len(await uids_of(node_cluster, "OutOfcpu")) == 2
    assert made_again("not-admitted") == before + 1
    await nothing_is_left(node_cluster)


async def test_a_node_that_ends_the_pod_for_one_of_its_own(
    hub: HubSide, crowded: CrowdedNode, node: RealNode, node_cluster: ClusterUnderTest
):
    """Static pods are critical: a kubelet without capacity for one ends other pods, such as a starting server."""
    crowded.real.gpus.fail(prepare="the device does not answer")
    hub.spawner_config.retry_failed_pod_after_seconds = 180
    ada, before = hub.user("ada"), made_again("ended-by-node")
    starting = asyncio.create_task(start(ada))
    await asyncio.to_thread(crowded.real.gpus.wait_call, "prepare", ended=True)
    await crowded.take_capacity()
    assert await starting is None
    message = f"Machine {crowded.name} ended this server while it started"
    assert any(event["message"].startswith(message) for event in ada.spawner.events)
    assert (await node_cluster.wait_running(SERVER))["spec"]["nodeName"] == node.name
    assert len(await uids_of(node_cluster, "Preempting")) == 1
    assert made_again("ended-by-node") == before + 1
    await ada.stop("")
    await nothing_is_left(node_cluster)
