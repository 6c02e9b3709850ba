"""Pools as a node sees them: relevance, generations, completeness, validity, order."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra.model.node_selector import NodeSelectorError
from dra_spawner.dra.model.objects import Node, ResourceSlice
from dra_spawner.dra.model.pools import Pool, PoolState, SliceIndex, gather_pools
from dra_spawner.dra.scheduler_rules import RULES, SchedulerRules
from tests.all_of_them import all_of_them
from tests.dra.builders import NODE, counter_slice, device_json, make_slice, with_features

D0, D1 = device_json("d0"), device_json("d1")
TIER_A = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a"]}]}]}
TIER_B = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "tier", "operator": "In", "values": ["b"]}]}]}
BAD = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "tier", "operator": "Like"}]}]}


def gather(*slices: ResourceSlice, node: Node = NODE, rules: SchedulerRules = RULES[1, 36]) -> list[Pool]:
    return gather_pools(SliceIndex(slices), node, rules)


def names(pools: list[Pool]) -> list[str]:
    return [candidate.device.id.device for pool in pools for candidate in pool.candidates()]


def states(pools: list[Pool]) -> list[tuple[str, PoolState]]:
    return [(pool.id.pool, pool.state) for pool in pools]


@all_of_them(
    "where, relevant",
    {
        "node-name": ({"nodeName": "n1"}, True),
        "other-node-name": ({"nodeName": "n2"}, False),
        "all-nodes": ({"allNodes": True}, True),
        "not-all-nodes": ({"allNodes": False}, False),
        "selector": ({"nodeSelector": TIER_A}, True),
        "other-selector": ({"nodeSelector": TIER_B}, False),
        "empty-selector": ({"nodeSelector": {"nodeSelectorTerms": []}}, False),
        "nothing-known": ({"nodeName": ""}, False),
        "per-device-none": ({"perDeviceNodeSelection": True}, False),
        "node-name-wins": ({"nodeName": "n2", "allNodes": True}, False),
    },
)
def test_relevance(where: dict[str, Any], relevant: bool) -> None:
    assert names(gather(make_slice(devices=[D0], **where))) == (["d0"] if relevant else [])


def test_per_device_slice_is_relevant_by_one_device() -> None:
    devices = [device_json("d0", nodeName="n2"), device_json("d1", nodeName="n1")]
    part = make_slice(devices=devices, perDeviceNodeSelection=True)
    # All of its devices are candidates; the search asks each of them again.
    assert names(gather(part)) == ["d0", "d1"]
    assert gather(part, node=Node("n3")) == []


def test_malformed_selector() -> None:
    with pytest.raises(NodeSelectorError):
        gather(make_slice(devices=[D0], nodeSelector=BAD))
    # A slice of another node by name is never read.
    assert gather(make_slice(devices=[D0], nodeName="n2", nodeSelector=BAD)) == []


@pytest.mark.parametrize("field", ["perDeviceNodeSelection", "sharedCounters"])
def test_partitionable_devices_off(field: str) -> None:
    off = with_features(RULES[1, 36], partitionable_devices=False)
    part = (
        make_slice(devices=[device_json("d0", allNodes=True)], perDeviceNodeSelection=True)
        if field == "perDeviceNodeSelection"
        else counter_slice(counters={"x": {"m": "1"}})
    )
    assert len(gather(part)) == 1
    assert gather(part, rules=off) == []


@all_of_them(
    "slices, expected",
    {
        "one": ([("a", 1, 1, "n1")], [("p", PoolState.USABLE)]),
        "both-here": ([("a", 1, 2, "n1"), ("b", 1, 2, "n1")], [("p", PoolState.USABLE)]),
        "one-elsewhere": ([("a", 1, 2, "n1"), ("b", 1, 2, "n2")], [("p", PoolState.USABLE)]),
        "one-missing": ([("a", 1, 2, "n1")], [("p", PoolState.INCOMPLETE)]),
        "one-too-many": ([("a", 1, 1, "n1"), ("b", 1, 1, "n1")], [("p", PoolState.INCOMPLETE)]),
        "too-many-elsewhere": ([("a", 1, 1, "n1"), ("b", 1, 1, "n2")], [("p", PoolState.USABLE)]),
        "newer-here": ([("a", 1, 1, "n1"), ("b", 2, 1, "n1")], [("p", PoolState.USABLE)]),
        "newer-incomplete": ([("a", 1, 1, "n1"), ("b", 2, 2, "n1")], [("p", PoolState.INCOMPLETE)]),
        "stale-but-complete": ([("a", 1, 1, "n1"), ("b", 2, 1, "n2")], [("p", PoolState.USABLE)]),
        "stale-and-incomplete": ([("a", 1, 2, "n1"), ("b", 2, 1, "n2")], []),
        "older-elsewhere": ([("a", 2, 2, "n1"), ("b", 1, 2, "n2")], [("p", PoolState.INCOMPLETE)]),
    },
)
def test_completeness(slices: list[tuple[str, int, int, str]], expected: list[tuple[str, PoolState]]) -> None:
    pools = gather(
        *(
            make_slice(name, [device_json(name)], generation=generation, count=count, nodeName=node)
            for name, generation, count, node in slices
        )
    )
    assert states(pools) == expected


def test_the_newest_generation_counts() -> None:
    old, new = make_slice("a", [D0], generation=1), make_slice("b", [D1], generation=2)
    assert names(gather(old, new)) == ["d1"]
    assert names(gather(new, old)) == ["d1"]


def test_first_slice_has_the_number_of_slices() -> None:
    first, second = make_slice("b", [D0], count=2), make_slice("a", [D1], count=3)
    assert states(gather(first, second)) == [("p", PoolState.USABLE)]
    assert states(gather(second, first)) == [("p", PoolState.INCOMPLETE)]


@pytest.mark.parametrize(
    ("slices", "problem"),
    [
        pytest.param([make_slice(devices=[D0, D0])], "device d0 is published twice", id="device"),
        pytest.param(
            [make_slice("a", [D0], count=2), make_slice("b", [D0], count=2)],
            "device d0 is published twice",
            id="device-in-two-slices",
        ),
        pytest.param(
            [counter_slice("a", {"x": {"m": "1"}}, count=2), counter_slice("b", {"x": {"n": "1"}}, count=2)],
            "counter set x is defined twice",
            id="counter-set",
        ),
        pytest.param(
            [make_slice(devices=[device_json("d0", counters={"x": {}})])],
            "device d0 consumes the unknown counter set x",
            id="unknown-set",
        ),
        pytest.param(
            [
                make_slice("a", [device_json("d0", counters={"x": {"n": "1"}})], count=2),
                counter_slice("b", {"x": {"m": "1"}}, count=2),
            ],
            "device d0 consumes the unknown counter x.n",
            id="unknown-counter",
        ),
        pytest.param(
            [
                make_slice("a", [D0], count=3),
                make_slice("c", [device_json("d1", counters={"x": {"n": "1"}})], count=3, nodeName="n2"),
                counter_slice("b", {"x": {"m": "1"}}, count=3),
            ],
            "device d1 consumes the unknown counter x.n",
            id="unknown-counter-elsewhere",
        ),
    ],
)
def test_invalid(slices: list[ResourceSlice], problem: str) -> None:
    [pool] = gather(*slices)
    assert (pool.state, pool.problem) == (PoolState.INVALID, problem)
    assert pool.candidates() == []


def test_duplicate_names_elsewhere_do_not_matter() -> None:
    pools = gather(make_slice("a", [D0], count=2), make_slice("b", [D0, D0], count=2, nodeName="n2"))
    assert states(pools) == [("p", PoolState.USABLE)]


def test_incomplete_pools_are_not_validated() -> None:
    assert states(gather(make_slice(devices=[D0, D0], count=2))) == [("p", PoolState.INCOMPLETE)]


def test_order() -> None:
    binding = device_json("z0", bindingConditions=["ready"], bindingFailureConditions=["failed"])
    pools = gather(
        make_slice("s", [binding], pool="a", driver="a.example.com"),
        make_slice("s2", [device_json("b2")], pool="b", driver="b.example.com", count=2),
        make_slice("s10", [device_json("b1"), device_json("b0")], pool="b", driver="b.example.com", count=2),
        make_slice("s", [device_json("a0")], pool="a", driver="b.example.com"),
        make_slice("s", [device_json("Z0")], pool="Z", driver="b.example.com"),
    )
    assert names(pools) == ["Z0", "a0", "b1", "b0", "b2", "z0"]


def test_other_slices_of_the_pool_are_kept_for_their_counters() -> None:
    [pool] = gather(
        make_slice("a", [D0], count=3),
        make_slice("c", [D1], count=3, nodeName="n2"),
        counter_slice("b", {"x": {"m": "2"}}, count=3, nodeName="n2"),
    )
    assert [item.name for item in pool.slices] == ["a"]
    assert [item.name for item in pool.other_slices] == ["c"]
    assert {str(name): amount for name, amount in pool.counters.items()} == {"x.m": 2_000_000_000}


@pytest.mark.parametrize(
    ("rules", "visible"), [pytest.param(RULES[1, 36], True, id="1.36"), pytest.param(RULES[1, 37], False, id="1.37")]
)
def test_counter_slices_of_other_nodes(rules: SchedulerRules, visible: bool) -> None:
    part = counter_slice(counters={"x": {"m": "1"}}, nodeName="n2")
    assert bool(gather(part, rules=rules)) is visible
    # Where devices of the pool are for this node its counters are needed in any case.
    both = gather(
        make_slice("a", [device_json("d0", counters={"x": {"m": "1"}})], count=2),
        counter_slice("b", {"x": {"m": "1"}}, count=2, nodeName="n2"),
        rules=rules,
    )
    assert states(both) == [("p", PoolState.USABLE)]
