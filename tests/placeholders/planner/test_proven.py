"""Only running placeholders are offered: volumes, image and devices work there. One that does not start is replaced."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder
from dra_spawner.placeholders.planner.cluster.view import Placeholder
from dra_spawner.placeholders.planner.targets.policy import Renewal
from dra_spawner.simulator.model.pod_parts import UnhealthyDevice
from dra_spawner.simulator.model.pods import Pod
from tests.placeholders.planner.objects import GPU
from tests.placeholders.planner.world import World, hub


def world_with(*nodes: str, broken: tuple[str, ...]) -> World:
    """A target of one placeholder, and nodes with a device each, some of them broken."""
    world = hub((GPU, 1, 5))
    world.broken_nodes = frozenset(broken)
    for name in nodes:
        world.node(name, gpus=1)
    world.settle()
    return world


def only(world: World) -> Placeholder:
    (found,) = world.view().placeholders.values()
    return found


def test_a_placeholder_that_does_not_run_yet_is_not_offered() -> None:
    world = world_with("a", broken=("a",))
    placeholder = only(world)
    assert placeholder.node == "a"
    assert world.placement(GPU).state is not AvailabilityState.READY
    world.snapshot.put(replace(placeholder.pod, phase="Running"))
    assert world.placement(GPU).state is AvailabilityState.READY


def test_a_placeholder_that_does_not_start_is_replaced_on_another_node() -> None:
    world = world_with("a", "b", broken=("a",))
    placeholder = only(world)
    if placeholder.node != "a":  # the scheduler finds both nodes equal
        world.broken_nodes = frozenset(("b",))
        world.snapshot.put(replace(placeholder.pod, phase="Pending"))
    node = placeholder.node
    world.run(minutes=1.5)
    assert not world.ended(Cause.BROKEN), "it may take its time"
    world.run(minutes=2)
    (end,) = world.ended(Cause.BROKEN)
    assert end.reason.startswith(
        f"its container does not run on node {node} after 2 minutes (gpu.example.com/{node}/gpu-0"
    )
    created = world.actions(CreatePlaceholder)
    assert [each.avoid for each in created] == [(), (node,)]
    assert only(world).node not in ("", node)
    assert world.placement(GPU).state is AvailabilityState.READY


def test_the_kubelets_reason_is_told() -> None:
    world = world_with("a", broken=("a",))
    why = "ErrImagePull: registry.k8s.io/pause:3.10: not found"
    world.snapshot.put(replace(only(world).pod, waits_because=why))
    world.run(minutes=2.5)
    assert world.ended(Cause.BROKEN)[0].reason.endswith(f": {why}")


def test_without_another_node_creation_is_retried_later_and_later() -> None:
    world = world_with("a", broken=("a",))
    world.policy = replace(world.policy, renewal=Renewal(max_failed=1_000))
    world.run(minutes=30)
    times = [at for at, action in world.log if isinstance(action, CreatePlaceholder)]
    gaps = [(after - before).total_seconds() / 60 for before, after in pairwise(times)]
    assert 3 <= len(gaps) <= 14
    assert gaps[-1] > gaps[0], "the delay doubles"
    world.broken_nodes = frozenset()
    world.run(minutes=15)
    assert world.placement(GPU).state is AvailabilityState.READY, "it heals"


def test_a_pod_that_its_kubelet_has_not_seen_yet_is_not_broken() -> None:
    """The node may be lost, or its kubelet may be restarting."""
    world = world_with("a", broken=())
    world.snapshot.put(replace(only(world).pod, phase="Pending", start_time=""))
    world.broken_nodes = frozenset(("a",))
    pod = only(world).pod
    world.snapshot.put(replace(pod, start_time=""))
    world.kubelets_start = False
    world.run(minutes=10)
    assert not world.ended(Cause.BROKEN)


def test_an_unhealthy_device_is_not_offered() -> None:
    world = world_with("a", "b", broken=())
    placeholder = only(world)
    world.snapshot.put(replace(placeholder.pod, unhealthy_devices=(UnhealthyDevice("claim:gpu"),)))
    assert world.placement(GPU).state is not AvailabilityState.READY
    world.run(minutes=1)
    (end,) = world.ended(Cause.BROKEN)
    assert "is not healthy (gpu.example.com/" in end.reason
    assert only(world).node != placeholder.node


def test_health_is_read_from_the_status() -> None:
    resource = {"resourceID": "x", "health": "Unhealthy"}
    allocated = [{"name": "claim:gpu/main", "resources": [resource]}]
    containers = [{"name": "placeholder", "allocatedResourcesStatus": allocated}]
    status = {"phase": "Running", "containerStatuses": containers}
    pod = Pod.from_json({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}, "status": status})
    assert pod.has_unhealthy_device
    resource["health"] = "Unknown"
    pod = Pod.from_json({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}, "status": status})
    assert not pod.has_unhealthy_device
