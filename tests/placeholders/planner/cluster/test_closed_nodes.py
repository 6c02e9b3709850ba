"""A node that a person has closed gets no server: neither placed nor warm, reserved or by preemption; each text says so."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.dra.model.devices import Taint
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import DeletePlaceholder
from dra_spawner.placeholders.planner.answers.outlook import BusyServers, Outlook, Supply, find_outlook
from dra_spawner.placeholders.planner.answers.placement import Placement
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.targets.node_conditions import (
    drain_mark,
    refusing_drained_nodes,
    requiring_readiness,
)
from dra_spawner.placeholders.planner.targets.pod_shapes import OwnShapes
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.refusal_text import CLOSED, DRAINED, DRAINED_AND_FULL, NO_MACHINE
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, gpu_claim
from tests.placeholders.planner.simulated_cluster import START
from tests.placeholders.planner.world import World, hub

ORDER = "set by user ada: repair"


def start(world: World, name: str, shape: Shape, **kind: Any) -> None:
    """A user's pod comes, as DRASpawner makes it now."""
    affinity = refusing_drained_nodes({}, secrets.token_hex(5))
    world.user(name, shape.claims, requires_ready=False, affinity=requiring_readiness(affinity), **kind)


def drain(world: World, *nodes: str) -> None:
    world.policy = replace(world.policy, drained=dict.fromkeys(nodes, ORDER))
    world.decide()


def spared(world: World, node: str) -> set[str | None]:
    """Marks of the node's labels."""
    labels = world.snapshot.nodes[node].node.labels
    prefix = names.DRAIN_SPARES_PREFIX
    return {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}


def mark_of(world: World, name: str) -> str | None:
    return drain_mark(world.snapshot.pods[ObjectKey(NAMESPACE, name)])


@pytest.mark.parametrize("shape", [GPU, PLAIN], ids=["gpu", "plain"])
def test_four_of_four_servers_start_elsewhere(shape: Shape) -> None:
    """The drained node is the busiest, has warm placeholders, and could be freed by preemption."""
    world = hub((shape, 2, 9), nodes=("a",), cpu="9", gpus=4)
    start(world, "first", shape)
    world.settle()
    drain(world, "a")
    world.node("b", cpu="3", gpus=2)
    world.node("c", cpu="3", gpus=2)
    world.run(0.2, every_seconds=1)
    for number in range(4):
        placement = world.placement(shape)
        assert placement.node != "a"
        assert placement.placeholder is None or placement.placeholder.node != "a"
        start(world, f"user-{number}", shape)
        world.run(0.2, every_seconds=1)
        assert world.node_of(f"user-{number}") in ("b", "c")
    assert world.users_on("a") == 1, "the server that ran there stays"
    assert world.placeholders_on("a") == 0


def test_no_placement_comes_before_the_label_is_there() -> None:
    """The order is known; its label is still to be written."""
    for shape in (GPU, PLAIN):
        world = hub((shape, 1, 9), nodes=("a",), cpu="9", gpus=2)
        world.policy = replace(world.policy, drained={"a": ORDER})
        placement = world.placement(shape)
        assert (placement.state, placement.node) == (AvailabilityState.WAITS, "")


def test_no_placeholder_is_preempted_there() -> None:
    """For no server: not for one that is pending since before the order, and not for one without the condition."""
    world = hub((GPU, 1, 1), nodes=("a",), gpus=1)
    world.policy = replace(world.policy, budget=replace(world.policy.budget, per_second=0.0, burst=0))
    drain(world, "a")
    world.user("old", {"gpu": gpu_claim()})
    start(world, "new", GPU)
    world.run(1, every_seconds=1)
    assert [each for each in world.actions(DeletePlaceholder) if each.pod is not None] == []


def told(world: World, name: str) -> str:
    return next(each.reason for each in world.last.pending if each.pod.name == name)


def test_where_all_nodes_are_drained_each_text_says_it() -> None:
    world = hub((GPU, 0, 9), nodes=("a", "b"), gpus=1)
    drain(world, "a", "b")
    start(world, "ada", GPU)
    world.run(0.1, every_seconds=1)
    assert world.pending[0] == "ada"
    reason = f"it would fit on node a, which takes no new server: it is drained, {ORDER}; `dra-spawner drain a --end` ends it"
    assert told(world, "ada") == reason
    placement = world.placement(GPU)
    assert (placement.state, placement.reason.startswith(reason)) == (AvailabilityState.WAITS, True)
    view = world.view()
    found = find_outlook(view, world.policy, GPU, NAMESPACE, placement, Supply(), lambda: BusyServers(view))
    assert (found.state, found.sentence) == (
        AvailabilityState.CLOSED,
        DRAINED.waiting,
    )
    # The order ends: the same pod starts.
    world.policy = replace(world.policy, drained={})
    world.run(0.5, every_seconds=1)
    assert world.node_of("ada") in ("a", "b")
    assert world.labelled(names.DRAINING) == []
    assert spared(world, "a") == spared(world, "b") == set()


def outlook_of(world: World, view: View, placement: Placement) -> Outlook:
    return find_outlook(view, world.policy, GPU, NAMESPACE, placement, Supply(), lambda: BusyServers(view))


def test_full_drained_nodes_are_told_from_nodes_in_use() -> None:
    world = hub((GPU, 0, 9), nodes=("a", "b"), gpus=1)
    start(world, "ada", GPU)
    world.settle()
    used, free = sorted("ab", key=lambda each: each != world.node_of("ada"))
    sentences = {}
    for nodes in ((used, free), (free,), (used,)):
        drain(world, *nodes)
        world.decide()
        view = world.view()
        placement = world.placement(GPU)
        if placement.state is AvailabilityState.WAITS:
            sentences[nodes] = outlook_of(world, view, placement).sentence
        else:
            assert (nodes, placement.node) == ((used,), free)
    assert set(sentences.values()) == {DRAINED.waiting}


def test_texts_say_until_when_and_how_it_ends() -> None:
    """Of two orders, the one that ends first counts. A drained node that is cordoned, too, is closed by both."""
    world = hub((GPU, 0, 9), nodes=("a", "b"), gpus=1)
    drain(world, "a", "b")
    ends = {"a": START + timedelta(hours=9), "b": START + timedelta(hours=3)}
    world.policy = replace(world.policy, drained_until=ends)
    cordon(world, "b")
    placement = world.placement(GPU)
    assert placement.sentence == (
        "What could run it is taken out of use by an administrator until 2026-03-02 12:00 UTC. "
        "It starts when that is back in use, or when enough else is free."
    )
    assert placement.reason.startswith(
        f"it would fit on node b, which takes no new server: it is drained, {ORDER}; `dra-spawner drain b --end` ends "
        "it, and it is cordoned; `kubectl uncordon b` opens it"
    )


def cordon(world: World, *nodes: str) -> None:
    for name in nodes:
        world.snapshot.put(replace(world.snapshot.nodes[name].node, is_unschedulable=True))


def test_cordoned_nodes_closed_devices_and_no_node_have_texts_of_their_own() -> None:
    world = hub((GPU, 0, 9), nodes=("a",), gpus=1)
    cordon(world, "a")
    placement = world.placement(GPU)
    assert (placement.sentence, "`kubectl uncordon a` opens it" in placement.reason) == (CLOSED.waiting, True)
    for key, sentence in ((names.DRAINED_DEVICE, DRAINED.now), ("example.com/upkeep", "The devices that this")):
        world = hub((GPU, 0, 9), nodes=("a",), gpus=1)
        (item,) = world.snapshot.slices.values()
        taints = (Taint(key, "", "NoSchedule"),)
        world.snapshot.put(replace(item, devices=tuple(replace(each, taints=taints) for each in item.devices)))
        placement = world.placement(GPU)
        found = outlook_of(world, world.view(), placement)
        assert (found.state, found.sentence.startswith(sentence)) == (AvailabilityState.CLOSED, True)
        assert found.sentence.endswith(
            f"or when {'enough else' if key == names.DRAINED_DEVICE else 'another one'} is free."
        )
        assert (f"drain {'/'.join(item.devices[0].id)} --end" in placement.reason) is (key == names.DRAINED_DEVICE)
    world = hub((GPU, 0, 9))
    found = outlook_of(world, world.view(), world.placement(GPU))
    assert (found.state, found.sentence) == (AvailabilityState.WAITS, NO_MACHINE.waiting)


def test_a_closed_device_that_is_in_use_is_closed_all_the_same() -> None:
    world = hub((GPU, 0, 9), nodes=("a",), gpus=1)
    start(world, "ada", GPU)
    world.settle()
    (item,) = world.snapshot.slices.values()
    taints = (Taint(names.DRAINED_DEVICE, "", "NoSchedule"),)
    world.snapshot.put(replace(item, devices=tuple(replace(each, taints=taints) for each in item.devices)))
    found = outlook_of(world, world.view(), world.placement(GPU))
    assert (found.state, found.sentence) == (AvailabilityState.CLOSED, DRAINED_AND_FULL.waiting)


def test_one_more_node_like_a_drained_one_would_help() -> None:
    world = hub((GPU, 0, 9), nodes=("a",), gpus=1)
    drain(world, "a")
    world.policy = replace(world.policy, node_kinds_complete=True)
    assert (world.placement(GPU).state, world.placement(GPU).like) == (AvailabilityState.WAITS, "a")


def kubelet_keeps(world: World, name: str) -> bool:
    """Whether a kubelet that restarts takes the pod of its node again: it looks at the required node affinity."""
    pod = world.snapshot.pods[ObjectKey(NAMESPACE, name)]
    return pod.selects_node(pod.node_name, world.snapshot.nodes[pod.node_name].node.labels)


def test_a_kubelet_that_restarts_on_a_drained_node_ends_no_server() -> None:
    world = hub((PLAIN, 0, 9), nodes=("a",))
    start(world, "ada", PLAIN)
    world.run(2, every_seconds=10)
    start(world, "bob", PLAIN)
    world.run(2, every_seconds=10)
    drain(world, "a")
    world.settle()
    assert spared(world, "a") == {mark_of(world, "ada"), mark_of(world, "bob")}
    assert kubelet_keeps(world, "ada")
    assert kubelet_keeps(world, "bob")
    start(world, "cy", PLAIN)
    world.run(2, every_seconds=10)
    assert world.pending[0] == "cy"
    world.leave("ada")
    world.settle()
    assert spared(world, "a") == {mark_of(world, "bob")}
    world.leave("bob")
    world.settle()
    assert spared(world, "a") == set()


def test_no_pod_comes_that_was_pending_before_the_servers_there_started() -> None:
    world = hub((PLAIN, 0, 9), nodes=("a",), cpu="9")
    start(world, "first", PLAIN, cpu="5")
    world.run(1, every_seconds=10)
    start(world, "big", PLAIN, cpu="6")
    world.run(2, every_seconds=10)
    for name in ("ada", "bob"):
        start(world, name, PLAIN, cpu="2")
    world.run(0.5, every_seconds=10)
    drain(world, "a")
    for name in ("first", "ada"):
        world.leave(name)
    world.run(2, every_seconds=10)
    assert world.pending == ["big"]
    assert kubelet_keeps(world, "bob")
    world.policy = replace(world.policy, drained={})
    world.run(0.5, every_seconds=5)
    assert world.node_of("big") == "a"


def test_no_pod_opens_a_drained_node() -> None:
    """Somebody's pod has a mark as a server has it; a pending server does not come either, later."""
    world = hub((PLAIN, 0, 9), nodes=("a",))
    affinity = refusing_drained_nodes({}, secrets.token_hex(5))
    world.user("mallory", namespace="elsewhere", requires_ready=False, affinity=affinity)
    start(world, "ada", PLAIN)
    world.settle()
    drain(world, "a")
    for _ in range(3):
        world.run(1, every_seconds=10)
        start(world, f"user-{world.now:%M}", PLAIN)
        world.schedule()
    assert world.users_on("a") == 1


def test_an_older_service_has_written_its_label() -> None:
    """It emptied the node; that is a preference, and ends when a server comes."""
    world = hub((PLAIN, 0, 9), nodes=("a",))
    obj = world.objects["Node", ObjectKey("", "a")]
    obj["metadata"]["labels"][names.DRAINING] = names.TRUE
    world.apply(obj)
    start(world, "ada", PLAIN)
    world.run(0.2, every_seconds=1)
    assert world.node_of("ada") == "a"
    assert world.labelled(names.DRAINING) == []


AFFINITIES: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "a term": {"nodeAffinity": requiring_readiness({})["nodeAffinity"]},
    "two terms": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                ]
            }
        },
        "podAffinity": {"untouched": 1},
    },
    "an administrator's own": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": names.DRAINING, "operator": "DoesNotExist"}]}]
            }
        }
    },
}


@all_of_them("affinity", AFFINITIES)
def test_the_condition_is_added_once_and_the_shape_stays(affinity: Mapping[str, Any]) -> None:
    mark = secrets.token_hex(5)
    once = refusing_drained_nodes(affinity, mark)
    assert refusing_drained_nodes(once, mark) == once
    assert refusing_drained_nodes(once) == refusing_drained_nodes(affinity)
    world = World(hub((PLAIN, 0, 9)).policy)
    world.user("plain", requires_ready=False, affinity=dict(affinity))
    shape = world.snapshot.pods[ObjectKey(NAMESPACE, "plain")].labels[names.SHAPE]
    published = replace(PLAIN, id=shape, node_fields=_node_fields(affinity))
    world.user("ada", requires_ready=False, affinity=requiring_readiness(once))
    pod = world.snapshot.pods[ObjectKey(NAMESPACE, "ada")]
    assert OwnShapes().of(pod, published, world.snapshot)[0] == published


def _node_fields(affinity: Mapping[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution"}
    nodes = {key: value for key, value in affinity.get("nodeAffinity", {}).items() if key in required}
    return {"affinity": {"nodeAffinity": nodes}} if nodes else {}


def test_simulated_servers_refuse_drained_nodes() -> None:
    pod, _ = simulated_user(PLAIN, NAMESPACE)
    for labels, allowed in (({}, True), ({names.DRAINING: names.EMPTYING}, True), ({names.DRAINING: "ordered"}, False)):
        assert pod.selects_node("n", {names.IMAGES_READY: "true", **labels}) is allowed
    assert isinstance(pod, Pod)


def test_a_persons_drain_and_an_emptying_have_causes_of_their_own() -> None:
    for is_ordered, cause in ((True, Cause.DRAIN), (False, Cause.EMPTYING)):
        world = hub((PLAIN, 2, 9), nodes=("a",), cpu="9")
        world.set_replicas(PLAIN, 2, 9, floor=0)
        world.node("b", cpu="9")
        if is_ordered:
            drain(world, "a")
        world.run(60, every_seconds=20)
        assert {each.cause for each in world.actions(DeletePlaceholder)} == {cause}
