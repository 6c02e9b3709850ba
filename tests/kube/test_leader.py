"""Leader election: one acts, and never two, whatever happens to clocks, connections and processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from dra_spawner.kube.api import KubernetesApi, resource_path
from dra_spawner.kube.leader import LeaderElector, LeaseTimes, NotLeading, new_identity
from tests.cluster.fault_proxy import Fault, FaultProxy
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually
from tests.running import ended

TIMES = LeaseTimes(lease_seconds=3, renew_deadline_seconds=2, retry_seconds=1)
#: Of a leader that stays one, however busy the machine is.
LONG = LeaseTimes(lease_seconds=60, renew_deadline_seconds=40, retry_seconds=1)
LEASE = "dra-spawner-test"


@dataclass
class Stage:
    """Where leaders act; notes whether two ever do so together."""

    acting: set[str] = field(default_factory=set)
    seen: list[str] = field(default_factory=list)
    clashes: list[set[str]] = field(default_factory=list)


@dataclass
class Replica:
    """One process's part."""

    api: KubernetesApi
    namespace: str
    name: str
    stage: Stage
    times: LeaseTimes = TIMES
    skew_seconds: float = 0.0
    fails: bool = False
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.elector = LeaderElector(self.api, self.namespace, LEASE, identity=self.name, times=self.times)

    async def act(self) -> None:
        self.stage.acting.add(self.name)
        self.stage.seen.append(self.name)
        try:
            while True:
                if len(self.stage.acting) > 1:
                    self.stage.clashes.append(set(self.stage.acting))
                if self.fails:
                    raise RuntimeError("the leader's work fails (injected by a test)")
                await asyncio.sleep(0.01)
        finally:
            self.stage.acting.discard(self.name)

    def start(self) -> None:
        self.task = asyncio.create_task(self.elector.run(self.act))

    async def stop(self) -> None:
        if self.task is not None:
            await ended(self.task)
            self.task = None


@asynccontextmanager
async def replicas(
    stage: Stage, *parts: tuple[KubernetesApi, str, str], times: LeaseTimes = TIMES
) -> AsyncIterator[list[Replica]]:
    all_of_them = [Replica(api, namespace, name, stage, times) for api, namespace, name in parts]
    try:
        yield all_of_them
    finally:
        for each in all_of_them:
            await each.stop()


@asynccontextmanager
async def proxied(cluster: ClusterUnderTest) -> AsyncIterator[tuple[FaultProxy, KubernetesApi]]:
    async with (
        cluster.fault_proxy() as proxy,
        await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig_for(proxy.url)) as api,
    ):
        yield proxy, api


async def test_one_replica_leads_and_releases_the_lease_at_its_end(cluster: ClusterUnderTest):
    stage = Stage()
    parts = [(cluster.admin, cluster.namespace, name) for name in ("a", "b")]
    async with replicas(stage, *parts, times=LONG) as (first, second):
        first.start()
        await eventually(lambda: stage.acting == {"a"}, "a leads")
        second.start()
        await eventually(lambda: second.elector.leader == "a", "b sees the leader")
        assert first.elector.is_leader
        assert not second.elector.is_leader
        with pytest.raises(NotLeading):
            second.elector.require()
        began = time.monotonic()
        await first.stop()
        assert not stage.acting
        await eventually(lambda: stage.acting == {"b"}, "b leads")
        # It was handed over: nobody had to wait for the Lease to run out.
        assert time.monotonic() - began < LONG.lease_seconds
        lease = await cluster.admin.get(resource_path("coordination.k8s.io/v1", "leases", cluster.namespace, LEASE))
        assert lease["spec"]["holderIdentity"] == "b"
        assert lease["spec"]["leaseTransitions"] == 1
    assert not stage.clashes


async def test_leader_without_connection_stops_before_another_begins(embedded_cluster: ClusterUnderTest):
    stage = Stage()
    async with proxied(embedded_cluster) as (proxy, api):
        parts = [
            (api, embedded_cluster.namespace, "cut off"),
            (embedded_cluster.admin, embedded_cluster.namespace, "b"),
        ]
        async with replicas(stage, *parts) as (first, second):
            first.start()
            await eventually(lambda: stage.acting == {"cut off"}, "the first leads")
            second.start()
            # Neither an answer nor an error: a request that hangs must not keep the leader in office.
            proxy.fail(Fault.hold(), times=None)
            await eventually(lambda: not stage.acting, "the first gives up by itself")
            assert not first.elector.is_leader
            await eventually(lambda: stage.acting == {"b"}, "the second leads")
            assert stage.seen == ["cut off", "b"]
            proxy.heal()
            await eventually(lambda: first.elector.leader == "b", "the first sees the leader")
    assert not stage.clashes


@pytest.mark.parametrize("fault", [Fault.answer(500), Fault.refuse(), Fault.answer(403), Fault.answer(409, "Conflict")])
async def test_errors_of_the_api_server_end_a_term_and_are_reported(embedded_cluster: ClusterUnderTest, fault: Fault):
    stage = Stage()
    async with (
        proxied(embedded_cluster) as (proxy, api),
        replicas(stage, (api, embedded_cluster.namespace, "a")) as (only,),
    ):
        only.start()
        await eventually(lambda: stage.acting, "the replica leads")
        proxy.fail(fault, times=None, verb="update")
        await eventually(lambda: not stage.acting, "its term ends")
        if fault.status == 403:
            rule = "resources: [leases], verbs: [get, create, update]}"
            await eventually(lambda: rule in only.elector.problem, "the rule is named")
        proxy.heal()
        await eventually(lambda: stage.acting, "the replica leads again")
        assert only.elector.problem == ""
        assert only.elector.terms == 2


@pytest.mark.parametrize("jump_seconds", [3600, -3600])
async def test_a_lease_runs_out_by_a_clock_that_does_not_jump(
    embedded_cluster: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch, jump_seconds: int
):
    api, namespace = embedded_cluster.admin, embedded_cluster.namespace
    spec = {
        "holderIdentity": "gone",
        "leaseDurationSeconds": LONG.lease_seconds,
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    spec["acquireTime"] = spec["renewTime"]
    lease = {"metadata": {"name": LEASE}, "spec": spec}
    await api.create(resource_path("coordination.k8s.io/v1", "leases", namespace), lease)
    clock = 1000.0
    elector = LeaderElector(api, namespace, LEASE, identity="b", times=LONG, clock=lambda: clock)
    assert not await elector.try_acquire_or_renew()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump_seconds)
    # Forward, the Lease seems to have run out long ago; it has been seen for a moment less than it lasts.
    clock += LONG.lease_seconds - 1
    assert not await elector.try_acquire_or_renew()
    assert not elector.is_leader
    # Backward, it seems to last for another hour.
    clock += 2
    assert await elector.try_acquire_or_renew()
    assert elector.is_leader
    clock += LONG.renew_deadline_seconds
    assert not elector.is_leader


async def test_a_longer_lease_of_the_leader_is_respected(embedded_cluster: ClusterUnderTest):
    api, namespace = embedded_cluster.admin, embedded_cluster.namespace
    clock = 1000.0
    longer = LeaseTimes(lease_seconds=180, renew_deadline_seconds=120, retry_seconds=1)
    first = LeaderElector(api, namespace, LEASE, identity="a", times=longer, clock=lambda: clock)
    second = LeaderElector(api, namespace, LEASE, identity="b", times=LONG, clock=lambda: clock)
    assert await first.try_acquire_or_renew()
    assert not await second.try_acquire_or_renew()
    clock += LONG.lease_seconds + 1
    assert first.is_leader
    assert not await second.try_acquire_or_renew()
    clock += longer.lease_seconds
    assert await second.try_acquire_or_renew()


async def test_work_that_fails_gives_the_next_one_a_turn(embedded_cluster: ClusterUnderTest):
    stage = Stage()
    parts = [(embedded_cluster.admin, embedded_cluster.namespace, name) for name in ("a", "b")]
    async with replicas(stage, *parts) as (first, second):
        first.fails = True
        first.start()
        await eventually(lambda: "a" in stage.seen, "the one that fails leads")
        second.start()
        await eventually(lambda: stage.acting == {"b"}, "the other leads")
        # The caller of the election ends the process, with the cause.
        assert first.task is not None
        with pytest.raises(RuntimeError, match="injected by a test"):
            await first.task
        first.task = None
    assert not stage.clashes


async def test_a_replica_that_saw_a_leader_does_not_take_a_deleted_lease(embedded_cluster: ClusterUnderTest):
    api, namespace = embedded_cluster.admin, embedded_cluster.namespace
    clock = 1000.0
    first = LeaderElector(api, namespace, LEASE, identity="a", times=LONG, clock=lambda: clock)
    second = LeaderElector(api, namespace, LEASE, identity="b", times=LONG, clock=lambda: clock)
    assert await first.try_acquire_or_renew()
    assert not await second.try_acquire_or_renew()
    await api.delete(resource_path("coordination.k8s.io/v1", "leases", namespace, LEASE))
    clock += 1
    assert first.is_leader
    assert not await second.try_acquire_or_renew()
    clock += LONG.lease_seconds
    assert await second.try_acquire_or_renew()


async def test_deleted_lease_is_not_taken_from_its_holder(embedded_cluster: ClusterUnderTest):
    stage = Stage()
    parts = [(embedded_cluster.admin, embedded_cluster.namespace, name) for name in ("a", "b")]
    path = resource_path("coordination.k8s.io/v1", "leases", embedded_cluster.namespace, LEASE)
    async with replicas(stage, *parts, times=LONG) as (first, second):
        first.start()
        await eventually(lambda: stage.acting, "one leads")
        second.start()
        await eventually(lambda: second.elector.leader == "a", "the other sees it")
        for _ in range(3):
            await embedded_cluster.admin.delete(path)

            async def is_there() -> bool:
                leases = await embedded_cluster.admin.list(path.rpartition("/")[0])
                return bool(leases["items"])

            await eventually(is_there, "the Lease is made again")
        assert stage.seen == ["a"]
    assert not stage.clashes


def test_each_process_has_a_name_of_its_own():
    assert new_identity() != new_identity()
