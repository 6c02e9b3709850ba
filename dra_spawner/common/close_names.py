"""What somebody may have meant who has typed a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

#: Names that are compared, and characters of each: a comparison takes the product of both lengths.
_MAX_NAMES = 2_000
_LONGEST = 100


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the known name that is most like another one, or empty if none is.

    Examples
    --------
    >>> did_you_mean("gpu-slcie", ["cpu", "gpu-slice"])
    ' Did you mean gpu-slice?'
    """
    # Imported here: names are rarely wrong.
    from difflib import get_close_matches

    compared = [each for _, each in zip(range(_MAX_NAMES), known, strict=False) if len(each) <= _LONGEST]
    by_lower = {each.lower(): each for each in reversed(compared)}
    found = get_close_matches(name[:_LONGEST].lower(), by_lower, n=1)
    return f" Did you mean {by_lower[found[0]]}?" if found else ""
