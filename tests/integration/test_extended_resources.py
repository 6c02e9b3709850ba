"""Extended resources that devices stand for (KEP-5004): the same on the embedded cluster and on the real control plane."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.kube.client.api import resource_path
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import SpawnRefused
from tests.integration.devices import device_class, node_with, whole
from tests.integration.scheduling_script import Script, request
from tests.integration.scheduling_script import claim as claim_named

RESOURCE = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu.example.com"
GPU_CLASS = "gpu.example.com"


def gpu_class(**spec: Any) -> dict[str, Any]:
    made = device_class(GPU_CLASS, "true")
    made["spec"] |= spec
    return made


def node_with_gpus(name: str, count: int, **capacity: str) -> list[dict[str, Any]]:
    node, *slices = node_with(name, *(whole(f"gpu-{n}") for n in range(count)))
    node["status"] = node_manifest(name, capacity={"cpu": "4", "memory": "8Gi", "pods": "20", **capacity})["status"]
    return [node, *slices]


def container(name: str, amount: str = "", resource: str = RESOURCE, **more: Any) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": {"cpu": "100m"}}
    if amount:
        resources["limits"] = {resource: amount}
    return {"name": name, "image": "example.com/image:1", "resources": resources, **more}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    spec = {"containers": list(containers), "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def script(cluster):
    await cluster.start_kubelet(fake=True)
    return Script(cluster)


async def special_claim(cluster, name: str) -> dict[str, Any]:
    status = (await cluster.admin.get(cluster.path("pods", name)))["status"]["extendedResourceClaimStatus"]
    return await cluster.admin.get(cluster.path("resourceclaims", status["resourceClaimName"]))


def devices(claim: dict[str, Any]) -> list[str]:
    return [result["device"] for result in claim["status"]["allocation"]["devices"]["results"]]


async def test_the_scheduler_makes_a_claim_for_the_resource(cluster, script):
    await cluster.publish(gpu_class(extendedResourceName=RESOURCE), *node_with_gpus("a", 2))
    await script.run(pod("notebook", container("notebook", "1")))
    running = await cluster.admin.get(cluster.path("pods", "notebook"))
    claim = await special_claim(cluster, "notebook")
    metadata, status = claim["metadata"], claim["status"]
    assert metadata["name"].startswith("notebook-extended-resources-")
    assert metadata["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert metadata["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert metadata["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "notebook", "uid": running["metadata"]["uid"], "controller": True}
    ]
    exactly = {"deviceClassName": GPU_CLASS, "allocationMode": "ExactCount", "count": 1}
    assert claim["spec"] == {"devices": {"requests": [{"name": "container-0-request-1", "exactly": exactly}]}}
    assert devices(claim) == ["gpu-0"]
    assert [each["name"] for each in status["reservedFor"]] == ["notebook"]
    assert running["status"]["extendedResourceClaimStatus"] == {
        "requestMappings": [
            {"containerName": "notebook", "resourceName": RESOURCE, "requestName": "container-0-request-1"}
        ],
        "resourceClaimName": metadata["name"],
    }
    await script.delete("notebook")
    await cluster.wait_gone(cluster.path("resourceclaims"))


async def test_every_class_stands_for_a_resource_of_its_own(cluster, script):
    await cluster.publish(gpu_class(), *node_with_gpus("a", 2))
    await script.run(pod("notebook", container("notebook", "2", IMPLICIT)))
    claim = await special_claim(cluster, "notebook")
    assert devices(claim) == ["gpu-0", "gpu-1"]
    refused = await script.waits(pod("second", container("notebook", "1", IMPLICIT)))
    assert refused == (
        "0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are "
        "available: 1 Preemption is not helpful for scheduling."
    )
    await script.delete("notebook")
    await cluster.wait_running("second")


async def test_containers_init_containers_and_claims_of_its_own(cluster, script):
    """An init container uses devices of later containers; devices that it needs beyond them are in the claim, too."""
    await cluster.publish(gpu_class(extendedResourceName=RESOURCE), *node_with_gpus("a", 5))
    await cluster.publish(claim_named("own", request(GPU_CLASS)))
    init = [
        container("first", "2"),
        container("sidecar", "1", restartPolicy="Always"),
        container("second", "3"),
    ]
    await cluster.publish(
        pod(
            "notebook",
            container("notebook", "1"),
            container("other"),
            initContainers=init,
            resourceClaims=[{"name": "own", "resourceClaimName": "own"}],
        )
    )
    running = await cluster.wait_for(
        cluster.path("pods", "notebook"), lambda found: "extendedResourceClaimStatus" in found["status"]
    )
    claim = await special_claim(cluster, "notebook")
    requests = [(each["name"], each["exactly"]["count"]) for each in claim["spec"]["devices"]["requests"]]
    assert requests == [("container-1-request-1", 1), ("container-2-request-1", 2), ("container-3-request-1", 1)]
    mappings = running["status"]["extendedResourceClaimStatus"]["requestMappings"]
    assert [(each["containerName"], each["requestName"]) for each in mappings] == [
        ("sidecar", "container-1-request-1"),
        ("notebook", "container-3-request-1"),
        ("first", "container-1-request-1"),
        ("first", "container-3-request-1"),
        ("second", "container-3-request-1"),
        ("second", "container-2-request-1"),
    ]
    own = await cluster.admin.get(cluster.path("resourceclaims", "own"))
    assert sorted([*devices(claim), *devices(own)]) == [f"gpu-{number}" for number in range(5)]


async def test_a_node_whose_device_plugin_offers_the_resource_needs_no_claim(cluster, script):
    await cluster.publish(gpu_class(extendedResourceName=RESOURCE), *node_with_gpus("a", 0, **{RESOURCE: "1"}))
    await script.run(pod("notebook", container("notebook", "1")))
    running = await cluster.admin.get(cluster.path("pods", "notebook"))
    assert "extendedResourceClaimStatus" not in running["status"]
    assert (await cluster.admin.list(cluster.path("resourceclaims")))["items"] == []
    refused = await script.waits(pod("second", container("notebook", "1")))
    assert f"1 Insufficient {RESOURCE}" in refused


async def test_a_resource_that_no_node_offers(cluster, script):
    await cluster.publish(gpu_class(), *node_with_gpus("a", 1))
    await script.waits(pod("notebook", container("notebook", "1")), f"1 Insufficient {RESOURCE}")
    # A class that stands for the resource helps at once.
    path = resource_path("resource.k8s.io/v1", "deviceclasses", name=GPU_CLASS)
    existing = await cluster.admin.get(path)
    existing["spec"]["extendedResourceName"] = RESOURCE
    await cluster.admin.replace(path, existing)
    await cluster.wait_running("notebook")


async def test_a_pod_with_a_claim_and_a_resource_of_a_device_plugin(cluster, script):
    """kube-scheduler 1.36.3 makes a claim for no devices there, fails on it, and never schedules the pod."""
    node, part = node_with_gpus("a", 1, **{RESOURCE: "1"})
    await cluster.publish(gpu_class(extendedResourceName=RESOURCE), node, part)
    await cluster.publish(claim_named("own", request(GPU_CLASS)))
    entries = [{"name": "own", "resourceClaimName": "own"}]
    notebook = pod("notebook", container("notebook", "1"), resourceClaims=entries)
    refused = await script.waits(notebook, "nil or empty request mappings")
    name = f"{cluster.namespace}/notebook"
    assert refused == (
        'running PreBind plugin "DynamicResources": nil or empty request mappings, no update of pod '
        f"{name} ExtendedResourceClaimStatus"
    )


@pytest.mark.promise("A profile can ask for an extended resource that DRA provides.")
async def test_a_server_gets_the_resource_by_its_profile_and_the_next_user_reads_why_a_server_waits(faulty):
    """The hub of `faulty` has only the rights of the chart and of this project's rules."""
    existing = await faulty.cluster.admin.get(resource_path("resource.k8s.io/v1", "deviceclasses", name=GPU_CLASS))
    existing["spec"]["extendedResourceName"] = RESOURCE
    await faulty.cluster.admin.replace(resource_path("resource.k8s.io/v1", "deviceclasses", name=GPU_CLASS), existing)
    await faulty.cluster.publish(*node_with_gpus("gpus", 1))
    override = {"device_claims": {"gpu": None}, "extra_resource_limits": {RESOURCE: "1"}}
    faulty.side.spawner_config.profile_list = [{"display_name": "GPU", "kubespawner_override": override}]
    assert await faulty.spawn() is None
    claim = await special_claim(faulty.cluster, "jupyter-ada")
    assert devices(claim) == ["gpu-0"]
    extended = parts_of(faulty.user().spawner).start.attempt.plan.extended_resources
    assert extended.claim_spec([DeviceClass.from_json(existing)]) == claim["spec"]

    error = await faulty.give_up("bob", "All devices of this kind are in use")
    assert isinstance(error, SpawnRefused)
    assert "All devices of this kind are in use" in str(error)
    for user in ("bob", "ada"):
        await faulty.stop(user)
    await faulty.cluster.wait_gone(faulty.cluster.path("resourceclaims"))


async def test_an_unknown_resource_is_reported(faulty):
    faulty.side.spawner_config.device_claims = {}
    faulty.side.spawner_config.extra_resource_limits = {"example.com/unknown": "1"}
    error = await faulty.give_up(text="No machine has example.com/unknown now.")
    assert "No machine has example.com/unknown now." in str(error)
    await faulty.stop()
