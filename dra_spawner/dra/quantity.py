"""Kubernetes quantities (``resource.Quantity``), exact and immutable.

A quantity is a whole number of *nano-units* and the format it was written in. Parsing, rounding, capping and
printing follow ``k8s.io/apimachinery/pkg/api/resource``; comparison, equality and hash are by value alone
(``1Gi == 1024Mi``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

NANO_PER_UNIT: Final = 10**9
#: Kubernetes counts whole units up to here. Binary quantities are capped here when parsed, in both directions.
MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)
#: Digits left of the decimal point that are accepted. Kubernetes has no such limit: comparing ``1e2147483646`` ends it.
MAX_DIGITS: Final = 1000
#: Characters of a text that are accepted, leading zeros included.
MAX_CHARACTERS: Final = 4 * MAX_DIGITS

_INT64_DIGITS: Final = 18  # decimal digits that surely fit an int64
_SYNTAX: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)\Z")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)\Z")
_DECIMAL_EXPONENTS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES: Final = ("", *_BINARY_EXPONENTS)
_BINARY_UNIT: Final = re.compile(r"([KMGTPE]i)\Z")
_DECIMAL_AMOUNT: Final = re.compile(r"(\d+)([kMGTPE]?)\Z")


class QuantityError(ValueError):
    """A text or a number that is not a Kubernetes quantity."""


class QuantityFormat(StrEnum):
    """How a quantity prints (``resource.Format``)."""

    BINARY_SI = "BinarySI"  # 12Mi
    DECIMAL_SI = "DecimalSI"  # 12M
    DECIMAL_EXPONENT = "DecimalExponent"  # 12e6


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity:
    """An exact amount of something.

    Parameters
    ----------
    nano
        The amount in nano-units (10⁻⁹): ``1`` is a billionth, ``10**9`` is one.
    format
        How it prints.
    """

    nano: int
    """The amount in nano-units."""

    format: QuantityFormat = QuantityFormat.DECIMAL_SI
    """How it prints; results of arithmetic keep the left operand's, unless that is zero."""

    written: str | None = None
    """The text it was parsed from, where Kubernetes prints that text again (it counts as canonical there)."""

    @classmethod
    def parse(cls, value: str | int) -> Quantity:
        """Parse as ``resource.ParseQuantity`` does: no white space around it, finer than nano rounds away from zero.

        Raises
        ------
        QuantityError
            When the value is no quantity, or is a float (which would not be exact) or a bool.
        """
        if isinstance(value, str):
            return _parse_text(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return _parse_text(_decimal_text(value))
        raise QuantityError(f"a quantity is a string or an integer, not {type(value).__name__}")

    @classmethod
    def from_json(cls, value: object) -> Quantity:
        """Decode an API field as it is after the API server stored it (:meth:`stored_text`).

        White space around a string is dropped, and null is zero.

        Raises
        ------
        QuantityError
            When the value is no quantity. A JSON number with a fraction has lost its digits already and is refused.
        """
        if value is None:
            return ZERO
        if isinstance(value, str):
            return _decode_text(value.strip())
        if isinstance(value, int) and not isinstance(value, bool):
            return _decode_text(_decimal_text(value))
        raise QuantityError(f"a quantity is a string or an integer, not {type(value).__name__}")

    @classmethod
    def from_value(cls, value: int, format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Quantity:  # noqa: A002 (as the field)
        """Quantity of so many whole units."""
        return cls(value * NANO_PER_UNIT, format)

    def value(self) -> int:
        """Whole units, rounded away from zero (``Quantity.Value``)."""
        return _divide_away_from_zero(self.nano, NANO_PER_UNIT)

    def int64_value(self, *, compared_with: Quantity | None = None) -> int:
        """Whole units as kube-scheduler computes them from the stored text (``Quantity.Value``, 64 bits).

        Beyond 64 bits the result is zero, or what the low 64 bits say. Nothing reports the overflow.

        Parameters
        ----------
        compared_with
            A quantity with which this one was compared before: ``Quantity.Cmp`` changes how a number is kept.
        """
        if 0 <= self.nano <= MAX_INT64 * NANO_PER_UNIT:
            return self.value()
        stored = self.stored_text()
        scale = int64_scale(stored)
        if scale is None:
            return _big_decimal_value(_parse_text(stored).nano)
        value = _parse_text(stored).value()
        if MIN_INT64 <= value <= MAX_INT64:
            return value
        power = 10**scale
        if compared_with is None or int64_scale(compared_with.stored_text()) is not None:
            # Go multiplies at once for these, and digit by digit until it notices an overflow for others.
            return wrap_int64(value) if scale in (1, 2, 3, 6, 9) else 0
        return wrap_int64(value // power * (power if power <= MAX_INT64 else MIN_INT64))

    @property
    def is_integer(self) -> bool:
        """Whether this is a whole number of units."""
        return self.nano % NANO_PER_UNIT == 0

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.nano > 0) - (self.nano < 0)

    def __add__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):
            return NotImplemented
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):
            return NotImplemented
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.nano >= other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __str__(self) -> str:
        """The text for people: as Kubernetes prints it, but the suffix of a huge amount is kept (``5000E``)."""
        return self.written if self.written is not None else self.canonical()

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def stored_text(self) -> str:
        """The text that the API server stores (``Quantity.String``).

        Where no suffix is large enough, Kubernetes drops the suffix: it stores ``5000E`` as ``5``.
        """
        text = str(self)
        if self.written is not None or self.format is QuantityFormat.DECIMAL_EXPONENT:
            return text
        suffix, factor = ("Ei", 1024) if text.endswith("Ei") else ("E", 1000)
        number = int(text.removesuffix(suffix)) if text.endswith(suffix) else 0
        if not number or number % factor:
            return text
        while number % factor == 0:
            number //= factor
        return str(number)

    def canonical(self) -> str:
        """The canonical text made from the amount, whatever was written."""
        if self.nano == 0:
            return "0"
        if self.format is QuantityFormat.BINARY_SI and self.is_integer:
            value = self.nano // NANO_PER_UNIT
            if abs(value) >= 1024:
                return _binary_text(value)
        return _scaled_text(self.nano, with_suffix=self.format is not QuantityFormat.DECIMAL_EXPONENT)


def amount_text(amount: Quantity, capacity: str = "") -> str:
    """An amount as people write it, such as ``15 GiB`` or ``1 Gbit/s``.

    Parameters
    ----------
    capacity
        Name of the capacity: decimal units of a ``bandwidth`` are of bits a second. Binary units are always of bytes.
    """
    text = Quantity(amount.nano, amount.format).canonical()
    decimal = _DECIMAL_AMOUNT.fullmatch(text) if capacity.rpartition("/")[2].lower() == "bandwidth" else None
    return f"{decimal[1]} {decimal[2]}bit/s" if decimal is not None else _BINARY_UNIT.sub(r" \1B", text)


def wrap_int64(value: int) -> int:
    """What 64 bits keep of a number."""
    return (value - MIN_INT64) % 2**64 + MIN_INT64


def _big_decimal_value(nano: int) -> int:
    """Whole units of what Kubernetes keeps as a big decimal (``scaledValue``); rounds up, or drops the high bits."""
    if nano < MAX_INT64:
        # As in Go: the low bits first, then a division that rounds toward zero, and one more for any rest.
        low = wrap_int64(nano)
        units = abs(low) // NANO_PER_UNIT
        return (units if low >= 0 else -units) + bool(low % NANO_PER_UNIT)
    return wrap_int64(_divide_away_from_zero(nano, NANO_PER_UNIT))


def _divide_away_from_zero(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor) if dividend > 0 else dividend // divisor


def _decimal_text(value: int) -> str:
    if abs(value) >= 10**MAX_DIGITS:
        raise QuantityError(f"the quantity has more than {MAX_DIGITS} digits")
    return str(value)


def _binary_text(value: int) -> str:
    if value == MIN_INT64:
        return str(value)  # it has no positive counterpart, so Go finds no factor in it
    power = 0
    while power < len(_BINARY_SUFFIXES) - 1 and value % 1024 == 0:
        value //= 1024
        power += 1
    return f"{value}{_BINARY_SUFFIXES[power]}"


def _scaled_text(nano: int, *, with_suffix: bool) -> str:
    """Mantissa and the largest exponent, a multiple of three, that loses no digit."""
    exponent = -9
    while nano % 1000 == 0 and not (with_suffix and exponent == 18):
        nano //= 1000
        exponent += 3
    if with_suffix:
        return f"{nano}{_DECIMAL_SUFFIXES[exponent]}"
    return f"{nano}e{exponent}" if exponent else str(nano)


@lru_cache(maxsize=16384)
def _decode_text(text: str) -> Quantity:
    return _parse_text(_parse_text(text).stored_text())


@lru_cache(maxsize=16384)
def _parse_text(text: str) -> Quantity:
    if len(text) > MAX_CHARACTERS:
        raise QuantityError(f"{_shown(text)} has more than {MAX_CHARACTERS} characters")
    match = _SYNTAX.match(text) if text else None
    if match is None:
        raise QuantityError(f"{_shown(text)} is not a quantity")
    sign, whole, fraction, suffix = match.groups(default="")
    quantity_format, exponent = _interpret_suffix(text, suffix)
    digits = whole.lstrip("0") or "0"
    binary = quantity_format is QuantityFormat.BINARY_SI
    scale = _wrap_int32((0 if binary else exponent) - len(fraction))
    if max(len(digits) + max(scale + len(fraction), 0), len(fraction)) > MAX_DIGITS:
        if (digits + fraction).strip("0"):
            raise QuantityError(f"{_shown(text)} has more than {MAX_DIGITS} digits")
        scale = 0
    small = _fits_int64(digits, fraction, exponent, binary) and scale >= -9
    if not small and not whole and not fraction:
        raise QuantityError(f"{_shown(text)} has no number")

    mantissa = int(digits + fraction) << exponent if binary else int(digits + fraction)
    if small:
        nano = mantissa * 10 ** (scale + 9)
    else:
        nano, quantity_format = _round_and_cap(mantissa, scale, quantity_format)
    if sign == "-":
        nano = -nano
    keeps_text = small and mantissa and _is_canonical(digits + fraction, scale, binary)
    return Quantity(nano, quantity_format, text if keeps_text else None)


def int64_scale(text: str) -> int | None:
    """How Kubernetes holds the quantity that it parses from this text.

    Returns
    -------
    int | None
        The decimal scale beside a 64-bit mantissa, or None when it takes a big decimal. CEL shows the difference.

    Raises
    ------
    QuantityError
        When the text is no quantity.
    """
    _parse_text(text)
    match = _SYNTAX.match(text)
    assert match is not None, "it parsed"
    _, whole, fraction, suffix = match.groups(default="")
    quantity_format, exponent = _interpret_suffix(text, suffix)
    binary = quantity_format is QuantityFormat.BINARY_SI
    scale = _wrap_int32((0 if binary else exponent) - len(fraction))
    return scale if scale >= -9 and _fits_int64(whole.lstrip("0") or "0", fraction, exponent, binary) else None


def _interpret_suffix(text: str, suffix: str) -> tuple[QuantityFormat, int]:
    """Format and exponent (to base two for the binary format, else to base ten)."""
    exponent = _DECIMAL_EXPONENTS.get(suffix)
    if exponent is not None:
        return QuantityFormat.DECIMAL_SI, exponent
    exponent = _BINARY_EXPONENTS.get(suffix)
    if exponent is not None:
        return QuantityFormat.BINARY_SI, exponent
    match = _EXPONENT.match(suffix)
    exponent = int(match[1]) if match is not None else 2**63
    if not MIN_INT64 <= exponent <= MAX_INT64:
        raise QuantityError(f"{_shown(text)} has an unknown suffix, {_shown(suffix)}")
    # Kubernetes keeps 32 bits of it: 1e4294967299 is a thousand.
    return QuantityFormat.DECIMAL_EXPONENT, _wrap_int32(exponent)


def _wrap_int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _fits_int64(digits: str, fraction: str, exponent: int, binary: bool) -> bool:
    """Whether Kubernetes keeps this in an int64 rather than a big decimal: that decides how it prints."""
    if binary:
        return not fraction and len(digits) + exponent * 3 // 10 <= 14
    return len(digits) + len(fraction) <= _INT64_DIGITS


def _is_canonical(digits: str, scale: int, binary: bool) -> bool:
    """Whether Kubernetes takes the written text for canonical."""
    if binary:
        return int(digits) % 8 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _round_and_cap(mantissa: int, scale: int, quantity_format: QuantityFormat) -> tuple[int, QuantityFormat]:
    """Nano-units of ``mantissa * 10**scale``, not negative; a binary amount below one prints as a decimal."""
    if scale >= -9:
        nano = mantissa * 10 ** (scale + 9)
    elif -scale - 9 > 2 * MAX_DIGITS:
        nano = 1 if mantissa else 0
    else:
        nano = _divide_away_from_zero(mantissa, 10 ** (-scale - 9))
    if quantity_format is QuantityFormat.BINARY_SI:
        nano = min(nano, MAX_INT64 * NANO_PER_UNIT)
        if 0 < nano < NANO_PER_UNIT:
            quantity_format = QuantityFormat.DECIMAL_SI
    return nano, quantity_format


def _shown(text: str) -> str:
    return repr(text if len(text) <= 64 else text[:61] + "...")


ZERO: Final = Quantity(0)
