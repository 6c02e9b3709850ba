"""The number that an administrator always wants."""

from __future__ import annotations

from dra_spawner.scale_ahead.demand.estimators.estimates import Estimate, Source


def floor_estimate(minimum: int) -> Estimate:
    """So many placeholders at all times.

    Raises
    ------
    ValueError
        If the number is negative.
    """
    if minimum < 0:
        raise ValueError(f"the floor is {minimum}; it must be 0 or more")
    return Estimate(Source.FLOOR, assured=minimum)
