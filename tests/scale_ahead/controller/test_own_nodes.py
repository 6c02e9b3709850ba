"""Which groups have their nodes for themselves."""

from __future__ import annotations

from dra_spawner import names
from dra_spawner.scale_ahead.controller.own_nodes import has_own_nodes
from tests.placeholders.planner.objects import GPU, PLAIN, gpu_claim, user_manifest
from tests.placeholders.planner.world import World, hub


def on_one_node() -> World:
    found = hub((GPU, 2, 9), nodes=["a"], cpu="100", gpus=4)
    found.user("ann", GPU_CLAIMS)
    found.settle()
    assert found.users_on("a") == 1
    return found


GPU_CLAIMS = {"gpu": gpu_claim()}


def test_a_group_is_alone_on_its_nodes_until_other_servers_or_devices_come() -> None:
    world = on_one_node()
    assert has_own_nodes(world.view(), GPU.id, {"a": 3}, 4)
    assert has_own_nodes(world.view(), GPU.id, {}, 4), "the first server comes to a node of its own"
    # What is on each new node, too, takes no slot.
    daemon = user_manifest("daemon", nodeName="a")
    daemon["metadata"]["labels"] = {names.COMPONENT: "continuous-image-puller"}
    world.create(daemon)
    assert has_own_nodes(world.view(), GPU.id, {"a": 3}, 4)
    assert not has_own_nodes(world.view(), GPU.id, {"a": 3}, None), "it is not known how many servers fit a node"
    assert not has_own_nodes(world.view(), GPU.id, {"a": 3}, 2), "the node has more slots than is known"
    assert not has_own_nodes(world.view(), PLAIN.id, {"a": 1}, 4), "a shape that others share nodes with"
    world.user("ben")
    world.settle()
    assert world.users_on("a") == 2
    assert not has_own_nodes(world.view(), GPU.id, {"a": 3}, 4)


def test_a_job_with_a_device_takes_a_slot() -> None:
    world = on_one_node()
    world.user("job", GPU_CLAIMS, labels={names.COMPONENT: "training", names.SHAPE: ""})
    world.settle()
    assert world.node_of("job") == "a"
    assert not has_own_nodes(world.view(), GPU.id, {"a": 3}, 4)
