"""Tenants' claims whose devices take for ever to search for: other pods are served, and the reason is shown."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.dra.model.objects import DeviceClass, ResourceClaim, ResourceSlice
from dra_spawner.kube.client.api import resource_path
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder
from dra_spawner.placeholders.planner.cluster import search_ledger
from dra_spawner.placeholders.planner.cluster.search_ledger import FIRST_REST, MAX_OF_A_PART, MAX_OF_A_SEARCH
from dra_spawner.placeholders.planner.cluster.undecided import Unknown
from dra_spawner.placeholders.planner.decisions.preemption import decide_preemptions
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.lint import Inventory
from dra_spawner.profiles.lint.fit import why_never
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.spawner.devices.diagnosis import diagnose
from dra_spawner.spawner.devices.reader import DeviceReader
from tests.all_of_them import all_of_them
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import shareable
from tests.placeholders.controller.objects import claim_spec, node, prepare, shape
from tests.placeholders.planner.objects import NAMESPACE, SHARE, share_claim
from tests.placeholders.planner.world import World, hub
from tests.running import loop_stalls
from tests.service.replica import Replica, publish_shapes, replica

from .busy_service import LONGEST_STALL, start_server, watched_loop
from .hostile_claims import DEVICE_CLASS, KINDS, devices, last_impossible, slices, variant

# --- decisions ---------------------------------------------------------------------------------------------------------


def _world(kind: str, hostile: int) -> World:
    """A placeholder has the only share of a device; many nodes' devices lie idle, for claims that cannot have them."""
    world = hub((SHARE, 1, 5))
    world.node("a", gpus=1, memory="10Gi")
    for number in range(4):
        _add_idle_node(world, f"h{number}", kind)
    world.settle()
    for number in range(hostile):
        world.user(f"mallory-{number}", {"gpu": variant(kind, number)})
    return world


def _add_idle_node(world: World, name: str, kind: str) -> None:
    world.node(name)
    for obj in slices(name, kind):
        world.snapshot.apply(obj)


def _decide(world: World) -> dict[str, Any]:
    """Results of each pending pod after a round, whose searches are counted."""
    before = world.searches.spent
    world.decide()
    assert world.searches.spent - before <= 2 * (MAX_OF_A_PART + 100)
    assert world.last is not None
    return {each.pod.name: each for each in world.last.pending}


@all_of_them("kind", list(KINDS))
def test_a_pod_whose_search_takes_too_long_is_left_undecided(kind: str) -> None:
    world = _world(kind, 1)
    pending = _decide(world)["mallory-0"]
    assert pending.unknown is Unknown.STOPPED
    assert "the search for devices of gpu was stopped after 10,0" in pending.reason
    assert not pending.needs_node
    assert not pending.has_preemption
    assert not world.actions(CreatePlaceholder)[1:]
    assert not world.ended(Cause.PREEMPTED)


@all_of_them("kind", list(KINDS))
def test_placeholders_are_preempted_for_others_meanwhile(kind: str) -> None:
    world = _world(kind, 3)
    world.user("ada", {"gpu": share_claim("10Gi")})
    for _ in range(4):
        pending = _decide(world)
        if pending["ada"].has_preemption:
            break
    assert pending["ada"].has_preemption
    assert [each.pod for each in world.ended(Cause.PREEMPTED)] == [ObjectKey(NAMESPACE, "ada")]


def test_new_pods_are_looked_at_before_expensive_ones() -> None:
    """Each expensive pod is stopped once, and no other pod waits for all of them."""
    world = _world("last impossible", 40)
    _decide(world)
    rounds = 0
    world.user("ada", {"gpu": share_claim("10Gi")})
    while not _decide(world)["ada"].has_preemption:
        rounds += 1
        assert rounds < 45
    while world.last is not None and world.last.is_unfinished:
        _decide(world)
    assert world.last is not None
    unknown = {each.pod.name for each in world.last.pending if each.unknown is Unknown.STOPPED}
    assert unknown == {f"mallory-{number}" for number in range(40)}


def test_a_question_about_pending_servers_changes_no_later_decision() -> None:
    world = _world("last impossible", 3)
    for _ in range(2):
        round_ = Round(world.view(), world.policy, world.planner_state)
        round_.decide((decide_preemptions,))
        assert Unknown.STOPPED in {each.unknown for each in round_.pending}
        assert round_.searches.spent > 0
        assert world.searches.spent == 0
    _decide(world)
    assert world.searches.spent > 0


def test_a_search_is_not_repeated_before_a_while_has_passed() -> None:
    world = _world("last impossible", 1)
    _decide(world)
    spent = world.searches.spent
    for _ in range(20):
        world.pass_time(seconds=FIRST_REST.total_seconds() / 21)
        # Whatever changes: each node is another one every time.
        for number in range(4):
            world.remove_node(f"h{number}")
            _add_idle_node(world, f"h{number}", "last impossible")
        assert _decide(world)["mallory-0"].unknown is Unknown.STOPPED
    assert world.searches.spent == spent
    world.pass_time(seconds=FIRST_REST.total_seconds() / 10)
    pending = _decide(world)["mallory-0"]
    assert MAX_OF_A_SEARCH - 100 < world.searches.spent - spent <= MAX_OF_A_PART
    assert "it is tried again in 60 s" in pending.reason


def test_a_pod_keeps_its_preemption_when_its_next_search_is_stopped() -> None:
    world = _world("last impossible", 0)
    world.user("ada", {"gpu": share_claim("10Gi")})
    assert _decide(world)["ada"].has_preemption
    created = world.made
    world.slice("a", gpus=1, memory="15Gi")  # the result of the search is no longer valid
    for claims in range(50):
        world.searches.begin(world.now)
        with contextlib.suppress(SearchStopped), world.searches.search(claims) as budget:
            budget.spend(MAX_OF_A_SEARCH + 1)
    pending = _decide(world)["ada"]
    assert pending.unknown is Unknown.STOPPED
    assert pending.has_preemption
    assert world.made == created


def test_placeholders_are_found_for_others_meanwhile() -> None:
    world = _world("alternatives", 5)
    _decide(world)
    assert world.placement(SHARE).state == "ready"


def test_thousands_of_conditions_are_not_looked_at() -> None:
    """The API server has no limit for them, and each was compared with every pod of the cluster."""
    world = hub((SHARE, 1, 5), nodes="a", gpus=1, memory="10Gi")
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"no": "body"}}}
    away = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * 300}
    world.user("mallory", {"gpu": share_claim("10Gi")}, affinity={"podAntiAffinity": away})
    node_term = {"matchExpressions": [{"key": "no", "operator": "In", "values": ["body"]}]}
    nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node_term] * 200}}
    world.user("eve", {"gpu": share_claim("10Gi")}, affinity={"nodeAffinity": nodes})
    more = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * 5000}
    world.user("trudy", {"gpu": share_claim("10Gi")}, affinity={"podAntiAffinity": more})
    world.user("ada", {"gpu": share_claim("10Gi")})
    pending = _decide(world)
    assert pending["ada"].has_preemption
    assert "600 conditions on other pods; at most 50 are modelled" in pending["mallory"].reason
    assert "it is not known where the pod may run" in pending["eve"].reason
    assert "spec.affinity with more than 2000 values" in pending["trudy"].reason
    assert not any(pending[name].needs_node for name in ("mallory", "eve", "trudy"))
    (pod,) = [each for each in world.snapshot.pods.values() if each.name == "mallory"]
    assert not pod.has_pod_affinity


def test_a_profile_is_checked_within_a_budget() -> None:
    """No two of the nodes are alike, so each of them is searched."""
    kinds = [obj for number in range(30) for obj in slices(f"n{number}", "", 10 + number)]
    found = Inventory(
        ClusterFacts(
            device_classes={DEVICE_CLASS: DeviceClass.from_json({"metadata": {"name": DEVICE_CLASS}, "spec": {}})},
            slices=tuple(map(ResourceSlice.from_json, kinds)),
            nodes=tuple({"metadata": {"name": f"n{number}"}} for number in range(30)),
        )
    )
    claim = ResourceClaim.from_json({"metadata": {"name": "wanted"}, "spec": last_impossible()})
    verdicts = found.verdicts_when_empty([claim])
    stopped = [group for group in verdicts if group.stopped is not None]
    # Each of the first searches is stopped after 20,000 steps, the other pods are not searched for.
    assert len(stopped) >= 20
    assert why_never([claim], {}, found) is None


# --- the service -------------------------------------------------------------------------------------------------------

PART_CLAIM = {"gpu": claim_spec("gpu-share.example.com", "10Gi")}
LARGE_CLAIM = {"gpu": claim_spec("gpu-share.example.com", "40Gi")}
PART, LARGE = shape(PART_CLAIM), shape(LARGE_CLAIM)
ENDLESS = shape({"gpu": last_impossible()})


@pytest.fixture
async def tenants(cluster: ClusterUnderTest) -> AsyncIterator[tuple[str, str]]:
    """Namespaces of two users."""
    async with cluster.another_namespace("mallory") as mallory, cluster.another_namespace("ada") as ada:
        yield mallory, ada


async def test_the_service_answers_and_serves_others_while_a_tenant_asks_for_too_much(
    cluster: ClusterUnderTest,
    tenants: tuple[str, str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Steps end the searches here, not a busy machine; and none is tried again.
    monkeypatch.setattr(search_ledger, "MAX_SECONDS", 60.0)
    monkeypatch.setattr(search_ledger, "FIRST_REST", timedelta(minutes=10))
    mallory, ada = tenants
    hostile = [
        variant(kind, number) for number in range(3) for kind in ("last impossible", "unmet match", "alternatives")
    ]
    nodes = node("node-a", shareable("share"), *devices(""))
    await prepare(cluster, *nodes, *node("node-b", *devices("")))
    await publish_shapes(cluster, {"gpu-slice": PART, "gpu-large": LARGE, "endless": ENDLESS})
    async with replica(cluster, placeholders={"gpu-slice": {"min": 4}}, user_namespaces=True) as service:
        await service.until_warm(PART, 4)
        with caplog.at_level(logging.WARNING, "dra_spawner"):
            async with watched_loop(service) as stalls:
                for number, claim in enumerate(hostile):
                    # No scheduler spends its time on them here: the service sees pods that wait all the same.
                    await start_server(cluster, mallory, f"server-{number}", claim, LARGE.id, schedulerName="nobody")
                await start_server(cluster, ada, "ada", LARGE_CLAIM["gpu"], LARGE.id)
                await service.until(lambda: _is_placed(service, ada), "ada has a node")
                await service.until(lambda: len(_stopped(service)) == 9, "each of them was tried")
                pending_servers = await service.get_json("pending-servers")
                page = await service.get("page")
                # A profile with the same claim gets no prediction and no sentence.
                status, answer = await service.ask({"shape": ENDLESS.id, "pod": "eve", "namespace": ada})
                profiles = await service.get_json("profiles")
        assert max(stalls) < LONGEST_STALL
        assert (status, "it is not known where a server" in answer["detail"]) == (503, True)
        assert {each["name"] for each in profiles["items"] if each["availability"] is None} == {"endless"}
        items = [each for each in pending_servers["items"] if each["namespace"] == mallory]
        assert {each["is_known"] for each in items} == {False}
        assert all("was stopped after 10,0" in each["cause"] and not each["needs_node"] for each in items)
        assert f"{mallory}/server-0" in page or "server-0" in page
        logged = [each for each in caplog.messages if "A pending pod is undecided" in each]
        assert sorted(logged) == sorted(set(logged))
        assert len({each.partition(" because=")[0] for each in logged}) == 9 == len(logged)
        # It has no role in the users' namespaces here.
        await service.until(lambda: all(map(_is_of_rights, service.context.problems())), "it has no other problem")


def _is_of_rights(problem: str) -> bool:
    return "its account lacks" in problem


def _is_placed(service: Replica, namespace: str) -> bool:
    pod = service.controller.view().users.get(ObjectKey(namespace, "ada"))
    return pod is not None and bool(pod.node_name)


def _stopped(service: Replica) -> list[ObjectKey]:
    decided = service.controller.latest
    return [each.pod for each in decided.pending if each.unknown is Unknown.STOPPED] if decided is not None else []


# --- the embedded cluster and the hub ----------------------------------------------------------------------------------


async def test_the_embedded_scheduler_goes_on_to_the_next_pod(embedded_cluster: ClusterUnderTest) -> None:
    """Where kube-scheduler takes ten seconds for each node, the demo would hang."""
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a", shareable("share"), *devices("")))
    for number in range(3):
        await start_server(cluster, cluster.namespace, f"mallory-{number}", last_impossible(), LARGE.id, affinity={})
    await start_server(cluster, cluster.namespace, "ada", PART_CLAIM["gpu"], PART.id, affinity={})
    path = resource_path("v1", "pods", cluster.namespace)
    await cluster.wait_for(f"{path}/ada", lambda pod: "nodeName" in pod["spec"])
    text = "timed out trying to allocate devices"
    await cluster.wait_for(f"{path}/mallory-0", lambda pod: text in str(pod))


async def test_a_hub_says_that_free_devices_could_not_be_determined(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a", *devices("")))
    async with loop_stalls() as stalls:
        found = await diagnose(DeviceReader(cluster.admin), {"gpu": last_impossible()})
    assert found.fits is None
    assert not found.is_permanent
    assert found.sentence.startswith("It could not be determined in time whether this cluster has devices free")
    assert len(stalls) > 5
    assert max(stalls) < LONGEST_STALL
