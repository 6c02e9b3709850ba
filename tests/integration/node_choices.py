"""Random nodes and pods, and what our model expects of the real scheduler."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.dra.allocation.allocator import AllocatedState
from dra_spawner.dra.model.pools import SliceIndex
from dra_spawner.kube.client.api import resource_path
from dra_spawner.simulator.model.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.scheduler_preemption import best_preemptions, preemption_candidates, resolve
from dra_spawner.simulator.scheduler.scheduling import (
    ChosenNode,
    ClusterView,
    SchedulingAttempt,
    SchedulingQuestion,
    Unschedulable,
)
from tests.cluster.scheduler_words import in_common_words
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.scheduling_script import scheduled
from tests.presence import present

# On all nodes from the start: one that has to be pulled would change the scores a moment later.
IMAGE = "example.com/image:1"


def nodes(chance: random.Random) -> list[dict[str, Any]]:
    """Nodes of all sizes in three zones, some of them unwelcoming."""
    made = []
    for number in range(6):
        capacity = {
            "pods": "25",
            "cpu": str(chance.choice((2, 4, 7, 8))),
            "memory": f"{chance.choice((3, 8, 13, 16))}Gi",
        }
        labels = {"zone": chance.choice("abc"), "cores": capacity["cpu"]}
        taints = []
        if chance.random() < 0.5:
            effect = chance.choice(("NoSchedule", "PreferNoSchedule", "PreferNoSchedule"))
            taints.append({"key": chance.choice(("gpu", "old")), "value": "yes", "effect": effect})
        node = node_manifest(f"node-{number}", capacity=capacity, labels=labels, taints=taints, images=[IMAGE])
        made.append({"apiVersion": "v1", "kind": "Node", **node})
    return made


def pod(name: str, chance: random.Random) -> dict[str, Any]:
    """A pod with random wishes."""
    requests = {}
    if chance.random() < 0.8:
        requests["cpu"] = chance.choice(("50m", "130m", "333m", "1", "1500m"))
    if chance.random() < 0.8:
        requests["memory"] = chance.choice(("64Mi", "100M", "700Mi", "1Gi", "1.5Gi"))
    containers = [{"name": "main", "image": IMAGE, "resources": {"requests": requests}}]
    if chance.random() < 0.2:
        containers.append({"name": "side", "image": IMAGE})
    affinity: dict[str, Any] = {}
    if chance.random() < 0.4:
        affinity["nodeAffinity"] = node_affinity(chance)
    for kind, likely in (("podAffinity", 0.25), ("podAntiAffinity", 0.25)):
        if chance.random() < likely:
            affinity[kind] = pod_affinity(chance)
    spec: dict[str, Any] = {"containers": containers, "terminationGracePeriodSeconds": 0, "affinity": affinity}
    if chance.random() < 0.3:
        spec["tolerations"] = [{"key": chance.choice(("gpu", "old")), "operator": "Exists"}]
    if chance.random() < 0.15:
        spec["nodeSelector"] = {"zone": chance.choice("abc")}
    labels = {"app": chance.choice(("web", "db")), "team": chance.choice(("red", "blue"))}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def node_affinity(chance: random.Random) -> dict[str, Any]:
    terms = [
        {
            "matchExpressions": [
                {"key": "zone", "operator": chance.choice(("In", "NotIn")), "values": [chance.choice("abc")]}
            ]
        },
        {"matchExpressions": [{"key": "cores", "operator": chance.choice(("Gt", "Lt")), "values": ["4"]}]},
    ]
    if chance.random() < 0.4:
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [chance.choice(terms)]}}
    preferred = [{"weight": chance.randint(1, 100), "preference": term} for term in terms]
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred[: chance.randint(1, 2)]}


def pod_affinity(chance: random.Random) -> dict[str, Any]:
    key = chance.choice(("zone", "kubernetes.io/hostname"))
    labels = {"app": chance.choice(("web", "db")), "team": chance.choice(("red", "blue"))}
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    if chance.random() < 0.3:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": chance.randint(1, 100), "podAffinityTerm": term}]
    }


class Expectation:
    """The model's expectation for a pod on the present cluster."""

    def __init__(self, present: list[dict[str, Any]], pods: list[dict[str, Any]], candidate: dict[str, Any]) -> None:
        decoded = [Pod.from_json(each) for each in pods]
        states = []
        for each in sorted(present, key=lambda obj: obj["metadata"]["name"]):
            node = SchedulableNode.from_json(each)
            states.append(NodeState.of(node, [other for other in decoded if other.node_name == node.name]))
        view = ClusterView(nodes=states, slices=SliceIndex([]), classes={}, allocated=AllocatedState())
        self.best: list[str] = []
        attempt = SchedulingAttempt(view, SchedulingQuestion(Pod.from_json(candidate)), self._choose)
        decision = attempt.decide()
        self.message = ""
        self.victims: dict[str, set[str]] = {}
        if isinstance(decision, ChosenNode) and not self.best:
            self.best = [decision.node_name]
        if isinstance(decision, Unschedulable):
            resolution = resolve(attempt, decision, lambda claims: claims[0])
            self.message = decision.message(resolution.message)
            if resolution.preemption is not None:
                candidates, _ = preemption_candidates(attempt, decision)
                for preemption in best_preemptions(candidates):
                    self.victims[preemption.node_name] = {victim.name for victim in preemption.victims}

    def _choose(self, options: Any) -> NodeState:
        self.best = [state.node.name for state in options]
        chosen: NodeState = options[0]
        return chosen


async def expectation(cluster: ClusterUnderTest, candidate: dict[str, Any], priority: int = 0) -> Expectation:
    present = (await cluster.admin.list(resource_path("v1", "nodes")))["items"]
    pods = (await cluster.admin.list(cluster.path("pods")))["items"]
    admitted = {
        **candidate,
        "metadata": {**candidate["metadata"], "namespace": cluster.namespace},
        "spec": {**candidate["spec"], "priority": priority},
    }
    return Expectation(present, pods, admitted)


async def known_to_scheduler(cluster: ClusterUnderTest, nodes: Iterable[dict[str, Any]]) -> None:
    """Wait until the scheduler, too, knows that these nodes are ready: on each, a pod is scheduled, and goes."""
    paths = []
    for number, node in enumerate(nodes):
        spec = {
            "containers": [{"name": "main", "image": IMAGE}],
            "nodeSelector": {"kubernetes.io/hostname": node["metadata"]["name"]},
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": each["key"], "operator": "Exists"} for each in node["spec"].get("taints") or ()],
        }
        name = f"known-{number}"
        await cluster.publish({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        paths.append(cluster.path("pods", name))
    for path in paths:
        await cluster.wait_for(path, lambda obj: bool(obj["spec"].get("nodeName")))
        await cluster.admin.delete(path)
    await cluster.wait_gone(cluster.path("pods"))


async def refusals(cluster: ClusterUnderTest, chance: random.Random, candidates: Iterable[dict[str, Any]]) -> list[str]:
    """Create pods one by one, each placed as our model says; the scheduler's messages about pods without a node."""
    await cluster.start_kubelet(fake=True, events=False)
    made = nodes(chance)
    await cluster.publish(*made)
    await known_to_scheduler(cluster, made)
    refused = []
    for candidate in candidates:
        path = cluster.path("pods", candidate["metadata"]["name"])
        expected = await expectation(cluster, candidate)
        await cluster.publish(candidate)
        decided = await cluster.wait_for(path, lambda obj: scheduled(obj) is not None)
        found = decided["spec"].get("nodeName")
        if found is None:
            message = in_common_words(present(scheduled(decided))["message"])
            assert (expected.best, expected.message) == ([], message), candidate
            refused.append(message)
        else:
            assert found in expected.best, candidate
        if found is None or chance.random() < 0.3:
            await cluster.admin.delete(path)
            await cluster.wait_gone(path)
    return refused
