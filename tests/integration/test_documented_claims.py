"""The claims that drivers' documentation shows, sent to an API server and allocated by a scheduler.

All beds are nodes of one cluster; each pod is bound to the node that its example is about.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from dra_spawner.cluster.api import JsonObject, resource_path
from dra_spawner.profiles import ClaimPlan, compile_device_claims, template_manifest
from tests.cluster.under_test import ClusterUnderTest
from tests.profiles.drivers.bed import device_classes
from tests.profiles.drivers.beds import BEDS
from tests.profiles.drivers.choices import TOLERATIONS
from tests.profiles.drivers.documented_claims import DOCUMENTED, DocumentedClaim

ADMIN_LABEL = {"resource.kubernetes.io/admin-access": "true"}
CONTAINERS = ("notebook", "sidecar", "warm-up")
WAITS: dict[str, list[str]] = {}


def templates(plan: ClaimPlan, prefix: str) -> list[JsonObject]:
    return [
        template_manifest(claim, name=f"{prefix}-{claim.name}", namespace="", labels={}, annotations={})
        for claim in plan.claims
        if claim.spec is not None
    ]


def pod_of(plan: ClaimPlan, prefix: str, node: str) -> JsonObject:
    """A pod with the claims, for one node; ``warm-up`` is an init container."""
    claims = plan.container_claims()
    containers: dict[bool, list[JsonObject]] = {True: [], False: []}
    for name in CONTAINERS:
        if name == "notebook" or name in claims:
            resources = {"claims": claims.get(name, [])}
            container = {"name": name, "image": "example.com/image:1", "resources": resources}
            containers[name == "warm-up"].append(container)
    spec = {
        "containers": containers[False],
        "initContainers": containers[True],
        "resourceClaims": [claim.pod_entry(f"{prefix}-{claim.name}") for claim in plan.claims],
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": TOLERATIONS,
        "terminationGracePeriodSeconds": 0,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{prefix}-server"}, "spec": spec}


def without_namespace(obj: JsonObject) -> JsonObject:
    obj.get("metadata", {}).pop("namespace", None)
    return obj


async def allowed_devices(cluster: ClusterUnderTest, pod: JsonObject) -> dict[str, list[str]]:
    """Request -> devices of the pod's claims."""
    names = [status["resourceClaimName"] for status in pod["status"].get("resourceClaimStatuses", ())]
    names += [entry["resourceClaimName"] for entry in pod["spec"]["resourceClaims"] if entry.get("resourceClaimName")]
    devices: dict[str, list[str]] = defaultdict(list)
    for name in names:
        claim = await cluster.admin.get(cluster.path("resourceclaims", name))
        for result in claim["status"]["allocation"]["devices"]["results"]:
            devices[result["request"]].append(result["device"])
    return {request: sorted(found) for request, found in devices.items()}


async def allocate(cluster: ClusterUnderTest, documented: DocumentedClaim, prefix: str) -> dict[str, list[str]]:
    """What the scheduler gives the example; nothing where it waits. Leaves the devices free."""
    plan = compile_device_claims(documented.device_claims, admin_access=True)
    if documented.standing is not None:
        await cluster.publish(documented.standing)
    pod = pod_of(plan, prefix, documented.bed)
    await cluster.publish(*map(without_namespace, templates(plan, prefix)), pod)
    name = pod["metadata"]["name"]
    if documented.devices is None:
        await cluster.wait_event(name, "FailedScheduling")
        devices = WAITS
    else:
        scheduled = await cluster.wait_for(
            cluster.path("pods", name), lambda each: bool(each["spec"].get("nodeName")), timeout_seconds=20
        )
        devices = await allowed_devices(cluster, scheduled)
    await cluster.admin.delete(cluster.path("pods", name), grace_period_seconds=0)
    await cluster.wait_gone(cluster.path("pods", name))
    if documented.standing is not None:
        kind = f"{documented.standing['kind'].lower()}s"
        await cluster.admin.delete(cluster.path(kind, documented.standing["metadata"]["name"]))
    await _wait_free(cluster, prefix)
    return devices


async def _wait_free(cluster: ClusterUnderTest, prefix: str) -> None:
    """Until no claim of the pod is left that holds a device."""

    def is_free(claims: JsonObject) -> bool:
        return not any(each["metadata"]["name"].startswith(prefix) for each in claims["items"])

    await cluster.wait_for(cluster.path("resourceclaims"), is_free)


async def _publish_beds(cluster: ClusterUnderTest, names: set[str]) -> None:
    path = resource_path("v1", "namespaces", name=cluster.namespace)
    await cluster.admin.patch(path, {"metadata": {"labels": ADMIN_LABEL}})
    await cluster.start_kubelet(fake=True)
    beds = [BEDS[name] for name in sorted(names)]
    await cluster.publish(*device_classes(), *(bed.node() for bed in beds), *(s for bed in beds for s in bed.slices()))


async def test_every_documented_claim_is_taken(cluster: ClusterUnderTest):
    """By the API server, whether there is a device or not."""
    path = resource_path("v1", "namespaces", name=cluster.namespace)
    await cluster.admin.patch(path, {"metadata": {"labels": ADMIN_LABEL}})
    sent = 0
    for number, documented in enumerate(DOCUMENTED.values()):
        for value in filter(None, (documented.device_claims, documented.words)):
            for manifest in templates(compile_device_claims(value, admin_access=True), f"c{number}-{sent}"):
                (created,) = await cluster.publish(without_namespace(manifest))
                assert created["spec"]["spec"] == manifest["spec"]["spec"]
                sent += 1
    assert sent > len(DOCUMENTED)


@pytest.mark.timeout(240)
async def test_every_documented_claim_gets_its_devices(cluster: ClusterUnderTest):
    """On its bed; the examples of one bed in turn, those of different beds at the same time."""
    on_beds: dict[str, list[tuple[int, DocumentedClaim]]] = defaultdict(list)
    for number, documented in enumerate(DOCUMENTED.values()):
        if documented.bed:
            on_beds[documented.bed].append((number, documented))
    await _publish_beds(cluster, set(on_beds))
    given: dict[str, Any] = {}

    async def on_one_bed(examples: list[tuple[int, DocumentedClaim]]) -> None:
        for number, documented in examples:
            try:
                given[documented.name] = await allocate(cluster, documented, f"d{number}")
            except AssertionError as error:
                given[documented.name] = str(error)[:2000]

    await asyncio.gather(*map(on_one_bed, on_beds.values()))
    expected = {
        documented.name: {request: sorted(devices) for request, devices in (documented.devices or WAITS).items()}
        for documented in DOCUMENTED.values()
        if documented.bed
    }
    assert given == expected
