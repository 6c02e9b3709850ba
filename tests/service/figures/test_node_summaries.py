"""Nodes in short: users and placeholders with their parts of each device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dra_spawner import names
from dra_spawner.devcluster.demo.example_nodes import GPU_DRIVER, PARTITIONED_NODE
from dra_spawner.kube.cluster_watch import Change, ChangeType, ClusterWatch
from dra_spawner.service.figures.node_figures import NodeFigures
from dra_spawner.service.figures.node_summaries import NodeSummaries
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.dra.builders import device_json
from tests.integration.devices import node_with, shareable
from tests.service.device_board import allocate, put_all, some_of_all
from tests.service.unstarted_watch import UnstartedWatch


def summaries_of(watch: ClusterWatch) -> NodeSummaries:
    return NodeSummaries(watch, NodeFigures(watch, ("pool",)))


async def contents(summaries: NodeSummaries) -> dict[str, Mapping[str, Any]]:
    return {each.content["name"]: each.content for each in (await summaries.nodes())[0]}


def parts(node: Mapping[str, Any], device: int) -> list[tuple[str, str, float]]:
    """Kind, first user or pod, and share."""
    return [
        (each["kind"], (each.get("users") or each["pods"] or [""])[0], each["share"])
        for each in node["devices"][device]["parts"]
    ]


async def test_shares_of_users_and_placeholders():
    nodes = await contents(summaries_of(some_of_all()))
    shared = nodes["shared-1"]
    assert parts(shared, 0) == [
        ("user", "ada", 0.25),
        ("user", "eve", 0.125),
        ("placeholder", "placeholder-2", 0.25),
    ]
    assert shared["devices"][0]["parts"][0]["amounts"] == {"memory": "10Gi"}
    assert parts(shared, 1) == [("user", "bob", 1.0)]
    assert shared["devices"][2]["parts"] == []
    assert shared["devices"][2]["pool"] == "shared-1", "a device of its own can be drained"
    assert (shared["node_pool"], shared["kind"], shared["marks"]) == ("shared", "4 x Example 40", ["ready"])
    assert [each.get("closed", "") for each in nodes["shared-2"]["devices"]] == ["", "", "drained", ""]
    blocked = [each.get("blocked", 0) for each in nodes["shared-2"]["devices"]]
    assert blocked == [0, 0, 1, 0], "what is left of a drained device is not free"
    assert nodes["shared-2"]["devices"][1]["parts"][0]["reserved_for"] == "jupyter-grace"
    assert (nodes["whole-1"]["marks"], nodes["whole-1"]["is_drain_ordered"]) == (["draining", "late"], True)
    assert nodes["whole-2"]["marks"] == ["cordoned"]
    for name, taken in (("whole-1", 4), ("whole-2", 0)):
        left = [each for each in nodes[name]["devices"] if not each["parts"]]
        assert {(each["closed"], each["blocked"]) for each in left} == {("node", 1)}, "its rest is not free"
        assert len(left) == 8 - taken
    assert nodes["unknown-1"]["utilization"] is None
    assert nodes["unknown-1"]["unknown"][0]["because"] == "incomplete, generation 1 has 1 of 2 slices"
    assert nodes["without-devices"]["devices"] == []


async def test_a_drained_device_is_called_so_whatever_else_closes_it():
    """The page's dialog ends the drain."""
    watch = some_of_all()
    for device in ("gpu-2", "gpu-3"):
        selector = {"driver": "gpu.example.com", "pool": "shared-2", "device": device}
        rule = {"deviceSelector": selector, "taint": {"key": "example.com/broken", "effect": "NoSchedule"}}
        put_all(watch, {"kind": "DeviceTaintRule", "metadata": {"name": f"broken-{device}"}, "spec": rule})
    found = (await contents(summaries_of(watch)))["shared-2"]["devices"]
    assert [each.get("closed", "") for each in found] == ["", "", "drained", "example.com/broken"]


async def test_partitions_of_a_gpu_are_one_bar():
    first, second = (await contents(summaries_of(some_of_all())))[PARTITIONED_NODE]["devices"]
    assert (first["name"], first["product"]) == ("gpu-0", "Example A100 40GB")
    # 14 and 42 of 98 multiprocessors, 1 and 4 of 8 memory slices: five eighths of the memory.
    assert sum(part["share"] for part in first["parts"]) == 0.625
    assert {part["partition"] for part in first["parts"]} == {"gpu-0-mig-1g5gb-19-0", "gpu-0-mig-3g20gb-9-4"}
    assert first["free_partitions"] == {"1g.5gb": 3, "2g.10gb": 1}
    assert "pool" not in first
    assert (len(second["parts"]), "free_partitions" in second) == (7, False)


async def test_partitions_that_are_closed_cannot_be_had():
    watch = some_of_all()
    device = (await contents(summaries_of(watch)))[PARTITIONED_NODE]["devices"][0]
    assert "closed" not in device
    cases: list[tuple[dict[str, str], dict[str, Any]]] = [
        ({"device": "gpu-0-mig-1g5gb-19-1"}, {"free_partitions": {"1g.5gb": 2, "2g.10gb": 1}}),
        ({"driver": GPU_DRIVER}, {"closed": "drained", "blocked": 0.375}),
    ]
    for selector, shown in cases:
        spec = {"deviceSelector": selector, "taint": {"key": names.DRAINED_DEVICE, "effect": "NoSchedule"}}
        put_all(watch, {"kind": "DeviceTaintRule", "metadata": {"name": "drain-device"}, "spec": spec})
        device = (await contents(summaries_of(watch)))[PARTITIONED_NODE]["devices"][0]
        assert {key: device.get(key) for key in shown} == shown
    assert "free_partitions" not in device


async def test_capacity_that_no_partition_can_use_is_blocked():
    watch = UnstartedWatch()
    counters = {"multiprocessors": {"value": "98"}}
    half = [{"counterSet": "gpu", "counters": {"multiprocessors": {"value": "60"}}}]
    node, item = node_with("n1", *(device_json(f"part-{number}", consumesCounters=half) for number in range(2)))
    item["spec"]["pool"]["resourceSliceCount"] = 2
    sets = {**item, "metadata": {"name": "counters"}, "spec": {**item["spec"]}}
    sets["spec"]["sharedCounters"] = [{"name": "gpu", "counters": counters}]
    del sets["spec"]["devices"]
    put_all(watch, node, item, sets)
    allocate(watch, "ada", "n1", "part-0")
    (bar,) = (await contents(summaries_of(watch)))["n1"]["devices"]
    assert (bar["parts"][0]["share"], bar["blocked"]) == (0.6122, 0.3878)


async def test_a_device_that_any_number_may_share():
    watch = UnstartedWatch()
    put_all(watch, *node_with("n1", {"name": "nic", "allowMultipleAllocations": True}))
    for user in ("ada", "eve"):
        allocate(watch, user, "n1", "nic", "0")
    (bar,) = (await contents(summaries_of(watch)))["n1"]["devices"]
    assert (bar["is_boundless"], [part["share"] for part in bar["parts"]]) == (True, [0.3333, 0.3333])


async def test_only_changed_nodes_are_computed_again():
    watch = some_of_all()
    summaries = summaries_of(watch)
    before = {each.content["name"]: each for each in (await summaries.nodes())[0]}
    claim = allocate(watch, "zoe", "shared-2", "gpu-3", "20Gi")
    after = {each.content["name"]: each for each in (await summaries.nodes())[0]}
    assert [name for name in after if after[name] is not before[name]] == ["shared-2"]
    assert parts(after["shared-2"].content, 3) == [("user", "zoe", 0.5)]
    watch.remove(Kind.RESOURCE_CLAIM, claim)
    assert (await contents(summaries))["shared-2"]["devices"] == before["shared-2"].content["devices"]


async def test_pages_of_nodes():
    watch = UnstartedWatch()
    for name in ("a", "b", "c"):
        put_all(watch, *node_with(name, shareable("gpu-0")))
    summaries = summaries_of(watch)
    found, after = await summaries.nodes(limit=2)
    assert ([each.content["name"] for each in found], after) == (["a", "b"], "b")
    found, after = await summaries.nodes(after=after, limit=2)
    assert ([each.content["name"] for each in found], after) == (["c"], "")


async def test_a_driver_that_withdraws_all_devices():
    """Nothing is known then of what is in use: it is not idle, and not without devices."""
    watch = some_of_all()
    assert isinstance(watch, UnstartedWatch)
    figures = NodeFigures(watch, ("pool",))
    summaries = NodeSummaries(watch, figures)
    await figures.refresh()
    assert (await contents(summaries))["shared-1"]["utilization"]
    assert figures.problems() == ()
    for name in list(watch.snapshot.slices):
        watch.snapshot.forget(Kind.RESOURCE_SLICE, ObjectKey("", name))
        watch.notify(Change(ChangeType.REMOVED, Kind.RESOURCE_SLICE, ObjectKey("", name), decides=True))
    await figures.refresh()
    nodes = await contents(summaries)
    assert (nodes["shared-1"]["utilization"], nodes["whole-2"]["utilization"]) == (None, None)
    assert "of claim jupyterhub/jupyter-0-gpu is not published any more" in nodes["shared-1"]["unknown_because"]
    assert "published devices, and publishes none now" in nodes["whole-2"]["unknown_because"]
    gone = "the driver published devices, and publishes none now"
    (unknown,) = nodes["whole-2"]["unknown"]
    assert unknown == {"driver": "gpu.example.com", "pool": "whole-2", "because": gone}
    assert figures.by_class["gpu.example.com", "shared"].missing > 0
    problems = " ".join(figures.problems())
    assert problems.startswith("The driver "), "the cause comes first"
    assert "is not published any more (driver gpu.example.com)." in problems
    assert "more devices are missing." in problems
    assert "The driver gpu.example.com published devices of " in problems


async def test_a_gpu_beside_its_slices_is_not_free():
    watch = UnstartedWatch()
    slices = [device_json("mig-0", attributes={"parentUUID": {"string": "GPU-1"}})]
    whole = device_json("gpu-0", attributes={"uuid": {"string": "GPU-1"}})
    put_all(watch, *node_with("n1", *slices, whole))
    part, gpu = (await contents(summaries_of(watch)))["n1"]["devices"]
    assert (part.get("blocked"), gpu["blocked"]) == (None, 1.0)
