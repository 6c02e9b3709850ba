"""A hub shows a server its own devices: which caller gets which answer, and what the answer says."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from dra_spawner.kube.client.api import resource_path
from dra_spawner.user_server.own_devices import devices_of_server
from tests.cluster.fault_proxy import Fault
from tests.integration.device_questions import Answer, ask, new_token, server_tokens, told
from tests.integration.devices import DRIVER, classes, node_with, shareable, whole
from tests.integration.hub_process import HubProcess
from tests.integration.hub_with_service import log_in
from tests.polling import PATIENCE_SECONDS, eventually

CONFIG = """
c.Authenticator.admin_users = {"root"}
c.DRASpawner.profile_list = [
    {"display_name": "half", "slug": "half", "kubespawner_override": {"device_claims": {"gpu": {
        "device_class": "gpu-share.example.com", "capacity": {"memory": "20Gi"}}}}},
    {"display_name": "whole", "slug": "whole", "kubespawner_override": {"device_claims": {"gpu": {
        "device_class": "gpu.example.com"}}}},
    {"display_name": "none", "slug": "none"},
]
c.JupyterHub.load_roles[0]["scopes"].append("tokens")
"""
SERVER_ONLY = "This token is not of one server of its owner."


def devices(answer: Answer) -> list[str]:
    status, body = answer
    assert status == 200, body
    return [each["name"] for each in body["devices"]]


@pytest.mark.promise("A server learns which devices it has, and nothing of other servers.")
async def test_a_server_learns_of_its_own_devices_only(embedded_cluster):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0"), whole("gpu-1")))
    async with HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, CONFIG) as hub:
        await hub.add_user("root")
        for user, server, profile in (("ada", "", "half"), ("ada", "two", "whole"), ("bob", "", "none")):
            await hub.spawn(user, {"profile": profile}, server)
            await hub.until_ready(user, server)
        tokens = await server_tokens(cluster)
        ada, bob = tokens["jupyter-ada"], tokens["jupyter-bob"]
        (two,) = (token for name, token in tokens.items() if "two" in name)
        of_ada = {"scopes": ["access:servers!server=ada/"]}

        # The table of docs/how-to/my-devices.md.
        assert devices(await told(hub, ada)) == ["gpu-0"], "the server itself"
        assert devices(await told(hub, two)) == ["gpu-1"], "another server of the same user: its own devices"
        assert devices(await told(hub, bob)) == [], "a server of another user: its own devices"
        assert devices(await told(hub, bob, "?user=ada&server=")) == [], "parameters change nothing"
        assert devices(await told(hub, await new_token(hub, "ada", **of_ada))) == ["gpu-0"], "of the same rights"
        for caller, token in {
            "anonymous": "",
            "an invalid token": "0" * 32,
        }.items():
            assert await ask(hub, token) == (403, "This needs the token of a server (JUPYTERHUB_API_TOKEN)."), caller
        for caller, token in {
            "the user's own token": await new_token(hub, "ada"),
            "an administrator": await new_token(hub, "root"),
            "an administrator, with access to this server alone": await new_token(hub, "root", **of_ada),
            "a service": hub.token,
        }.items():
            status, message = await ask(hub, token)
            assert (status, message.startswith(SERVER_ONLY)) == (403, True), caller
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            await log_in(session, hub.url, "ada")
            assert (await ask(hub, session=session))[0] == 403, "a page that the user has open"

        short = await new_token(hub, "ada", expires_in=1, **of_ada)

        async def has_expired() -> bool:
            return (await ask(hub, short))[0] == 403

        await eventually(has_expired, "an expired token shows nothing")
        await hub.stop_server("ada", "two")
        assert (await ask(hub, two))[0] == 403, "a server that has stopped"
        await hub.stop()
        await hub.start()

        async def is_served() -> bool:
            return (await ask(hub, ada))[0] == 200

        await eventually(is_served, "the hub answers after a restart, too")


async def test_share_protection_network_and_health_are_shown(real_cluster):
    cluster = real_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    async with HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, CONFIG) as hub:
        await hub.spawn("ada", {"profile": "half"})
        await hub.until_ready("ada")
        (token,) = (await server_tokens(cluster)).values()
        _, answer = await told(hub, token)
        (device,) = answer.pop("devices")
        assert answer == {"version": 1, "node": "node-a", "warm": False, "place": "20 GiB of gpu-0 on node-a"}
        share = {"capacity": "memory", "amount": "20Gi", "total": "40Gi", "text": "20 GiB of 40 GiB"}
        assert device.pop("share") == [share]
        assert device.pop("enforcement")["by"] == "none"
        assert device.pop("health") == {"state": "unknown", "sentence": "Nothing reports the health of this device."}
        assert device == {
            "claim": "gpu",
            "request": "gpu",
            "driver": DRIVER,
            "pool": "node-a",
            "name": "gpu-0",
            "device_class": "gpu-share.example.com",
            "product": "Example 40",
            "network": None,
        }

        (claim,) = (await cluster.admin.list(cluster.path("resourceclaims")))["items"]
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        network = {"interfaceName": "net1", "hardwareAddress": "02:00:00:00:00:01", "ips": ["10.42.0.7/24"]}
        status = {key: result[key] for key in ("driver", "pool", "device", "shareID") if key in result}
        path = cluster.path("resourceclaims", claim["metadata"]["name"], "status")
        await cluster.admin.patch(path, {"status": {"devices": [{**status, "networkData": network}]}})

        async def network_of_device() -> Any:
            return (await told(hub, token))[1]["devices"][0]["network"]

        shown = await eventually(network_of_device, "the interface is shown")
        assert shown == {"interface": "net1", "hardware_address": "02:00:00:00:00:01", "addresses": ["10.42.0.7/24"]}

        slices = resource_path("resource.k8s.io/v1", "resourceslices")
        (found,) = (await cluster.admin.list(slices, field_selector="spec.nodeName=node-a"))["items"]
        found["spec"]["devices"][0]["taints"] = [{"key": "example.com/xid", "value": "48", "effect": "NoSchedule"}]
        await cluster.admin.patch(
            f"{slices}/{found['metadata']['name']}", {"spec": {"devices": found["spec"]["devices"]}}
        )

        async def health() -> Any:
            return (await told(hub, token))[1]["devices"][0]["health"]

        async def is_withdrawn() -> bool:
            return (await health())["state"] == "withdrawn"

        await eventually(is_withdrawn, "a device that no new server gets is shown")
        server = {"JUPYTERHUB_API_URL": f"{hub.url}/hub/api", "JUPYTERHUB_API_TOKEN": token}

        async def is_faulty() -> bool:
            found = await asyncio.to_thread(devices_of_server, server, cluster.directory / "no files")
            return [(each.name, each.is_faulty) for each in found.devices] == [("gpu-0", True)]

        await eventually(is_faulty, "the server's own question tells it")
        assert (await health())["sentence"] == (
            "This device is marked “example.com/xid: 48”: no new server gets it. It may be faulty."
        )


async def test_a_cluster_that_does_not_answer_is_said_in_time(embedded_cluster):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    async with cluster.fault_proxy() as proxy:
        kubeconfig = cluster.hub_kubeconfig_for(proxy.url)
        async with HubProcess(cluster.directory / "hub", kubeconfig, cluster.namespace, CONFIG) as hub:
            await hub.spawn("ada", {"profile": "half"})
            await hub.until_ready("ada")
            (token,) = (await server_tokens(cluster)).values()
            not_known = (503, "The devices of this server are not known at present.")
            for fault in (Fault.hold(), Fault.answer(500, "InternalError"), Fault.answer(403, "Forbidden")):
                proxy.heal()
                proxy.fail(fault, verb="list", resource="resourceclaims", times=None)
                async with asyncio.timeout(PATIENCE_SECONDS):
                    assert await ask(hub, token) == not_known
            proxy.heal()
            # Without the published devices, the claim still shows the share.
            proxy.fail(Fault.hold(), verb="list", resource="resourceslices", times=None)

            async def answer_of_claims() -> Any:
                status, answer = await ask(hub, token)
                return answer if status == 200 else None

            answer = await eventually(answer_of_claims, "the claim is read")
            (device,) = answer["devices"]
            assert (device["share"][0]["text"], device["health"]["state"]) == ("20 GiB", "unknown")
