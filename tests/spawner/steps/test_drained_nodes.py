"""Every pod of a hub with a service refuses drained nodes, whether or not the service answers."""

from __future__ import annotations

import contextlib

from aiohttp import web

from dra_spawner import names
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.steps.drained_nodes import DrainedNodes
from tests.all_of_them import all_of_them
from tests.spawner.service_stand_in import ServiceStandIn, service_of_the_hub

GPU = {"device_class": "gpu.example.com", "capacity": {"memory": "10Gi"}}
ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


async def terms_of(nowhere, times=1):
    """Terms of the required node affinity, after all steps that change the pod."""
    spawner = nowhere.user("ada").spawner
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    for _ in range(times):
        for step in parts_of(spawner).start.attempt.steps:
            if step.__class__.__name__ in ("ServicePlacement", DrainedNodes.__name__):
                await step.prepare_request(pod)
    manifest = spawner.api.api_client.sanitize_for_serialization(pod)
    affinity = manifest["spec"].get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms")


def refuses(terms):
    """Whether each alternative has one of our conditions, once."""
    prefixes = (names.DRAINING, names.DRAIN_SPARES_PREFIX)
    return all(
        [each["key"].startswith(prefixes) for each in term["matchExpressions"]].count(True) == 1 for term in terms
    )


@all_of_them(
    "answer, claims",
    {
        "fresh": ({"state": "free", "node": "node-a"}, {"gpu": GPU}),
        "no devices": ({"state": "free", "node": ""}, {}),
        "invalid": ({"kind": "nonsense"}, {"gpu": GPU}),
        "on hold": (None, {"gpu": GPU}),
    },
)
async def test_a_pod_refuses_drained_nodes(nowhere, answer, claims):
    async with ServiceStandIn().listening() as stand_in:

        async def answered(question):
            return answer if answer is not None else web.json_response({"detail": "on hold"}, status=503)

        stand_in.answer = answered
        nowhere.spawner_config.device_claims = claims
        nowhere.spawner_config.placement_wait_seconds = 60
        for required in ([], [ZONE]):
            nowhere.spawner_config.node_affinity_required = required
            with service_of_the_hub(stand_in.url):
                terms = await terms_of(nowhere, times=3)
            assert len(terms) == 2
            assert refuses(terms)
            assert all(ZONE["matchExpressions"][0] in each["matchExpressions"] for each in terms) is bool(required)


async def test_pods_with_a_vlan_or_older_intel_gpus_refuse_drained_nodes(nowhere):
    nowhere.spawner_config.placement_wait_seconds = 1
    nowhere.spawner_config.vlans = {"mapping": {"ada": 42}}
    vlan = {"nic": {"device_class": "vlan-cni.networking.x-k8s.io", "vlan": {"id": "{vlan}"}}}
    for claims, intel_gas in ((vlan, {}), ({}, {"millicores": 400}), (vlan, {"millicores": 400})):
        nowhere.spawner_config.device_claims = claims
        nowhere.spawner_config.intel_gas = intel_gas
        with service_of_the_hub("http://127.0.0.1:1"):
            terms = await terms_of(nowhere)
        assert len(terms) == 2
        assert refuses(terms)


async def test_a_service_that_cannot_be_reached_changes_nothing(nowhere):
    nowhere.spawner_config.placement_wait_seconds = 1
    with service_of_the_hub("http://127.0.0.1:1"):
        assert refuses(await terms_of(nowhere))


async def test_without_a_service_the_pod_is_as_ever(nowhere):
    with contextlib.nullcontext():
        assert await terms_of(nowhere) is None
