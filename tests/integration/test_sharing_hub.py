"""Shared claims in a real hub: groups as the hub knows them, and a hub that is killed in the middle of a start."""

from __future__ import annotations

import contextlib

from dra_spawner.spawner.objects.shared_objects import users_of
from tests.integration.devices import classes, node_with, whole
from tests.integration.hub_process import HubProcess, let_starts_end
from tests.polling import eventually

CONFIG = """
c.DRASpawner.profile_list = [{
    "display_name": "Team", "slug": "team",
    "kubespawner_override": {
        "device_claims": {"gpu": {"device_class": "gpu.example.com", "shared": {"by": "group", "group": "physics"}}}
    },
}]
for role in c.JupyterHub.load_roles:
    role["scopes"].append("groups")
    role["scopes"].append("admin:groups")
import os
c.DRASpawner.leftovers_sweep_interval_seconds = 10
if os.path.exists("die"):
    async def die(spawner, pod):
        objects = spawner._dra.start.attempt.objects
        await objects.ensure({each.object.name for each in objects.shared.values()})
        os.kill(os.getpid(), 9)
    c.DRASpawner.modify_pod_hook = die
"""


async def members(hub, group, *users):
    for user in users:
        await hub.add_user(user)
    await hub.request("POST", f"/groups/{group}")
    status, body = await hub.request("POST", f"/groups/{group}/users", {"users": users})
    assert status == 200, body


async def claims(cluster):
    return (await cluster.admin.list(cluster.path("resourceclaims")))["items"]


async def test_members_use_one_device_and_others_are_refused(cluster):
    await cluster.publish(*classes(), *node_with("node-a", whole("gpu-0")))
    async with HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, CONFIG) as hub:
        await members(hub, "physics", "ada", "bob")
        for user in ("ada", "bob"):
            await hub.spawn(user, {"profile": "team"})
            await hub.until_ready(user)
            assert (await hub.server_environment(user))["DRA_CLAIM_GPU_DEVICE"] == "node-a/gpu-0"
        assert len(await claims(cluster)) == 1

        status, body = await hub.refusal("eve", {"profile": "team"})
        assert status == 403, body
        assert body["message"] == "The device of this choice is for members of physics."

        await hub.stop_server("ada")
        assert len(await claims(cluster)) == 1
        await hub.stop_server("bob")
        await cluster.wait_gone(cluster.path("resourceclaims"))


async def test_a_hub_that_was_killed_between_note_and_pod(real_cluster):
    cluster = real_cluster
    await cluster.publish(*classes(), *node_with("node-a", whole("gpu-0")))
    directory = cluster.directory / "hub"
    first = HubProcess(directory, cluster.hub_kubeconfig, cluster.namespace, CONFIG)
    (directory / "die").touch()
    await first.start()
    await members(first, "physics", "ada", "bob")
    with contextlib.suppress(Exception):
        await first.spawn("ada", {"profile": "team"})
    await first.exit_code()
    await first.kill()
    (left,) = await claims(cluster)
    assert len(users_of(left)) == 1
    (directory / "die").unlink()
    await let_starts_end(cluster)
    async with HubProcess(directory, cluster.hub_kubeconfig, cluster.namespace, CONFIG) as second:
        await second.spawn("bob", {"profile": "team"})
        await second.until_ready("bob")

        # The same claim, or a new one if the first sweep came before.
        async def only_bobs():
            return [len(users_of(claim)) for claim in await claims(cluster)] == [1]

        await eventually(only_bobs, "the start that died is taken off")
        await second.stop_server("bob")
        await cluster.wait_gone(cluster.path("resourceclaims"))
