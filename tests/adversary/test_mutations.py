"""Thousands of mutated objects of each kind: each is an object or a broken one, and decisions go on beside them."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

import pytest
from kubernetes_asyncio.client import ApiClient

from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import RESOURCES, ClusterWatch
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decide import decide
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.service.figures.node_figures import NodeFigures
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import BrokenObject, Kind, decode
from tests.adversary.examples import EXAMPLES
from tests.adversary.hostile_objects import annotated, large_pods, largest_claim, largest_template
from tests.adversary.hostile_values import HOSTILE, deep, positions
from tests.adversary.pod_examples import user_pod
from tests.examples import example_count
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, node_objects
from tests.placeholders.planner.simulated_cluster import START

Json = dict[str, Any]

MUTATIONS: Final = example_count(1200)
"""Of each kind."""


def examples(kind: Kind) -> Iterator[Json]:
    """Objects with all that is decoded of their kind."""
    yield from EXAMPLES[RESOURCES[kind].plural]()


def mutated(obj: Json, random: Random) -> Json:
    """The object with one to three values replaced, removed or doubled; it keeps its kind, and a name of its own."""
    kind, name = obj["kind"], f"m{random.getrandbits(60):x}"
    obj = copy.deepcopy(obj)
    for _ in range(random.randint(1, 3)):
        container, key = random.choice(list(positions(obj)))
        match random.randrange(8):
            case 0:
                del container[key]
            case 1 if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            case _:
                container[key] = copy.deepcopy(random.choice(HOSTILE))
    if random.random() < 0.1:
        container, key = random.choice(list(positions(obj)))
        container[key] = deep()
    metadata = obj.get("metadata")
    obj["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), "name": name}
    if kind in (Kind.POD, Kind.RESOURCE_CLAIM, Kind.RESOURCE_CLAIM_TEMPLATE):
        obj["metadata"]["namespace"] = NAMESPACE
    else:
        obj["metadata"].pop("namespace", None)
    obj["kind"] = kind
    return obj


@pytest.fixture
async def watch() -> AsyncIterator[ClusterWatch]:
    """A watch of a cluster with two nodes, filled by the tests."""
    async with KubernetesApi(ApiClient(), owns_client=True) as api:
        watch = ClusterWatch(api)
        for name in ("n0", "n1"):
            node, item = node_objects(name, "10", 2, "5Gi", ("i",), START.isoformat())
            watch.put(Kind.NODE, node)
            watch.put(Kind.RESOURCE_SLICE, item)
        yield watch


async def decide_and_show(watch: ClusterWatch) -> None:
    """A round of decisions, and the page's figures of all nodes."""
    policy = Policy({PLAIN.id: PLAIN, GPU.id: GPU}, {PLAIN.id: ReplicaRange(2, 4), GPU.id: ReplicaRange(1, 4)})
    memory = PlannerState.fresh(START)
    for _ in range(2):
        view = View(watch.snapshot, datetime.now(UTC), namespaces=None, scheduler_message=watch.scheduler_message)
        memory = decide(view, policy, memory).planner_state
    nodes, _ = await NodeFigures(watch, ()).nodes(after="", limit=10_000, name="")
    assert "n0" in {each["name"] for each in nodes}
    json.dumps(nodes, allow_nan=False)


@pytest.mark.parametrize("kind", Kind)
def test_a_mutated_object_is_an_object_or_a_broken_one(kind: Kind) -> None:
    random = Random(kind.value)
    for example in examples(kind):
        assert not isinstance(decode(example), BrokenObject | None), decode(example)
        for number in range(MUTATIONS):
            obj = mutated(example, random)
            item = decode(obj)
            assert item is not None, number
            if isinstance(item, BrokenObject):
                assert (item.kind, item.key.name) == (kind, obj["metadata"]["name"])
                assert len(item.problem) < 2000, item.problem[:300]
                assert "cannot be decoded" not in item.problem, item.problem


@pytest.mark.parametrize("kind", Kind)
async def test_decisions_go_on_beside_mutated_objects(kind: Kind, watch: ClusterWatch) -> None:
    random = Random(f"beside {kind.value}")
    for example in examples(kind):
        for number in range(MUTATIONS // 4):
            watch.put(kind, mutated(example, random))
            if number % 60 == 0:
                await decide_and_show(watch)
    await decide_and_show(watch)
    assert [str(each) for each in watch.snapshot.broken if "cannot be decoded" in each.problem] == []


async def test_decisions_go_on_beside_the_largest_objects(watch: ClusterWatch) -> None:
    large = [*large_pods(), annotated(user_pod()), largest_claim("largest"), largest_template("largest")]
    for obj in large:
        obj["metadata"] |= {"namespace": NAMESPACE, "uid": obj["metadata"]["name"]}
        watch.put(Kind(obj["kind"]), obj)
        if obj["kind"] == "Pod":
            # One pending like a user's server, and one that is bound already.
            name = obj["metadata"]["name"]
            user = {**obj["metadata"], "name": f"{name}-user", "labels": user_pod()["metadata"]["labels"]}
            watch.put(Kind.POD, {**obj, "metadata": user})
            there = {**user, "name": f"{name}-there"}
            watch.put(Kind.POD, {**obj, "metadata": there, "spec": {**obj["spec"], "nodeName": "n0"}})
            assert ObjectKey(NAMESPACE, there["name"]) in watch.snapshot.pods
    await decide_and_show(watch)
    assert not list(watch.snapshot.broken)
