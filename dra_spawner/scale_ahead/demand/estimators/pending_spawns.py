"""Launches that have begun: only the hub knows them before a pod exists."""

from __future__ import annotations

from dra_spawner.scale_ahead.demand.estimators.estimates import Estimate, Source


def pending_estimate(spawns: int, reserved: int) -> Estimate:
    """Placeholders that servers are about to take.

    Parameters
    ----------
    spawns
        Users whose server the hub is starting, and who have neither a node nor a reserved placeholder.
    reserved
        Placeholders that are set aside for servers.

    Raises
    ------
    ValueError
        If a number is negative.
    """
    if spawns < 0 or reserved < 0:
        raise ValueError(f"there are {spawns} pending spawns and {reserved} reservations; none is negative")
    return Estimate(Source.PENDING, assured=spawns + reserved)
