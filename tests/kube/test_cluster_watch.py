"""`ClusterWatch`: after any events of objects and connections, its snapshot becomes equal to a fresh list."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.http.server import ApiServer
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.clock import ScaledClock
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.cluster_watch import OPTIONAL_KINDS, RESOURCES, Change, ChangeType, ClusterWatch
from dra_spawner.kube.informers import InformerSettings, InformerState
from dra_spawner.kube.taint_rules import PLURAL, list_taint_rules, served_rules_api
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind, Knowledge, decode
from dra_spawner.simulator.snapshot import Snapshot
from tests.cluster.control_plane import write_kubeconfig
from tests.cluster.example_objects import gpu_class, gpu_slice, pod, share_template, taint_rule
from tests.cluster.fault_proxy import Fault, FaultProxy, hide_devices
from tests.cluster.under_test import ClusterUnderTest
from tests.kube.random_changes import NODES, RandomChanges, claim, node
from tests.log_messages import log_messages
from tests.polling import PATIENCE_SECONDS, eventually
from tests.set_clock import SkippingClock
from tests.simulator.dump import Plain, dump

#: Small pages and short watches, so that there are many of them.
SETTINGS = InformerSettings(page_size=3, watch_seconds=2, first_delay_seconds=0.05, longest_delay_seconds=0.3)


def comparable(snapshot: Snapshot) -> dict[str, Plain]:
    """Contents of a snapshot, without the order of slices and nodes."""
    found = dump(snapshot)
    for part in ("slices", "slices_with_rules", "device_nodes"):
        items = found[part]
        assert isinstance(items, tuple)
        found[part] = tuple(sorted(items, key=repr))
    return found


async def listed(api: KubernetesApi) -> Snapshot:
    """A new snapshot of the existing objects."""
    snapshot = Snapshot()
    for rule in await list_taint_rules(api):
        snapshot.apply(rule)
    for kind, resource in RESOURCES.items():
        for item in (await api.list(resource.path))["items"] if kind not in OPTIONAL_KINDS else ():
            decoded = decode({"apiVersion": resource.group_version, "kind": kind, **item})
            assert decoded is not None
            snapshot.mirror(decoded)
    return snapshot


async def until_equal(watch: ClusterWatch, api: KubernetesApi) -> None:
    """Wait until the snapshot is equal to a list."""
    last: list[dict[str, Plain]] = []

    async def is_equal() -> bool:
        last[:] = [comparable(watch.snapshot), comparable(await listed(api))]
        return last[0] == last[1]

    try:
        await eventually(is_equal, "the snapshot is as the cluster")
    except AssertionError:
        for part, found in last[0].items():
            assert found == last[1][part], part
        raise


@asynccontextmanager
async def watched(kubeconfig: Path, **options: Any) -> AsyncIterator[ClusterWatch]:
    async with (
        await KubernetesApi.from_kubeconfig(kubeconfig) as api,
        ClusterWatch(api, **{"settings": SETTINGS, **options}) as watch,
    ):
        yield watch


@asynccontextmanager
async def watched_through_proxy(
    cluster: ClusterUnderTest, prepare: Callable[[FaultProxy], None] = lambda proxy: None, **options: Any
) -> AsyncIterator[tuple[FaultProxy, ClusterWatch]]:
    async with cluster.fault_proxy() as proxy:
        prepare(proxy)
        async with watched(cluster.admin_kubeconfig_for(proxy.url), **options) as watch:
            yield proxy, watch


async def synced(watch: ClusterWatch) -> None:
    await asyncio.wait_for(watch.wait_synced(), PATIENCE_SECONDS)


async def test_everything_is_seen(cluster: ClusterUnderTest):
    api = cluster.admin
    changes: list[object] = []
    for name in NODES:
        await api.create(resource_path("v1", "nodes"), node(name))
        await api.create(resource_path("resource.k8s.io/v1", "resourceslices"), gpu_slice(name))
    await api.create(resource_path("resource.k8s.io/v1", "deviceclasses"), gpu_class())
    await api.create(cluster.path("resourceclaimtemplates"), share_template("t", "10Gi"))
    rules = await served_rules_api(api)
    if rules is not None:
        await api.create(resource_path(rules, PLURAL), {**taint_rule("r", pool=NODES[0]), "apiVersion": rules})
    async with watched(cluster.admin_kubeconfig) as watch:
        watch.on_change(changes.append)
        assert not watch.synced
        assert watch.staleness_seconds() == math.inf
        await synced(watch)
        await until_equal(watch, api)
        # Changes after the lists are seen, too: a pod, the claim made for it, and where it went.
        body = pod("p", ["true"], template="t")
        body["metadata"]["annotations"] = {"hub.jupyter.org/username": "someone", "other": "x"}
        await api.create(cluster.path("pods"), body)
        key = ObjectKey(cluster.namespace, "p")
        await eventually(lambda: key in watch.snapshot.pods and watch.snapshot.pods[key].node_name, "the pod is placed")
        await until_equal(watch, api)
        (held,) = [item.key for item in watch.snapshot.claims.values() if item.owner == "p"]
        assert watch.snapshot.state.devices.holders[held]
        observed = watch.observed(Kind.POD, key)
        assert observed is not None
        assert observed.conditions["PodScheduled"].status == "True"
        assert observed.annotations == {"hub.jupyter.org/username": "someone"}
        await eventually(lambda: watch.staleness_seconds() < 4, "the data are fresh")
        assert watch.problems() == ()
        assert watch.has_devices
        assert Change(ChangeType.ADDED, Kind.POD, key, decides=True) in changes
        assert [bool(device.taints) for item in watch.snapshot.slices.values() for device in item.devices].count(
            True
        ) == (rules is not None)
    assert {status.objects > 0 for status in watch.status() if status.state is not InformerState.OFF} == {True}


@pytest.mark.parametrize("seed", range(6))
async def test_after_any_changes_and_faults_the_snapshot_equals_a_list(embedded_cluster: ClusterUnderTest, seed: int):
    random = Random(seed)
    async with watched_through_proxy(embedded_cluster, random=Random(seed)) as (proxy, watch):
        changes = RandomChanges(embedded_cluster.admin, embedded_cluster.namespace, random)
        for _ in range(15):
            for _ in range(random.randrange(40)):
                await changes.change()
            trouble(proxy, random)
        proxy.heal()
        await synced(watch)
        await until_equal(watch, embedded_cluster.admin)
        lists = [status.lists for status in watch.status()]
    assert max(lists) > 1, "nothing was ever listed again: the faults were none"


def trouble(proxy: FaultProxy, random: Random) -> None:
    """Something that happens to connections."""
    proxy.heal()
    resource = random.choice([*(each.plural for each in RESOURCES.values()), None])
    match random.randrange(5):
        case 0:
            proxy.cut(verb="watch", resource=resource)
        case 1:
            proxy.fail(Fault.answer(410, "Expired"), verb="watch", resource=resource, times=3)
            proxy.cut(verb="watch", resource=resource)
        case 2:
            proxy.fail(Fault.answer(410, "Expired"), verb="watch", times=3)
            proxy.fail(Fault.answer(410, "Expired"), verb="list", nth=2, times=2)
            proxy.cut(verb="watch")
        case 3:
            proxy.fail(Fault.refuse(), resource=resource, times=4)
            proxy.cut(resource=resource)
        case 4:
            proxy.fail(Fault.answer(500), resource=resource, times=4)
            proxy.cut(verb="watch", resource=resource)


async def test_random_changes_on_a_real_control_plane(real_cluster: ClusterUnderTest):
    random = Random(1)
    async with watched(real_cluster.admin_kubeconfig) as watch:
        changes = RandomChanges(real_cluster.admin, real_cluster.namespace, random)
        for _ in range(150):
            await changes.change()
        await synced(watch)
        await until_equal(watch, real_cluster.admin)


async def test_forgotten_versions_are_listed_again_as_a_difference(tmp_path: Path):
    """With a server that remembers five changes, and says so in the stream as real ones do."""
    store = Store(ScaledClock().now, history_limit=5)
    server = ApiServer(store, "token")
    url = await server.start()
    try:
        async with FaultProxy(url) as proxy:
            kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": proxy.url}, "token", "default")
            async with await KubernetesApi.from_kubeconfig(kubeconfig) as api, watched(kubeconfig) as watch:
                for name in NODES:
                    await api.create(resource_path("v1", "nodes"), node(name))
                await synced(watch)
                await until_equal(watch, api)
                seen: list[Change] = []
                watch.on_change(seen.append)
                proxy.fail(Fault.refuse(), verb="watch", resource="nodes", times=None)
                proxy.cut(verb="watch", resource="nodes")
                for number in range(8):
                    await api.patch(
                        resource_path("v1", "nodes", name="n1"), {"metadata": {"labels": {"x": str(number)}}}
                    )
                await api.delete(resource_path("v1", "nodes", name="n2"))
                await api.create(resource_path("v1", "nodes"), node("n4"))
                await api.delete(resource_path("v1", "nodes", name="n3"))
                await api.create(resource_path("v1", "nodes"), node("n3", zone="other"))
                proxy.heal()
                await until_equal(watch, api)
        reported = [(change.type, change.key.name) for change in seen if change.kind is Kind.NODE]
        assert sorted(reported) == [
            (ChangeType.ADDED, "n3"),  # another object of the same name
            (ChangeType.ADDED, "n4"),
            (ChangeType.CHANGED, "n1"),
            (ChangeType.REMOVED, "n2"),
            (ChangeType.REMOVED, "n3"),
        ]
    finally:
        await server.stop()


async def test_while_the_api_server_is_away_knowledge_gets_old_and_then_fresh_again(embedded_cluster: ClusterUnderTest):
    clock = SkippingClock()
    async with watched_through_proxy(embedded_cluster, clock=clock) as (proxy, watch):
        await synced(watch)
        proxy.fail(Fault.refuse(), times=None)
        proxy.cut()
        await eventually(lambda: len(watch.problems()) == len(RESOURCES), "each watch is broken")
        clock.skipped_seconds += 10
        assert watch.staleness_seconds() > 10
        assert watch.synced, "known objects stay known"
        await embedded_cluster.admin.create(resource_path("v1", "nodes"), node("n1"))
        proxy.heal()
        await eventually(lambda: watch.staleness_seconds() < 3 and "n1" in watch.snapshot.nodes, "it is fresh again")
        assert watch.problems() == ()


async def test_connection_that_hangs_is_noticed(embedded_cluster: ClusterUnderTest):
    """One watch, while all others go on: its kind is not known any more, and the data get old."""
    settings = replace(SETTINGS, watch_seconds=1, grace_seconds=0.2)
    async with watched_through_proxy(embedded_cluster, settings=settings) as (proxy, watch):
        await synced(watch)
        proxy.fail(Fault.hold(), resource="pods", times=None)
        await eventually(lambda: watch.knowledge()[Kind.POD] is Knowledge.UNKNOWN, "the connection counts as dead")
        await eventually(lambda: watch.staleness_seconds() > 1.2, "it is older than a quiet watch lets it get")
        assert watch.problems()[0].startswith("Cannot follow pods:")
    usual = InformerSettings()
    assert usual.watch_seconds + usual.grace_seconds < 15


async def test_missing_right_is_named_and_the_rest_goes_on(embedded_cluster: ClusterUnderTest):
    def prepare(proxy: FaultProxy) -> None:
        proxy.fail(Fault.answer(403, message="nodes is forbidden"), verb="list", resource="nodes", times=None)

    async with watched_through_proxy(embedded_cluster, prepare) as (proxy, watch):
        await embedded_cluster.admin.create(embedded_cluster.path("pods"), pod("p", ["true"]))
        await eventually(lambda: watch.snapshot.pods, "pods are seen")
        (problem,) = await eventually(watch.problems, "a problem is reported")
        assert problem == (
            "Cannot follow nodes: its account lacks the ClusterRole rule "
            '{apiGroups: [""], resources: [nodes], verbs: [list, watch]} (the API server says: nodes is forbidden).'
        )
        assert not watch.synced
        proxy.heal()
        await synced(watch)
        assert watch.problems() == ()


async def test_cluster_without_devices_is_logged_once(
    embedded_cluster: ClusterUnderTest, caplog: pytest.LogCaptureFixture
):
    async with watched_through_proxy(embedded_cluster, hide_devices) as (_, watch):
        await embedded_cluster.admin.create(embedded_cluster.path("pods"), pod("p", ["true"]))
        await synced(watch)
        await eventually(lambda: watch.snapshot.pods, "pods are seen")
        assert not watch.has_devices
        assert watch.problems() == (
            "The cluster does not serve resource.k8s.io/v1: devices are left out, all else works.",
        )
        await eventually(lambda: watch.staleness_seconds() < 4, "the data are fresh")
        states = [status.state for status in watch.status()]
        assert states.count(InformerState.OFF) == 5
    assert sum("does not serve" in record.message for record in caplog.records) == 1


async def test_devices_that_discovery_names_are_not_absent(embedded_cluster: ClusterUnderTest) -> None:
    """As the replicas of a control plane answer in an upgrade, or a load balancer without a route."""

    def prepare(proxy: FaultProxy) -> None:
        proxy.fail(Fault.answer(404), matching=lambda request: "resource.k8s.io" in request.path, times=None)

    async with watched_through_proxy(embedded_cluster, prepare) as (proxy, watch):
        await eventually(lambda: len(watch.problems()) == 5, "each kind of devices has its problem")
        assert watch.has_devices

        def unknown() -> list[Kind]:
            return [kind for kind, each in watch.knowledge().items() if each is not Knowledge.KNOWN]

        await eventually(lambda: unknown() == [*RESOURCES][2:], "pods and nodes are known", shows=unknown)
        assert not watch.synced
        proxy.heal()
        await synced(watch)
        # What was seen once is not absent, whatever discovery says.
        await embedded_cluster.admin.create(embedded_cluster.path("resourceclaims"), claim("c", "5Gi"))
        await eventually(lambda: watch.snapshot.claims, "the claim is seen")
        hide_devices(proxy)
        proxy.cut()
        await eventually(lambda: len(watch.problems()) == 5, "each kind of devices has its problem again")
        assert watch.has_devices
        assert watch.knowledge()[Kind.RESOURCE_CLAIM] is Knowledge.UNKNOWN
        assert list(watch.snapshot.claims)
        proxy.heal()
        await eventually(lambda: set(watch.knowledge().values()) == {Knowledge.KNOWN}, "all is known again")


async def test_without_the_right_to_list_rules_all_else_works(embedded_cluster: ClusterUnderTest) -> None:
    """An administrator has updated the program, and not yet its role."""

    def prepare(proxy: FaultProxy) -> None:
        proxy.fail(Fault.answer(403, message="no"), verb="list", resource=PLURAL, times=None)

    await embedded_cluster.admin.create(f"/apis/resource.k8s.io/v1/{PLURAL}", taint_rule("r"))
    async with watched_through_proxy(embedded_cluster, prepare) as (proxy, watch):
        await synced(watch)
        assert set(watch.knowledge().values()) == {Knowledge.KNOWN}
        assert watch.staleness_seconds() < PATIENCE_SECONDS
        (problem,) = watch.problems()
        assert "resources: [devicetaintrules], verbs: [list, watch]" in problem
        proxy.heal()
        await eventually(lambda: watch.snapshot.state.devices.taint_rules, "the rule is seen")
        assert watch.problems() == ()


async def test_object_that_makes_no_sense_costs_its_own_verdict(embedded_cluster: ClusterUnderTest):
    async with await KubernetesApi.from_kubeconfig(embedded_cluster.admin_kubeconfig) as api:
        watch = ClusterWatch(api)
        watch.put(Kind.NODE, node("n1"))
        # Forms that decoding does not know to refuse; the API server never allows them.
        nonsense: list[JsonObject] = [{"spec": 7}, {"status": []}, {"metadata": {"labels": [1]}}]
        for number, wrong in enumerate(nonsense):
            broken = {**node(f"broken{number}"), **wrong}
            broken["metadata"] = {**broken["metadata"], "name": f"broken{number}"}
            watch.put(Kind.NODE, broken)
        watch.put(Kind.RESOURCE_SLICE, {"kind": "ResourceSlice", "metadata": {"name": "s", "ownerReferences": [3]}})
        assert list(watch.snapshot.nodes) == ["n1"]
        assert [each.key.name for each in watch.snapshot.broken] == ["broken0", "broken1", "broken2", "s"]
        watch.put(Kind.NODE, node("broken0"))
        watch.remove(Kind.NODE, ObjectKey("", "broken1"))
        assert [each.key.name for each in watch.snapshot.broken] == ["broken2", "s"]


async def test_claims_of_a_deleted_pod_are_left_to_the_claim_controller(
    embedded_cluster: ClusterUnderTest, caplog: pytest.LogCaptureFixture
):
    """Its changes come as claims of their own: a device is not free before the API server says so."""
    async with await KubernetesApi.from_kubeconfig(embedded_cluster.admin_kubeconfig) as api:
        watch = ClusterWatch(api)
        key = ObjectKey("ns", "p")
        body = pod("p", ["true"], resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}], nodeName="n1")
        body["metadata"] |= {"namespace": "ns", "uid": "u"}
        held = claim("c", "5Gi")
        held["metadata"] |= {
            "namespace": "ns",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
        }
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
        reserved = [{"resource": "pods", "name": "p", "uid": "u"}]
        held["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        watch.put(Kind.POD, body)
        watch.put(Kind.RESOURCE_CLAIM, held)
        for ended in (
            {**body, "status": {"phase": "Succeeded"}},
            {**body, "metadata": {**body["metadata"], "uid": "v"}},
        ):
            watch.put(Kind.POD, ended)
            assert watch.snapshot.claims[ObjectKey("ns", "c")].claim.is_allocated
        watch.remove(Kind.POD, key)
        assert watch.snapshot.state.devices.holders
        watch.remove(Kind.RESOURCE_CLAIM, ObjectKey("ns", "c"))
        assert not watch.snapshot.state.devices.holders
    assert not log_messages(caplog)


async def test_a_heartbeat_is_no_change_of_the_snapshot(embedded_cluster: ClusterUnderTest):
    async with await KubernetesApi.from_kubeconfig(embedded_cluster.admin_kubeconfig) as api:
        watch = ClusterWatch(api)
        seen: list[Change] = []
        end = watch.on_change(seen.append)
        watch.put(Kind.NODE, node("n1"))
        heartbeat = node("n1")
        heartbeat["status"]["conditions"][0] |= {"lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        watch.put(Kind.NODE, heartbeat)
        watch.put(Kind.NODE, node("n1", zone="x"))
        assert [(change.type, change.decides) for change in seen] == [
            (ChangeType.ADDED, True), (ChangeType.CHANGED, False), (ChangeType.CHANGED, True),
        ]  # fmt: skip
        assert watch.version == 2
        end()
        watch.remove(Kind.NODE, ObjectKey("", "n1"))
        assert len(seen) == 3
