"""Shared counters: free and used amounts, and pools whose counters are invalid."""

from __future__ import annotations

import pytest

from dra_spawner.dra.allocation.allocated_state import AllocatedState
from dra_spawner.dra.allocation.counters import CounterCache, CounterShortage, CounterUse
from dra_spawner.dra.model.objects import CounterName, ResourceClaim, ResourceSlice
from dra_spawner.dra.model.pools import Pool, SliceIndex, gather_pools
from dra_spawner.dra.scheduler_rules import RULES, SchedulerRules
from tests.dra.builders import DRIVER, NODE, counter_slice, device_json, make_slice, result, share, used

M, N = CounterName("x", "m"), CounterName("y", "n")
UNIT = 10**9
DEVICES = [
    device_json("d0", counters={"x": {"m": "3"}}),
    device_json("d1", counters={"x": {"m": "2"}}),
    device_json("d2", counters={"y": {"n": "1"}}),
    device_json("d3", counters={"x": {"m": "1"}, "y": {"n": "1"}}),
]


def pool_of(driver: str = DRIVER, m: str = "5", *more: ResourceSlice) -> Pool:
    count = 2 + len(more)
    slices = [
        make_slice("a", DEVICES, driver=driver, count=count),
        counter_slice("b", {"x": {"m": m}, "y": {"n": "2"}}, driver=driver, count=count),
        *more,
    ]
    [pool] = gather_pools(SliceIndex(slices), NODE, RULES[1, 36])
    return pool


def cache(*existing: ResourceClaim, rules: SchedulerRules = RULES[1, 36]) -> CounterCache:
    return CounterCache(AllocatedState.from_claims(existing), rules)


@pytest.mark.parametrize(
    ("existing", "left"),
    [
        pytest.param([], 5, id="nothing"),
        pytest.param([used(result("d0"))], 2, id="device"),
        pytest.param([used(share("d0", 1, memory="1"), share("d0", 2, memory="1"))], 2, id="shares-pay-once"),
        pytest.param([used(share("d0"))], 2, id="share-that-does-not-say"),
        pytest.param([used(result("d0"), result("d1"), result("d3"))], -1, id="overdrawn"),
        pytest.param([used(result("d0", driver="other.example.com"))], 5, id="other-driver"),
        pytest.param([used(result("far"))], 1, id="device-of-another-node"),
    ],
)
def test_left(existing: list[ResourceClaim], left: int) -> None:
    far = make_slice("c", [device_json("far", counters={"x": {"m": "4"}})], count=3, nodeName="n2")
    assert cache(*existing).left(pool_of(DRIVER, "5", far))[M] == left * UNIT


def test_reserve_and_release() -> None:
    pool = pool_of()
    use = CounterUse(cache())
    d0, d1, _, d3 = pool.slices[0].devices
    assert use.reserve(pool, d0)
    assert use.reserve(pool, d1)
    assert use.shortage(pool, d3) == CounterShortage(M, 0, UNIT)
    assert not use.reserve(pool, d3)
    use.release(pool, d1)
    # The refused device has taken nothing.
    assert use.shortage(pool, d3) is None
    assert use.reserve(pool, d3)


def test_one_overdrawn_counter_blocks_every_device_that_uses_the_counter() -> None:
    pool = pool_of(m="2")
    use = CounterUse(cache(used(result("d0"))))
    _, _, d2, _ = pool.slices[0].devices
    assert use.shortage(pool, d2) == CounterShortage(M, -UNIT, 0)
    assert not use.reserve(pool, d2)


@pytest.mark.parametrize(
    ("rules", "mixed_up"), [pytest.param(RULES[1, 36], True, id="1.36"), pytest.param(RULES[1, 37], False, id="1.37")]
)
def test_pools_of_two_drivers_with_one_name(rules: SchedulerRules, mixed_up: bool) -> None:
    first, second = pool_of("a.example.com", "3"), pool_of("b.example.com", "9")
    use = CounterUse(cache(rules=rules))
    assert use.reserve(first, first.slices[0].devices[0])
    assert use.reserve(second, second.slices[0].devices[0]) is not mixed_up
