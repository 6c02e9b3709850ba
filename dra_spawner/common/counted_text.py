"""Numbers, shares, lists and durations in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(texts: Sequence[object], most: int, *, separator: str = ", ", noun: str = "") -> str:
    """The first texts, and how many more there are.

    Parameters
    ----------
    noun
        What the others are, in the plural; empty where the sentence says it.

    Examples
    --------
    >>> listed(["n1", "n2", "n3", "n4"], 2)
    'n1, n2 and 2 more'
    """
    more = len(texts) - most
    return separator.join(map(str, texts[:most])) + (f" and {more:,} more{noun and f' {noun}'}" if more > 0 else "")


def percent(share: float, digits: int = 0) -> str:
    """A share of a whole."""
    return f"{100 * share:.{digits}f} %"


def span(seconds: float) -> str:
    """A duration, rounded down to one unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
