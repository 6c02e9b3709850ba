"""Utilization of nodes: worked examples, the numbers computed by hand in the comments."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dra_spawner.dra.objects import DeviceClass, PoolId
from dra_spawner.simulator.claims import TrackedClaim
from dra_spawner.simulator.snapshot import Snapshot, SnapshotError
from dra_spawner.simulator.utilization import ClassWeights, NodeUtilization, Utilization
from tests.dra.builders import DRIVER, counter_slice, device_json, make_slice, request, result, share, slice_json
from tests.simulator.objects import node, pod

NIC_DRIVER = "nic.example.com"
SHARED: dict[str, Any] = {"allowMultipleAllocations": True}


def claim(*results: Any, name: str = "c", allocated: bool = True) -> TrackedClaim:
    status = {"allocation": {"devices": {"results": list(results)}}} if allocated else {}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return TrackedClaim.from_json(
        {"metadata": metadata, "spec": {"devices": {"requests": [request()]}}, "status": status}
    )


def utilization(
    slices: list[Any], *results: Any, weights: ClassWeights | None = None, more: Any = ()
) -> NodeUtilization:
    """Of node n1, where one pod has a claim with these results."""
    user = pod("user", nodeName="n1", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    snapshot = Snapshot([node("n1"), *slices, claim(*results), user, *more])
    return Utilization(snapshot, weights).of("n1")


def gpus(count: int, **more: Any) -> Any:
    return make_slice(devices=[device_json(f"d{number}", **more) for number in range(count)])


def card(*partitions: Any, memory: str = "40Gi", cores: str = "8") -> list[Any]:
    """A pool with one counter set and these devices."""
    return [
        counter_slice(counters={"card": {"memory": memory, "cores": cores}}, count=2),
        make_slice("devices", partitions, count=2),
    ]


def part(name: str, memory: str, cores: str, counter_set: str = "card", **more: Any) -> Any:
    return device_json(name, counters={counter_set: {"memory": memory, "cores": cores}}, **more)


TWO_CARDS = [
    counter_slice(
        counters={"card": {"memory": "40Gi", "cores": "8"}, "other": {"memory": "40Gi", "cores": "8"}}, count=2
    ),
    make_slice("devices", [part("a", "10Gi", "4"), part("b", "20Gi", "2"), part("c", "40Gi", "8", "other")], count=2),
]

EXAMPLES = [
    # 2 of 8 devices.
    pytest.param([gpus(8)], [result("d0"), result("d1")], "1/4", "1/4", id="whole devices"),
    # One share of 5 of 40 GiB: one device of one for the autoscaler, an eighth for us.
    pytest.param(
        [gpus(1, capacity={"memory": "40Gi"}, **SHARED)], [share("d0", memory="5Gi")], "1", "1/8", id="one small share"
    ),
    # Memory 10/40, cores 6/8: the fullest capacity counts.
    pytest.param(
        [gpus(1, capacity={"memory": "40Gi", "cores": "8"}, **SHARED)],
        [share("d0", memory="10Gi", cores="6")],
        "1",
        "3/4",
        id="the fullest capacity",
    ),
    # Two shares of one device: 5 + 15 of 40 GiB on the first of two devices; (1/2 + 0) / 2.
    pytest.param(
        [gpus(2, capacity={"memory": "40Gi"}, **SHARED)],
        [share("d0", 1, memory="5Gi"), share("d0", 2, memory="15Gi")],
        "1/2",
        "1/4",
        id="shares add up",
    ),
    # The large device of two counts 80 of 90 GiB.
    pytest.param(
        [
            make_slice(
                devices=[device_json("d0", capacity={"memory": "80Gi"}), device_json("d1", capacity={"memory": "10Gi"})]
            )
        ],
        [result("d0")],
        "1/2",
        "8/9",
        id="large and small devices",
    ),
    # Nothing counts that is used for administration only: 1 of 4.
    pytest.param(
        [gpus(4)],
        [result("d0"), result("d1", adminAccess=True), result("d2", adminAccess=True)],
        "1/4",
        "1/4",
        id="admin access",
    ),
    # Memory 10/40, cores 4/8: the fullest counter of the only set.
    pytest.param(card(part("a", "10Gi", "4"), part("b", "20Gi", "2")), [result("a")], "1/2", "1/2", id="partition"),
    # Memory (10 + 20)/40, cores (4 + 2)/8.
    pytest.param(
        card(part("a", "10Gi", "4"), part("b", "20Gi", "2")),
        [result("a"), result("b")],
        "3/4",
        "3/4",
        id="partitions add up",
    ),
    # One set at 1/2, the other idle: the mean is 1/4.
    pytest.param(TWO_CARDS, [result("a")], "1/4", "1/4", id="mean over counter sets"),
    # A set no device draws on is no hardware: 1/2 of the one that counts.
    pytest.param(
        [
            counter_slice(
                counters={"card": {"memory": "40Gi", "cores": "8"}, "unused": {"memory": "1Gi", "cores": "1"}}, count=2
            ),
            make_slice("devices", [part("a", "10Gi", "4")], count=2),
        ],
        [result("a")],
        "1/2",
        "1/2",
        id="counter set without devices",
    ),
    # The device without counters: the autoscaler ignores it beside a card at 1/2; for us it is a unit, (1/2 + 0) / 2.
    pytest.param(
        card(part("a", "10Gi", "4"), device_json("plain")), [result("a")], "1/2", "1/4", id="mixed pool, partition used"
    ),
    # The other way round: nothing for the autoscaler, (0 + 1) / 2 for us.
    pytest.param(
        card(part("a", "10Gi", "4"), device_json("plain")),
        [result("plain")],
        "0",
        "1/2",
        id="mixed pool, plain device used",
    ),
    # A partition of 10/40 GiB and 4/8 cores with a share of a tenth of it: 4/8 taken for the autoscaler, 4/80 for us.
    pytest.param(
        card(part("a", "10Gi", "4", capacity={"memory": "10Gi"}, **SHARED)),
        [share("a", memory="1Gi")],
        "1/2",
        "1/20",
        id="share of a partition",
    ),
    # Nothing published, nothing to say.
    pytest.param([], [], None, None, id="no devices"),
    # A device for everybody is never full: the autoscaler counts it, we do not.
    pytest.param([gpus(1, **SHARED)], [share("d0")], "1", None, id="shared without capacity"),
    # What a network device holds has no place on a node.
    pytest.param(
        [make_slice(devices=[device_json("d0")], allNodes=True)], [result("d0")], None, None, id="not of the node's own"
    ),
    # Only the newest generation counts: 1 of 2.
    pytest.param(
        [gpus(4), make_slice("newer", [device_json("d0"), device_json("d1")], generation=2)],
        [result("d0")],
        "1/2",
        "1/2",
        id="newest generation",
    ),
]


@pytest.mark.parametrize(("slices", "results", "autoscaler", "ours"), EXAMPLES)
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


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        # (2 * 10 + 1 * 1) / (8 * 10 + 1 * 1)
        pytest.param({"gpu": 10, "nic": 1}, Fraction(21, 81), id="a GPU is worth ten NICs"),
        # The NIC is worth nothing: 2 of 8.
        pytest.param({"nic": 0}, Fraction(2, 8), id="worthless"),
        # Both classes select GPUs: the higher weight counts, (2 * 4 + 1) / (8 * 4 + 1).
        pytest.param({"gpu": 4, "any-gpu": 3}, Fraction(9, 33), id="the most any class says"),
        # A class that is not there, and one whose selector fails, select nothing: (2 + 1) / (8 + 1).
        pytest.param({"missing": 9, "failing": 9}, Fraction(3, 9), id="classes that select nothing"),
    ],
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


@pytest.mark.parametrize(
    ("slices", "problem", "autoscaler_problem"),
    [
        pytest.param(
            [make_slice(devices=[device_json("d0")], count=2)], "1 of 2 slices", "1 of 2 slices", id="incomplete"
        ),
        pytest.param(
            [gpus(1), make_slice("newer", [device_json("d0")], generation=2, count=2)],
            "generation 2 has 1 of 2",
            "generation 2 has 1 of 2",
            id="newest generation incomplete",
        ),
        pytest.param(
            [make_slice(devices=[device_json("d0"), device_json("d0")])], "published twice", "", id="contradicts itself"
        ),
        pytest.param([make_slice(devices=[part("a", "1Gi", "1")])], "unknown counter set", "", id="unknown counters"),
        pytest.param(
            [gpus(1), make_slice("elsewhere", [device_json("x")], generation=2, nodeName="n2")],
            "older generation than 2",
            "",
            id="newer elsewhere",
        ),
    ],
)
def test_unknown_and_no_number(slices, problem, autoscaler_problem):
    found = utilization([*slices, NIC], result("n0", driver=NIC_DRIVER))
    assert not found.weighted.is_known
    assert found.weighted.figure is None
    assert problem in found.weighted.problems[0]
    if autoscaler_problem:
        assert autoscaler_problem in found.autoscaler.problem
        assert found.autoscaler.highest is None


@pytest.mark.parametrize(
    ("reference", "claims", "problem"),
    [
        pytest.param("c", [claim(allocated=False)], "claim default/c not allocated", id="not allocated"),
        pytest.param("gone", [], "claim default/gone not found", id="not there"),
    ],
)
def test_the_autoscaler_stumbles_over_a_pods_claim(reference, claims, problem):
    user = pod("user", nodeName="n1", resourceClaims=[{"name": "c", "resourceClaimName": reference}])
    found = Utilization(Snapshot([node("n1"), gpus(1), user, *claims])).of("n1")
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
    for item in (
        node("n1"),
        gpus(1),
        pod("user", nodeName="n1", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
    ):
        snapshot.put(item)
    found = Utilization(snapshot).of("n1")
    assert "spec.devices" in found.weighted.problems[0]
    assert found.weighted.figure is None


def test_no_such_node():
    with pytest.raises(SnapshotError, match="node n9 not found"):
        Utilization(Snapshot()).of("n9")
