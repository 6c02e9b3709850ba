"""Clean-up of a ledger that lasts from start to start."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from dra_spawner.profiles.intel_gas.ledger import Ledger, PodKey


def next_cleanup(interval: timedelta, chance: float) -> timedelta:
    """Time to the next clean-up: half the interval plus up to a whole one, so that hubs do not ask at once.

    Parameters
    ----------
    chance
        From 0 to 1.
    """
    return interval / 2 + interval * chance


def stale_assignments(
    ledger: Ledger,
    alive: Collection[PodKey],
    reserved_until: Mapping[PodKey, datetime],
    now: datetime,
) -> tuple[PodKey, ...]:
    """Pods whose cards are free again: the pods do not exist and will not be created any more.

    Parameters
    ----------
    alive
        Pods that exist and have not ended.
    reserved_until
        Time until which a missing pod may still be created.
    """
    return tuple(
        pod for pod in ledger if pod not in alive and (pod not in reserved_until or reserved_until[pod] <= now)
    )
