"""Servers in a namespace of each user: they start with the shipped rules, and no object stays there."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from dra_spawner.kube.client.api import resource_path
from dra_spawner.names import RESOURCE_API
from dra_spawner.spawner.objects.leftovers import Sweep
from dra_spawner.spawner.objects.start_objects import utc_now
from dra_spawner.spawner.server_context import parts_of
from tests.cluster.access import HUB_USERS_RULES, grant

KINDS: tuple[tuple[str, str], ...] = (
    ("v1", "pods"),
    (RESOURCE_API, "resourceclaims"),
    (RESOURCE_API, "resourceclaimtemplates"),
)


@pytest.fixture
async def spread(faulty):
    """Servers of ada and bob go to namespaces of their own."""
    config = faulty.side.spawner_config
    config.enable_user_namespaces = True
    config.user_namespace_template = faulty.cluster.namespace + "-{username}"
    config.k8s_api_request_timeout = 20  # KubeSpawner makes a namespace in one try
    config.device_claims["gpu"]["capacity"] = {"memory": "5Gi"}
    faulty.namespaces = [f"{faulty.cluster.namespace}-{user}" for user in ("ada", "bob")]
    if faulty.cluster.kind == "real":
        await grant(faulty.cluster.admin, faulty.cluster.namespace, HUB_USERS_RULES)
    yield faulty
    for namespace in faulty.namespaces:
        await faulty.cluster.admin.delete(resource_path("v1", "pods", namespace), grace_period_seconds=0)
        await faulty.cluster.admin.delete(resource_path("v1", "namespaces", name=namespace), missing_ok=True)


async def all_gone(spread):
    for namespace in spread.namespaces:
        for kind in KINDS:
            await spread.cluster.wait_gone(resource_path(*kind, namespace))


async def items(spread, kind, namespace):
    group, plural = kind
    return (await spread.cluster.admin.list(resource_path(group, plural, namespace)))["items"]


@pytest.mark.promise("Servers in a namespace of their own get devices, too.")
async def test_start_and_stop(spread):
    users = [spread.side.user(name) for name in ("ada", "bob")]
    await asyncio.gather(*(user.spawn("", {}) for user in users))
    for namespace in spread.namespaces:
        made = await spread.cluster.admin.get(resource_path("v1", "namespaces", name=namespace))
        labels = {"hub.jupyter.org/hub-namespace": "default", "pod-security.kubernetes.io/enforce": "baseline"}
        assert labels.items() <= made["metadata"]["labels"].items()
        assert [len(await items(spread, kind, namespace)) for kind in KINDS] == [1, 1, 1]
    for user in users:
        await user.stop("")
    await all_gone(spread)


async def test_a_users_servers_share_a_claim_but_no_groups(spread):
    claims = spread.side.spawner_config.device_claims
    claims["gpu"]["shared"] = {"by": "user"}
    ada = spread.side.user("ada")
    spread.side.spawner(ada, "second")
    await ada.spawn("", {})
    await ada.spawn("second", {})
    (claim,) = await items(spread, KINDS[1], spread.namespaces[0])
    assert len(claim["status"]["reservedFor"]) == 2
    await ada.stop("")
    await ada.stop("second")
    await all_gone(spread)

    claims["gpu"]["shared"] = {"by": "everybody"}
    with pytest.raises(Exception, match="Claims are shared within a namespace"):
        await spread.side.user("bob").spawn("", {})


async def test_the_sweep_finds_leftovers_in_all_namespaces(spread):
    for name, sharing in (("ada", None), ("bob", {"by": "user"})):
        spread.side.spawner_config.device_claims["gpu"]["shared"] = sharing
        spawner = spread.side.user(name).spawner
        await spawner.load_user_options()
        await spawner._ensure_namespace()
        await spawner.get_pod_manifest()
        objects = parts_of(spawner).start.attempt.objects
        names = {template["metadata"]["name"] for template in objects.templates.values()}
        await objects.ensure(names | {each.object.name for each in objects.shared.values()})
    later = utc_now() + timedelta(hours=1)
    of_another_hub = Sweep(parts_of(spawner).server.kubernetes, None, timedelta(), later, hub_namespace="another")
    await of_another_hub.run()
    assert (of_another_hub.done, of_another_hub.errors) == ([], [])
    sweep = Sweep(
        parts_of(spawner).server.kubernetes,
        None,
        timedelta(),
        later,
        hub_namespace=parts_of(spawner).server.hub_namespace,
    )
    await sweep.run()
    assert sweep.errors == []
    assert len([done for done in sweep.done if spread.cluster.namespace in done]) == 2
    await all_gone(spread)
