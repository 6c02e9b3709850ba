"""The largest objects of each kind that the real API server stores: service and hub go on beside them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.json_text import read_unusual
from dra_spawner.kube.leader import LeaderElector, LeaseTimes
from dra_spawner.profiles.compiler.vlan_policy import parse_vlan_policy
from dra_spawner.profiles.compiler.vlans import LeasesCorrupt
from dra_spawner.service.context import Role
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.spawner.accounts.vlan_leases import VlanLeases
from dra_spawner.spawner.devices.diagnosis import diagnose
from dra_spawner.spawner.devices.facts_reading import read_facts
from dra_spawner.spawner.devices.reader import DeviceReader
from dra_spawner.spawner.objects.leftovers import Sweep
from tests.adversary.busy_service import PLAIN, still_decides
from tests.adversary.hostile_objects import LARGEST, large_config_maps, large_leases
from tests.adversary.tenant import Tenant, editor_of, path_to, tenant_of
from tests.cluster.object_paths import plural_of
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.log_messages import log_messages
from tests.placeholders.controller.objects import WHOLE, node, prepare
from tests.polling import PATIENCE_SECONDS, eventually
from tests.running import running
from tests.service.replica import Replica, publish_shapes, replica

CLUSTER_WIDE = ("Namespace", "Node", "ResourceSlice", "DeviceClass")
SHAPES_LOG = "dra_spawner.placeholders.controller.sources.shapes_source"
LEASES = "coordination.k8s.io/v1", "leases"
#: Far above the needed time.
CPU_SECONDS = 60.0
_MAX_LOGGED = 3000
"""Characters of a line, whatever stands in an object."""


async def test_largest_objects_of_nodes_drivers_and_administrators(real_cluster: ClusterUnderTest, caplog: Any) -> None:
    cluster = real_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await publish_shapes(cluster, {"plain": PLAIN})
    written = {
        (kind, (read_unusual(obj) if isinstance(obj, bytes) else obj)["metadata"]["name"]): obj
        for kind in CLUSTER_WIDE
        for obj in LARGEST[plural_of(kind)]().values()
    }
    async with (
        tenant_of(cluster) as tenant,
        tenant.as_administrator(cluster) as administrator,
        replica(cluster, placeholders={"plain": {"min": 2}}, user_namespaces=True) as service,
    ):
        try:
            await service.until_warm(PLAIN, 2)
            for (kind, _), obj in written.items():
                await administrator.create(kind, obj)
            await until_seen(service, {key for key in written if key[0] != "Namespace"})
            await still_decides(service, 2)
            assert service.context.role is Role.LEADER
            await a_hub_reads(cluster.admin, cluster.namespace)
            await a_hub_reads(cluster.admin, "large-labels")
        finally:
            for kind, name in written:
                await cluster.admin.delete(path_to(kind, name=name), missing_ok=True)
    assert max(len(record.getMessage()) for record in caplog.records) < _MAX_LOGGED


async def until_seen(service: Replica, wanted: set[tuple[str, str]]) -> None:
    watch = service.context.watch
    assert watch is not None

    def seen() -> set[tuple[str, str]]:
        return {(kind, key.name) for kind in Kind for key in watch.observed_of(kind)}

    await service.until(lambda: wanted <= seen(), "all are seen")
    assert max(status.lists for status in watch.status()) == 1
    # An invalid entry is one broken object, with a short problem.
    assert all(len(str(each)) < _MAX_LOGGED for each in watch.snapshot.broken)


async def a_hub_reads(api: KubernetesApi, namespace: str) -> None:
    """All that it reads of a cluster, in bounded processor time."""
    before = time.process_time()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await diagnose(DeviceReader(api), {"gpu": WHOLE["gpu"]})).fits
        facts = await read_facts(DeviceReader(api), namespace)
        assert facts.namespace_labels is not None
        assert "node-a" in {each["metadata"]["name"] for each in facts.nodes or ()}
        devices = DeviceReader(api)

        async def is_known() -> bool:
            await devices.learn()
            return devices.catalog.is_known

        await eventually(is_known, "the devices are read")
        sweep = Sweep(api, None, timedelta(0), datetime.now(UTC))
        await sweep.run()
        assert sweep.errors == []
    assert time.process_time() - before < CPU_SECONDS


async def replaced(cluster: ClusterUnderTest, name: str, key: str) -> AsyncIterator[str]:
    """Each of the ConfigMaps in turn, written by an account with ``edit`` in the hub's namespace."""
    path = resource_path("v1", "configmaps", cluster.namespace, name)
    async with editor_of(cluster) as editor:
        for label, obj in large_config_maps(name, key).items():
            await cluster.admin.delete(path, missing_ok=True)
            await editor.create("ConfigMap", obj)
            yield label


def has_more(caplog: pytest.LogCaptureFixture, before: int) -> bool:
    return len(log_messages(caplog, SHAPES_LOG)) > before


async def test_largest_shapes_instead_of_the_hubs(real_cluster: ClusterUnderTest, caplog: Any) -> None:
    cluster = real_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await publish_shapes(cluster, {"plain": PLAIN})
    # Accepted shapes are logged, too.
    caplog.set_level(logging.INFO, SHAPES_LOG)
    async with replica(cluster, placeholders={"plain": {"min": 2}}) as service:
        await service.until_warm(PLAIN, 2)
        before = len(log_messages(caplog, SHAPES_LOG))
        async for label in replaced(cluster, names.SHAPES_CONFIG_MAP, "shapes.json"):
            await service.until(partial(has_more, caplog, before), label)
            before = len(log_messages(caplog, SHAPES_LOG))
            problems = service.context.problems()
            assert max(map(len, problems), default=0) < _MAX_LOGGED, label
        await publish_shapes(cluster, {"plain": PLAIN})
        await still_decides(service, 2)
        assert service.context.role is Role.LEADER
    assert max(len(record.getMessage()) for record in caplog.records) < _MAX_LOGGED
    assert len(log_messages(caplog)) < 1000


async def test_largest_account_of_vlans(real_cluster: ClusterUnderTest) -> None:
    """A start is refused or gets its VLAN; nothing of it takes long."""
    cluster, until = real_cluster, datetime.now(UTC) + timedelta(minutes=5)
    policy = parse_vlan_policy({"range": "100-101"})
    assert policy is not None
    leases = VlanLeases(cluster.admin, cluster.namespace, cluster.namespace)
    given, refused = [], [""]
    async for label in replaced(cluster, names.VLANS_CONFIG_MAP, "100"):
        before = time.process_time()
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                given.append(await leases.acquire(policy, "eve", server="x/eve", start="s", until=until))
                await leases.reconcile()
                assert await leases.release("x/eve", "s")
            except (LeasesCorrupt, KubernetesError) as error:
                refused.append(f"{label}: {error}")
        assert time.process_time() - before < CPU_SECONDS, label
    assert set(given) <= {100, 101}
    assert given
    assert max(map(len, refused)) < _MAX_LOGGED


async def test_largest_leases(real_cluster: ClusterUnderTest, caplog: Any) -> None:
    """An account with write access can hold the lease; after that, a replica leads."""
    cluster = real_cluster

    async def a_replica_leads_after(editor: Tenant, label: str) -> None:
        name = f"dra-spawner-{label}"
        await editor.create("Lease", large_leases(name)[label])
        leads = asyncio.Event()

        async def lead() -> None:
            leads.set()
            await asyncio.Event().wait()

        # A Lease with a holder is waited for.
        elector = LeaderElector(cluster.admin, cluster.namespace, name, times=LeaseTimes(30.0, 15.0, 0.5))
        async with running(elector.run(lead)):
            await eventually(leads.is_set, f"a replica leads after {label}", shows=lambda: elector.problem[:500])
        found = await cluster.admin.get(resource_path(*LEASES, cluster.namespace, name))
        assert found["spec"]["holderIdentity"] == "", label

    async with editor_of(cluster) as editor:
        await asyncio.gather(*(a_replica_leads_after(editor, label) for label in large_leases("x")))
    assert max((len(record.getMessage()) for record in caplog.records), default=0) < _MAX_LOGGED
