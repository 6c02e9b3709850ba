"""Which groups have their nodes for themselves, and how many slots are free there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dra_spawner import names
from dra_spawner.scale_ahead.controller.own_nodes import free_slots
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, PLAIN, gpu_claim, gpu_slice, user_manifest
from tests.placeholders.planner.world import World, hub

GPU_CLAIMS = {"gpu": gpu_claim()}


def on_one_node() -> World:
    found = hub((GPU, 2, 9), nodes=["a"], cpu="100", gpus=4)
    found.user("ann", GPU_CLAIMS)
    found.settle()
    assert found.users_on("a") == 1
    return found


def free(world: World, slots: int | None = 4, shape: str = GPU.id) -> int | None:
    """Free slots, as a forecast asks for them: two placeholders are on node a, too."""
    view = world.view()
    servers = [pod for pod in view.users.values() if view.shape_of(pod) == shape]
    return free_slots(view, shape, {"a": 3}, servers, slots)


def test_a_group_is_alone_on_its_nodes_until_other_servers_or_devices_come() -> None:
    world = on_one_node()
    assert free(world) == 3, "placeholders are in slots that servers leave free"
    assert free_slots(world.view(), GPU.id, {}, (), 4) == 0, "the first server comes to a node of its own"
    # What is on each new node, too, takes no slot.
    daemon = user_manifest("daemon", nodeName="a")
    daemon["metadata"]["labels"] = {names.COMPONENT: "continuous-image-puller"}
    world.create(daemon)
    assert free(world) == 3
    assert free(world, None) is None, "it is not known how many servers fit a node"
    assert free(world, 2) is None, "the node has more slots than is known"
    assert free(world, shape=PLAIN.id) is None, "a shape that others share nodes with"
    world.user("ben")
    world.settle()
    assert world.users_on("a") == 2
    assert free(world) is None


def test_a_job_with_a_device_takes_a_slot() -> None:
    world = on_one_node()
    world.user("job", GPU_CLAIMS, labels={names.COMPONENT: "training", names.SHAPE: ""})
    world.settle()
    assert world.node_of("job") == "a"
    assert free(world) is None


def cordon(world: World) -> None:
    world.snapshot.put(replace(world.snapshot.nodes["a"].node, is_unschedulable=True))


def label(world: World, **labels: str) -> None:
    node = world.snapshot.nodes["a"].node
    world.snapshot.put(replace(node, labels={**node.labels, **labels}))


def lose_images(world: World) -> None:
    node = world.snapshot.nodes["a"].node
    world.snapshot.put(
        replace(node, labels={key: each for key, each in node.labels.items() if key != names.IMAGES_READY})
    )


def close_a_device(world: World) -> None:
    changed = gpu_slice("a", 4, "")
    changed["spec"]["devices"][3]["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
    world.apply(changed)


@all_of_them(
    "change",
    {
        "the node is cordoned": cordon,
        "the node is drained": lambda world: label(world, **{names.DRAINING: names.ORDERED}),
        "the node has lost its images": lose_images,
        "its devices are gone": lambda world: world.lose_slice("a"),
        "one of its devices is closed": close_a_device,
    },
)
def test_slots_that_no_server_can_take_are_not_free(change: Callable[[World], None]) -> None:
    world = on_one_node()
    assert free(world) == 3
    change(world)
    assert free(world) == 0
