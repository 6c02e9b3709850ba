"""Leader election: one acts, and never two, whatever happens to clocks, connections and processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.leader import LeaderElector, LeaseTimes, NotLeading, new_identity
from tests.cluster.fault_proxy import Fault, FaultProxy
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import PATIENCE_SECONDS, eventually
from tests.running import ended
from tests.set_clock import SkippingClock

#: Of a leader that stays one, however busy the machine is: a request may take 20 seconds.
TIMES = LeaseTimes(lease_seconds=60, renew_deadline_seconds=40, retry_seconds=0.05)
#: Of one that gives up a request that hangs after a second.
HASTY = LeaseTimes(lease_seconds=60, renew_deadline_seconds=59, retry_seconds=0.05)
#: Of one whose requests may take long.
PATIENT = LeaseTimes(lease_seconds=60, renew_deadline_seconds=40, retry_seconds=1)
LEASE = "dra-spawner-test"
RULE = "resources: [leases], verbs: [get, create, update]}"
LEASES = "coordination.k8s.io/v1", "leases"


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
    fails: bool = False
    task: asyncio.Task[None] | None = None
    clock: SkippingClock = field(default_factory=SkippingClock)

    def __post_init__(self) -> None:
        self.elector = LeaderElector(
            self.api, self.namespace, LEASE, identity=self.name, times=self.times, clock=self.clock
        )

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
    stage: Stage,
    cluster: ClusterUnderTest,
    *names: str,
    first: KubernetesApi | None = None,
    first_times: LeaseTimes = TIMES,
) -> AsyncIterator[list[Replica]]:
    """Replicas with the administrator's connection, the first one with another if it is given. No two act at a time."""
    times = [first_times, *[TIMES] * len(names)]
    apis = [first or cluster.admin, *[cluster.admin] * len(names)]
    found = [
        Replica(api, cluster.namespace, name, stage, own) for api, name, own in zip(apis, names, times, strict=False)
    ]
    try:
        yield found
    finally:
        for each in found:
            await each.stop()
    assert not stage.clashes


@asynccontextmanager
async def proxied(cluster: ClusterUnderTest) -> AsyncIterator[tuple[FaultProxy, KubernetesApi]]:
    async with (
        cluster.fault_proxy() as proxy,
        await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig_for(proxy.url)) as api,
    ):
        yield proxy, api


async def asked(proxy: FaultProxy) -> None:
    """Until one more request came."""
    before = len(proxy.requests)
    await eventually(lambda: len(proxy.requests) > before, "a request")


@pytest.mark.promise("One replica leads, and the next one leads when it ends.")
async def test_one_replica_leads_and_releases_the_lease_at_its_end(cluster: ClusterUnderTest):
    stage = Stage()
    async with replicas(stage, cluster, "a", "b") as (first, second):
        first.start()
        await eventually(lambda: stage.acting == {"a"}, "a leads")
        second.start()
        await eventually(lambda: second.elector.leader == "a", "b sees the leader")
        assert first.elector.is_leader
        assert not second.elector.is_leader
        with pytest.raises(NotLeading):
            second.elector.require()
        await first.stop()
        assert not stage.acting
        # It is handed over: nobody has to wait for the Lease to run out, which stands for a minute.
        second.clock.skipped_seconds = -PATIENCE_SECONDS
        await eventually(lambda: stage.acting == {"b"}, "b leads")
        lease = await cluster.admin.get(resource_path(*LEASES, cluster.namespace, LEASE))
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("b", 1)


async def test_a_renewal_under_way_does_not_keep_the_lease_from_being_released(embedded_cluster: ClusterUnderTest):
    stage = Stage()
    async with (
        proxied(embedded_cluster) as (proxy, api),
        replicas(stage, embedded_cluster, "a", "b", first=api) as (first, second),
    ):
        first.start()
        await eventually(lambda: stage.acting == {"a"}, "a leads")
        second.start()
        await eventually(lambda: second.elector.leader == "a", "b sees the leader")
        proxy.fail(Fault.answer(409, "Conflict"), verb="update")
        await first.stop()
        second.clock.skipped_seconds = -PATIENCE_SECONDS
        await eventually(lambda: stage.acting == {"b"}, "b leads")


@pytest.mark.promise("A leader without a connection stops before another one begins.")
async def test_leader_without_connection_stops_before_another_begins(embedded_cluster: ClusterUnderTest):
    stage = Stage()
    async with (
        proxied(embedded_cluster) as (proxy, api),
        replicas(stage, embedded_cluster, "cut off", "b", first=api, first_times=HASTY) as (first, second),
    ):
        first.start()
        await eventually(lambda: stage.acting == {"cut off"}, "the first leads")
        second.start()
        await eventually(lambda: second.elector.leader == "cut off", "the second sees the leader")
        # Neither an answer nor an error: a request that hangs must not keep the leader in office.
        proxy.fail(Fault.hold(), times=None)
        await asked(proxy)
        first.clock.skipped_seconds += HASTY.renew_deadline_seconds
        assert not first.elector.is_leader
        await eventually(lambda: not stage.acting, "the first gives up by itself")
        second.clock.skipped_seconds += TIMES.lease_seconds
        await eventually(lambda: stage.acting == {"b"}, "the second leads")
        # On a busy machine the second may lead, end and lead again.
        assert list(dict.fromkeys(stage.seen)) == ["cut off", "b"]
        proxy.heal()
        await eventually(lambda: first.elector.leader == "b", "the first sees the leader")


async def test_errors_of_the_api_server_end_a_term_and_are_reported(embedded_cluster: ClusterUnderTest):
    stage = Stage()
    async with (
        proxied(embedded_cluster) as (proxy, api),
        replicas(stage, embedded_cluster, "a", first=api) as (only,),
    ):
        only.start()
        faults = [Fault.answer(500), Fault.refuse(), Fault.answer(403), Fault.answer(409, "Conflict")]
        for term, fault in enumerate(faults, 1):
            await eventually(lambda: stage.acting, f"the replica leads, before {fault}")
            assert (only.elector.problem, only.elector.terms) == ("", term)
            proxy.fail(fault, times=None, verb="update")
            await asked(proxy)
            only.clock.skipped_seconds += TIMES.renew_deadline_seconds
            await eventually(lambda: not stage.acting, f"its term ends by {fault}")
            if fault.status == 403:
                await eventually(lambda: RULE in only.elector.problem, "the rule is named")
            proxy.heal()
        await eventually(lambda: stage.acting, "the replica leads again")


@pytest.mark.parametrize("jump_seconds", [3600, -3600])
async def test_a_lease_runs_out_by_a_clock_that_does_not_jump(
    embedded_cluster: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch, jump_seconds: int
):
    api, namespace = embedded_cluster.admin, embedded_cluster.namespace
    spec = {
        "holderIdentity": "gone",
        "leaseDurationSeconds": PATIENT.lease_seconds,
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    spec["acquireTime"] = spec["renewTime"]
    lease = {"metadata": {"name": LEASE}, "spec": spec}
    await api.create(resource_path(*LEASES, namespace), lease)
    clock = 1000.0
    elector = LeaderElector(api, namespace, LEASE, identity="b", times=PATIENT, clock=lambda: clock)
    assert not await elector.try_acquire_or_renew()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump_seconds)
    # Forward, the Lease seems to have run out long ago; it has been seen for a moment less than it lasts.
    clock += PATIENT.lease_seconds - 1
    assert not await elector.try_acquire_or_renew()
    assert not elector.is_leader
    # Backward, it seems to last for another hour.
    clock += 2
    assert await elector.try_acquire_or_renew()
    assert elector.is_leader
    clock += PATIENT.renew_deadline_seconds
    assert not elector.is_leader


async def test_a_longer_lease_of_the_leader_is_respected(embedded_cluster: ClusterUnderTest):
    api, namespace = embedded_cluster.admin, embedded_cluster.namespace
    clock = 1000.0
    longer = LeaseTimes(lease_seconds=180, renew_deadline_seconds=120, retry_seconds=1)
    first = LeaderElector(api, namespace, LEASE, identity="a", times=longer, clock=lambda: clock)
    second = LeaderElector(api, namespace, LEASE, identity="b", times=PATIENT, clock=lambda: clock)
    assert await first.try_acquire_or_renew()
    assert not await second.try_acquire_or_renew()
    clock += PATIENT.lease_seconds + 1
    assert first.is_leader
    assert not await second.try_acquire_or_renew()
    clock += longer.lease_seconds
    assert await second.try_acquire_or_renew()


async def test_work_that_fails_gives_the_next_one_a_turn(embedded_cluster: ClusterUnderTest):
    stage = Stage()
    async with replicas(stage, embedded_cluster, "a", "b") as (first, second):
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


async def test_a_replica_that_saw_a_leader_does_not_take_a_deleted_lease(embedded_cluster: ClusterUnderTest):
    api, namespace = embedded_cluster.admin, embedded_cluster.namespace
    clock = 1000.0
    first = LeaderElector(api, namespace, LEASE, identity="a", times=PATIENT, clock=lambda: clock)
    second = LeaderElector(api, namespace, LEASE, identity="b", times=PATIENT, clock=lambda: clock)
    assert await first.try_acquire_or_renew()
    assert not await second.try_acquire_or_renew()
    await api.delete(resource_path(*LEASES, namespace, LEASE))
    clock += 1
    assert first.is_leader
    assert not await second.try_acquire_or_renew()
    clock += PATIENT.lease_seconds
    assert await second.try_acquire_or_renew()


async def test_deleted_lease_is_not_taken_from_its_holder(embedded_cluster: ClusterUnderTest):
    stage = Stage()
    path = resource_path(*LEASES, embedded_cluster.namespace, LEASE)
    async with replicas(stage, embedded_cluster, "a", "b") as (first, second):
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


def test_each_process_has_a_name_of_its_own():
    assert new_identity() != new_identity()
