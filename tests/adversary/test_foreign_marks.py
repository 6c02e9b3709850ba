"""A tenant marks pods as servers of a hub whose users have a namespace each: VLANs and cards do not count there."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.profiles.compiler.vlan_policy import VlanPolicy, parse_vlan_policy
from dra_spawner.profiles.compiler.vlans import VlanRefused
from dra_spawner.profiles.intel_gas import parse_intel_gas
from dra_spawner.spawner.accounts.intel_gas_ledger import AssignedCards, GpuLedger
from dra_spawner.spawner.accounts.vlan_leases import VlanLeases
from tests.adversary.tenant import Tenant, tenant_of
from tests.cluster.fault_proxy import Fault
from tests.cluster.under_test import ClusterUnderTest
from tests.presence import present
from tests.profiles.intel_gas.gpus import gpu_node

VLANS = (42, *range(100, 104))


@pytest.fixture
async def users_namespace(embedded_cluster: ClusterUnderTest) -> AsyncIterator[str]:
    async with embedded_cluster.another_namespace("ada", embedded_cluster.users_labels) as name:
        yield name


def policy() -> VlanPolicy:
    return present(parse_vlan_policy({"mapping": {"bob": 42}, "range": "100-103"}))


def marked(vlan: int, owner: str = "user:nobody", name: str = "") -> dict[str, Any]:
    """A pod that never runs and is marked as a server in a VLAN."""
    annotations = {names.VLAN_OWNER: owner, names.VLAN_LEASE: "1"}
    metadata = {"name": name or f"p{vlan}", "labels": {names.VLAN: str(vlan)}, "annotations": annotations}
    gates = [{"name": "example.com/never"}]
    spec = {"schedulingGates": gates, "containers": [{"name": "c", "image": "a:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def acquire(leases: VlanLeases, user: str, namespace: str) -> int | VlanRefused:
    until = datetime.now(UTC) + timedelta(minutes=1)
    server = f"{namespace}/jupyter-{user}"
    return await leases.acquire(policy(), user, server=server, start=f"start-{user}", until=until)


async def take_all(tenant: Tenant) -> None:
    for vlan in VLANS:
        await tenant.create("Pod", marked(vlan))


async def test_a_tenant_takes_no_vlan(embedded_cluster: ClusterUnderTest, users_namespace: str) -> None:
    """Neither at the beginning, when the account is made from pods, nor later."""
    cluster = embedded_cluster
    leases = VlanLeases(cluster.admin, cluster.namespace, None)
    own = marked(101, "user:ada", "jupyter-ada")
    await cluster.admin.create(resource_path("v1", "pods", users_namespace), own)
    async with tenant_of(cluster) as tenant:
        await take_all(tenant)
        found = {user: await acquire(leases, user, users_namespace) for user in ("ada", "bob", "cem")}
        assert (found["ada"], found["bob"]) == (101, 42), "her running server has it"
        assert found["cem"] in {100, 102, 103}
        reconciled = await leases.reconcile()
        assert (reconciled.added, reconciled.contested) == ((), ())


async def test_without_the_right_to_list_namespaces_all_pods_count(
    embedded_cluster: ClusterUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    """As before the chart's upgrade: a VLAN in use is not given away; the log says what is missing, once."""
    cluster = embedded_cluster
    async with cluster.fault_proxy() as proxy, tenant_of(cluster) as tenant:
        proxy.fail(Fault.answer(403, "Forbidden"), verb="list", resource="namespaces", times=None)
        await take_all(tenant)
        async with await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig_for(proxy.url)) as api:
            for _ in range(2):
                assert isinstance(await acquire(VlanLeases(api, cluster.namespace, None), "ada", "x"), VlanRefused)
    assert caplog.text.count("Labels of pods count in every namespace") == 1


async def test_a_tenant_takes_no_cards(embedded_cluster: ClusterUnderTest, users_namespace: str) -> None:
    """Neither all of a node by a pod that waits, nor the hub's choice by a mark of GAS."""
    cluster = embedded_cluster
    await cluster.start_kubelet(fake=True)
    gpus = gpu_node("node-a", "0")
    capacity = {key: value for key, value in gpus["status"]["allocatable"].items() if "/" in key}
    labels = gpus["metadata"]["labels"]
    await cluster.publish(
        {"apiVersion": "v1", "kind": "Node", **node_manifest("node-a", capacity=capacity, labels=labels)}
    )
    fields = [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    limits = {"gpu.intel.com/i915": "1", "gpu.intel.com/millicores": "1000"}
    greedy = marked(1, name="greedy")
    greedy["metadata"]["annotations"] = {"gas-container-cards": "card0", "gas-ts": "1"}
    greedy["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    greedy["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": {**limits, "cpu": "64"}}
    container = {"name": "notebook", "resources": {"limits": {"gpu.intel.com/i915": "1"}}}
    pod = {"metadata": {"name": "ada", "namespace": users_namespace}, "spec": {"containers": [container]}}
    request = present(parse_intel_gas({"millicores": 500}))
    async with tenant_of(cluster) as tenant:
        await tenant.create("Pod", greedy)
        for namespace, hub in ((None, cluster.namespace), (cluster.namespace, "")):
            ledger = GpuLedger(namespace, logging.getLogger(__name__), hub_namespace=hub)
            given = await ledger.assign(cluster.admin, request, pod, timedelta(minutes=1))
            assert isinstance(given, AssignedCards), given
