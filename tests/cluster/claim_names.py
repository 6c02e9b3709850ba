"""Names of generated claims in the status of pods, beside kube-controller-manager."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api_connection import ApiRequest
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually

#: Requests that are sent at once.
_AT_ONCE: Final = 16


async def own_claim_names(cluster: ClusterUnderTest, pods: Iterable[JsonObject]) -> None:
    """Own the names of the generated claims of pods, so that kube-controller-manager cannot remove them.

    If it reads a pod with several claims from templates before it reads these claims, versions 1.34 to 1.36.3 write
    one name and remove the others, in turns and for ever, and the pod is never scheduled (kubernetes/kubernetes, issue
    138407). A name that another field manager owns stays. The embedded cluster has no such defect.
    """
    several = {pod["metadata"]["uid"]: pod for pod in pods if len(_template_entries(pod)) > 1}
    if not several or cluster.kind != "real":
        return
    names_of: dict[str, dict[str, str]] = {}

    async def all_exist() -> bool:
        for claim in (await cluster.admin.list(cluster.path("resourceclaims")))["items"]:
            entry = claim["metadata"].get("annotations", {}).get(names.POD_CLAIM_NAME)
            for owner in claim["metadata"].get("ownerReferences", ()) if entry else ():
                names_of.setdefault(owner["uid"], {})[entry] = claim["metadata"]["name"]
        return all(names_of.get(uid, {}).keys() == _template_entries(pod) for uid, pod in several.items())

    at_once = asyncio.Semaphore(_AT_ONCE)

    async def own(uid: str, pod: JsonObject) -> None:
        statuses = [{"name": entry, "resourceClaimName": claim} for entry, claim in names_of[uid].items()]
        async with at_once:
            await cluster.admin.connection.read_json(
                ApiRequest(
                    "apply",
                    "PATCH",
                    cluster.path("pods", pod["metadata"]["name"], "status"),
                    params={"fieldManager": "tests", "force": "true"},
                    body={"apiVersion": "v1", "kind": "Pod", "status": {"resourceClaimStatuses": statuses}},
                    headers={"Content-Type": "application/apply-patch+yaml"},
                )
            )

    await eventually(all_exist, "the claims of all pods exist", pause_seconds=0.2)
    await asyncio.gather(*(own(uid, pod) for uid, pod in several.items()))


def _template_entries(pod: JsonObject) -> set[str]:
    """Entries whose claims are generated from templates."""
    return {each["name"] for each in pod["spec"].get("resourceClaims", ()) if "resourceClaimTemplateName" in each}
