"""The real scheduler picks one of the nodes that our model finds best."""

from __future__ import annotations

import random
from datetime import datetime

import pytest

from dra_spawner.devcluster.clock import ScaledClock
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import priority_class
from tests.integration.node_choices import (
    IMAGE,
    expectation,
    known_to_scheduler,
    pod,
    refusals,
)

STEPS = 50


@pytest.mark.promise("The service expects a server on the node that the scheduler picks.")
@pytest.mark.parametrize("seed", [1, 2])
async def test_real_scheduler_picks_one_of_our_best_nodes(real_cluster: ClusterUnderTest, seed: int):
    cluster, chance = real_cluster, random.Random(seed)
    refused = await refusals(cluster, chance, (pod(f"pod-{step}", chance) for step in range(STEPS)))
    assert 0 < len(refused) < STEPS / 2


@pytest.mark.parametrize("seed", [1, 2])
async def test_real_scheduler_preempts_the_expected_victims(real_cluster: ClusterUnderTest, seed: int):
    cluster, chance = real_cluster, random.Random(seed)
    # No two pods start in the same second: else the order of events decides, and the objects do not show it (see the
    # next test). Between nodes of the same cost, the scheduler decides by chance.
    await cluster.start_kubelet(fake=True, events=False, clock=ScaledClock(speed=100))
    ranks = {f"{cluster.namespace}-{value}": value for value in (-5, 0, 5, 100)}
    for name, value in ranks.items():
        await cluster.publish(priority_class(name, value))
    made = [node_manifest(f"node-{number}", capacity={"cpu": "4"}, images=[IMAGE]) for number in range(3)]
    await cluster.publish(*({"apiVersion": "v1", "kind": "Node", **each} for each in made))
    await known_to_scheduler(cluster, made)
    preempted = 0
    for step in range(STEPS):
        name, rank = f"pod-{step}", chance.choice(sorted(ranks))
        requests = {"cpu": chance.choice(("500m", "1", "1500m", "2"))}
        containers = [{"name": "main", "image": IMAGE, "resources": {"requests": requests}}]
        spec = {"containers": containers, "terminationGracePeriodSeconds": 0, "priorityClassName": rank}
        candidate = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        expected = await expectation(cluster, candidate, ranks[rank])
        before = {each["metadata"]["name"] for each in (await cluster.admin.list(cluster.path("pods")))["items"]}
        await cluster.publish(candidate)
        context = f"step {step}: {requests} {rank}"
        if not expected.best and not expected.victims:
            await cluster.wait_event(name, "FailedScheduling", text=expected.message)
            await cluster.admin.delete(cluster.path("pods", name))
            await cluster.wait_gone(cluster.path("pods", name))
            continue
        found = (await cluster.wait_running(name))["spec"]["nodeName"]
        left = {each["metadata"]["name"] for each in (await cluster.admin.list(cluster.path("pods")))["items"]}
        if expected.best:
            assert (found in expected.best, before - left) == (True, set()), context
        else:
            preempted += 1
            assert before - left == expected.victims.get(found), context
    assert preempted > 2


class SameSecond(ScaledClock):
    """All that a test does happens within a second: heartbeats differ, start times of pods do not."""

    def __init__(self) -> None:
        super().__init__()
        self._start = super().now().replace(microsecond=0)

    def now(self) -> datetime:
        return self._start + (super().now() - self._start) / 10_000


@pytest.mark.parametrize("seed", [1, 2])
async def test_victims_of_equal_priority_and_start(
    embedded_cluster: ClusterUnderTest, real_cluster: ClusterUnderTest, seed: int
):
    """Between equal victims, the position in the scheduler's list of the node's pods decides; earlier events decide it.

    No pod is smaller than half of the largest, so there are two victims at most. More of them kube-scheduler deletes
    at the same time, and the order of its list is left to chance from then on.
    """
    clusters, chance = (embedded_cluster, real_cluster), random.Random(seed)
    ranks = {"low": -5, "middle": 0, "high": 100}
    for cluster in clusters:
        await cluster.start_kubelet(fake=True, events=False, clock=SameSecond())
        for name, value in ranks.items():
            await cluster.publish(priority_class(f"{cluster.namespace}-{name}", value))
        node = node_manifest("node", capacity={"cpu": "8"}, images=[IMAGE])
        await cluster.publish({"apiVersion": "v1", "kind": "Node", **node})
    present: dict[str, tuple[int, int]] = {}
    choices = 0
    for step in range(2 * STEPS):
        (rank,) = chance.choices(sorted(ranks), weights=[1, 4, 2])
        name, cpu = f"pod-{step}", chance.choice((1000, 1500, 2000))
        gone = chance.choice(sorted(present)) if len(present) > 3 and chance.random() < 0.3 else None
        stays = sum(size for value, size in present.values() if value >= ranks[rank])
        if gone is None and stays + cpu > 8000:
            continue  # no pod to preempt
        left = []
        for cluster in clusters:
            if gone is not None:
                await cluster.admin.delete(cluster.path("pods", gone))
                await cluster.wait_gone(cluster.path("pods", gone))
            else:
                container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": f"{cpu}m"}}}
                spec = {
                    "containers": [container],
                    "terminationGracePeriodSeconds": 0,
                    "priorityClassName": f"{cluster.namespace}-{rank}",
                }
                await cluster.publish({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
                await cluster.wait_running(name)
            pods = (await cluster.admin.list(cluster.path("pods")))["items"]
            assert len({each["status"]["startTime"] for each in pods}) < 2
            left.append({each["metadata"]["name"] for each in pods})
        assert left[0] == left[1], f"step {step}: {cpu}m {rank}, before {present}"
        if gone is None:
            spared = {value for each, (value, _) in present.items() if each in left[0]}
            choices += any(value in spared for each, (value, _) in present.items() if each not in left[0])
            present[name] = ranks[rank], cpu
        present = {each: what for each, what in present.items() if each in left[0]}
    assert choices > 2
