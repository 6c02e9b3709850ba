"""The hit rate that is worth its costs (the newsvendor's critical ratio)."""

from __future__ import annotations

from datetime import timedelta

_HOUR = timedelta(hours=1)


def hit_rate_of_costs(cost_of_wait: float, idle_cost_an_hour: float, lead: timedelta) -> float:
    """The share of launches that should be served at once, from what it costs when one is not.

    Parameters
    ----------
    cost_of_wait
        Cost of one user's waiting for a node, in any currency.
    idle_cost_an_hour
        Price of one idle placeholder for an hour, in the same currency.
    lead
        Lead time of a node: a placeholder too many is idle about as long before it can be corrected.

    Returns
    -------
    float
        More than 0, less than 1.

    Raises
    ------
    ValueError
        If a cost or the lead time is not more than 0.
    """
    for name, value in (("cost_of_wait", cost_of_wait), ("idle_cost_an_hour", idle_cost_an_hour)):
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} is {value}; it must be more than 0")
    if lead <= timedelta(0):
        raise ValueError(f"lead is {lead}; it must be more than 0")
    idle = idle_cost_an_hour * (lead / _HOUR)
    return cost_of_wait / (cost_of_wait + idle)


def checked_share(name: str, value: float) -> float:
    """The value.

    Raises
    ------
    ValueError
        If it is not more than 0 and less than 1.
    """
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}; it must be more than 0 and less than 1")
    return value
