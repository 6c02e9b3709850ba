"""A real hub with the shipped configuration file, on both clusters: actions of users, and what they read."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.integration.devices import classes, node_with, shareable, whole
from tests.integration.hub_process import HubProcess, let_starts_end
from tests.polling import eventually
from tests.spawner.sized_profiles import sized_share

# The API server checks a raw spec.
REFUSED = {
    "devices": {
        "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}],
        "constraints": [{"matchAttribute": "no attribute"}],
    }
}
MORE_PROFILES = """
# The hub answers soon that a server is on its way.
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 1}

def profile(slug, **claim):
    return {"display_name": slug, "slug": slug, "kubespawner_override": {"device_claims": {"gpu": claim}}}

c.DRASpawner.profile_list += [
    profile("half", device_class="gpu-share.example.com", capacity={"memory": "20Gi"}),
    profile("uneven", device_class="gpu-share.example.com", capacity={"memory": "12Gi"}),
    profile("too-large", device_class="gpu-share.example.com", capacity={"memory": "42Gi"}),
    profile("no-such-class", device_class="missing.example.com"),
    profile("refused", spec=REFUSED),
    SIZED,
]
""".replace("REFUSED", repr(REFUSED)).replace("SIZED", repr(sized_share("sized", "sized", "5Gi", "15Gi")))


def hub_on(cluster, more=""):
    may_wait = "c.DRASpawner.nodes_may_be_added = True\n"
    more = MORE_PROFILES + may_wait + more
    return HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, more)


@pytest.fixture
async def hub(cluster):
    async with hub_on(cluster) as hub:
        yield hub


async def nothing_left(cluster):
    for plural in ("pods", "resourceclaims", "resourceclaimtemplates"):
        await cluster.wait_gone(cluster.path(plural))


async def names(cluster, plural):
    return sorted(item["metadata"]["name"] for item in (await cluster.admin.list(cluster.path(plural)))["items"])


@pytest.mark.promise("A user picks a profile, gets a server with its devices, stops it, and starts it again.")
async def test_spawn_stop_and_start_again(cluster, hub):
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    for _ in range(2):
        status, body = await hub.spawn("ada", {"profile": "gpu-slice"})
        assert status in (201, 202), body
        await hub.until_ready("ada")
        environment = await hub.server_environment("ada")
        assert environment["DRA_CLAIM_GPU_DEVICE"] == "node-a/gpu-0"
        assert environment["DRA_CLAIM_GPU_MEMORY"] == "10Gi"

        (template,) = (await cluster.admin.list(cluster.path("resourceclaimtemplates")))["items"]
        (pod,) = (await cluster.admin.list(cluster.path("pods")))["items"]
        (owner,) = template["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", pod["metadata"]["uid"], False)
        (claim,) = (await cluster.admin.list(cluster.path("resourceclaims")))["items"]
        assert claim["metadata"]["labels"]["hub.jupyter.org/username"] == "ada"
        assert claim["metadata"]["labels"]["hub.jupyter.org/profile"] == "gpu-slice"

        await hub.stop_server("ada")
        await nothing_left(cluster)

    await hub.spawn("ada", {"profile": "sized", "memory": "15Gi"})
    await hub.until_ready("ada")
    assert (await hub.server_environment("ada"))["DRA_CLAIM_GPU_MEMORY"] == "15Gi"
    await hub.stop_server("ada")

    for options, sentence in (
        ({"profile": "sized", "memory": "40Gi"}, "option memory has no choice '40Gi'; there are: 5Gi, 15Gi"),
        ({"profile": ["sized"]}, "a profile must be the name of one, not a list"),
        ({"profile": "sized", "memory--unlisted-choice": "40Gi"}, "option memory takes no free text"),
    ):
        status, body = await hub.refusal("eve", options)
        assert status == 400, body
        assert sentence in body["message"]

    await eventually(lambda: "Checked device profiles: choices=" in hub.log.read_text(), "profiles are checked")
    message = await last_message(hub, "no-such-class")
    assert (
        "This choice cannot work on this cluster: it asks for a kind of device that this cluster does not have"
        in message
    )
    assert "missing.example" not in message
    if cluster.kind == "real":
        message = await last_message(hub, "refused")
        assert "The cluster refused this server. Please tell your administrator." in message
        assert "matchAttribute" in hub.log.read_text()
    await nothing_left(cluster)


@pytest.mark.promise("Users share a device until it is full, and the next user reads why the server waits.")
async def test_two_servers_of_a_user_two_users_of_a_device_and_one_too_many(cluster, hub):
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0"), whole("gpu-1")))
    await hub.spawn("ada", {"profile": "half"})
    await hub.spawn("ada", {"profile": "gpu-whole"}, "second")
    await hub.spawn("bob", {"profile": "half"})
    await hub.until_ready("ada")
    await hub.until_ready("ada", "second")
    await hub.until_ready("bob")
    shares = [await hub.server_environment(user) for user in ("ada", "bob")]
    assert {share["DRA_CLAIM_GPU_DEVICE"] for share in shares} == {"node-a/gpu-0"}
    assert {share["DRA_CLAIM_GPU_MEMORY"] for share in shares} == {"20Gi"}
    assert (await hub.server_environment("ada", "second"))["DRA_CLAIM_GPU_DEVICE"] == "node-a/gpu-1"

    await hub.spawn("eve", {"profile": "uneven"})
    said: dict[str, str] = {}

    def both_said(event):
        for part in ("All devices are too full", "cannot allocate all claims"):
            if part in event["message"]:
                said[part] = event["message"]
        return len(said) == 2

    await hub.progress("eve", until=both_said)
    assert (
        "15 GiB of memory needed, 0 left on the one that has most. The server starts as soon as enough is free."
        in said["All devices are too full"]
    )

    await hub.stop_server("bob")
    await hub.until_ready("eve")
    assert (await hub.server_environment("eve"))["DRA_CLAIM_GPU_MEMORY"] == "15Gi"

    async def is_removed() -> bool:
        return len(await names(cluster, "resourceclaims")) == 3

    await eventually(is_removed, "bob's claim is removed")
    for user, server in (("ada", ""), ("ada", "second"), ("eve", "")):
        await hub.stop_server(user, server)
    await nothing_left(cluster)

    # A share that is rounded above every device; the user stops the server while it waits.
    await hub.spawn("dan", {"profile": "too-large"})
    await hub.progress("dan", until=lambda event: "45 GiB of memory" in event["message"])
    assert len(await names(cluster, "resourceclaimtemplates")) == 1

    async def is_stopped() -> bool:
        """JupyterHub gives a start that it stops one second for its clean-up; then one has to ask again."""
        status, _ = await hub.request("DELETE", "/users/dan/server")
        return status in (202, 204)

    await eventually(is_stopped, "the server is stopped")
    await nothing_left(cluster)


@pytest.mark.promise("A wrong choice of one user harms no other user.")
async def test_failures_of_users_do_not_end_the_hub(embedded_cluster):
    """JupyterHub ends after ``consecutive_failure_limit`` failed starts in a row, of any users; z2jh sets five."""
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    more = """
c.Spawner.consecutive_failure_limit = 1
c.DRASpawner.pre_spawn_hook = lambda spawner: setattr(
    spawner, "start_timeout", 8 if spawner.user_options["profile"] == "gpu-whole" else 180)
c.DRASpawner.apply_user_options = {"image_input": "image"}
"""
    async with hub_on(cluster, more) as hub:
        await eventually(lambda: "Checked device profiles: choices=" in hub.log.read_text(), "profiles are checked")
        for options in [{"profile": "sized", "memroy": "5Gi"}] * 4 + [{"profile": "no-such-class"}] * 4:
            status, body = await hub.refusal("eve", options)
            assert status == 400, body
        users = [f"user-{number}" for number in range(2)]
        answers = await asyncio.gather(*(hub.spawn(user, {"profile": "gpu-whole"}) for user in users))
        assert {status for status, _ in answers} == {202}
        for events in await asyncio.gather(*(hub.progress(user) for user in users)):
            assert events[-1]["failed"]
            assert "Gave up after 8 seconds." in events[-1]["message"]
        # The hub ends two seconds after the failure that was too many; by then this server runs.
        await hub.spawn("ada", {"profile": "sized"})
        await hub.until_ready("ada")
        await hub.stop_server("ada")
        log = hub.log.read_text()
        assert "Aborting due to" not in log
        # Options of profiles cause no warning about unhandled options.
        assert "nhandled user" not in log
        assert (await hub.request("GET", "/"))[0] == 200


async def last_message(hub, profile):
    """The last message of a start that fails, as a user reads it."""
    _, body = await hub.spawn("ada", {"profile": profile})
    if body:  # none: it is on its way, or failed just when JupyterHub answered
        return body["message"]
    (*_, last) = await hub.progress("ada")
    assert last["failed"]
    return last["message"]


@pytest.mark.promise("A hub that is killed leaves no objects behind for long.")
async def test_a_hub_that_was_killed_leaves_nothing_for_long(real_cluster):
    """The hub is killed between template and pod: the template exists without an owner."""
    cluster = real_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    more = """
c.DRASpawner.k8s_api_request_retry_timeout = 1
import os
if os.path.exists("die"):
    async def die(spawner, pod):
        objects = spawner._dra.start.attempt.objects
        await objects.ensure({t["metadata"]["name"] for t in objects.templates.values()})
        os.kill(os.getpid(), 9)
    c.DRASpawner.modify_pod_hook = die
"""
    first = hub_on(cluster, more)
    (first.directory / "die").touch()
    await first.start()
    await first.add_user("ada")
    with contextlib.suppress(Exception):  # no answer, or on a busy machine that the start goes on
        await first.spawn("ada", {"profile": "gpu-slice"})
    await first.exit_code()
    await first.kill()
    (left,) = await names(cluster, "resourceclaimtemplates")
    (first.directory / "die").unlink()
    await let_starts_end(cluster)
    async with hub_on(cluster, more) as second:

        async def is_swept() -> bool:
            return left not in await names(cluster, "resourceclaimtemplates")

        await eventually(is_swept, "the template that the first hub left is swept")
        await second.spawn("ada", {"profile": "gpu-slice"})
        await second.until_ready("ada")
        await second.stop_server("ada")
    await nothing_left(cluster)


@pytest.mark.promise("A hub with wrong profiles refuses to start, and says where they are wrong.")
async def test_wrong_profiles_end_the_hub_at_its_start(embedded_cluster):
    """Before that it names an old chart, and a setting with two values."""
    cluster = embedded_cluster
    more = """
import sys, types
sys.modules["z2jh"] = types.SimpleNamespace(get_config=lambda key, default=None: "3.3.8")
c.KubeSpawner.image = "one"
c.DRASpawner.image = "other"
c.DRASpawner.profile_list += [
    {"display_name": "x", "kubespawner_override": {"device_claims": {"gpu": {"device_class": "a", "capacity": {"memory": "10GB"}}}}},
    {"display_name": "y", "kubespawner_override": {"device_claims": {"gpu": {"device_clas": "a"}}}},
]
"""
    hub = HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, more)
    try:
        await hub.start(wait=False)
        assert await hub.exit_code() == 1
    finally:
        await hub.stop()
    log = hub.log.read_text()
    assert (
        "profile_list[2].kubespawner_override.device_claims.gpu.capacity.memory: found '10GB'; allowed: a quantity"
        in log
    )
    assert (
        "profile_list[3].kubespawner_override.device_claims.gpu.device_clas: found 'device_clas'; allowed: device_class, "
        "or another of the keys" in log
    )
    assert "The hub ends because of 3 wrong values" in log
    assert "zero-to-jupyterhub 3.3 is not supported" in log
    assert "c.KubeSpawner.image and c.DRASpawner.image have different values" in log
