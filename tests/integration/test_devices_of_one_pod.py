"""Servers with devices that a driver prepares for one pod, or one container: a real hub, and the real service as its child.

The kubelet of both clusters is the embedded one, whose drivers of these names behave as the real ones: of a claim that a
pod joins, it gets nothing.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from tests.cluster.accounts import service_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.device_questions import server_tokens, told
from tests.integration.devices import node_with
from tests.integration.handover_hub import Hub, Json, prepare
from tests.polling import eventually

PROFILES = """
c.DRASpawner.profile_list = [
    {"slug": "nic", "display_name": "NIC", "kubespawner_override": {
        "device_claims": {"nic": {"device_class": "dranet"}}}},
    {"slug": "cpus", "display_name": "CPUs", "kubespawner_override": {
        "device_claims": {"cpus": {"device_class": "dra.cpu", "capacity": {"dra.cpu/cpu": "2"}}}}},
]
"""
PLACEHOLDERS = "c.DRASpawnerService.placeholders = {'nic': {'min': 1, 'max': 1}, 'cpus': {'min': 1, 'max': 1}}\n"


def device_class(name: str, driver: str) -> Json:
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    metadata = {"name": name}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": {"selectors": selectors},
    }


def slice_of(driver: str, node: str, *devices: Json) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)},
    }


def device(name: str, **more: Any) -> Json:
    return {"name": name, "attributes": {"model": {"string": "Example"}}, **more}


CPUS = device("cpudevnuma000", allowMultipleAllocations=True, capacity={"dra.cpu/cpu": {"value": "64"}})
NODE = "node-c"


async def states(hub: Hub, headers: dict[str, str]) -> dict[str, str]:
    """How soon a server of each choice would run, as spawn forms show it."""
    url = f"{hub.url}/services/dra-spawner/api/profiles"
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
        assert answer.status == 200, await answer.text()
        found: list[dict[str, Any]] = (await answer.json())["items"]
    return {each["name"]: (each["availability"] or {}).get("state", "") for each in found}


@pytest.mark.promise("A server that gets a placeholder's network interface has it.")
async def test_a_server_gets_what_was_prepared_for_its_placeholder(cluster: ClusterUnderTest) -> None:
    await prepare(
        cluster,
        device_class("dranet", "dra.net"),
        device_class("dra.cpu", "dra.cpu"),
        *node_with(NODE),
        slice_of("dra.net", NODE, device("nic-0"), device("nic-1")),
        slice_of("dra.cpu", NODE, CPUS),
    )
    kubeconfig = await service_kubeconfig(cluster)
    async with Hub(cluster, kubeconfig, PROFILES, lease_seconds=60, settings=PLACEHOLDERS) as hub:
        await hub.until_warm(2)
        headers = await hub.administrator_headers()
        # The interface is not prepared for the server: it is free, and no more.
        expected = {"nic": "after-placeholder", "cpus": "ready"}

        async def are_known() -> bool:
            return await states(hub, headers) == expected

        await eventually(are_known, "it is known how soon servers would run")
        placeholders = await hub.placeholders()
        first = {pod["metadata"]["name"] for pod in placeholders}
        warm_claims = {entry["resourceClaimName"] for pod in placeholders for entry in pod["spec"]["resourceClaims"]}
        for user, profile, variable in (("ada", "nic", "DRA_CLAIM_NIC_DEVICE"), ("bob", "cpus", "DRA_CLAIM_CPUS_CPU")):
            await hub.add_user(user)
            status, body = await hub.spawn(user, {"profile": profile})
            assert status in (201, 202), body
            await hub.until_ready(user)
            claim = await hub.claim_of(user)
            assert claim["metadata"]["name"] in warm_claims
            assert variable in await hub.server_environment(user), f"{user}'s server has not the device of its claim"
        tokens = await server_tokens(cluster)
        (_, ada), (_, bob) = await told(hub, tokens["jupyter-ada"]), await told(hub, tokens["jupyter-bob"])
        assert (ada["warm"], "prepared" in ada["place"]) == (False, False)
        assert (bob["warm"], "prepared" in bob["place"]) == (True, True)
        assert ada["devices"][0]["enforcement"]["by"] == "whole"

        async def are_replaced() -> bool:
            return not first & {pod["metadata"]["name"] for pod in await hub.placeholders()}

        await eventually(are_replaced, "both placeholders have ended", pause_seconds=0.5)
        # kube-scheduler may have preempted the one that must go first.
        codes = {each["code"] for each in await hub.decisions() if each["kind"] == "delete-placeholder"}
        assert codes == {"handed-over"}
        for user in ("ada", "bob"):
            await hub.stop_server(user)
        await hub.only_placeholders_are_left()
