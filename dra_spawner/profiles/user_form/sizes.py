"""The sizes of shares that a form offers, and the text of amounts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity, QuantityFormat, amount_text
from dra_spawner.profiles.user_form.offers import Offer

#: A regular series has at least so many sizes, or they are spread evenly.
_FEWEST: Final = 4
#: Where devices set no smallest share, sizes begin at this fraction of the largest.
_SMALLEST_FRACTION: Final = 128


def pick_sizes(
    offers: Sequence[Offer], at_most: int, smallest: Quantity | None = None, largest: Quantity | None = None
) -> list[Quantity]:
    """A readable number of sizes, each of which some device gives as it stands, in ascending order.

    All sizes if they are few; else the smallest one, its doubles (1, 2, 5, 10 … where amounts are decimal) and the
    largest one, and if these are too many, the larger ones of them.

    Parameters
    ----------
    at_most
        How many; at least 2.
    smallest, largest
        Limits, if there are any besides those of the devices.
    """
    bottom = min(map(smallest_size, offers), default=None)
    top = max((offer.largest for offer in offers), default=None)
    if bottom is None or top is None:
        return []
    bottom = bottom if smallest is None else max(bottom, smallest)
    top = top if largest is None else min(top, largest)

    def offered(sizes: Iterable[Quantity]) -> list[Quantity]:
        possible = {Quantity(size.nano, top.format) for size in sizes if bottom <= size <= top and size.nano > 0}
        return sorted(size for size in possible if any(offer.reserved(size) == size for offer in offers))

    lists = [sizes for offer in offers if (sizes := offer.listed()) is not None]
    every = offered(size for sizes in lists for size in sizes)
    if len(lists) == len(offers) and len(every) <= at_most:
        return every
    sizes = offered(_rounded([*_series(bottom, top), top], offers))
    if len(sizes) < min(_FEWEST, at_most):
        sizes = offered([*sizes, *_rounded(_evenly(bottom, top, at_most - len(sizes)), offers)])
    return sizes[-at_most:]


def smallest_size(offer: Offer) -> Quantity:
    """The smallest size that a form offers of a device: its smallest share, or a small fraction of its capacity."""
    return offer.smallest or _fraction_of(offer.largest)


def readable_range(least: Quantity, most: Quantity, capacity: str = "") -> str:
    """``15 GiB``, or ``15 GiB to 20 GiB``; see `amount_text`."""
    if least == most:
        return amount_text(least, capacity)
    return f"{amount_text(least, capacity)} to {amount_text(most, capacity)}"


def _fraction_of(largest: Quantity) -> Quantity:
    """The power of two, or of ten, next to a small fraction of an amount."""
    units = max(1, largest.nano // _SMALLEST_FRACTION // NANO_PER_UNIT)
    regular = 1 << (units - 1).bit_length() if _is_binary(largest) else 10 ** (len(str(units)) - 1)
    return Quantity(regular * NANO_PER_UNIT, largest.format)


def _series(bottom: Quantity, top: Quantity) -> Iterator[Quantity]:
    """Regular amounts of a range, the lowest first."""
    nano = max(1, bottom.nano)
    if _is_binary(top):
        while nano < top.nano:
            yield Quantity(nano, top.format)
            nano *= 2
        return
    yield Quantity(nano, top.format)
    power = 10 ** (len(str(nano)) - 1)
    while power < top.nano:
        for factor in (1, 2, 5):
            if nano < factor * power < top.nano:
                yield Quantity(factor * power, top.format)
        power *= 10


def _evenly(bottom: Quantity, top: Quantity, count: int) -> Iterator[Quantity]:
    """Multiples of a round amount, at most so many, between two others."""
    least = max(1, (top.nano - bottom.nano) // (count + 1))
    if _is_binary(top):
        step = 1 << (least - 1).bit_length()
    else:
        power = 10 ** (len(str(least)) - 1)
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
    for nano in range((bottom.nano // step + 1) * step, top.nano, step):
        yield Quantity(nano, top.format)


def _rounded(amounts: Iterable[Quantity], offers: Sequence[Offer]) -> Iterator[Quantity]:
    """The next sizes that some device gives."""
    for amount in amounts:
        sizes = [size for offer in offers if (size := offer.reserved(amount)) is not None]
        if sizes:
            yield min(sizes)


def _is_binary(amount: Quantity) -> bool:
    return amount.format is QuantityFormat.BINARY_SI
