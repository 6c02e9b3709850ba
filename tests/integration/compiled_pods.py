"""Pods of compiled device claims, and the devices that they get."""

from __future__ import annotations

from typing import Any

from dra_spawner.profiles import ClaimPlan, template_manifest
from dra_spawner.profiles.standing_claims import Scope, standing_claim_manifest
from tests.cluster.under_test import ClusterUnderTest

CONTAINERS = ("notebook", "sidecar")


def manifests(plan: ClaimPlan) -> list[dict[str, Any]]:
    made = []
    for claim in plan.claims:
        if claim.sharing is not None:
            scope = Scope(claim.sharing.by)
            made.append(standing_claim_manifest(claim, scope, slug="all", labels={}, annotations={}))
            made[-1]["metadata"]["name"] = f"own-{claim.name}"
        elif claim.spec is not None:
            made.append(template_manifest(claim, name=f"own-{claim.name}", namespace="", labels={}, annotations={}))
    return made


def pod_of(plan: ClaimPlan) -> dict[str, Any]:
    claims = plan.container_claims()
    containers = [
        {"name": name, "image": "example.com/image:1", "resources": {"claims": claims.get(name, [])}}
        for name in CONTAINERS
    ]
    entries = [claim.pod_entry(f"own-{claim.name}") for claim in plan.claims]
    spec = {"containers": containers, "resourceClaims": entries, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "server"}, "spec": spec}


async def send(cluster: ClusterUnderTest, *objects: dict[str, Any]) -> None:
    for obj in objects:
        obj.get("metadata", {}).pop("namespace", None)
    await cluster.publish(*objects)


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
