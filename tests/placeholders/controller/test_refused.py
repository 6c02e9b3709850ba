"""The scheduler refuses a server although, in the service's model, the server fits once placeholders are preempted."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import resource_path
from dra_spawner.placeholders.planner.targets.policy import Grace, ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape, user_pod
from tests.placeholders.controller.world import at_work
from tests.polling import eventually
from tests.presence import present

ZONE = "topology.kubernetes.io/zone"
MESSAGE = "0/1 nodes are available: 1 node(s) are not to the liking of this scheduler."
OF_NO_CLASS = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}


@pytest.fixture
async def prepared(cluster: ClusterUnderTest) -> AsyncIterator[ClusterUnderTest]:
    machine, *slices = node("node-a", whole("gpu-0"))
    machine["metadata"]["labels"] = {**machine["metadata"].get("labels", {}), ZONE: "here"}
    await prepare(cluster, machine, *slices)
    yield cluster
    if cluster.kind == "real":
        await cluster.admin.delete(resource_path("v1", "persistentvolumes", name=volume_name(cluster)), missing_ok=True)


def volume_name(cluster: ClusterUnderTest) -> str:
    return f"{cluster.namespace}-home"


async def home_in_another_zone(cluster: ClusterUnderTest) -> dict[str, Any]:
    """Create a bound volume, as a returning user has one. Returns the fields of a pod that mounts it."""
    size = {"storage": "1Gi"}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "home", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {**OF_NO_CLASS, "resources": {"requests": size}, "volumeName": volume_name(cluster)},
    }
    (made,) = await cluster.publish(claim)
    there = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["elsewhere"]}]}
    reference = {"namespace": cluster.namespace, "name": "home", "uid": made["metadata"]["uid"]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(cluster)},
        "spec": {
            **OF_NO_CLASS,
            "capacity": size,
            "hostPath": {"path": "/nowhere"},
            "claimRef": reference,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [there]}},
        },
    }
    await cluster.admin.create(resource_path("v1", "persistentvolumes"), volume)
    return {"volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]}


async def start(cluster: ClusterUnderTest) -> str:
    """Create a server that the scheduler refuses. Returns the scheduler's message.

    The embedded cluster's scheduler agrees with the service. There the test acts as the pod's scheduler.
    """
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "ada-gpu"},
        "spec": {"spec": WHOLE["gpu"]},
    }
    pod = user_pod("ada", {"gpu": {"resourceClaimTemplateName": "ada-gpu"}})
    pod["metadata"]["labels"][names.SHAPE] = shape(WHOLE).id
    if cluster.kind == "real":
        pod["spec"] |= await home_in_another_zone(cluster)
        await cluster.publish(template, pod)
        return "1 node(s) didn't match PersistentVolume's node affinity"
    pod["spec"]["schedulerName"] = "picky"
    await cluster.publish(template, pod)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": MESSAGE}
    await cluster.admin.patch(cluster.path("pods", "ada", "status"), {"status": {"conditions": [condition]}})
    return MESSAGE.rstrip(".")


async def test_the_scheduler_is_believed(prepared: ClusterUnderTest) -> None:
    """Few preemptions are in vain. The reason has the scheduler's message, and a placeholder asks for a node."""
    gpu = shape(WHOLE)
    async with at_work(prepared, (gpu, ReplicaRange(1, 3))) as world:
        grace = Grace(preempt_again=timedelta(seconds=0.5), scheduler=timedelta(seconds=2))
        world.policy = replace(world.policy, grace=grace)
        await world.until_warm(gpu)
        begun = world.clock.now()
        message = await start(prepared)

        async def is_shown() -> bool:
            world.clock.jump_to(world.clock.now() + timedelta(seconds=0.5))
            await world.another_round()
            pending = present(world.reconciler.latest).pending
            return any(each.needs_node and message in each.reason for each in pending)

        await eventually(is_shown, message)
        ada = ObjectKey(prepared.namespace, "ada")
        await world.until(
            lambda: any(
                each.decision.kind == "create-placeholder" and each.decision.details.get("beside") == str(ada)
                for each in world.decisions.newest(1000)
            )
        )
        # After 0, 0.5, 2.5, 10.5 seconds and so on, by the clock of the service.
        most = 1 + math.log(1 + 6 * (world.clock.now() - begun).total_seconds(), 4)
        assert 1 <= sum(each.code == "preempted" and "without it" in each.reason for each in world.deletions()) <= most
        await world.until_warm(gpu)
        assert world.watch.snapshot.pods[ada].node_name == ""
