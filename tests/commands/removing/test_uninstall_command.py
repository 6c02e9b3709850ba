"""A hub and a service are killed at work. Uninstalling then leaves only the objects that it reports as left."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner.commands.removing.uninstall_command import UninstallOptions, run_uninstall
from dra_spawner.kube.client.api import resource_path
from dra_spawner.profiles.compiler.vlan_policy import OwnerKind, VlanPolicy
from dra_spawner.spawner.accounts.vlan_leases import VlanLeases
from dra_spawner.spawner.objects.api_objects import COMPANION_LABELS, TEMPLATE_LABELS, ApiObject
from dra_spawner.spawner.objects.shared_objects import SharedObject
from dra_spawner.spawner.objects.start_objects import StartObjects
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.commands.removing.left_objects import OURS, every_object, marked_objects
from tests.integration.devices import priority_class
from tests.integration.handover_hub import PROFILE, Hub, prepare
from tests.polling import eventually

Json = dict[str, Any]

SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}


@pytest.fixture
async def hub(cluster: ClusterUnderTest) -> AsyncIterator[Hub]:
    await prepare(cluster)
    # On a busy machine too, the Lease is valid when the first command looks.
    async with Hub(cluster, await service_kubeconfig(cluster), lease_seconds=30) as hub:
        yield hub


def options(cluster: ClusterUnderTest, **changes: Any) -> UninstallOptions:
    asked = UninstallOptions(
        kubeconfig=str(cluster.admin_kubeconfig), namespaces=(cluster.namespace,), as_json=True, gone_seconds=60
    )
    return replace(asked, **changes)


async def uninstall(asked: UninstallOptions) -> tuple[int, Any, str]:
    """Exit code, the output (parsed if it is JSON), and the messages."""
    output, messages = io.StringIO(), io.StringIO()
    code = await asyncio.to_thread(run_uninstall, asked, output, messages)
    text = output.getvalue()
    return code, json.loads(text) if asked.as_json and text else text, messages.getvalue()


def names(items: list[Json]) -> set[str]:
    return {f"{each['kind']} {each['name']}" for each in items}


async def everything(cluster: ClusterUnderTest) -> dict[str, Json]:
    """Each object of the test's namespace and each without a namespace, of any kind, by ``Kind name``."""
    return await every_object(cluster.admin, cluster.namespace)


async def marked(cluster: ClusterUnderTest) -> dict[str, set[str]]:
    """All objects with our marks, except namespaces and rights of other tests on this cluster."""
    found = await marked_objects(cluster.admin, cluster.namespace)
    of_others = re.compile(rf"Namespace |\w+ dra-spawner-(?!{re.escape(cluster.namespace)}\.)test-\w+\.")
    return {title: marks for title, marks in found.items() if not of_others.match(title)}


def versions(objects: dict[str, Json]) -> dict[str, str]:
    """Versions of objects, without the objects that a cluster changes by itself all the time."""
    busy = ("Lease ", "Event ", "Node ", "Namespace ", "ComponentStatus ")
    return {name: obj["metadata"]["resourceVersion"] for name, obj in objects.items() if not name.startswith(busy)}


async def start_that_died(cluster: ClusterUnderTest, now: datetime) -> None:
    """Make the objects of a start without its pod: template, companion, shared claim, shared companion and VLAN."""
    metadata = {"namespace": cluster.namespace}
    template: Json = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {**metadata, "name": "jupyter-dead-gpu-0000", "labels": {**TEMPLATE_LABELS}},
        "spec": {"metadata": {"labels": {**TEMPLATE_LABELS}}, "spec": SPEC},
    }
    claim: Json = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**metadata, "name": "shared-everybody-gpu-0000"},
        "spec": SPEC,
    }

    def config_map(name: str, **labels: str) -> Json:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "name": name, "labels": labels}}

    own = ApiObject("configmaps", config_map("jupyter-dead-settings-0000", **COMPANION_LABELS))
    shared = SharedObject(ApiObject("configmaps", config_map("vlan-42")), "d", keep_seconds=None)
    start = StartObjects(
        cluster.admin,
        cluster.namespace,
        "0000",
        now + timedelta(minutes=5),
        {"gpu": template},
        [own],
        {"team": SharedObject(ApiObject("resourceclaims", claim), "d"), "vlan": shared},
    )
    await start.ensure({template["metadata"]["name"], claim["metadata"]["name"]})
    leases = VlanLeases(cluster.admin, cluster.namespace, cluster.namespace)
    policy = VlanPolicy(OwnerKind.USER, {}, (100, 101))
    server = f"{cluster.namespace}/jupyter-dead"
    await leases.acquire(policy, "dead", server=server, start="0000", until=now + timedelta(minutes=5))


async def kill_all(hub: Hub) -> None:
    """Kill hub and service, as the loss of their node does."""
    service = await hub.service_process()
    await hub.kill()
    os.kill(service, signal.SIGKILL)


STARTING = {
    "ResourceClaimTemplate jupyter-dead-gpu-0000",
    "ConfigMap jupyter-dead-settings-0000",
    "ResourceClaim shared-everybody-gpu-0000",
    "ConfigMap vlan-42",
}


async def test_only_reported_objects_are_left(hub: Hub):
    cluster = hub.cluster
    claim = await a_server_with_a_warm_claim(hub)
    await start_that_died(cluster, datetime.now(UTC))
    await nothing_is_removed_while_a_service_leads(cluster)
    await kill_all(hub)
    staying = {"Pod jupyter-ada", f"ResourceClaim {claim}"}
    await a_dry_run_changes_nothing_and_reports_all(cluster, staying)

    before = await everything(cluster)
    code, done, logged = await uninstall(options(cluster, force=True))
    assert (code, logged) == (0, "")
    ours = {"Lease dra-spawner", "ConfigMap dra-spawner-shapes", "ConfigMap dra-spawner-vlans"}
    assert STARTING | ours <= names(done["removed"])
    assert {each["kind"] for each in done["unmarked"]} == {"Node"}
    now = await everything(cluster)
    for name in staying:
        assert now[name]["metadata"]["resourceVersion"] == before[name]["metadata"]["resourceVersion"]
    said = names(done["left"])
    assert staying <= said
    assert set(await marked(cluster)) <= said
    claims = [obj for name, obj in now.items() if name.startswith("ResourceClaim ")]
    assert [each["name"] for obj in claims for each in obj["status"]["reservedFor"]] == ["jupyter-ada"]

    code, again, logged = await uninstall(options(cluster))
    assert (code, again["removed"], again["unmarked"], logged) == (0, [], [], "")
    assert names(again["left"]) == said
    code, text, _ = await uninstall(options(cluster, as_json=False))
    assert text.startswith("There is nothing of dra-spawner to remove; what is left is below.")

    # The user's server is stopped: the objects that were left go by themselves.
    await cluster.admin.delete(cluster.path("pods", "jupyter-ada"), grace_period_seconds=0)
    await cluster.wait_gone(cluster.path("resourceclaims", claim))
    code, last, logged = await uninstall(options(cluster))
    assert (code, last["removed"], logged) == (0, [], "")
    assert not users_names(last)
    assert set(await marked(cluster)) <= names(last["left"])


async def a_server_with_a_warm_claim(hub: Hub) -> str:
    """Start ada's server with a warm claim; the name of the claim, of which it is the only consumer."""
    await hub.until_warm()
    status, body = await hub.spawn("ada", PROFILE)
    assert status in (201, 202), body
    await hub.until_ready("ada")
    await hub.until_warm()

    async def handed_over() -> Json | None:
        claim = await hub.claim_of("ada")
        consumers = [each["name"] for each in claim["status"]["reservedFor"]]
        return claim if consumers == ["jupyter-ada"] else None

    name: str = (await eventually(handed_over, "only ada uses the claim"))["metadata"]["name"]
    assert name.startswith("placeholder-")
    return name


async def nothing_is_removed_while_a_service_leads(cluster: ClusterUnderTest) -> None:
    before = await everything(cluster)
    code, printed, logged = await uninstall(options(cluster))
    assert (code, printed["removed"], printed["unmarked"]) == (1, [], [])
    assert f"A service leads (Lease {cluster.namespace}/dra-spawner, held by " in logged
    assert re.search(r"if it has just been stopped, wait [0-9]+ s. To go on nevertheless, use --force", logged)
    after = await everything(cluster)
    assert {name for name in before if OURS.search(name)} <= after.keys()


@pytest.mark.promise("`dra-spawner uninstall` leaves objects of other hubs alone.")
async def test_objects_of_another_hub_are_not_named(cluster: ClusterUnderTest):
    """Names of cluster-wide objects have the namespace of their hub."""
    path = resource_path("scheduling.k8s.io/v1", "priorityclasses")
    classes = [f"dra-spawner-{of}.dra-spawner-placeholder" for of in (cluster.namespace, "of-another-hub")]
    for name in classes:
        await cluster.admin.create(path, priority_class(name, -10))
    try:
        _, here, _ = await uninstall(options(cluster, dry_run=True))
        _, everywhere, _ = await uninstall(options(cluster, dry_run=True, namespaces=()))
    finally:
        for name in classes:
            await cluster.admin.delete(f"{path}/{name}")
    ours, others = (f"PriorityClass {name}" for name in classes)
    assert (ours in names(here["left"]), others in names(here["left"])) == (True, False)
    assert {ours, others} <= names(everywhere["left"])


async def a_dry_run_changes_nothing_and_reports_all(cluster: ClusterUnderTest, staying: set[str]) -> None:
    """Without ``--force``, the objects of a start that may be under way stay."""

    async def led_no_more() -> Json | None:
        code, planned, logged = await uninstall(options(cluster, dry_run=True))
        assert code == 0, logged
        return planned if not planned["leaders"] else None

    await eventually(led_no_more, "no service leads")
    before = await everything(cluster)
    _, planned, _ = await uninstall(options(cluster, dry_run=True))
    after = await everything(cluster)
    assert versions(after) == versions(before)
    nodes = {name: obj["metadata"]["labels"] for name, obj in before.items() if name.startswith("Node ")}
    assert {name: after[name]["metadata"]["labels"] for name in nodes} == nodes
    assert "Lease dra-spawner" in after
    assert staying | STARTING <= users_names(planned)
    assert not names(planned["removed"]) & (staying | STARTING)
    reasons = {f"{each['kind']} {each['name']}": each["reason"] for each in planned["left"]}
    assert all("a server may be starting with it, until " in reasons[name] for name in STARTING)
    (server,) = [each for each in planned["left"] if each["name"] == "jupyter-ada"]
    assert "when the server is stopped in the hub" in server["advice"]


def users_names(printed: Json) -> set[str]:
    return names([each for each in printed["left"] if each["leftTo"] == "users"])


async def test_each_missing_right_is_named_with_what_to_grant(real_cluster: ClusterUnderTest):
    """The hub's account may read claims of all namespaces, and no Secrets, say."""
    cluster = real_cluster
    await start_that_died(cluster, datetime.now(UTC) - timedelta(hours=1))
    asked = options(cluster, kubeconfig=str(cluster.hub_kubeconfig))
    code, done, logged = await uninstall(asked)
    assert code == 1
    lines = logged.splitlines()
    assert all(line.startswith("dra-spawner uninstall: Your account lacks a right: grant {") for line in lines), logged
    assert any(
        '{apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [list]}' in line
        and line.endswith(f"by a Role in namespace {cluster.namespace}.")
        for line in lines
    )
    assert any("configmaps" in line and "verbs: [list]" in line for line in lines)
    # The objects that it may list and delete are gone all the same.
    assert {"ResourceClaimTemplate jupyter-dead-gpu-0000", "ResourceClaim shared-everybody-gpu-0000"} <= names(
        done["removed"]
    )
    code, done, logged = await uninstall(options(cluster))
    assert (code, logged) == (0, "")
    assert {"ConfigMap vlan-42", "ConfigMap dra-spawner-vlans"} <= names(done["removed"])


async def test_an_account_that_may_not_see_pods_removes_nothing(real_cluster: ClusterUnderTest):
    """Without the pods, the command could not know which objects servers use."""
    cluster = real_cluster
    await start_that_died(cluster, datetime.now(UTC) - timedelta(hours=1))
    # kube-controller-manager gives them to each new namespace.
    await cluster.wait_for(cluster.path("configmaps", "kube-root-ca.crt"))
    await cluster.wait_for(cluster.path("serviceaccounts", "default"))
    before = versions(await everything(cluster))
    asked = options(cluster, kubeconfig=str(cluster.hub_kubeconfig), namespaces=())
    code, done, logged = await uninstall(asked)
    assert (code, done["removed"]) == (1, [])
    assert '{apiGroups: [""], resources: [pods], verbs: [list]} by a ClusterRole.' in logged
    assert versions(await everything(cluster)) == before


async def test_an_object_that_a_finalizer_holds_is_reported(cluster: ClusterUnderTest):
    with_finalizer = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "dra-spawner-shapes",
            "labels": {"app.kubernetes.io/managed-by": "dra-spawner"},
            "finalizers": ["example.com/backup"],
        },
    }
    await cluster.publish(with_finalizer)
    code, done, logged = await uninstall(options(cluster, gone_seconds=1))
    assert (code, done["removed"]) == (1, [])
    assert f"ConfigMap {cluster.namespace}/dra-spawner-shapes was deleted but still exists after 1 s" in logged
    assert "its finalizers hold it: example.com/backup" in logged
    path = cluster.path("configmaps", "dra-spawner-shapes")
    await cluster.admin.patch(path, {"metadata": {"finalizers": None}})
    await cluster.wait_gone(path)


async def test_of_all_namespaces(embedded_cluster: ClusterUnderTest):
    """As with ``enable_user_namespaces``."""
    cluster = embedded_cluster
    for name in ("user-ada", "user-bob"):
        await cluster.admin.create(resource_path("v1", "namespaces"), {"metadata": {"name": name}})
        shapes = {"metadata": {"name": "other", "labels": {"app.kubernetes.io/managed-by": "dra-spawner"}}}
        shapes["metadata"]["annotations"] = {"hub.jupyter.org/publisher": "p"}
        await cluster.admin.create(resource_path("v1", "configmaps", name), shapes)
    code, done, logged = await uninstall(options(cluster, namespaces=()))
    assert (code, logged) == (0, "")
    assert {each["namespace"] for each in done["removed"]} == {"user-ada", "user-bob"}


async def test_labels_of_nodes_stay_while_a_service_of_another_namespace_leads(cluster: ClusterUnderTest):
    await prepare(cluster)
    await cluster.admin.patch("/api/v1/nodes/node-a", {"metadata": {"labels": {"hub.jupyter.org/draining": "true"}}})
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "dra-spawner"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 60, "acquireTime": now, "renewTime": now},
    }
    path = resource_path("coordination.k8s.io/v1", "leases", "default")
    await cluster.admin.create(path, lease)
    try:
        code, done, logged = await uninstall(options(cluster))
        assert (code, done["unmarked"], logged) == (0, [], "")
        assert "Node node-a" in names(done["left"])
    finally:
        await cluster.admin.delete(f"{path}/dra-spawner")
    _, done, _ = await uninstall(options(cluster))
    assert done["unmarked"][0]["labels"] == ["hub.jupyter.org/draining"]


async def test_a_cluster_that_does_not_answer(cluster: ClusterUnderTest):
    kubeconfig = cluster.admin_kubeconfig_for("http://127.0.0.1:9")
    code, text, logged = await uninstall(options(cluster, kubeconfig=str(kubeconfig)))
    assert (code, text) == (2, "")
    assert logged.startswith("dra-spawner uninstall: the cluster cannot be read: ")


@pytest.mark.promise("`dra-spawner uninstall` removes what an older version made, too.")
async def test_a_claim_that_an_older_service_reserved_goes(cluster: ClusterUnderTest):
    """A consumer that no controller knows would block the claim, its device and its namespace for ever."""
    await prepare(cluster)
    metadata: Json = {
        "name": "placeholder-s-1-gpu",
        "labels": {
            "app.kubernetes.io/managed-by": "dra-spawner",
            "component": "user-placeholder",
            "hub.jupyter.org/shape": "s",
            "hub.jupyter.org/reserved-for": "jupyter-ada",
            "hub.jupyter.org/reserved-until": "1",
        },
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    }
    (claim,) = await cluster.publish(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": SPEC}
    )
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-b", "device": "gpu-0"}
    own_consumer = {
        "apiGroup": "hub.jupyter.org",
        "resource": "promises",
        "name": "jupyter-ada",
        "uid": claim["metadata"]["uid"],
    }
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [own_consumer]}
    await cluster.admin.patch(cluster.path("resourceclaims", metadata["name"], "status"), {"status": status})
    code, done, logged = await uninstall(options(cluster))
    assert (code, logged) == (0, "")
    assert names(done["removed"]) == {"ResourceClaim placeholder-s-1-gpu"}
    assert (await cluster.admin.list(cluster.path("resourceclaims")))["items"] == []
