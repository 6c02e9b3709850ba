"""Semantic versions."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.dra.cel import Semver, SemverError
from tests.all_of_them import all_of_them

# The order of semver.org, and numbers by value.
ASCENDING = [
    "0.0.0",
    "0.0.1",
    "1.0.0-0",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-A",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.1.0",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0-rc-1",
    "1.0.0",
    "1.0.2",
    "1.0.10",
    "2.0.0",
    "10.0.0",
    "18446744073709551615.0.0",
]


@all_of_them("lower, higher", pairwise(ASCENDING))
def test_order(lower: str, higher: str):
    assert Semver(lower).key < Semver(higher).key
    assert Semver(lower) != Semver(higher)


def test_build_metadata_does_not_count():
    assert Semver("1.2.3+a") == Semver("1.2.3+b") == Semver("1.2.3")
    assert hash(Semver("1.2.3+a")) == hash(Semver("1.2.3"))
    assert Semver("1.2.3+a").text == "1.2.3+a"


REFUSED = ["", "1", "1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.02.3", "1.2.03", "1.2.3-", "1.2.3+", "1.2.3-01"]
REFUSED += ["1.2.3-a..b", "1.2.3+a..b", "1.2.3-a_b", " 1.2.3", "1.2.3\n", "1.2.x", "-1.2.3", "1.2.3-é", "\u0661.2.3"]
REFUSED += ["18446744073709551616.0.0", "1.0.0-18446744073709551616"]


@all_of_them("text", REFUSED)
def test_refused(text: str):
    with pytest.raises(SemverError):
        Semver.parse(text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("v1.2.3", "1.2.3"),
        ("1", "1.0.0"),
        ("v1.2", "1.2.0"),
        ("01.002.0003", "1.2.3"),
        ("00.0.0", "0.0.0"),
        ("1.2.03-rc.1+b", "1.2.3-rc.1+b"),
        ("1.2.0-rc", "1.2.0-rc"),
    ],
)
def test_normalization(text: str, normal: str):
    assert Semver.parse(text, normalize=True).text == normal


@pytest.mark.parametrize("text", ["", "v", "vv1.0.0", "1-rc", "1.2+b", "1.2.3.4", " 1"])
def test_normalization_has_limits(text: str):
    with pytest.raises(SemverError):
        Semver.parse(text, normalize=True)


@given(st.tuples(*[st.integers(0, 2**64 - 1)] * 3), st.tuples(*[st.integers(0, 2**64 - 1)] * 3))
def test_numbers_order_by_value(one: tuple[int, int, int], other: tuple[int, int, int]):
    left, right = (Semver(".".join(map(str, numbers))) for numbers in (one, other))
    assert (left.key < right.key) == (one < other)
    assert (left == right) == (one == other)


@given(st.text())
def test_any_text_is_a_version_or_refused(text: str):
    for normalize in (False, True):
        try:
            Semver.parse(text, normalize=normalize)
        except SemverError as error:
            assert str(error)  # noqa: PT017
