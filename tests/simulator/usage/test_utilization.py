"""Utilization of nodes: worked examples, the numbers computed by hand in the comments."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dra_spawner.dra.model.objects import DeviceClass, PoolId
from dra_spawner.simulator.snapshot import Snapshot, SnapshotError
from dra_spawner.simulator.usage.utilization import ClassWeights, NodeUtilization, Utilization
from dra_spawner.simulator.usage.weighted_utilization import DeviceUse, used_units
from tests.all_of_them import all_of_them
from tests.dra.builders import DRIVER, counter_slice, device_json, make_slice, result, share, slice_json
from tests.simulator.objects import node, pod
from tests.simulator.utilization_examples import EXAMPLES, claim, decoded, gpus, part

NIC_DRIVER = "nic.example.com"


USER = pod("user", nodeName="n1", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])


def snapshot_of(slices: list[Any], *results: Any, more: Any = ()) -> Snapshot:
    """Node n1, where one pod has a claim with these results."""
    return Snapshot([node("n1"), *map(decoded, slices), claim(*results), USER, *more])


def utilization(
    slices: list[Any], *results: Any, weights: ClassWeights | None = None, more: Any = ()
) -> NodeUtilization:
    return Utilization(snapshot_of(slices, *results, more=more), weights).of("n1")


@pytest.mark.promise("The utilization of a node is the autoscaler's.")
@all_of_them("slices, results, autoscaler, ours", EXAMPLES)
def test_worked_examples(slices, results, autoscaler, ours):
    found = utilization(slices, *results)
    assert found.autoscaler.problem == ""
    assert found.autoscaler.highest == (Fraction(autoscaler) if autoscaler is not None else None)
    assert found.weighted.problems == ()
    assert found.weighted.figure == (Fraction(ours) if ours is not None else None)


NIC = make_slice("nic", [device_json("n0")], driver=NIC_DRIVER)


def test_pools_combined_by_maximum_and_by_weight():
    # 2 of 8 GPUs and the only NIC: the fullest pool is at 1; of nine equal devices three are in use.
    found = utilization([gpus(8), NIC], result("d0"), result("d1"), result("n0", driver=NIC_DRIVER))
    assert found.autoscaler.pools == {PoolId(DRIVER, "p"): Fraction(1, 4), PoolId(NIC_DRIVER, "p"): Fraction(1)}
    assert found.autoscaler.highest == 1
    assert [pool.figure for pool in found.weighted.pools] == [Fraction(1, 4), Fraction(1)]
    assert found.weighted.figure == Fraction(3, 9)


@all_of_them(
    "weights, expected",
    {
        # (2 * 10 + 1 * 1) / (8 * 10 + 1 * 1)
        "a GPU is worth ten NICs": ({"gpu": 10, "nic": 1}, Fraction(21, 81)),
        # The NIC is worth nothing: 2 of 8.
        "worthless": ({"nic": 0}, Fraction(2, 8)),
        # Both classes select GPUs: the higher weight counts, (2 * 4 + 1) / (8 * 4 + 1).
        "the most any class says": ({"gpu": 4, "any-gpu": 3}, Fraction(9, 33)),
        # A class that is not there, and one whose selector fails, select nothing: (2 + 1) / (8 + 1).
        "classes that select nothing": ({"missing": 9, "failing": 9}, Fraction(3, 9)),
    },
)
def test_weights_by_class(weights, expected):
    classes = [
        DeviceClass("gpu", (f"device.driver == '{DRIVER}'",)),
        DeviceClass("any-gpu", (f"device.driver == '{DRIVER}'",)),
        DeviceClass("nic", (f"device.driver == '{NIC_DRIVER}'",)),
        DeviceClass("failing", ("device.attributes['x'].missing == 1",)),
    ]
    results = [result("d0"), result("d1"), result("n0", driver=NIC_DRIVER)]
    found = utilization([gpus(8), NIC], *results, weights=ClassWeights(weights), more=classes)
    assert found.weighted.figure == expected
    assert found.autoscaler.highest == 1


def test_nothing_of_any_worth():
    found = utilization([gpus(2)], result("d0"), weights=ClassWeights(other=0))
    assert (found.weighted.figure, found.weighted.problems) == (None, ())


def test_counters_that_devices_of_other_nodes_draw_on():
    # One card for two nodes: 10/40 GiB and 4/8 cores are taken on the other node, which leaves this one at 1/2.
    counters = counter_slice(counters={"card": {"memory": "40Gi", "cores": "8"}}, count=3, allNodes=True)
    slices = [
        counters,
        make_slice("mine", [part("a", "10Gi", "4")], count=3),
        make_slice("theirs", [part("b", "10Gi", "4")], count=3, nodeName="n2"),
    ]
    found = utilization(slices, result("b"))
    assert found.weighted.figure == Fraction(1, 2)
    assert "has 1 of 3 slices" in found.autoscaler.problem


def test_devices_that_name_their_node_themselves():
    # Slice by slice no node's own, device by device it is: 1 of 2 here. cluster-autoscaler does not see them.
    devices = [device_json(name, nodeName=where) for name, where in (("a", "n1"), ("b", "n1"), ("c", "n2"))]
    found = utilization([make_slice(devices=devices, perDeviceNodeSelection=True)], result("a"))
    assert (found.weighted.figure, found.autoscaler.highest) == (Fraction(1, 2), None)


HALF = make_slice(devices=[device_json("d0")], count=2)
NEWER_HALF = make_slice("newer", [device_json("d0")], generation=2, count=2)
TWICE = make_slice(devices=[device_json("d0"), device_json("d0")])
NEWER_ELSEWHERE = make_slice("elsewhere", [device_json("x")], generation=2, nodeName="n2")


@all_of_them(
    "slices, problem, autoscaler_problem",
    {
        "incomplete": ([HALF], "1 of 2 slices", "1 of 2 slices"),
        "newest generation incomplete": ([gpus(1), NEWER_HALF], "generation 2 has 1 of 2", "generation 2 has 1 of 2"),
        "contradicts itself": ([TWICE], "published twice", ""),
        "unknown counters": ([make_slice(devices=[part("a", "1Gi", "1")])], "unknown counter set", ""),
        "newer elsewhere": ([gpus(1), NEWER_ELSEWHERE], "older generation than 2", ""),
    },
)
def test_unknown_and_no_number(slices, problem, autoscaler_problem):
    found = utilization([*slices, NIC], result("n0", driver=NIC_DRIVER))
    assert not found.weighted.is_known
    assert found.weighted.figure is None
    assert problem in found.weighted.problems[0]
    if autoscaler_problem:
        assert autoscaler_problem in found.autoscaler.problem
        assert found.autoscaler.highest is None


@all_of_them(
    "reference, claims, problem",
    {
        "not allocated": ("c", [claim(allocated=False)], "claim default/c not allocated"),
        "not there": ("gone", [], "claim default/gone not found"),
    },
)
def test_the_autoscaler_has_no_figure_because_of_a_pods_claim(reference, claims, problem):
    user = pod("user", nodeName="n1", resourceClaims=[{"name": "c", "resourceClaimName": reference}])
    found = Utilization(Snapshot([node("n1"), decoded(gpus(1)), user, *claims])).of("n1")
    assert (found.autoscaler.problem, found.autoscaler.highest) == (problem, None)
    assert found.weighted.figure == 0


def test_a_slice_that_makes_no_sense():
    obj = slice_json(devices=[device_json("d0", capacity={"memory": "much"})])
    snapshot = Snapshot.from_objects([obj])
    snapshot.put(node("n1"))
    found = Utilization(snapshot).of("n1")
    assert "capacity[memory]" in found.autoscaler.problem
    assert not found.weighted.is_known


def test_a_claim_that_makes_no_sense():
    bad = {"kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": []}}
    snapshot = Snapshot.from_objects([bad])
    for item in (node("n1"), decoded(gpus(1)), USER):
        snapshot.put(item)
    found = Utilization(snapshot).of("n1")
    assert "spec.devices" in found.weighted.problems[0]
    assert found.weighted.figure is None


def test_no_such_node():
    with pytest.raises(SnapshotError, match="node n9 not found"):
        Utilization(Snapshot()).of("n9")


def device_uses(slices: list[Any], *results: Any) -> tuple[DeviceUse, ...]:
    return Utilization(snapshot_of(slices, *results)).devices_of("n1")


def uses(slices: list[Any], *results: Any) -> dict[str, Fraction]:
    return {each.device.id.device: each.not_available for each in device_uses(slices, *results)}


SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": "40Gi"}}


PARTS = [device_json(f"part-{n}", counters={"set": {"slots": slots}}) for n, slots in enumerate("312")]
OF_FOUR_SLOTS = [counter_slice("counters", {"set": {"slots": "4"}}, count=2), slice_json("parts", PARTS, count=2)]
HALF_A_POOL = slice_json("s", [device_json("d0")], count=2)


@all_of_them(
    "slices, results, expected",
    {
        "whole devices": ([gpus(2)], [result("d1")], {"d0": 0, "d1": 1}),
        "a share": ([make_slice("s", [device_json("d0", **SHARED)])], [share("d0", memory="10Gi")], {"d0": Fraction(1, 4)}),
        "admin access uses nothing": ([gpus(2)], [result("d0", adminAccess=True)], {"d0": 0, "d1": 0}),
        "nothing is known of half a pool": ([HALF_A_POOL], [result("d0")], {}),
        # Of 4 slots part-0 takes 3: part-1 needs the last one, and for part-2 there are too few.
        "partitions share their counters": (OF_FOUR_SLOTS, [result("part-0")], {"part-0": 1, "part-1": 0, "part-2": 1}),
    },
)  # fmt: skip
def test_use_of_single_devices(slices, results, expected):
    assert uses(slices, *results) == expected


def a100s(*kinds: str) -> list[Any]:
    """Two A100 of 40 GiB as NVIDIA's driver publishes them: 98 multiprocessors and 8 memory slices each."""
    profiles = {"gpu": (98, 8, 1), "1g.5gb": (14, 1, 7), "3g.20gb": (42, 4, 2)}
    counters = {f"gpu-{n}": {"multiprocessors": "98", "memory-slices": "8"} for n in range(2)}
    devices = [
        device_json(
            f"gpu-{n}-{kind}-{each}", counters={f"gpu-{n}": {"multiprocessors": str(m), "memory-slices": str(s)}}
        )
        for n in range(2)
        for kind in kinds
        for m, s, count in [profiles[kind]]
        for each in range(count)
    ]
    return [counter_slice("counters", counters, count=2), slice_json("devices", devices, count=2)]


ALL = ("gpu", "1g.5gb", "3g.20gb")


@all_of_them(
    "kinds, taken, of_class, expected, blocked",
    {
        # 14 of 98 multiprocessors, 1 of 8 memory slices: a seventh of one GPU of two. That whole GPU is blocked.
        "one 1g.5gb of two GPUs": (ALL, ["gpu-0-1g.5gb-0"], "", Fraction(1, 14), 1),
        "of the partitions alone": (ALL, ["gpu-0-1g.5gb-0"], "1g", Fraction(1, 14), 0),
        "nobody uses the whole GPU": (ALL, ["gpu-0-1g.5gb-0"], "gpu-0-gpu", Fraction(0), 1),
        # Memory slices 4 of 8 are more than 42 of 98 multiprocessors.
        "the fullest counter": (ALL, ["gpu-0-3g.20gb-0"], "", Fraction(1, 4), 1),
        # 8 of 8 memory slices: nothing else of gpu-0 can be had, though 14 multiprocessors are left.
        "full by memory": (ALL, ["gpu-0-3g.20gb-0", "gpu-0-3g.20gb-1"], "", Fraction(1, 2), 1 + 7),
        "a whole GPU blocks its partitions": (ALL, ["gpu-1-gpu-0"], "", Fraction(1, 2), 7 + 2),
        "all seven": (("1g.5gb",), [f"gpu-0-1g.5gb-{n}" for n in range(7)], "", Fraction(1, 2), 0),
        "idle": (ALL, [], "", Fraction(0), 0),
    },
)
def test_partitions_count_with_their_part_of_the_device(kinds, taken, of_class, expected, blocked):
    found = device_uses(a100s(*kinds), *map(result, taken))
    chosen = [each for each in found if of_class in each.device.id.device]
    used, units = used_units(chosen)
    assert used / units == expected
    assert sum(each.is_blocked for each in chosen) == blocked


def test_memory_slices_of_a_device_are_one_counter():
    """NVIDIA's driver has a counter of 1 for each memory slice."""
    total = {"multiprocessors": "98", **{f"memory-slice-{n}": "1" for n in range(8)}}
    drawn = {"gpu": total, "1g.5gb": {"multiprocessors": "14", "memory-slice-2": "1"}}
    devices = [device_json(name, counters={"gpu-0": counters}) for name, counters in drawn.items()]
    slices = [counter_slice("counters", {"gpu-0": total}, count=2), slice_json("devices", devices, count=2)]
    found = device_uses(slices, result("1g.5gb"))
    assert used_units(found) == (Fraction(1, 7), 1)
    assert [each.is_blocked for each in found] == [True, False]
    assert utilization(slices, result("1g.5gb")).weighted.figure == Fraction(1, 7)


def test_classes_of_a_device():
    classes = [
        DeviceClass("b", (f"device.driver == '{DRIVER}'",)),
        DeviceClass("a", ()),
        DeviceClass("none", ("false",)),
        DeviceClass("failing", ("device.attributes['x'].y == 1",)),
    ]
    snapshot = Snapshot([node("n1"), decoded(gpus(1)), *classes])
    found = Utilization(snapshot)
    (only,) = found.devices_of("n1")
    assert found.classes_of(only.device) == ("a", "b")


@all_of_them("consumed", ["0", "-8589934589Gi"])
def test_nothing_is_known_while_a_share_consumes_nothing_or_less(consumed):
    shared = gpus(1, capacity={"memory": "40Gi"}, allowMultipleAllocations=True)
    found = utilization([shared], share("d0", 1, memory=consumed), share("d0", 2, memory="40Gi"))
    assert found.weighted.problems == (f"pool {DRIVER}/p: a share of device d0 consumes nothing, or less",)
    assert found.weighted.figure is None
    uses_of = device_uses([shared], share("d0", memory=consumed))
    assert [each.use for each in uses_of] == [1], "in full use, as far as anybody knows"


MIG = {"parentUUID": {"string": "GPU-1"}, "type": {"string": "mig"}, "profile": {"string": "2g.20gb"}}
WHOLE_AND_PARTS = make_slice(
    devices=[
        device_json("mig-1", attributes={**MIG, "uuid": {"string": "MIG-1"}}),
        device_json("mig-2", attributes={**MIG, "uuid": {"string": "MIG-2"}}),
        device_json("gpu", attributes={"uuid": {"string": "GPU-1"}, "type": {"string": "gpu"}}),
    ]
)
DRANET = "dra.net"


@all_of_them(
    "slices, results, figure, problem",
    {
        "a whole device": (
            [gpus(2)],
            [result("gone")],
            None,
            "pool gpu.example.com/p: device gone of claim default/c is not published any more",
        ),
        "a share": ([gpus(2)], [share("gone", memory="1Gi")], None, "device gone of claim default/c"),
        "a driver that publishes nothing": ([], [result("d0")], None, "device d0 of claim default/c"),
        "a slice without devices": ([make_slice(devices=[])], [result("d0")], None, "device d0 of claim default/c"),
        "with admin access": ([gpus(2)], [result("gone", adminAccess=True)], Fraction(0), ""),
        # An interface is withdrawn while a pod has it: one of two is in use.
        "an interface": (
            [make_slice("nic", [device_json("n1")], driver=DRANET)],
            [result("n0", driver=DRANET)],
            Fraction(1, 2),
            "",
        ),
        "the only interface": ([], [result("n0", driver=DRANET)], Fraction(1), ""),
        # One of two parts is in use; the whole GPU is no third device.
        "a whole GPU beside its parts": ([WHOLE_AND_PARTS], [result("mig-1")], Fraction(1, 2), ""),
    },
)
def test_devices_that_nobody_can_count_on(slices, results, figure, problem):
    found = utilization(slices, *results).weighted
    assert problem in "; ".join(found.problems)
    assert bool(found.problems) is bool(problem)
    assert found.figure == figure


def test_a_whole_device_beside_its_parts_is_not_free():
    assert uses([WHOLE_AND_PARTS], result("mig-1")) == {"mig-1": 1, "mig-2": 0, "gpu": 1}
    assert used_units(device_uses([WHOLE_AND_PARTS], result("mig-1"))) == (1, 2)
