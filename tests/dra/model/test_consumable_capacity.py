"""Consumed amounts of shares, and whether they fit."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra.model.consumable_capacity import Share, ShareError, ShareRefused, share_of, shortage
from dra_spawner.dra.quantity import Quantity
from dra_spawner.dra.scheduler_rules import RULES, SchedulerRules
from tests.all_of_them import all_of_them
from tests.dra.builders import make_device, with_features


def share_for(
    capacity: dict[str, Any], requests: dict[str, str] | None, rules: SchedulerRules = RULES[1, 36]
) -> Share | ShareRefused | ShareError:
    device = make_device(capacity=capacity, allowMultipleAllocations=True)
    wanted = {name: Quantity.parse(text) for name, text in requests.items()} if requests is not None else None
    return share_of(device.description, wanted, rules)


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


@all_of_them(
    "rules, requested, problem",
    {
        # Nothing requested: the whole of a capacity without a default is compared with the steps.
        f"{release[1]}-{requested}": (rules, requested, rules.quirks.high_bits_lost)
        for release, rules in RULES.items()
        for requested in (None, "5")
    },
)
def test_a_step_beyond_64_bits_is_a_division_by_zero(
    rules: SchedulerRules, requested: str | None, problem: bool
) -> None:
    capacity = policy("100", validRange={"min": "0", "step": "10E"})
    share = share_for({"memory": capacity}, {"memory": requested} if requested is not None else None, rules)
    assert isinstance(share, ShareError) is problem


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


FRACTIONS = with_features(RULES[1, 37], fractional_capacity_range=True)
SMALL_STEPS = policy("4", default="500m", validRange={"min": "500m", "step": "250m"})


@all_of_them(
    "rules, capacity, requested, consumed",
    {
        "1.36: beyond 64 bits, nothing": (RULES[1, 36], RANGE, "10e18", "0"),
        "1.36: a negative amount": (RULES[1, 36], policy("40Gi"), "-5Gi", "-5Gi"),
        "1.36: printed in powers of two": (
            RULES[1, 36],
            policy("1G", validRange={"min": "0", "step": "10M"}),
            "95M",
            "100000000",
        ),
        "1.37: beyond 64 bits, an error": (RULES[1, 37], RANGE, "10e18", ShareError),
        "1.37: rounded beyond 64 bits": (RULES[1, 37], RANGE, "9223372036854775807", ShareError),
        "1.37: a negative amount, an error": (RULES[1, 37], policy("40Gi"), "-5Gi", ShareError),
        "1.37: too much, another device": (RULES[1, 37], RANGE, "30Gi", ShareRefused),
        "1.37: printed as the step": (
            RULES[1, 37],
            policy("1G", validRange={"min": "0", "step": "10M"}),
            "95M",
            "100M",
        ),
        "1.37: fractions are whole units": (RULES[1, 37], SMALL_STEPS, "600m", "1"),
        "with the gate: fractions": (FRACTIONS, SMALL_STEPS, "600m", "750m"),
        "with the gate: whole units": (FRACTIONS, SMALL_STEPS, "900m", "1"),
        "with the gate: below a thousandth": (FRACTIONS, SMALL_STEPS, "600100u", ShareError),
    },
)
def test_releases_differ(rules: SchedulerRules, capacity: Any, requested: str, consumed: object) -> None:
    share = share_for({"memory": capacity}, {"memory": requested}, rules)
    assert (str(dict(share.consumed)["memory"]) if isinstance(share, Share) else type(share)) == consumed
