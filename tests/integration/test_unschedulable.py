"""Why a pod is pending, in the scheduler's words; alike on both clusters."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.scheduling_script import (
    NO_DEVICES,
    NOT_HELPFUL,
    RESOURCE_API,
    Script,
    claim,
    pod,
    request,
    share,
    template,
)


async def test_missing_template_is_reported(script: Script):
    await script.publish(pod("user", template="absent"))
    message = (
        'PodResourceClaim devices: resource claim template "absent": '
        'resourceclaimtemplate.resource.k8s.io "absent" not found'
    )
    event = await script.cluster.wait_event("user", "FailedResourceClaimCreation")
    assert (event["type"], event["message"]) == ("Warning", message)
    await script.publish(template("absent", share("10Gi")))
    assert await script.node_of("user") == "shared-gpus"


WHOLE_ONLY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["whole-gpus"]}]}
            ]
        }
    }
}


#: Row -> the pod without its name, and the scheduler's message.
PENDING: dict[str, tuple[dict[str, Any], str]] = {
    "cpu": ({"cpu": "17"}, f"0/4 nodes are available: 4 Insufficient cpu. {NOT_HELPFUL}"),
    "selector": (
        {"nodeSelector": {"no": "node"}},
        f"0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector. {NOT_HELPFUL}",
    ),
    "one-node-by-name": (
        {"cpu": "17", "affinity": WHOLE_ONLY},
        "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
        f"{NOT_HELPFUL}",
    ),
    "class": (
        {"template": "missing-class"},
        f"0/4 nodes are available: request r: device class missing.example.com does not exist. {NOT_HELPFUL}",
    ),
    "share-beyond-the-device": ({"template": "too-large"}, NO_DEVICES),
    "cpu-before-devices": (
        {"template": "too-large", "cpu": "17"},
        f"0/4 nodes are available: 4 Insufficient cpu. {NOT_HELPFUL}",
    ),
    "volume": (
        {"volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]},
        '0/4 nodes are available: persistentvolumeclaim "home" not found. not found',
    ),
}


@pytest.mark.promise("The scheduler's reason for a pending server is a real cluster's.")
async def test_why_a_pod_is_pending(script: Script):
    await script.publish(
        template("missing-class", request("missing.example.com")), template("too-large", share("41Gi"))
    )
    found = {row: await script.waits(pod(row, **options), message) for row, (options, message) in PENDING.items()}
    assert found == {row: message for row, (_, message) in PENDING.items()}


async def test_no_nodes(cluster: ClusterUnderTest):
    script = Script(cluster)
    assert await script.waits(pod("user")) == "no nodes available to schedule pods"


async def test_error_in_a_selector_is_reported(script: Script):
    """One device without the attribute stops the pod everywhere."""
    where = [{"cel": {"expression": text}} for text in ("true", 'device.attributes["gpu.example.com"].missing == "x"')]
    for broken, of_class, of_claim in (("claim", where[:1], where), ("class", where, where[:1])):
        name = f"{script.cluster.namespace}-{broken}"
        device_class = {"apiVersion": RESOURCE_API, "kind": "DeviceClass", "metadata": {"name": name}}
        await script.publish(
            {**device_class, "spec": {"selectors": of_class}}, claim(broken, request(name, selectors=of_claim))
        )
        owner = f"class {name}" if broken == "class" else f"claim {script.cluster.namespace}/{broken}"
        message = (
            f'running "DynamicResources" filter plugin: {owner}: selector #1: CEL runtime error: no such key: missing'
        )
        assert await script.waits(pod(broken, claim=broken), message) == message


async def test_taints_and_tolerations(cluster: ClusterUnderTest):
    await cluster.start_kubelet(fake=True)
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    tainted = {"apiVersion": "v1", "kind": "Node", **node_manifest("tainted", taints=[taint])}
    await cluster.publish(tainted)
    script = Script(cluster)
    assert (await script.waits(pod("user"))).startswith(
        "0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: "
    )
    await script.run(pod("tolerant", tolerations=[{"key": "dedicated", "operator": "Exists"}]))
