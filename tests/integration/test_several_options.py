"""Users choose several options of a profile: a real hub, the real service as its child, the real scheduler."""

from __future__ import annotations

import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.shape_definition import read_definition
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, priority_class, shareable
from tests.integration.handover_hub import IMAGE, Hub, Json, messages

#: Of the second profile there are more combinations than are published.
PROFILES = """
def options(**choices):
    return {
        option: {"display_name": option, "choices": {
            name: {"display_name": name, "kubespawner_override": override} for name, override in each.items()
        }}
        for option, each in choices.items()
    }

def memory(size):
    return {"device_claims": {"gpu": {"capacity": {"memory": size}}}}

gpu = {"device_claims": {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "10Gi"}}}}
c.DRASpawner.profile_list = [
    {"display_name": "GPU", "slug": "gpu", "kubespawner_override": gpu, "profile_options": options(
        memory={"small": memory("10Gi"), "large": memory("20Gi")}, cpu={"one": {}, "two": {"cpu_guarantee": 2}},
    )},
    {"display_name": "Many", "slug": "many", "kubespawner_override": gpu, "profile_options": options(
        memory={"small": memory("10Gi"), "all": memory("40Gi")}, cpu={"one": {}, "more": {"cpu_guarantee": 0.7}},
        **{f"option{number}": {"no": {}, "yes": {}} for number in range(6)},
    )},
]
"""
REPLICAS = {"gpu": {"min": 1, "max": 1}, "gpu/cpu=two,memory=large": {"min": 1, "max": 1}}


async def start(hub: Hub, user: str, **options: str) -> Json:
    """Start a server; its pod, with the messages that the user saw."""
    status, body = await hub.spawn(user, options)
    assert status in (201, 202), body
    shown = messages(await hub.until_ready(user))
    pod: Json = await hub.cluster.admin.get(hub.cluster.path("pods", f"jupyter-{user}"))
    pod["shown"] = shown
    return pod


def capacity(claim: Json) -> str:
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    return str(result["consumedCapacity"]["memory"])


@pytest.mark.promise("A choice of several options gets a warm claim, too.")
async def test_a_user_of_two_options_gets_a_warm_claim_or_preempts_a_placeholder(
    real_cluster: ClusterUnderTest,
) -> None:
    cluster = real_cluster
    await cluster.publish(*classes(), priority_class(), *node_with("node-a", shareable("gpu-0"), images=[IMAGE]))
    settings = f"c.DRASpawnerService.placeholders = {REPLICAS!r}\n"
    hub = Hub(cluster, await service_kubeconfig(cluster), PROFILES, settings=settings)
    async with hub:
        await hub.until_warm(2)
        # The warm claim of a combination is handed over.
        await start(hub, "ada", profile="gpu", memory="large", cpu="two")
        claim = await hub.claim_of("ada")
        assert claim["metadata"]["labels"][names.RESERVED_FOR] == "jupyter-ada"
        assert capacity(claim) == "20Gi"
        # Another server: 20 of 40Gi are in use, and a placeholder has 10Gi. It is preempted.
        await start(hub, "eve", profile="gpu", memory="large", cpu="two")
        assert capacity(await hub.claim_of("eve")) == "20Gi"
        codes = [each["code"] for each in await hub.decisions()]
        assert "handed-over" in codes
        assert "preempted" in codes
        await hub.stop_server("ada")
        await hub.stop_server("eve")
        await hub.until_warm(2)
        # One of too many combinations: it has no placeholders, but its servers start.
        assert "many/*: 247 combinations of several options are too many to publish" in hub.log.read_text()
        pod = await start(hub, "bob", profile="many", memory="all", cpu="more")
        assert capacity(await hub.claim_of("bob")) == "40Gi"
        shape = read_definition(
            pod["metadata"]["annotations"][names.DEFINITION], pod["metadata"]["labels"][names.SHAPE]
        )
        assert shape.containers[0]["requests"] == {"cpu": "700m"}
        assert names.IMAGES_READY in str(pod["spec"]["affinity"])
        assert pod["spec"]["nodeName"] == "node-a"
        preempted = [each for each in await hub.decisions() if each["details"].get("for", "").endswith("/jupyter-bob")]
        assert len(preempted) == 2
