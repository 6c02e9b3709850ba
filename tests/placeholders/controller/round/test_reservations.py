"""Reservations that fail or stay unused, on both clusters."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.round.backoff import Backoff
from dra_spawner.placeholders.controller.round.reservations import OnHold, ReservedPlacement
from dra_spawner.placeholders.planner.actions import ReservePlaceholder
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.fault_proxy import Fault
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape
from tests.placeholders.controller.world import at_work
from tests.polling import eventually
from tests.presence import present
from tests.set_clock import SetClock

KIND = ReservePlaceholder.kind


@pytest.fixture
async def prepared(cluster: ClusterUnderTest) -> ClusterUnderTest:
    """A node with one device."""
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    return cluster


async def test_a_server_whose_hub_never_saw_the_answer(prepared: ClusterUnderTest) -> None:
    """Its pod has its own claim, and gets the device long before the reservation would expire."""
    gpu = shape(WHOLE)
    async with at_work(prepared, (gpu, ReplicaRange(1, 1))) as world:
        # Longer than a busy machine needs for all of it.
        long = timedelta(minutes=5)
        world.policy = replace(world.policy, grace=replace(world.policy.grace, scheduler=long, reservation=long))
        await world.until_warm(gpu)
        reservation = await world.reservations.place(gpu, prepared.namespace, "ada")
        assert reservation.placement.state is AvailabilityState.READY
        await world.user("ada", WHOLE)
        ada = ObjectKey(prepared.namespace, "ada")

        def is_scheduled() -> bool:
            pod = world.watch.snapshot.pods.get(ada)
            return pod is not None and pod.node_name == "node-a"

        await world.until(is_scheduled)
        (entry,) = world.watch.snapshot.pods[ada].claims
        assert entry.claim not in reservation.claims.values()
        # A request may be answered after its effect is seen.
        await world.until(lambda: bool(world.deletions()))
        # The placeholder is preempted for this pod, or its reservation is released.
        assert [each.code for each in world.deletions()] in (["preempted"], ["expired"])
        assert not [each for each in world.decisions.newest(100) if each.decision.details.get("beside")]


@pytest.mark.promise("A reservation that the cluster refuses leaves the placeholder warm.")
async def test_a_refused_reservation_leaves_the_placeholder_warm(prepared: ClusterUnderTest) -> None:
    """This pod name is too long for a label."""
    gpu = shape(WHOLE)
    async with at_work(prepared, (gpu, ReplicaRange(1, 1))) as world:
        await world.until_warm(gpu)
        with pytest.raises(KubernetesError, match="63"):
            await world.reservations.place(gpu, prepared.namespace, "jupyter-" + "a" * 60)
        reservation = await world.reservations.place(gpu, prepared.namespace, "ada")
        assert reservation.placement.state is AvailabilityState.READY


@pytest.mark.promise("Nothing is reserved while the view of the cluster is old.")
async def test_nothing_is_reserved_on_a_stale_view(prepared: ClusterUnderTest) -> None:
    """A reservation on a stale view may be as wrong as a decision."""
    gpu = shape(WHOLE)
    async with at_work(prepared, (gpu, ReplicaRange(1, 1))) as world:
        await world.until_warm(gpu)
        world.policy = replace(world.policy, stale_after=timedelta(seconds=-1))
        with pytest.raises(OnHold, match="seconds old"):
            await world.reservations.place(gpu, prepared.namespace, "ada")
        world.policy = replace(world.policy, stale_after=timedelta(minutes=1))
        reservation = await world.reservations.place(gpu, prepared.namespace, "ada")
        assert reservation.placement.state is AvailabilityState.READY


async def test_a_refused_reservation_is_not_asked_of_the_api_server_again_at_once(
    prepared: ClusterUnderTest,
) -> None:
    """The back-off of rounds applies."""
    gpu = shape(WHOLE)
    async with prepared.fault_proxy() as proxy:
        kubeconfig = prepared.admin_kubeconfig_for(proxy.url)
        async with at_work(prepared, (gpu, ReplicaRange(1, 1)), kubeconfig=kubeconfig) as world:
            await world.until(lambda: len(world.warm(gpu)) == 1 and not present(world.reconciler.latest).actions)
            clock = SetClock(0.0)
            world.reconciler.backoff = Backoff(0.5, 0.5, 10, clock=clock)
            proxy.fail(Fault.answer(403, "Forbidden", "not you"), verb="patch", resource="resourceclaims", times=1)
            before = proxy.count("patch", "resourceclaims")
            with pytest.raises(KubernetesError, match="not you"):
                await world.reservations.place(gpu, prepared.namespace, "ada")
            with pytest.raises(OnHold, match=r"refused a moment ago: .*not you"):
                await world.reservations.place(gpu, prepared.namespace, "ada")
            assert proxy.count("patch", "resourceclaims") == before + 1
            assert len(world.warm(gpu)) == 1, "nothing is reserved"
            clock.now = 0.5

            async def answer() -> ReservedPlacement | None:
                try:
                    return await world.reservations.place(gpu, prepared.namespace, "ada")
                except OnHold:
                    return None

            reserved = await eventually(answer, "it is tried again")
            assert reserved.placement.state is AvailabilityState.READY
            (line,) = [each.decision for each in world.decisions.newest(100) if each.decision.kind == KIND]
            assert (line.subject, line.outcome) == (f"Pod {prepared.namespace}/ada", "done")


async def test_reservations_that_fail_count_as_failures_of_the_api_server(prepared: ClusterUnderTest) -> None:
    """While the API server fails, rounds decide nothing either."""
    gpu = shape(WHOLE)
    async with prepared.fault_proxy() as proxy:
        kubeconfig = prepared.admin_kubeconfig_for(proxy.url)
        async with at_work(prepared, (gpu, ReplicaRange(3, 3)), kubeconfig=kubeconfig) as world:
            await prepared.publish(*node("node-b", whole("gpu-0"), whole("gpu-1")))
            await world.until(lambda: len(world.warm(gpu)) == 3 and not present(world.reconciler.latest).actions)
            proxy.fail(Fault.answer(500, "InternalError", "etcd"), verb="patch", resource="resourceclaims", times=None)
            for number in range(3):
                with pytest.raises(KubernetesError):
                    await world.reservations.place(gpu, prepared.namespace, f"user-{number}")
            assert "the API server fails" in world.reconciler.backoff.api_problem
            with pytest.raises(OnHold, match="the API server fails"):
                await world.reservations.place(gpu, prepared.namespace, "late")
