"""Faults around the service: API servers that are away or lack devices, leaders that die, the chart's own parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.service.context import Role
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.fault_proxy import Fault, FaultProxy, Request, hide_devices
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import PRIORITY_CLASS, whole
from tests.placeholders.controller.objects import IMAGE, WHOLE, node, shape
from tests.service.replica import Replica, begin_round, replica, run_out_lease, set_up, writes

GPU = shape(WHOLE)
PLAIN = shape({})
SHAPES = {"gpu-whole": GPU, "plain": PLAIN}


@pytest.mark.promise("A cluster without devices keeps its other placeholders.")
async def test_without_devices_other_placeholders_stay_and_the_cause_is_logged_once(
    embedded_cluster: ClusterUnderTest, caplog: Any
) -> None:
    cluster = embedded_cluster
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0")))
    async with cluster.fault_proxy() as proxy:
        hide_devices(proxy)
        placeholders = {"gpu-whole": {"min": 1}, "plain": {"min": 2}}
        async with replica(cluster, cluster.admin_kubeconfig_for(proxy.url), placeholders=placeholders) as service:
            await service.until_warm(PLAIN, 2)
            assert set(service.context.problems()) == {
                "The cluster does not serve resource.k8s.io/v1: devices are left out, all else works.",
                "placeholders of gpu-whole: none are created, as the cluster has no devices.",
            }
            answer = await service.place(PLAIN, "ada")
            assert (answer["state"], answer["claims"], answer["until"]) == ("free", {}, None)
    logged = [each.getMessage() for each in caplog.records if "gpu-whole" in each.getMessage()]
    assert logged == ["Placeholders: placeholders of gpu-whole: none are created, as the cluster has no devices"]


async def test_a_leader_that_has_not_read_the_shapes_yet_says_so(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0")))
    async with cluster.fault_proxy() as proxy:
        proxy.fail(Fault.answer(500), times=None, verb="list", resource="configmaps")
        kubeconfig = cluster.admin_kubeconfig_for(proxy.url)
        async with replica(cluster, kubeconfig, placeholders={"gpu-whole": {"min": 1}}) as service:
            await service.until(lambda: service.context.role is Role.LEADER, "it leads")
            status, answer = await service.ask({"shape": GPU.id, "pod": "ada", "namespace": cluster.namespace})
            said = "This replica leads, but does not manage placeholders at present. Try again in a few seconds."
            assert (status, answer["detail"]) == (503, said)
            proxy.heal()
            await service.until_warm(GPU, 1)
            assert (await service.place(GPU, "ada"))["state"] == "ready"


@pytest.mark.promise("While the API server is away, nothing is decided; then all goes on.")
async def test_while_the_api_server_is_away_nothing_is_decided_and_then_all_goes_on(
    embedded_cluster: ClusterUnderTest,
) -> None:
    cluster = embedded_cluster
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with cluster.fault_proxy() as proxy:
        kubeconfig = cluster.admin_kubeconfig_for(proxy.url)
        placeholders = {"gpu-whole": {"min": 2}}
        async with replica(cluster, kubeconfig, placeholders=placeholders) as service:
            await service.until_warm(GPU, 2)
            placeholder_key = next(iter(service.placeholders()))
            proxy.fail(Fault.refuse(), times=None)
            proxy.cut()
            await run_out_lease(service)
            await service.until(
                lambda: service.context.role is not Role.LEADER and not service.controller.leads, "it leads no longer"
            )
            count = service.context.decisions.count
            # Meanwhile things change that would call for decisions.
            await cluster.admin.delete(cluster.path("pods", placeholder_key.name), grace_period_seconds=0)
            status, answer = await service.ask({"shape": GPU.id, "pod": "ada", "namespace": cluster.namespace})
            assert (status, answer["detail"].startswith("This replica does not lead")) == (503, True)
            assert service.context.decisions.count == count
            proxy.heal()
            await service.until(
                lambda: len(service.placeholders()) == 2 and placeholder_key not in service.placeholders(),
                "the placeholder is made anew",
            )


@pytest.mark.promise("Where nothing changes, nothing is written.")
async def test_with_no_change_in_the_cluster_nothing_is_written(cluster: ClusterUnderTest) -> None:
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0")))
    async with cluster.fault_proxy() as proxy:
        kubeconfig = cluster.admin_kubeconfig_for(proxy.url)
        async with replica(cluster, kubeconfig, placeholders={"gpu-whole": {"min": 1}}) as service:
            await service.until_warm(GPU, 1)
            await rest(service)
            before = writes(proxy)
            for _ in range(3):
                await rest(service)
            assert writes(proxy) == before


async def rest(service: Replica) -> None:
    """Wait for a round in which nothing is to be done."""
    latest = service.controller.latest
    begin_round(service)
    await service.until(
        lambda: service.controller.latest is not latest and not getattr(service.controller.latest, "actions", ()),
        "a round",
    )


@contextlib.contextmanager
def death_at(proxy: FaultProxy, verb: str, resource: str) -> Iterator[list[Request]]:
    """The API server carries out the next such request, which is in the list then; afterwards nothing comes through."""
    last: list[Request] = []

    def is_last(request: Request) -> bool:
        if not last and (request.verb, request.resource) == (verb, resource):
            last.append(request)
            return True
        return False

    proxy.fail(Fault.refuse(), matching=lambda request: bool(last), times=None)
    proxy.fail(Fault.lose_answer(), matching=is_last, times=None)
    yield last
    proxy.heal()


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        pytest.param("create", "resourceclaims", id="with-a-claim-and-no-pod"),
        pytest.param("create", "pods", id="with-a-pod-that-does-not-own-its-claim"),
        pytest.param("patch", "resourceclaims", id="with-everything-made"),
        pytest.param("patch", "nodes", id="with-a-label-written"),
    ],
)
async def test_a_leader_that_dies_while_it_acts(cluster: ClusterUnderTest, verb: str, resource: str) -> None:
    """The new leader adopts existing objects, makes missing ones and removes leftovers; the old one writes nothing."""
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0"), whole("gpu-1"), whole("gpu-2")))
    traits: JsonObject = {"placeholders": {"gpu-whole": {"min": 2, "max": 2}}, "orphan_seconds": 1.0}
    async with cluster.fault_proxy() as proxy:
        with death_at(proxy, verb, resource) as last:
            async with replica(cluster, cluster.admin_kubeconfig_for(proxy.url), **traits) as old:
                await old.until(lambda: bool(last), "it dies")
                proxy.cut()
                async with replica(cluster, **traits) as new:
                    most = [0]
                    new.context.watch.on_change(lambda change: most.append(len(new.placeholders())))  # type: ignore[union-attr]
                    await run_out_lease(old, new)
                    await new.until(lambda: new.controller.latest is not None, "it leads")
                    await new.until_warm(GPU, 2)
                    await new.until(lambda: owned(new), "every claim is its placeholder's")
                    assert max(*most, len(new.placeholders())) == 2, "never more than wanted"
                    # The network of the old leader is back: it decides nothing any more.
                    proxy.heal()
                    # Nor will it, though the new leader may stand still on a busy machine.
                    proxy.fail(Fault.answer(403, "Forbidden"), verb="update", resource="leases", times=None)
                    leader = new.identity
                    await old.until(lambda: leads(old) == leader, "it stands by")
                    quiet = len(writes(proxy))
                    question = {"shape": GPU.id, "pod": "ada", "namespace": cluster.namespace}
                    # A hub that still reaches the old leader gets nothing from it, and a placement from the new one.
                    status, answer = await old.ask(question)
                    assert (status, answer["detail"]) == (503, f"This replica stands by: the leader is {leader}.")
                    status, answer = await new.ask(question)
                    assert (status, answer["state"]) == (200, "ready")
                    assert (await new.ask({**question, "shape": "0" * 16}))[0] == 404
                    await rest(new)
                    assert len(writes(proxy)) == quiet


def leads(service: Replica) -> str:
    """The leader, as a replica last saw it."""
    assert service.context.elector is not None
    return service.context.elector.leader


def owned(service: Replica) -> bool:
    """Whether each warm claim belongs to an existing placeholder; a round may find that a leftover has its age."""
    begin_round(service)
    view = service.controller.view()
    named = {key for each in view.placeholders.values() for key in each.claims}
    return {tracked.key for tracked in view.warm_claims} == named


@pytest.mark.promise("A reservation outlives the leader that made it.")
async def test_a_reservation_outlives_its_leader(cluster: ClusterUnderTest) -> None:
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    traits: JsonObject = {"placeholders": {"gpu-whole": {"min": 2, "max": 2}}, "reservation_seconds": 300.0}
    async with (
        cluster.fault_proxy() as proxy,
        replica(cluster, cluster.admin_kubeconfig_for(proxy.url), **traits) as old,
    ):
        await old.until_warm(GPU, 2)
        reserved = await old.place(GPU, "ada")
        proxy.fail(Fault.refuse(), times=None)
        proxy.cut()
        async with replica(cluster, **traits) as new:
            await run_out_lease(old, new)
            await new.until(lambda: new.context.role is Role.LEADER, "the new replica leads")
            await new.until(lambda: new.controller.latest is not None, "it decides")
            other = await new.place(GPU, "eve")
            assert set(other["claims"].values()).isdisjoint(reserved["claims"].values())
            await new.start(GPU, "ada", WHOLE, reserved)
            await cluster.wait_running("ada")
            claim = ObjectKey(cluster.namespace, reserved["claims"]["gpu"])
            await new.until(lambda: claim not in new.controller.view().holder_of, "the placeholder goes")
            assert new.context.watch is not None
            assert claim in new.context.watch.snapshot.claims, "but not the claim"
        proxy.heal()


async def test_the_charts_own_parts_are_reported_and_left_alone(
    embedded_cluster: ClusterUnderTest, caplog: Any
) -> None:
    cluster = embedded_cluster
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0")))
    foreign = [chart_pod("user-placeholder-0", "user-placeholder"), chart_pod("user-scheduler-abc", "user-scheduler")]
    await cluster.publish(*foreign)
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}) as service:
        await service.until_warm(GPU, 1)
        placeholder, scheduler = sorted(service.context.problems())
        assert f"(pod {cluster.namespace}/user-placeholder-0)" in placeholder
        assert "scheduling.userPlaceholder.enabled: false" in placeholder
        assert "scheduling.userScheduler.enabled: false" in scheduler
        await cluster.publish(chart_pod("user-placeholder-1", "user-placeholder"))
        await service.until(lambda: "and 1 more" in sorted(service.context.problems())[0], "both are reported")
        assert {each.name for each in service.placeholders()}.isdisjoint({"user-placeholder-0", "user-placeholder-1"})
        for name in ("user-placeholder-0", "user-placeholder-1", "user-scheduler-abc"):
            await cluster.admin.delete(cluster.path("pods", name), grace_period_seconds=0)
        await service.until(lambda: service.context.problems() == (), "they are gone")
    subjects = {each.decision.subject for each in service.context.decisions.newest(1000)}
    assert not [each for each in subjects if "user-placeholder" in each]
    logged = [each for each in caplog.records if "The chart's own placeholders" in each.getMessage()]
    assert len(logged) == 1


def chart_pod(name: str, component: str) -> dict[str, Any]:
    """As zero-to-jupyterhub's StatefulSet and Deployment make them."""
    labels = {"app": "jupyterhub", "release": "hub", "component": component}
    container = {"name": "pause", "image": IMAGE, "resources": {"requests": {"cpu": "100m"}}}
    spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if component == "user-placeholder":
        spec["priorityClassName"] = PRIORITY_CLASS
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


async def test_a_missing_priority_class_is_reported(cluster: ClusterUnderTest) -> None:
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0")))
    traits: dict[str, Any] = {"placeholders": {"plain": {"min": 1}}, "placeholder_priority_class": "missing"}
    async with replica(cluster, **traits) as service:
        await service.until(
            lambda: any("PriorityClass" in each for each in service.context.problems()), "the problem is reported"
        )
        (problem,) = service.context.problems()
        assert "no PriorityClass with name missing was found" in problem
        assert names.SHAPES_CONFIG_MAP not in problem
