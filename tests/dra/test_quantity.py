"""Quantities as Kubernetes reads, computes and prints them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.dra.quantity import Quantity, QuantityError, QuantityFormat
from tests.all_of_them import all_of_them

BINARY, DECIMAL, EXPONENT = QuantityFormat.BINARY_SI, QuantityFormat.DECIMAL_SI, QuantityFormat.DECIMAL_EXPONENT
NANO = 10**9

# text, nano-units, format, as printed by Kubernetes
PARSED = [
    ("0", 0, DECIMAL, "0"),
    ("0Ki", 0, BINARY, "0"),
    ("0e5", 0, EXPONENT, "0"),
    ("-0.00", 0, DECIMAL, "0"),
    ("-", 0, DECIMAL, "0"),
    (".", 0, DECIMAL, "0"),
    ("Mi", 0, BINARY, "0"),
    ("1n", 1, DECIMAL, "1n"),
    ("1u", 1000, DECIMAL, "1u"),
    ("1m", 10**6, DECIMAL, "1m"),
    ("100m", 10**8, DECIMAL, "100m"),
    ("1", NANO, DECIMAL, "1"),
    ("1k", 10**3 * NANO, DECIMAL, "1k"),
    ("1M", 10**6 * NANO, DECIMAL, "1M"),
    ("1G", 10**9 * NANO, DECIMAL, "1G"),
    ("1T", 10**12 * NANO, DECIMAL, "1T"),
    ("1P", 10**15 * NANO, DECIMAL, "1P"),
    ("1E", 10**18 * NANO, DECIMAL, "1E"),
    ("1Ki", 2**10 * NANO, BINARY, "1Ki"),
    ("1Mi", 2**20 * NANO, BINARY, "1Mi"),
    ("1Gi", 2**30 * NANO, BINARY, "1Gi"),
    ("1Ti", 2**40 * NANO, BINARY, "1Ti"),
    ("1Pi", 2**50 * NANO, BINARY, "1Pi"),
    ("1Ei", 2**60 * NANO, BINARY, "1Ei"),
    ("1e3", 10**3 * NANO, EXPONENT, "1e3"),
    ("1E3", 10**3 * NANO, EXPONENT, "1E3"),
    ("12E6", 12 * 10**6 * NANO, EXPONENT, "12E6"),
    ("1e+2", 100 * NANO, EXPONENT, "100"),
    ("1e-3", 10**6, EXPONENT, "1e-3"),
    ("1e-12", 1, EXPONENT, "1e-9"),
    ("1e-999999999", 1, EXPONENT, "1e-9"),
    ("1e21", 10**21 * NANO, EXPONENT, "1e21"),
    # printed in canonical form: no fraction, exponent a multiple of three, binary only when whole and at least 1024
    ("1.5", 1_500_000_000, DECIMAL, "1500m"),
    ("0.1", 10**8, DECIMAL, "100m"),
    ("1000m", NANO, DECIMAL, "1"),
    ("1000", 1000 * NANO, DECIMAL, "1k"),
    ("1024", 1024 * NANO, DECIMAL, "1024"),
    ("100000000", 10**8 * NANO, DECIMAL, "100M"),
    ("1024Ki", 2**20 * NANO, BINARY, "1Mi"),
    ("1024Mi", 2**30 * NANO, BINARY, "1Gi"),
    ("1536Mi", 1536 * 2**20 * NANO, BINARY, "1536Mi"),
    ("1.5Gi", 1536 * 2**20 * NANO, BINARY, "1536Mi"),
    ("0.5Ki", 512 * NANO, BINARY, "512"),
    ("0.5Mi", 2**19 * NANO, BINARY, "512Ki"),
    ("1.1Ki", 1_126_400_000_000, BINARY, "1126400m"),
    ("0.0001Ki", 102_400_000, DECIMAL, "102400u"),
    ("-5Gi", -5 * 2**30 * NANO, BINARY, "-5Gi"),
    ("-1500m", -1_500_000_000, DECIMAL, "-1500m"),
    # Kubernetes keeps some texts as they are, taking them for canonical
    ("+5", 5 * NANO, DECIMAL, "+5"),
    ("005Ki", 5 * 1024 * NANO, BINARY, "005Ki"),
    ("1.500", 1_500_000_000, DECIMAL, "1.500"),
    ("1.", NANO, DECIMAL, "1."),
    ("08", 8 * NANO, DECIMAL, "08"),
    ("008Ki", 8192 * NANO, BINARY, "8Ki"),
    # finer than nano rounds away from zero
    ("0.1n", 1, DECIMAL, "1n"),
    ("-0.1n", -1, DECIMAL, "-1n"),
    ("1.1n", 2, DECIMAL, "2n"),
    ("0.0000000001", 1, DECIMAL, "1n"),
    ("1.0000000001", NANO + 1, DECIMAL, "1000000001n"),
    # binary is capped at the largest int64, decimal is not
    ("7Ei", 7 * 2**60 * NANO, BINARY, "7Ei"),
    ("8Ei", (2**63 - 1) * NANO, BINARY, "9223372036854775807"),
    ("-100Ei", -(2**63 - 1) * NANO, BINARY, "-9223372036854775807"),
    ("100E", 100 * 10**18 * NANO, DECIMAL, "100E"),
    ("9223372036854775808", 2**63 * NANO, DECIMAL, "9223372036854775808"),
    ("999E", 999 * 10**18 * NANO, DECIMAL, "999E"),
]


@all_of_them("text, nano, quantity_format, printed", PARSED)
def test_parse_and_print(text: str, nano: int, quantity_format: QuantityFormat, printed: str):
    quantity = Quantity.parse(text)
    assert (quantity.nano, quantity.format, str(quantity)) == (nano, quantity_format, printed)
    assert Quantity.parse(str(quantity)) == quantity


def test_the_largest_suffixes_never_lose_the_exponent():
    assert str(Quantity.parse("5000E")) == "5000E"  # Kubernetes prints "5" here
    assert str(Quantity.from_value(2**80, BINARY)) == "1048576Ei"


# text, as the API server stores it, Value() of that: zero or the low bits where 64 bits do not hold it
STORED = [
    ("10Gi", "10Gi", 10 * 2**30),
    ("1500m", "1500m", 2),
    ("-1500m", "-1500m", -2),
    ("0.5Ki", "512", 512),
    ("8Ei", "9223372036854775807", 2**63 - 1),
    ("9223372036854775807", "9223372036854775807", 2**63 - 1),
    ("9223372036854775808", "9223372036854775808", -(2**63)),
    ("18446744073709551616", "18446744073709551616", 0),
    ("18446744073709551617", "18446744073709551617", 1),
    ("10e18", "10e18", 0),
    ("10e399", "10e399", 0),
    ("5001E", "5001E", 0),
    ("28043930325G", "28043930325G", -8849557822419103232),
    # without a suffix that is large enough, Kubernetes drops it
    ("5000E", "5", 5),
    ("1000000000000000000000", "1", 1),
    ("-70000E", "-70", -70),
    # of an exponent, 32 bits count
    ("1e4294967299", "1e4294967299", 1000),
    ("1e4294967278", "1e-9", 1),
]


@all_of_them("text, stored, value", STORED)
def test_stored_and_counted_in_64_bits(text: str, stored: str, value: int):
    quantity = Quantity.parse(text)
    assert quantity.stored_text() == stored
    assert quantity.int64_value() == value
    assert Quantity.from_json(f" {text} ") == Quantity.parse(stored)


def test_a_comparison_changes_how_an_overflow_ends():
    # Compared with a big number, Kubernetes makes this one big, too, and multiplies without a check.
    small, big = Quantity.parse("5Gi"), Quantity.parse("5Pi")
    for text, value in (("10E", 10**19 - 2**64), ("1e19", 10**19 - 2**64), ("1e21", -(2**63))):
        amount = Quantity.parse(text)
        assert [amount.int64_value(compared_with=other) for other in (None, small, big)] == [0, 0, value]


NOT_QUANTITIES = ["", " ", " 1", "1 ", "1K", "1ki", "1KI", "1kB", "1i", "1e", "1e-", "1ee3", "1.2.3", "--1", "+-1"]
NOT_QUANTITIES += ["1e3Ki", "1Ki3", "1+3", "abc", "0x10", "1_000", "1,5", "NaN"]
NOT_QUANTITIES += ["inf", "Pi", "e-10", ".e-10", "٣", "1\n"]
NOT_QUANTITIES += ["1e1001", "1e999999999999999999999999", "1e9223372036854775808", "1" * 1001, "0" * 5000]


@all_of_them("text", NOT_QUANTITIES)
def test_refused_text(text: str):
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@pytest.mark.parametrize("value", [1.5, 1.0, True, None, [], b"1"])
def test_refused_types(value: object):
    with pytest.raises(QuantityError):
        Quantity.parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "nano"),
    [(7, 7 * NANO), (-7, -7 * NANO), ("7", 7 * NANO), (" 7k ", 7000 * NANO), (None, 0)],
    ids=["int", "negative", "text", "spaces", "null"],
)
def test_from_json(value: object, nano: int):
    assert Quantity.from_json(value).nano == nano


@pytest.mark.parametrize("value", [1.5, True, {}, "x"])
def test_from_json_refuses(value: object):
    with pytest.raises(QuantityError):
        Quantity.from_json(value)


def test_huge_integers_are_refused_not_computed():
    with pytest.raises(QuantityError):
        Quantity.parse(10**5000)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("1n", 1), ("-1n", -1), ("1500m", 2), ("-1500m", -2), ("2", 2), ("1.1Ki", 1127), ("1Gi", 2**30)],
)
def test_value_rounds_away_from_zero(text: str, value: int):
    assert Quantity.parse(text).value() == value


@all_of_them(
    "left, right, total, difference",
    [
        ("1Gi", "1Gi", "2Gi", "0"),
        ("1Gi", "1G", "2073741824", "73741824"),
        ("1Gi", "1k", "1073742824", "1073740824"),
        ("1k", "1Ki", "2024", "-24"),
        ("0", "1Ki", "1Ki", "-1Ki"),
        ("0", "1e3", "1e3", "-1e3"),
        ("0Ki", "1500", "1500", "-1500"),
        ("1Ki", "0", "1Ki", "1Ki"),
        ("+5", "0", "5", "5"),
        ("1m", "1n", "1000001n", "999999n"),
        ("512", "512", "1024", "0"),
        ("512Ki", "512Ki", "1Mi", "0"),
    ],
)
def test_arithmetic(left: str, right: str, total: str, difference: str):
    one, other = Quantity.parse(left), Quantity.parse(right)
    assert (str(one + other), str(one - other)) == (total, difference)


@pytest.mark.parametrize(("zero", "other"), [("0", "1Ki"), ("0Ki", "1k"), ("0", "1e3")])
def test_adding_to_zero_adopts_the_format(zero: str, other: str):
    one, two = Quantity.parse(zero), Quantity.parse(other)
    assert (one + two).format is two.format
    assert (one - two).format is two.format
    assert (two + one).format is two.format


def test_equality_and_hash_are_by_value():
    same = [Quantity.parse(text) for text in ("1Gi", "1024Mi", "1073741824", "1073741824000m", "1.0Gi")]
    assert len(set(same)) == 1
    assert Quantity.parse("1Gi") != Quantity.parse("1G")
    assert Quantity.parse("1") != 1
    assert not Quantity.parse("0Ki")


def test_negation_and_sign():
    quantity = Quantity.parse("1.5Gi")
    assert str(-quantity) == "-1536Mi"
    assert [Quantity.parse(text).sign for text in ("-1n", "0", "1n")] == [-1, 0, 1]


def test_quantities_are_immutable():
    with pytest.raises(AttributeError):
        Quantity.parse("1").nano = 2  # type: ignore[misc]


def test_arithmetic_with_numbers_is_an_error():
    with pytest.raises(TypeError):
        Quantity.parse("1") + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        Quantity.parse("1") < 1  # type: ignore[operator]  # noqa: B015


SUFFIX_FACTORS = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{suffix: Fraction(1024) ** (power + 1) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
    **{f"e{power}": Fraction(10) ** power for power in range(-12, 13)},
}


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, Fraction]:
    sign = draw(st.sampled_from(["", "-", "+"]))
    number = (
        str(draw(st.integers(0, 10**12))) + draw(st.sampled_from(["", "."])) + draw(st.from_regex(r"\A[0-9]{0,9}\Z"))
    )
    suffix = draw(st.sampled_from(sorted(SUFFIX_FACTORS)))
    amount = Fraction(number) * SUFFIX_FACTORS[suffix]
    if suffix.endswith("i"):
        amount = min(amount, Fraction(2**63 - 1))
    nano = math.ceil(amount * NANO)
    return sign + number + suffix, Fraction(-nano if sign == "-" else nano, NANO)


@given(texts())
def test_parse_agrees_with_fractions(case: tuple[str, Fraction]):
    text, amount = case
    quantity = Quantity.parse(text)
    assert Fraction(quantity.nano, NANO) == amount
    assert abs(quantity.value()) == math.ceil(abs(amount))


@given(texts())
def test_printing_round_trips(case: tuple[str, Fraction]):
    quantity = Quantity.parse(case[0])
    assert Quantity.parse(str(quantity)) == quantity
    assert Quantity.parse(quantity.canonical()) == quantity
    assert Quantity.parse(quantity.canonical()).canonical() == quantity.canonical()


@given(texts(), texts())
def test_order_and_sums_agree_with_fractions(one: tuple[str, Fraction], other: tuple[str, Fraction]):
    left, right = Quantity.parse(one[0]), Quantity.parse(other[0])
    assert (left < right, left <= right, left > right, left >= right, left == right) == (
        one[1] < other[1],
        one[1] <= other[1],
        one[1] > other[1],
        one[1] >= other[1],
        one[1] == other[1],
    )
    assert Fraction((left + right).nano, NANO) == one[1] + other[1]
    assert Fraction((left - right).nano, NANO) == one[1] - other[1]
    assert left != right or hash(left) == hash(right)


@given(st.text())
def test_any_text_parses_or_is_refused(text: str):
    try:
        Quantity.parse(text)
    except QuantityError as error:
        assert str(error)  # noqa: PT017
