"""Worked examples of how full node n1 is, as API objects; the numbers computed by hand in the comments."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dra.builders import counter_slice_json, device_json, result, share, slice_json

SHARED: dict[str, Any] = {"allowMultipleAllocations": True}


def gpus(count: int, **more: Any) -> Any:
    return slice_json(devices=[device_json(f"d{number}", **more) for number in range(count)])


def card(*partitions: Any, memory: str = "40Gi", cores: str = "8") -> list[Any]:
    """A pool with one counter set and these devices."""
    return [
        counter_slice_json(counters={"card": {"memory": memory, "cores": cores}}, count=2),
        slice_json("devices", partitions, count=2),
    ]


def part(name: str, memory: str, cores: str, counter_set: str = "card", **more: Any) -> Any:
    return device_json(name, counters={counter_set: {"memory": memory, "cores": cores}}, **more)


TWO_CARDS = [
    counter_slice_json(
        counters={"card": {"memory": "40Gi", "cores": "8"}, "other": {"memory": "40Gi", "cores": "8"}}, count=2
    ),
    slice_json("devices", [part("a", "10Gi", "4"), part("b", "20Gi", "2"), part("c", "40Gi", "8", "other")], count=2),
]

EXAMPLES = [
    # Slices, results of the claim of the only pod, cluster-autoscaler's figure, ours.
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
            slice_json(
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
            counter_slice_json(
                counters={"card": {"memory": "40Gi", "cores": "8"}, "unused": {"memory": "1Gi", "cores": "1"}}, count=2
            ),
            slice_json("devices", [part("a", "10Gi", "4")], count=2),
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
    # Allocations of a network device belong to no node.
    pytest.param(
        [slice_json(devices=[device_json("d0")], allNodes=True)], [result("d0")], None, None, id="not of the node's own"
    ),
    # Only the newest generation counts: 1 of 2.
    pytest.param(
        [gpus(4), slice_json("newer", [device_json("d0"), device_json("d1")], generation=2)],
        [result("d0")],
        "1/2",
        "1/2",
        id="newest generation",
    ),
]
