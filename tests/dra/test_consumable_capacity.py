"""Consumed amounts of shares, and whether they fit."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra.consumable_capacity import Share, ShareRefused, share_of, shortage
from dra_spawner.dra.quantity import Quantity
from tests.all_of_them import all_of_them
from tests.dra.builders import make_device


def share_for(capacity: dict[str, Any], requests: dict[str, str] | None) -> Share | ShareRefused:
    device = make_device(capacity=capacity, allowMultipleAllocations=True)
    wanted = {name: Quantity.parse(text) for name, text in requests.items()} if requests is not None else None
    return share_of(device.description.capacity, wanted)


def policy(value: str, **policy: Any) -> dict[str, Any]:
    return {"value": value, "requestPolicy": policy}


RANGE = policy("40Gi", default="5Gi", validRange={"min": "5Gi", "step": "5Gi", "max": "20Gi"})
OPEN_RANGE = policy("40Gi", default="5Gi", validRange={"min": "5Gi"})
VALUES = policy("80Gi", default="10Gi", validValues=["10Gi", "20Gi", "40Gi"])
DEFAULT_ONLY = policy("100", default="10")


@all_of_them(
    "capacity, requested, consumed",
    {
        "no-policy-nothing-requested": ("40Gi", None, "40Gi"),
        "no-policy": ("40Gi", "5Gi", "5Gi"),
        "no-policy-more-than-there-is": ("40Gi", "50Gi", "50Gi"),
        "negative": ("40Gi", "-5Gi", "-5Gi"),
        "default": (DEFAULT_ONLY, None, "10"),
        "default-only-takes-anything": (DEFAULT_ONLY, "3", "3"),
        "default-larger-than-the-device": (policy("4", default="100"), None, "100"),
        "range-default": (RANGE, None, "5Gi"),
        "range-below-minimum": (RANGE, "1Gi", "5Gi"),
        "range-minimum": (RANGE, "5Gi", "5Gi"),
        "range-step": (RANGE, "12Gi", "15Gi"),
        "range-maximum": (RANGE, "20Gi", "20Gi"),
        "range-above-maximum": (RANGE, "21Gi", None),
        "range-without-step": (OPEN_RANGE, "12345678901", "12345678901"),
        "range-without-step-minimum": (OPEN_RANGE, "1", "5Gi"),
        "values-default": (VALUES, None, "10Gi"),
        "values-next": (VALUES, "11Gi", "20Gi"),
        "values-last": (VALUES, "40Gi", "40Gi"),
        "values-above": (VALUES, "41Gi", None),
        "binary": (policy("1G", default="10M", validRange={"min": "0", "step": "10M"}), "95M", "100000000"),
        "whole-units": (policy("8", default="1", validRange={"min": "1", "step": "500m"}), "1500m", "2"),
        "minimum-rounded": (policy("8", default="2", validRange={"min": "1500m", "step": "2"}), "1600m", "2"),
        "beyond-int64": (policy("8", default="1", validRange={"min": "0", "step": "1"}), "22E", "0"),
        "beyond-int64-long": (
            policy("8", default="1", validRange={"min": "0", "step": "1"}),
            "9223372036854775809",
            "-9223372036854775807",
        ),
        "beyond-int64-in-steps": (RANGE, "10e18", "0"),
        "beyond-int64-in-steps-long": (RANGE, "9223372036854775808", "-8589934589Gi"),
        "beyond-int64-when-rounded-up": (RANGE, "9223372036854775807", "-8589934589Gi"),
        "the-largest-size-of-ours": (RANGE, "4Ei", None),
        "beyond-int64-without-step": (OPEN_RANGE, "10e18", "10e18"),
    },
)
def test_consumed(capacity: Any, requested: str | None, consumed: str | None) -> None:
    share = share_for({"memory": capacity}, {"memory": requested} if requested is not None else None)
    if consumed is None:
        assert isinstance(share, ShareRefused)
        assert (share.capacity, share.is_unknown) == ("memory", False)
    else:
        assert isinstance(share, Share)
        assert [(name, str(amount)) for name, amount in share.consumed] == [("memory", consumed)]


def test_every_capacity_is_consumed_requested_or_not() -> None:
    share = share_for({"memory": "40Gi", "cores": DEFAULT_ONLY, "lanes": "4"}, {"memory": "1Gi"})
    assert isinstance(share, Share)
    assert [(name, str(amount)) for name, amount in share.consumed] == [
        ("memory", "1Gi"),
        ("cores", "10"),
        ("lanes", "4"),
    ]


@pytest.mark.parametrize("name", ["unknown", "gpu.example.com/memory"])
def test_unknown_capacity(name: str) -> None:
    share = share_for({"memory": "40Gi"}, {name: "1"})
    assert isinstance(share, ShareRefused)
    assert (share.capacity, share.is_unknown) == (name, True)


@pytest.mark.parametrize(
    ("aggregated", "in_call", "short"),
    [
        pytest.param(None, None, None, id="idle"),
        pytest.param({"memory": 30}, None, None, id="just-enough"),
        pytest.param({"memory": 31}, None, ("memory", 9, 10), id="taken"),
        pytest.param({"memory": 10}, {"memory": 21}, ("memory", 9, 10), id="taken-in-this-call"),
        pytest.param(None, {"cores": 100}, ("cores", 0, 1), id="other"),
        pytest.param({"memory": 50}, {"memory": -20}, None, id="negative-share"),
        pytest.param({"gone": 50}, None, None, id="capacity-no-longer-published"),
    ],
)
def test_shortage(
    aggregated: dict[str, int] | None, in_call: dict[str, int] | None, short: tuple[str, int, int] | None
) -> None:
    share = share_for({"memory": "40", "cores": "100"}, {"memory": "10", "cores": "1"})
    assert isinstance(share, Share)
    unit = 10**9

    def nano(amounts: dict[str, int] | None) -> dict[str, int] | None:
        return {name: amount * unit for name, amount in amounts.items()} if amounts is not None else None

    expected = (short[0], short[1] * unit, short[2] * unit) if short is not None else None
    assert shortage(share, nano(aggregated), nano(in_call)) == expected


@pytest.mark.parametrize("requested", ["10e18", "9223372036854775808", "9223372036854775807"])
def test_amounts_are_exact_without_the_quirk(requested: str) -> None:
    device = make_device(capacity={"memory": RANGE}, allowMultipleAllocations=True)
    share = share_of(device.description.capacity, {"memory": Quantity.parse(requested)}, in_64_bits=False)
    assert isinstance(share, ShareRefused)
    assert share.needed >= Quantity.parse(requested)
