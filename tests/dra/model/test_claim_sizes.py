"""Sizes that may be asked for, and the walk over a claim that finds the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.dra.model.claim_sizes import is_size, wrong_sizes
from tests.all_of_them import all_of_them

SIZES = ["1n", "500m", "10Gi", ".5Gi", "1e3", "4Ei", "4611686018427387904", "+5", 1, 2**62]
NO_SIZES: list[object] = [
    "0",
    "-1Gi",
    "0n",
    "",
    "Mi",
    "4611686018427387905",
    "8Ei",
    "10e18",
    "1e-1000",
    "1e4294967299",
    " 1",
    "x",
]
NO_SIZES += [0, -1, 2**62 + 1, True, None, 1.5, ["1"]]


@all_of_them("value", SIZES)
def test_a_size(value: Any) -> None:
    assert is_size(value)


@all_of_them("value", NO_SIZES)
def test_no_size(value: Any) -> None:
    assert not is_size(value)


def asked(size: Any) -> dict[str, Any]:
    return {"deviceClassName": "gpu", "capacity": {"requests": {"cores": 1, "memory": size}}}


def spec(size: Any) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "a", "exactly": asked("1Gi")}, {"name": "b", "exactly": asked(size)}]}}


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        (spec("8Ei"), "devices.requests[1].exactly"),
        ({"kind": "ResourceClaim", "spec": spec("8Ei")}, "spec.devices.requests[1].exactly"),
        ({"kind": "ResourceClaimTemplate", "spec": {"spec": spec("8Ei")}}, "spec.spec.devices.requests[1].exactly"),
        ({"spec": {**spec("8Ei"), "spec": spec("1")}}, "spec.devices.requests[1].exactly"),
        (
            {"devices": {"requests": [{"name": "a", "firstAvailable": [asked("1"), asked("8Ei")]}]}},
            "devices.requests[0].firstAvailable[1]",
        ),
        ({"devices": {"requests": [{"name": "a", **asked("8Ei")}]}}, "devices.requests[0]"),
    ],
    ids=["spec", "claim", "template", "hidden", "alternative", "v1beta1"],
)
def test_a_wrong_size_is_found_with_its_path(manifest: Any, path: str) -> None:
    assert list(wrong_sizes(manifest)) == [(f"{path}.capacity.requests.memory", "memory", "8Ei")]
    [(where, *_)] = wrong_sizes(manifest, "profile.gpu")
    assert where == f"profile.gpu.{path}.capacity.requests.memory"


def test_a_claim_without_wrong_sizes() -> None:
    assert list(wrong_sizes(spec("4Ei"))) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["devices", "requests", "exactly", "capacity", "spec", "firstAvailable", "x"]), inner, max_size=3),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_anything_can_be_looked_through(value: Any) -> None:
    for where, name, _ in wrong_sizes(value):
        assert where.endswith(f"capacity.requests.{name}")
