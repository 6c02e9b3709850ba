"""The claims that drivers' documentation shows, sent to an API server and allocated by a scheduler.

Every example has a node of its own in one cluster, to which its pod is bound.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from dra_spawner.profiles import compile_device_claims
from tests.cluster.claim_names import own_claim_names
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.compiled_pods import allow_admin_access, claims_of, manifests, pod_of, results, send
from tests.profiles.drivers.bed import device_classes
from tests.profiles.drivers.beds import BEDS
from tests.profiles.drivers.choices import TOLERATIONS
from tests.profiles.drivers.documented_claims import DOCUMENTED, DocumentedClaim

WAITS: dict[str, list[str]] = {}


async def allocate(cluster: ClusterUnderTest, documented: DocumentedClaim, node: str) -> dict[str, list[str]]:
    """Devices that the scheduler gives the example on its node; nothing while the pod is pending."""
    plan = compile_device_claims(documented.device_claims, admin_access=True)
    where = {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": TOLERATIONS}
    pod = pod_of(plan, node, f"{node}-server", **where)
    shared = () if documented.shared is None else (documented.shared,)
    created = await send(cluster, *shared, *manifests(plan, node), pod)
    await own_claim_names(cluster, created[-1:])
    name = pod["metadata"]["name"]
    if documented.devices is None:
        await cluster.wait_event(name, "FailedScheduling")
        return WAITS
    path = cluster.path("pods", name)
    scheduled = await cluster.wait_for(path, lambda each: bool(each["spec"].get("nodeName")))
    return results(await claims_of(cluster, scheduled))


async def test_every_documented_claim_is_taken(cluster: ClusterUnderTest):
    """By the API server, whether there is a device or not."""
    await allow_admin_access(cluster)
    sent = 0
    for number, documented in enumerate(DOCUMENTED.values()):
        for value in filter(None, (documented.device_claims, documented.words)):
            for manifest in manifests(compile_device_claims(value, admin_access=True), f"c{number}-{sent}"):
                (created,) = await send(cluster, manifest)
                assert created["spec"]["spec"] == manifest["spec"]["spec"]
                sent += 1
    assert sent > len(DOCUMENTED)


async def test_every_documented_claim_gets_its_devices(cluster: ClusterUnderTest):
    """Each example has a suitable node of its own, so that no example uses devices of another one."""
    await allow_admin_access(cluster)
    await cluster.start_kubelet(fake=True)
    examples = {f"{each.bed}-{number}": each for number, each in enumerate(DOCUMENTED.values()) if each.bed}
    beds = [replace(BEDS[each.bed], name=node) for node, each in examples.items()]
    slices = [each for bed in beds for each in bed.slices()]
    await cluster.publish(*device_classes(), *(bed.node() for bed in beds), *slices)
    given: dict[str, Any] = {}

    async def try_out(node: str, documented: DocumentedClaim) -> None:
        try:
            given[documented.name] = await allocate(cluster, documented, node)
        except AssertionError as error:
            given[documented.name] = str(error)[:2000]

    await asyncio.gather(*(try_out(node, documented) for node, documented in examples.items()))
    expected = {
        documented.name: {request: sorted(devices) for request, devices in (documented.devices or WAITS).items()}
        for documented in examples.values()
    }
    assert given == expected
