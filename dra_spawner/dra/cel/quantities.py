"""Quantities as CEL sees them.

Kubernetes keeps a quantity either as a 64-bit mantissa with a decimal scale or as a big decimal, and some functions
show which: ``quantity("1000m").isInteger()`` is false. So the scale is carried along here.
"""

from __future__ import annotations

from typing import Final

from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity, int64_scale

_INT64_MAX: Final = 2**63 - 1
_UNKNOWN: Final = -1000


def _fits(value: int) -> bool:
    return -_INT64_MAX - 1 <= value <= _INT64_MAX


class CelQuantity:
    """A quantity inside an expression; equal by value."""

    __slots__ = ("_scale", "_source", "computed", "nano")

    nano: int
    """The amount in nano-units."""

    computed: bool
    """Whether ``add`` or ``sub`` made it: to the right of ``==`` Kubernetes does not know such a quantity for one."""

    def __init__(
        self, nano: int, *, scale: int | None = _UNKNOWN, source: Quantity | None = None, computed: bool = False
    ) -> None:
        self.nano = nano
        self._scale = scale
        self._source = source
        self.computed = computed

    @classmethod
    def of(cls, quantity: Quantity) -> CelQuantity:
        """The same amount, as the API server would hand it out."""
        return cls(quantity.nano, source=quantity)

    @classmethod
    def parse(cls, text: str) -> CelQuantity:
        """Parse as ``quantity(text)`` does.

        Raises
        ------
        QuantityError
            When the text is no quantity.
        """
        return cls(Quantity.parse(text).nano, scale=int64_scale(text))

    @property
    def scale(self) -> int | None:
        """Decimal scale of the 64-bit mantissa, None for a big decimal."""
        if self._scale == _UNKNOWN:
            self._scale = int64_scale(str(self._source))
        return self._scale

    def as_integer(self) -> int | None:
        """The amount when Kubernetes has it as a whole number within 64 bits, else None."""
        scale = self.scale
        if scale is None or scale < 0:
            return None
        value = self.nano // NANO_PER_UNIT
        return value if _fits(value) else None

    def as_float(self) -> float:
        """The nearest double, by the same (inexact) computation as in Kubernetes."""
        scale = self.scale
        if scale is None:
            return float(self.nano) * 1e-9
        if scale == 0:
            return float(self.nano // NANO_PER_UNIT)
        return float(self._mantissa(scale)) * float(f"1e{scale}")

    def plus(self, nano: int, scale: int | None) -> CelQuantity:
        """The sum with an amount of the given scale (None: a big decimal)."""
        return CelQuantity(self.nano + nano, scale=self._scale_of_sum(nano, scale), computed=True)

    def _mantissa(self, scale: int) -> int:
        unit: int = 10 ** (9 + scale)
        return self.nano // unit

    def _scale_of_sum(self, nano: int, scale: int | None) -> int | None:
        own = self.scale
        if own is None or scale is None:
            return None
        if nano == 0:
            return own
        if self.nano == 0:
            return scale
        lower = min(own, scale)
        unit = 10 ** (9 + lower)
        parts = (self.nano // unit, nano // unit, (self.nano + nano) // unit)
        return lower if all(map(_fits, parts)) else None

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, CelQuantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nano)

    def __repr__(self) -> str:
        return f"CelQuantity({self.nano}n)"
