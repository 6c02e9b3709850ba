"""More than half an hour of anything that can happen to a cluster, its hub and two replicas, on clusters as they are.

The clock jumps, the cluster does not: API server, scheduler, controllers and kubelet are at work in real time. An
observer with a connection of its own checks the invariants after every step.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.planner.targets.policy import Grace, ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import prepare
from tests.service.chaos import CHOICES, MAX_NODES, Chaos
from tests.service.chaos_hub import Hub
from tests.service.chaos_observer import Observer
from tests.service.replica import publish_shapes
from tests.service.virtual_replica import VirtualReplica, VirtualTime
from tests.virtual_time.api import VirtualTimeApi

#: More than the one of CI where somebody looks for trouble: ``DRA_SPAWNER_CHAOS_SEEDS=20``.
SEEDS = int(os.environ.get("DRA_SPAWNER_CHAOS_SEEDS", "1"))
LONG = timedelta(minutes=33)
#: Longest run; it ends as soon as the events of `ENOUGH` have happened.
LONGEST = timedelta(minutes=99)
ENOUGH = Counter({"handed over": 3, "reserved": 5, "reserved in vain": 1})
REPLICAS = {
    "gpu": ReplicaRange(2, 3),
    "plain": ReplicaRange(2, 3),
    "full": ReplicaRange(1, 3),
    "both": ReplicaRange(1, 2),
}
#: Users that stay to the end. A pod that wants both devices of a node may not fit beside any other.
LAST_USERS = MAX_NODES - sum(REPLICAS[name].min for name in ("gpu", "full", "both"))
GRACE = Grace(orphan=timedelta(seconds=60))


@contextlib.asynccontextmanager
async def chaos_on(cluster: ClusterUnderTest, seed: int) -> AsyncIterator[Chaos]:
    """Two replicas at work, and the chaos around them."""
    await prepare(cluster)
    await publish_shapes(cluster, {name: CHOICES[name].shape for name in CHOICES})
    traits: dict[str, Any] = {
        "placeholders": {name: {"min": each.min, "max": each.max} for name, each in REPLICAS.items()},
        "orphan_seconds": GRACE.orphan.total_seconds(),
        "drain_after_seconds": 120.0,
        "new_node_seconds": 300.0,
        "ready_deadline_seconds": 400.0,
    }
    time = VirtualTime()
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(await VirtualTimeApi.connect(cluster.admin_kubeconfig, time.stamps))
        watch = await stack.enter_async_context(ClusterWatch(api))
        await watch.wait_synced()
        by_shape = {CHOICES[name].shape.id: each for name, each in REPLICAS.items()}
        observer = Observer(watch, time, cluster.namespace, by_shape, GRACE)
        replicas = []
        for _ in range(2):
            proxy = await stack.enter_async_context(cluster.fault_proxy())
            replicas.append(VirtualReplica(cluster, time, proxy, traits))
        chaos = Chaos(seed, cluster, time, observer, Hub(cluster, time, api), replicas)
        for _ in range(4):
            await chaos.node()
        for each in replicas:
            stack.push_async_callback(each.stop)
            await chaos.start(each)
        yield chaos


async def rest(chaos: Chaos) -> None:
    """Trouble ends: everything comes to rest, and nothing is left over."""
    while len(chaos.nodes) < MAX_NODES:
        await chaos.node()
    while len(chaos.hub.users) > LAST_USERS:
        await chaos.leave()
    await chaos.pull()
    for _ in range(10):
        await chaos.pass_time(120)
        await chaos.settle()
        await chaos.check()
    await chaos.until(lambda: not restless(chaos), "all is at rest")
    before = chaos.done_so_far()
    for _ in range(3):
        await chaos.pass_time(200)
        await chaos.settle()
        await chaos.check()
    assert chaos.done_so_far() == before, chaos.picture()
    assert restless(chaos) == [], chaos.picture()


def restless(chaos: Chaos) -> list[str]:
    """Differences from the state that the world must have in the end."""
    observer = chaos.observer
    found = [f"{pod} is pending" for pod in observer.pods() if not pod.node_name]
    for name, replicas in REPLICAS.items():
        of_shape = CHOICES[name].shape.id
        if len(observer.warm(of_shape)) != replicas.min:
            found.append(f"{len(observer.warm(of_shape))} warm placeholders for {name}")
    pods = observer.pods()
    named = {ObjectKey(pod.namespace, each.claim) for pod in pods for each in pod.claims if each.claim}
    found += [f"{each.key} is left over" for each in observer.claims() if each.key not in named]
    found += [f"{each.key} is reserved" for each in observer.claims() if _is_reserved(observer, each.key)]
    found += [f"{each.key} has {consumer}" for each in observer.claims() for consumer in of_others(each)]
    templates = {each.template for pod in pods for each in pod.claims}
    found += [
        f"{key} is left over"
        for key in observer.watch.observed_of(Kind.RESOURCE_CLAIM_TEMPLATE)
        if key.namespace == chaos.cluster.namespace and key.name not in templates
    ]
    return found


def of_others(claim: TrackedClaim) -> list[str]:
    """Consumers that Kubernetes never removes: all that are no pods."""
    return [each.resource for each in claim.consumers if each.resource != "pods"]


def _is_reserved(observer: Observer, key: ObjectKey) -> bool:
    claim = observer.watch.snapshot.claims[key]
    return names.RESERVED_FOR in claim.labels and key not in observer.handed


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_chaos(cluster: ClusterUnderTest, seed: int) -> None:
    async with chaos_on(cluster, seed) as chaos:
        await chaos.pull()
        await chaos.settle()
        while chaos.lasted < LONG or (chaos.lasted < LONGEST and not chaos.seen() >= ENOUGH):
            await chaos.step()
        assert chaos.seen() >= ENOUGH, chaos.picture()
        await rest(chaos)
