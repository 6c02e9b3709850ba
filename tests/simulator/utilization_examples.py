"""Worked examples of how full node n1 is, as API objects; the numbers computed by hand in the comments."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.model.objects import ResourceSlice
from dra_spawner.simulator.model.claims import TrackedClaim
from tests.dra.builders import counter_slice_json, device_json, request, result, share, slice_json

SHARED: dict[str, Any] = {"allowMultipleAllocations": True}


def gpus(count: int, **more: Any) -> Any:
    return slice_json(devices=[device_json(f"d{number}", **more) for number in range(count)])


def part(name: str, memory: str, cores: str, counter_set: str = "card", **more: Any) -> Any:
    return device_json(name, counters={counter_set: {"memory": memory, "cores": cores}}, **more)


def cards(*partitions: Any, **counter_sets: tuple[str, str]) -> list[Any]:
    """A pool with these counter sets (memory and cores of each) and devices."""
    counters = {name: {"memory": memory, "cores": cores} for name, (memory, cores) in counter_sets.items()}
    return [counter_slice_json(counters=counters, count=2), slice_json("devices", partitions, count=2)]


CARD = ("40Gi", "8")
A, B, PLAIN = part("a", "10Gi", "4"), part("b", "20Gi", "2"), device_json("plain")
OTHER = part("c", "40Gi", "8", "other")
ONE_SHARED = gpus(1, capacity={"memory": "40Gi"}, **SHARED)
BOTH_SHARED = gpus(1, capacity={"memory": "40Gi", "cores": "8"}, **SHARED)
LARGE_AND_SMALL = [device_json(f"d{n}", capacity={"memory": memory}) for n, memory in enumerate(("80Gi", "10Gi"))]
FOR_ADMINISTRATION = [result(name, adminAccess=True) for name in ("d1", "d2")]
SHARED_PART = part("a", "10Gi", "4", capacity={"memory": "10Gi"}, **SHARED)
TWO_SHARES = [share("d0", 1, memory="5Gi"), share("d0", 2, memory="15Gi")]

EXAMPLES = {
    # Slices, results of the claim of the only pod, cluster-autoscaler's figure, ours.
    # 2 of 8 devices.
    "whole devices": ([gpus(8)], [result("d0"), result("d1")], "1/4", "1/4"),
    # One share of 5 of 40 GiB: one device of one for the autoscaler, an eighth for us.
    "one small share": ([ONE_SHARED], [share("d0", memory="5Gi")], "1", "1/8"),
    # Memory 10/40, cores 6/8: the fullest capacity counts.
    "the fullest capacity": ([BOTH_SHARED], [share("d0", memory="10Gi", cores="6")], "1", "3/4"),
    # Two shares of one device: 5 + 15 of 40 GiB on the first of two devices; (1/2 + 0) / 2.
    "shares add up": ([gpus(2, capacity={"memory": "40Gi"}, **SHARED)], TWO_SHARES, "1/2", "1/4"),
    # The large device of two counts 80 of 90 GiB.
    "large and small devices": ([slice_json(devices=LARGE_AND_SMALL)], [result("d0")], "1/2", "8/9"),
    # Nothing counts that is used for administration only: 1 of 4.
    "admin access": ([gpus(4)], [result("d0"), *FOR_ADMINISTRATION], "1/4", "1/4"),
    # Memory 10/40, cores 4/8: the fullest counter of the only set.
    "partition": (cards(A, B, card=CARD), [result("a")], "1/2", "1/2"),
    # Memory (10 + 20)/40, cores (4 + 2)/8.
    "partitions add up": (cards(A, B, card=CARD), [result("a"), result("b")], "3/4", "3/4"),
    # One set at 1/2, the other idle: the mean is 1/4.
    "mean over counter sets": (cards(A, B, OTHER, card=CARD, other=CARD), [result("a")], "1/4", "1/4"),
    # A set no device draws on is no hardware: 1/2 of the one that counts.
    "counter set without devices": (cards(A, card=CARD, unused=("1Gi", "1")), [result("a")], "1/2", "1/2"),
    # The device without counters: the autoscaler ignores it beside a card at 1/2; for us it is a unit, (1/2 + 0) / 2.
    "mixed pool, partition used": (cards(A, PLAIN, card=CARD), [result("a")], "1/2", "1/4"),
    # The other way round: nothing for the autoscaler, (0 + 1) / 2 for us.
    "mixed pool, plain device used": (cards(A, PLAIN, card=CARD), [result("plain")], "0", "1/2"),
    # A partition of 10/40 GiB and 4/8 cores with a share of a tenth of it: 4/8 taken for the autoscaler, 4/80 for us.
    "share of a partition": (cards(SHARED_PART, card=CARD), [share("a", memory="1Gi")], "1/2", "1/20"),
    # Nothing published, nothing to say.
    "no devices": ([], [], None, None),
    # A device for everybody is never full: the autoscaler counts it, we do not.
    "shared without capacity": ([gpus(1, **SHARED)], [share("d0")], "1", None),
    # Allocations of a network device belong to no node.
    "not of the node's own": ([slice_json(devices=[device_json("d0")], allNodes=True)], [result("d0")], None, None),
    # Only the newest generation counts: 1 of 2.
    "newest generation": (
        [gpus(4), slice_json("newer", [device_json("d0"), device_json("d1")], generation=2)],
        [result("d0")],
        "1/2",
        "1/2",
    ),
}


def claim(*results: Any, name: str = "c", allocated: bool = True, consumers: Any = ()) -> TrackedClaim:
    status: dict[str, Any] = {"allocation": {"devices": {"results": list(results)}}} if allocated else {}
    status["reservedFor"] = list(consumers)
    metadata = {"name": name, "namespace": "default", "uid": name}
    return TrackedClaim.from_json(
        {"metadata": metadata, "spec": {"devices": {"requests": [request()]}}, "status": status}
    )


def decoded(item: Any) -> ResourceSlice:
    return item if isinstance(item, ResourceSlice) else ResourceSlice.from_json(item)
