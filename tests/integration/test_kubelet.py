"""The kubelet stand-in on both clusters: pods with their devices, from creation to nothing left."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from dra_spawner.devcluster.kubelet.images import PullFailed
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from tests.cluster.example_objects import gpu_class, gpu_slice, pod, share_template
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually
from tests.running import is_running

from .kubelet_pods import NODE, REPORT, report, reporting_pod, waiting_reason


@pytest.mark.promise("In the embedded cluster, the process in a pod sees its share.")
async def test_share_reaches_the_process_and_everything_goes_with_the_pod(cluster: ClusterUnderTest, tmp_path: Path):
    await cluster.publish(NODE, gpu_class(), gpu_slice("node-a"), share_template("share", "12Gi"))
    await cluster.publish(reporting_pod("user", tmp_path, template="share"))
    running = await cluster.wait_running("user")
    seen = await report(tmp_path, "user")
    status = running["status"]
    claim_name = status["resourceClaimStatuses"][0]["resourceClaimName"]

    assert seen["DRA_DEVICE_0"] == "gpu.example.com/node-a/gpu-0"
    assert seen["DRA_CLAIM_GPU_DEVICE"] == "node-a/gpu-0"
    assert seen["DRA_CLAIM_GPU_MEMORY"] == "15Gi"  # 12Gi, rounded up to the device's step
    [device] = json.loads(seen["DRA_DEVICES"])
    assert device.pop("shareID")
    assert device == {
        "claim": "gpu",
        "resourceClaim": claim_name,
        "request": "gpu",
        "driver": "gpu.example.com",
        "pool": "node-a",
        "device": "gpu-0",
        "consumedCapacity": {"memory": "15Gi"},
    }
    assert status["podIP"].startswith("127.")
    assert status["containerStatuses"][0]["ready"] is True
    assert "running" in status["containerStatuses"][0]["state"]
    for reason in (
        "Scheduled",
        "Pulled",
        "Created",
        "Started",
    ):  # each is written by itself, after the status or before
        await cluster.wait_event("user", reason)

    await cluster.admin.delete(cluster.path("pods", "user"))
    await cluster.wait_gone(cluster.path("pods", "user"))
    await eventually(lambda: not is_running(int(seen["PID"])), "the process ends")
    await cluster.wait_gone(cluster.path("resourceclaims", claim_name))
    await cluster.wait_event("user", "Killing", text="Stopping container main")
    directories = cluster.directory / "kubelet" / "pods"  # the kubelet clears up when the pod object is gone
    await eventually(
        lambda: not list(directories.iterdir()),
        "the pod's directory is gone",
        shows=lambda: list(directories.iterdir()),
    )


async def test_only_the_named_container_sees_the_device(embedded_cluster: ClusterUnderTest, tmp_path: Path):
    await embedded_cluster.publish(NODE, gpu_class(), gpu_slice("node-a"), share_template("share", "5Gi"))
    body = reporting_pod("user", tmp_path, template="share")
    side = {
        "name": "side",
        "image": "example.com/image:1",
        "command": [sys.executable, "-c", REPORT],
        "env": [{"name": "REPORT", "value": str(tmp_path / "side.json")}],
    }
    body["spec"]["containers"].append(side)
    await embedded_cluster.publish(body)
    await embedded_cluster.wait_running("user")
    assert "DRA_DEVICES" in await report(tmp_path, "user")
    assert not [name for name in await report(tmp_path, "side") if name.startswith("DRA_")]


async def test_image_pull_takes_its_time_and_may_fail(embedded_cluster: ClusterUnderTest):
    def pull_seconds(node: str, image: str) -> float:
        if "missing" in image:
            raise PullFailed("not found")
        return 0.5

    await embedded_cluster.start_kubelet(fake=True, pull_seconds=pull_seconds)
    await embedded_cluster.publish(NODE)
    await embedded_cluster.publish(pod("first", []))
    await embedded_cluster.wait_running("first")
    await embedded_cluster.publish(pod("second", []))
    await embedded_cluster.wait_running("second")
    await embedded_cluster.wait_event("first", "Pulling")
    await embedded_cluster.wait_event("second", "Started")
    assert "Pulling" not in {each["reason"] for each in await embedded_cluster.events("second")}
    node = await embedded_cluster.admin.get("/api/v1/nodes/node-a")
    assert [image["names"] for image in node["status"]["images"]] == [["example.com/image:1"]]

    body = pod("third", [])
    body["spec"]["containers"][0]["image"] = "example.com/missing:1"
    await embedded_cluster.publish(body)
    await embedded_cluster.wait_event("third", "Failed", text='Failed to pull image "example.com/missing:1"')
    await embedded_cluster.wait_for(
        embedded_cluster.path("pods", "third"),
        lambda obj: waiting_reason(obj) == "ImagePullBackOff",
    )


async def test_node_that_goes_takes_its_pods_along(cluster: ClusterUnderTest, tmp_path: Path):
    await cluster.publish(NODE)
    await cluster.publish(reporting_pod("user", tmp_path))
    await cluster.wait_running("user")
    pid = int((await report(tmp_path, "user"))["PID"])
    await cluster.remove_node("node-a")
    assert not is_running(pid)
    await cluster.wait_gone("/api/v1/nodes/node-a")
    await cluster.wait_gone(cluster.path("pods", "user"))


async def test_many_fake_pods_at_once_have_addresses_of_their_own(embedded_cluster: ClusterUnderTest):
    cluster = embedded_cluster
    await cluster.start_kubelet(fake=True, events=False)
    await cluster.publish(*(node_manifest(f"node-{number}") for number in range(4)))
    bodies = [pod(f"pod-{number}", [], nodeName=f"node-{number % 4}") for number in range(150)]
    await asyncio.gather(*(cluster.admin.create(cluster.path("pods"), body) for body in bodies))
    answer = await cluster.wait_for(
        cluster.path("pods"),
        lambda answer: sum(each["status"]["phase"] == "Running" for each in answer["items"]) == len(bodies),
    )
    assert len({each["status"]["podIP"] for each in answer["items"]}) == len(bodies)


async def test_hub_account_has_the_shipped_rights_and_no_more(real_cluster: ClusterUnderTest):
    cluster = real_cluster
    async with await KubernetesApi.from_kubeconfig(cluster.hub_kubeconfig) as hub:
        await hub.list(cluster.path("pods"))
        await hub.list(cluster.path("resourceclaimtemplates"))
        for request in (
            hub.list(cluster.path("configmaps")),
            hub.list(resource_path("v1", "pods", "kube-system")),
            hub.patch(cluster.path("persistentvolumeclaims", "any"), {"metadata": {"labels": {"a": "b"}}}),
            hub.delete(resource_path("v1", "nodes", name="any")),
        ):
            with pytest.raises(KubernetesError) as refused:
                await request
            assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
