"""The scheduler: which pods are placed, in which order, and how its loop waits."""

from __future__ import annotations

import asyncio

from dra_spawner.devcluster.api.resource_types import EVENTS, NODES, PODS, PRIORITYCLASSES
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.scheduler.queue import QueueState
from dra_spawner.devcluster.scheduler.scheduler import Scheduler
from tests.devcluster.cluster_objects import NAMESPACE, TurnedClock, node, pod


def test_pod_is_bound_with_an_event(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user"))
    assert cluster.place("user") == "a"
    assert cluster.condition("user") == ("True", None, None)
    assert cluster.events("user") == [("Scheduled", "Successfully assigned default/user to a", 1)]


def test_pods_that_were_there_before_are_placed_in_order():
    clock = TurnedClock()
    store = Store(clock.now)
    store.create(NODES, node("a"))
    for name in ("z", "y"):
        store.create(PODS, pod(name, cpu="3"))
    scheduler = Scheduler(store, clock)
    scheduler.attach()
    scheduler.settle()
    assert store.get(PODS, NAMESPACE, "z")["spec"]["nodeName"] == "a"
    assert "nodeName" not in store.get(PODS, NAMESPACE, "y")["spec"]


def test_first_by_priority_then_by_arrival(cluster):
    cluster.store.create(PRIORITYCLASSES, {"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"})
    for name, more in (("one", {}), ("two", {}), ("high", {"priorityClassName": "high"}), ("three", {})):
        cluster.store.create(PODS, pod(name, cpu="1500m", **more))
    cluster.create(NODES, node("a"))
    assert [name for name in ("one", "two", "high", "three") if cluster.place(name)] == ["one", "high"]


def test_other_schedulers_pods_are_left_alone(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("theirs", schedulerName="another"))
    assert cluster.place("theirs") is None
    assert cluster.events("theirs") == []
    assert cluster.condition("theirs") is None


def test_gated_pods_wait_for_their_gates(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", schedulingGates=[{"name": "example.com/wait"}]))
    assert cluster.scheduler.queued_pods == {(NAMESPACE, "user"): QueueState.GATED}
    cluster.store.modify(PODS, NAMESPACE, "user", lambda obj: obj["spec"].pop("schedulingGates"))
    cluster.settle()
    assert cluster.place("user") == "a"


def test_least_used_node_is_chosen(cluster):
    for name in ("a", "b", "c"):
        cluster.add_node(name)
    cluster.create(PODS, *(pod(f"pod-{number}", cpu="1") for number in range(6)))
    nodes = [cluster.place(f"pod-{number}") for number in range(6)]
    assert sorted(nodes[:3]) == sorted(nodes[3:]) == ["a", "b", "c"]


# --- the loop ------------------------------------------------------------------------------------------------------


async def test_loop_places_pods_as_they_come_and_ends():
    clock = TurnedClock()
    store = Store(clock.now)
    scheduler = Scheduler(store, clock)
    scheduler.start()
    store.create(NODES, node("a"))
    bound = set()
    all_bound = asyncio.Event()

    def watch(event):
        if event.resource_type is PODS and "nodeName" in event.object["spec"]:
            bound.add(event.object["metadata"]["name"])
            if len(bound) == 20:
                all_bound.set()

    store.subscribe(watch)
    for number in range(20):
        store.create(PODS, pod(f"pod-{number}"))
    await asyncio.wait_for(all_bound.wait(), 60)
    await scheduler.stop()
    store.create(PODS, pod("late"))
    await asyncio.sleep(0)
    assert "nodeName" not in store.get(PODS, NAMESPACE, "late")["spec"]


async def test_loop_waits_for_back_off_by_its_clock():
    clock = TurnedClock()
    store = Store(clock.now)
    scheduler = Scheduler(store, clock)
    scheduler.start()
    store.create(NODES, node("a"))
    store.create(PODS, pod("user", cpu="6"))

    async def attempts(number):
        while True:
            events = list(store.objects(EVENTS))
            if sum(event.get("series", {"count": 1})["count"] for event in events) >= number:
                return
            await asyncio.sleep(0)

    await asyncio.wait_for(attempts(1), 60)
    for _ in range(10):
        await asyncio.sleep(0)
    clock.turn(301)
    await asyncio.wait_for(attempts(2), 60)
    await scheduler.stop()
