"""Other objects that a start needs: they exist before its pod, and go with it or with the last pod that uses them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dra_spawner.kube.client.api import resource_path
from dra_spawner.spawner.objects.leftovers import Sweep
from dra_spawner.spawner.objects.start_objects import utc_now
from dra_spawner.spawner.server_context import parts_of
from tests.cluster.access import HUB_ACCOUNT, RBAC_API
from tests.cluster.fault_proxy import Fault
from tests.integration.faulty_hub import Faulty, faults_at, faulty_on, with_a_user_each
from tests.integration.network_definitions import NETWORKS, networks_served
from tests.polling import eventually

NETWORK: dict[str, Any] = {
    "apiVersion": NETWORKS[0],
    "kind": "NetworkAttachmentDefinition",
    "metadata": {"name": "vlan-42"},
    "spec": {"config": {"cniVersion": "1.0.0", "type": "macvlan", "master": "eth1.42", "name": "{username}"}},
}
OWN = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"}}
SHARED = {**OWN, "metadata": {"name": "vlan-42", "labels": {"team": "lab"}}}


async def allow(faulty: Faulty, group: str, resource: str) -> None:
    """Add the right that the comment in helm-values/rbac.yaml names."""
    if faulty.cluster.kind == "embedded":
        return
    namespace = faulty.cluster.namespace
    rule = {"apiGroups": [group], "resources": [resource], "verbs": ["create", "get", "list", "patch", "delete"]}
    role = {"apiVersion": RBAC_API, "kind": "Role", "metadata": {"name": "companions"}, "rules": [rule]}
    binding = {
        "apiVersion": RBAC_API,
        "kind": "RoleBinding",
        "metadata": {"name": "companions"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "companions"},
        "subjects": [{"kind": "ServiceAccount", "name": HUB_ACCOUNT, "namespace": namespace}],
    }
    for plural, body in (("roles", role), ("rolebindings", binding)):
        await faulty.cluster.admin.create(resource_path(RBAC_API, plural, namespace), body)
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{HUB_ACCOUNT}",
            "resourceAttributes": {"namespace": namespace, "verb": "patch", "group": group, "resource": resource},
        },
    }

    async def allowed() -> bool:
        path = resource_path("authorization.k8s.io/v1", "subjectaccessreviews")
        return bool((await faulty.cluster.admin.create(path, review))["status"]["allowed"])

    await eventually(allowed, "the new rule is in force")


async def companions(faulty: Faulty, **entries: Any) -> None:
    claim = faulty.side.spawner_config.device_claims["gpu"]
    claim["capacity"] = {"memory": "5Gi"}
    claim["companions"] = {name: {"manifest": manifest} for name, manifest in entries.items()}
    await allow(faulty, "", "configmaps")


async def config_maps(faulty: Faulty) -> dict[str, dict[str, Any]]:
    items = await faulty.items("configmaps")
    return {item["metadata"]["name"]: item for item in items if item["metadata"]["name"] != "kube-root-ca.crt"}


@pytest.mark.promise("An object that a profile adds to a server goes with the server.")
async def test_a_companion_of_the_start_goes_with_its_pod(faulty):
    await companions(faulty, settings=OWN)
    assert await faulty.spawn() is None
    (found,) = (await config_maps(faulty)).values()
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Pod", "jupyter-ada")
    assert found["metadata"]["name"].startswith("jupyter-ada-gpu-settings-")
    assert (found["data"], found["metadata"]["labels"]["hub.jupyter.org/username"]) == (OWN["data"], "ada")
    await faulty.stop()
    await faulty.nothing_is_left("configmaps")


async def test_a_shared_companion_goes_with_the_last_server(faulty):
    await companions(faulty, vlan=SHARED)
    ada, bob = faulty.user("ada"), faulty.user("bob")
    await ada.spawn("", {})
    await bob.spawn("", {})
    found = (await config_maps(faulty))["vlan-42"]
    assert found["metadata"]["labels"]["team"] == "lab"
    assert not found["metadata"].get("ownerReferences")
    await ada.stop("")
    assert (await config_maps(faulty))["vlan-42"]["metadata"]["uid"] == found["metadata"]["uid"]
    await bob.stop("")
    await faulty.nothing_is_left("configmaps")


async def test_an_administrators_own_object_is_used_and_stays(faulty):
    await companions(faulty, vlan=SHARED)
    await faulty.cluster.publish({**SHARED, "data": {"key": "mine"}})
    made = await config_maps(faulty)
    assert await faulty.spawn() is None
    await faulty.stop()
    assert await config_maps(faulty) == made
    await faulty.nothing_is_left()


async def test_one_failed_request(real_cluster):
    """Each fault at the creation of the companion and of the pod, for a companion of one start and for a shared one."""
    faults = {"refused": Fault.refuse(), "lost": Fault.lose_answer(), "403": Fault.answer(403, "Forbidden", "no")}
    shared = {**SHARED, "metadata": {"name": "vlan-{username}"}}
    async with faulty_on(real_cluster, gpus=8) as hub:
        await companions(hub)
        claim = hub.side.spawner_config.device_claims["gpu"]
        hub.side.spawner_config.profile_list = [
            {
                "display_name": kind,
                "slug": kind,
                "kubespawner_override": {
                    "device_claims": {"gpu": {**claim, "companions": {"entry": {"manifest": manifest}}}}
                },
            }
            for kind, manifest in (("own", OWN), ("shared", shared))
        ]

        async def start(user, kind, fault, verb, resource):
            met = hub.fail_for(user, fault, verb, resource)
            await hub.start_and_stop(user, profile=kind)
            assert met, "the fault has to be met"

        rows = faults_at(faults, [("create", "configmaps"), ("create", "pods")])
        await with_a_user_each(
            {f"{kind}: {row}": (kind, *values) for row, values in rows.items() for kind in ("own", "shared")}, start
        )
        await hub.nothing_is_left("configmaps")


async def test_a_hub_that_was_killed_leaves_companions_to_the_sweep(faulty):
    await companions(faulty, own=OWN, shared=SHARED)
    faulty.side.spawner_config.start_timeout = 600
    spawner = faulty.side.user("bob").spawner
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    await parts_of(spawner).start.attempt.objects.ensure(
        {entry["resourceClaimTemplateName"] for entry in pod.spec.resource_claims}
    )
    assert len(await config_maps(faulty)) == 2
    ends = parts_of(spawner).start.attempt.objects.ends

    async def sweep(now) -> list[str]:
        found = Sweep(faulty.cluster.admin, faulty.cluster.namespace, ends - ends, now)
        await found.run({("v1", "configmaps")})
        assert found.errors == []
        return found.done

    assert await sweep(utc_now()) == []
    assert len(await sweep(max(ends, utc_now()).replace(year=ends.year + 1))) == 3
    assert await config_maps(faulty) == {}
    await faulty.nothing_is_left()


async def test_a_network_of_a_vlan(real_cluster):
    cluster = real_cluster
    async with networks_served(cluster), faulty_on(cluster) as hub:
        await allow(hub, NETWORKS[0].partition("/")[0], NETWORKS[1])
        claim = hub.side.spawner_config.device_claims["gpu"]
        claim["companions"] = {"network": {"manifest": NETWORK}}
        assert await hub.spawn() is None
        found = await cluster.admin.get(resource_path(*NETWORKS, cluster.namespace, "vlan-42"))
        assert json.loads(found["spec"]["config"]) == {**NETWORK["spec"]["config"], "name": "ada"}
        await hub.stop()
        await cluster.wait_gone(resource_path(*NETWORKS, cluster.namespace))
        await hub.nothing_is_left()
