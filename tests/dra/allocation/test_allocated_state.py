"""Devices in use: which results count, and that adding and removing is exact."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.dra.allocation.allocated_state import AllocatedState, consumed_in
from dra_spawner.dra.model.objects import AllocatedDevice, DeviceId, PoolId
from dra_spawner.dra.quantity import Quantity
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, RULES, Release
from tests.all_of_them import all_of_them
from tests.dra.builders import DRIVER, make_claim, request, result, share, used, with_features

D0 = DeviceId(DRIVER, "p", "d0")
GI = 2**30 * 10**9


@all_of_them(
    "results, taken, allocated, consumed",
    {
        "nothing": ([], False, False, None),
        "whole": ([result("d0")], True, True, None),
        "admin": ([result("d0", adminAccess=True)], False, False, None),
        "no-admin": ([result("d0", adminAccess=False)], True, True, None),
        "share": ([share("d0", memory="1Gi")], False, True, {"memory": GI}),
        "sum": ([share("d0", 1, memory="1Gi"), share("d0", 2, memory="2Gi")], False, True, {"memory": 3 * GI}),
        "share-of-nothing": ([share("d0", memory="0")], False, True, {}),
        "share-that-does-not-say": ([share("d0")], False, True, None),
        "admin-share": ([share("d0") | {"adminAccess": True}], False, False, None),
        "no-share-id": ([result("d0", consumedCapacity={"memory": "1Gi"})], True, True, None),
    },
)
def test_results(results: list[Any], taken: bool, allocated: bool, consumed: dict[str, int] | None) -> None:
    state = AllocatedState.from_claims([used(*results), make_claim(request())])
    assert state.is_taken(D0) is taken
    assert state.is_allocated(D0) is allocated
    assert state.consumed_capacity(D0) == consumed
    assert state.has_shares(D0) is (allocated and not taken)


def test_without_consumable_capacity_shares_are_whole_devices() -> None:
    state = AllocatedState.from_claims(
        [used(share("d0", memory="1Gi"))], with_features(DEFAULT_RULES, consumable_capacity=False)
    )
    assert state.is_taken(D0)
    assert state.consumed_capacity(D0) is None


@all_of_them(
    "release, expected",
    {"as text": ((1, 37), {"memory": 4 * GI, f"{DRIVER}/memory": 7 * GI}), "one": ((1, 38), {"memory": 7 * GI})},
)
def test_both_names_of_one_capacity_in_a_result(release: Release, expected: dict[str, int]) -> None:
    rules, claim = RULES[release], used(share("d0", 1, memory="4Gi", **{f"{DRIVER}/memory": "7Gi"}))
    state = AllocatedState.from_claims([claim], rules)
    assert state.consumed_capacity(D0) == expected
    state.add(claim.status.devices or ())
    state.remove(claim.status.devices or ())
    assert state == AllocatedState.from_claims([claim], rules)


AMOUNTS = st.dictionaries(st.sampled_from(["memory", "cores"]), st.integers(-3, 3).map(Quantity), max_size=2)
RESULTS = st.builds(
    AllocatedDevice,
    id=st.sampled_from([DeviceId("d", "p", name) for name in "abc"]),
    admin_access=st.booleans(),
    share_id=st.sampled_from([None, "x"]),
    consumed_capacity=st.none() | AMOUNTS,
)


@given(
    remaining=st.lists(st.lists(RESULTS, max_size=3), max_size=4),
    removed=st.lists(st.lists(RESULTS, max_size=3), max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_removing_claims_leaves_the_state_of_the_others(
    remaining: list[list[AllocatedDevice]], removed: list[list[AllocatedDevice]], order: Any
) -> None:
    state, expected = AllocatedState(), AllocatedState()
    added = remaining + removed
    order.shuffle(added)
    for results in added:
        state.add(results)
    before = state.copy()
    for results in removed:
        state.remove(results)
    for results in remaining:
        expected.add(results)
    assert state == expected
    for results in removed:
        state.add(results)
    assert state == before


@given(st.lists(st.lists(RESULTS, max_size=3), max_size=5))
def test_uses_agree_with_the_single_questions(allocations: list[list[AllocatedDevice]]) -> None:
    state = AllocatedState()
    state.add_all(allocations)
    uses = state.uses([(PoolId("d", "other"), ("a",)), (PoolId("d", "p"), ("a", "b", "c"))])
    assert uses[0] is None
    for name, use in zip("abc", uses[1:], strict=True):
        device = DeviceId("d", "p", name)
        assert consumed_in(use) == (state.is_taken(device), state.consumed_capacity(device))
        assert (use is None) is not state.is_allocated(device)


@pytest.mark.parametrize(
    ("one", "miscounted"),
    [
        ({"memory": "-8589934589Gi"}, True),
        ({"memory": "0"}, True),
        ({"memory": "5Gi", "cores": "-1"}, True),
        ({"memory": "5Gi", "cores": "0"}, False),
        ({"memory": "5Gi"}, False),
        ({}, False),
    ],
    ids=str,
)
def test_a_miscounted_share_is_known(one: dict[str, str], miscounted: bool) -> None:
    good, other = used(share("d0", 1, memory="5Gi")), used(share("d0", 2, **one))
    state = AllocatedState.from_claims([good, other])
    assert state.is_miscounted(D0) is miscounted
    assert state.copy().is_miscounted(D0) is miscounted
    state.remove(other.status.devices or ())
    assert not state.is_miscounted(D0)
    assert state == AllocatedState.from_claims([good])
