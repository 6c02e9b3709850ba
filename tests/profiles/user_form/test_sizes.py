"""Sizes that a form offers: few, regular, and each of them one that some device gives as it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.dra.model.devices import CapacityPolicy, CapacityRange, DeviceCapacity
from dra_spawner.dra.quantity import Quantity
from dra_spawner.profiles.user_form.offers import Offer, reserved_amounts
from dra_spawner.profiles.user_form.sizes import pick_sizes, readable_range
from tests.all_of_them import all_of_them

parse = Quantity.parse


def steps(value, minimum, maximum=None, step=None, default=None):
    limits = CapacityRange(parse(minimum), parse(maximum) if maximum else None, parse(step) if step else None)
    policy = CapacityPolicy(parse(default or minimum), valid_range=limits)
    return Offer(DeviceCapacity(parse(value), policy), is_shareable=True)


def values(value, *sizes):
    return Offer(DeviceCapacity(parse(value), CapacityPolicy(parse(sizes[0]), tuple(map(parse, sizes)))), True)


def unlimited(value):
    return Offer(DeviceCapacity(parse(value)), is_shareable=True)


def whole(value):
    return Offer(DeviceCapacity(parse(value)), is_shareable=False)


@all_of_them(
    "offers, expected",
    {
        "nothing": ([], []),
        "few steps: all of them": (
            [steps("40Gi", "5Gi", "40Gi", "5Gi")],
            ["5Gi", "10Gi", "15Gi", "20Gi", "25Gi", "30Gi", "35Gi", "40Gi"],
        ),
        "many steps: doubles": ([steps("80Gi", "5Gi", "80Gi", "5Gi")], ["5Gi", "10Gi", "20Gi", "40Gi", "80Gi"]),
        "tiny steps: the larger ones, and all there is": (
            [steps("23034Mi", "1Mi", None, "1Mi")],
            ["256Mi", "512Mi", "1Gi", "2Gi", "4Gi", "8Gi", "16Gi", "23034Mi"],
        ),
        "decimal: 1, 2, 5": ([steps("10G", "100M", "10G", "100M")], ["100M", "200M", "500M", "1G", "2G", "5G", "10G"]),
        "narrow: evenly": ([steps("100", "30", "100", "1")], ["30", "40", "50", "60", "80", "100"]),
        "from nothing": ([steps("100", "0", "100", "1")], ["1", "2", "5", "10", "20", "50", "100"]),
        "maximum off the steps": ([steps("40Gi", "5Gi", "17Gi", "5Gi")], ["5Gi", "10Gi", "15Gi"]),
        "no steps": ([steps("80Gi", "5Gi", "80Gi")], ["5Gi", "10Gi", "20Gi", "40Gi", "80Gi"]),
        "values": ([values("40Gi", "5Gi", "20Gi", "40Gi")], ["5Gi", "20Gi", "40Gi"]),
        "one value": ([values("64", "1")], ["1"]),
        "fractions, which Kubernetes rounds up": ([steps("2", "500m", "2", "500m")], ["1", "2"]),
        "no policy": ([unlimited("80Gi")], ["1Gi", "2Gi", "4Gi", "8Gi", "16Gi", "32Gi", "64Gi", "80Gi"]),
        "devices that are not shared": ([whole("40Gi"), whole("80Gi")], ["40Gi", "80Gi"]),
        "several policies: a size that is legal somewhere": (
            [values("40Gi", "5Gi", "15Gi"), steps("24Gi", "8Gi", "24Gi", "8Gi")],
            ["5Gi", "8Gi", "15Gi", "16Gi", "24Gi"],
        ),
    },
)
def test_sizes(offers, expected):
    assert [str(size) for size in pick_sizes(offers, 8)] == expected


def test_limits_and_number():
    offer = steps("40Gi", "5Gi", "40Gi", "5Gi")
    assert [str(size) for size in pick_sizes([offer], 8, parse("7Gi"), parse("22Gi"))] == ["10Gi", "15Gi", "20Gi"]
    assert [str(size) for size in pick_sizes([offer], 3)] == ["10Gi", "20Gi", "40Gi"]
    assert pick_sizes([offer], 8, smallest=parse("50Gi")) == []


_GIGA = st.integers(1, 300).map(lambda number: f"{number}Gi")
_OFFERS = st.one_of(
    st.builds(unlimited, _GIGA),
    st.builds(whole, _GIGA),
    st.builds(lambda count, step, low: steps(f"{low + count * step}Mi", f"{low}Mi", None, f"{step}Mi"),
              st.integers(0, 40000), st.integers(1, 9000), st.integers(0, 9000)),
)  # fmt: skip


@given(st.lists(_OFFERS, max_size=4), st.integers(2, 12))
def test_every_size_is_one_that_a_device_gives(offers, at_most):
    sizes = pick_sizes(offers, at_most)
    assert len(sizes) <= at_most
    assert sizes == sorted(set(sizes))
    assert all(any(offer.reserved(size) == size for offer in offers) for size in sizes)
    assert bool(sizes) == any(offer.largest for offer in offers)


@pytest.mark.parametrize(
    ("offers", "wanted", "expected"),
    [
        pytest.param([steps("40Gi", "5Gi", "40Gi", "5Gi")], "12Gi", "15 GiB", id="next step"),
        pytest.param([steps("40Gi", "5Gi", "40Gi", "5Gi")], "1Gi", "5 GiB", id="minimum"),
        pytest.param([steps("10G", "100M", "10G", "100M")], "150M", "200M", id="decimal stays decimal"),
        pytest.param([values("40Gi", "5Gi", "20Gi")], "6Gi", "20 GiB", id="next value"),
        pytest.param([whole("80Gi")], "10Gi", "80 GiB", id="a device that is not shared goes as a whole"),
        pytest.param(
            [steps("40Gi", "5Gi", "40Gi", "5Gi"), steps("64Gi", "8Gi", "64Gi", "8Gi")],
            "12Gi",
            "15 GiB to 16 GiB",
            id="it depends on the device",
        ),
        pytest.param([steps("40Gi", "5Gi", "20Gi", "5Gi"), whole("80Gi")], "30Gi", "80 GiB", id="where it is given"),
    ],
)
def test_reserved_amounts(offers, wanted, expected):
    amounts = reserved_amounts(offers, parse(wanted))
    assert amounts is not None
    assert readable_range(*amounts) == expected


def test_amounts_that_no_device_gives():
    assert reserved_amounts([steps("40Gi", "5Gi", "20Gi", "5Gi"), whole("20Gi")], parse("30Gi")) is None
    assert reserved_amounts([], parse("30Gi")) is None


@pytest.mark.parametrize(
    ("amount", "text"), [("10Gi", "10 GiB"), ("1536Mi", "1536 MiB"), ("4864Mi", "4864 MiB"), ("5", "5"), ("1G", "1G")]
)
def test_readable_amounts(amount, text):
    assert readable_range(parse(amount), parse(amount)) == text


def test_amounts_that_are_not_above_zero_or_too_large_are_not_given():
    for offer in (steps("40Gi", "5Gi", "40Gi", "5Gi"), steps("40Gi", "5Gi", None, "5Gi")):
        for wanted in ("10e18", "9223372036854775808", "9223372036854775807", "0", "-5Gi", "41Gi"):
            assert offer.reserved(parse(wanted)) is None, (offer, wanted)
