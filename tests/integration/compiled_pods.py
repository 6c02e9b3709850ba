"""Pods of compiled device claims, and the devices that they get."""

from __future__ import annotations

from typing import Any

from dra_spawner.kube.client.api import resource_path
from dra_spawner.profiles import ClaimPlan, template_manifest
from dra_spawner.profiles.compiler.shared_claims import Scope, shared_claim_manifest
from tests.cluster.under_test import ClusterUnderTest

CONTAINERS = ("notebook", "sidecar", "warm-up")


def manifests(plan: ClaimPlan, prefix: str = "own") -> list[dict[str, Any]]:
    made = []
    for claim in plan.claims:
        name = f"{prefix}-{claim.name}"
        if claim.sharing is not None:
            scope = Scope(claim.sharing.by)
            made.append(shared_claim_manifest(claim, scope, slug="all", labels={}, annotations={}))
            made[-1]["metadata"]["name"] = name
        elif claim.spec is not None:
            made.append(template_manifest(claim, name=name, namespace="", labels={}, annotations={}))
    return made


def pod_of(plan: ClaimPlan, prefix: str = "own", name: str = "server", **spec: Any) -> dict[str, Any]:
    """A pod with the claims; ``warm-up`` is an init container."""
    claims = plan.container_claims()
    containers = [
        {"name": name, "image": "example.com/image:1", "resources": {"claims": claims.get(name, [])}}
        for name in CONTAINERS
        if name == "notebook" or name in claims
    ]
    spec |= {
        "containers": [each for each in containers if each["name"] != "warm-up"],
        "initContainers": [each for each in containers if each["name"] == "warm-up"],
        "resourceClaims": [claim.pod_entry(f"{prefix}-{claim.name}") for claim in plan.claims],
        "terminationGracePeriodSeconds": 0,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def send(cluster: ClusterUnderTest, *objects: dict[str, Any]) -> list[dict[str, Any]]:
    for obj in objects:
        obj.get("metadata", {}).pop("namespace", None)
    return await cluster.publish(*objects)


async def allow_admin_access(cluster: ClusterUnderTest) -> None:
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await cluster.admin.patch(resource_path("v1", "namespaces", name=cluster.namespace), label)


async def claims_of(cluster: ClusterUnderTest, pod: dict[str, Any]) -> list[dict[str, Any]]:
    names = [status["resourceClaimName"] for status in pod["status"].get("resourceClaimStatuses", ())]
    names += [entry["resourceClaimName"] for entry in pod["spec"]["resourceClaims"] if entry.get("resourceClaimName")]
    return [await cluster.admin.get(cluster.path("resourceclaims", name)) for name in names]


def results(claims: list[dict[str, Any]]) -> dict[str, list[str]]:
    devices: dict[str, list[str]] = {}
    for claim in claims:
        for result in claim["status"]["allocation"]["devices"]["results"]:
            devices.setdefault(result["request"], []).append(result["device"])
    return {request: sorted(names) for request, names in devices.items()}
