"""A hub that packs devices: where a server is sent, which device it prefers, and what an administrator reads."""

from __future__ import annotations

from dataclasses import replace

from dra_spawner.placeholders.planner.actions import CreatePlaceholder
from dra_spawner.placeholders.planner.packing.packed_nodes import NO_PREFERENCES, packed_nodes
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from tests.placeholders.planner.objects import GPU, SHARE, gpu_claim, share_claim, user_shape
from tests.placeholders.planner.packed_world import devices, start, world_with_identifiers
from tests.placeholders.planner.world import hub


def test_a_share_goes_to_the_fullest_device_on_any_node_and_a_whole_device_to_the_smallest_rest() -> None:
    world = world_with_identifiers(packs_devices=True)
    start(world, "whole", gpu_claim())
    begun = devices(world)[0][0]
    start(world, "first", share_claim("10Gi"))
    # The other node keeps both of its devices whole.
    assert {node for node, _ in devices(world)} == {begun}
    world.leave("whole")
    world.settle()
    placement = world.placement(SHARE)
    assert placement.node == begun
    assert placement.reason == (f"free on node {begun}: gpu-1 is in use already, with the least capacity left over")
    (group,) = placement.preferences.of_claims["gpu"]["gpu"]
    assert [each.attributes for each in group] == [(("gpu.example.com", "uuid", f"GPU-{begun}-gpu-1"),)]
    start(world, "second", share_claim("10Gi"))
    assert devices(world) == [(begun, "gpu-1"), (begun, "gpu-1")]
    # The node with a device in use gives its last whole one.
    assert world.placement(GPU).node == begun


def test_nothing_is_packed_unless_the_policy_says_so() -> None:
    for world, name in ((world_with_identifiers(), "off"), (hub((SHARE, 0, 10), nodes="ab", gpus=2, memory="80Gi", policy={"packs_devices": True}), "nothing tells devices apart")):  # fmt: skip
        for number in range(2):
            world.user(f"user-{number}", {"gpu": share_claim("70Gi")})
        world.settle()
        world.leave("user-0")
        world.settle()
        assert world.placement(SHARE).preferences is NO_PREFERENCES, name


def test_placeholders_are_packed_one_after_the_other() -> None:
    world = world_with_identifiers(packs_devices=True)
    start(world, "whole", gpu_claim())
    start(world, "share", share_claim("40Gi"))
    world.leave("whole")
    world.settle()
    ((begun, device),) = devices(world)
    assert device == "gpu-1"
    world.policy = replace(world.policy, replicas={SHARE.id: ReplicaRange(4, 10)})
    decided = world.decide()
    created = [each for each in decided.actions if isinstance(each, CreatePlaceholder)]
    assert [each.node for each in created] == [begun] * 4
    assert (
        created[0].reason
        == f"target 4, present 0; on node {begun} gpu-1 is in use already, with the least capacity left over"
    )
    world.settle()
    assert devices(world) == [(begun, "gpu-1")] * 5


def test_only_servers_of_kube_scheduler_are_packed() -> None:
    found = {}
    for name in ("", "default-scheduler", "hub-user-scheduler", "volcano"):
        world = world_with_identifiers(packs_devices=True)
        shape = user_shape({"gpu": share_claim("10Gi")}, schedulerName=name)
        pod, _ = simulated_user(shape, "hub")
        found[name] = packed_nodes(world.view(), world.policy, shape, pod) is not None
    assert found == {"": True, "default-scheduler": True, "hub-user-scheduler": True, "volcano": False}
