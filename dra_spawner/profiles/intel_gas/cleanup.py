"""When and what is cleaned out of a ledger that is kept from start to start."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from dra_spawner.profiles.intel_gas.ledger import Ledger, PodKey


def next_cleanup(interval: timedelta, chance: float) -> timedelta:
    """How long to wait: half the interval and up to a whole one more, so that hubs do not all ask at once.

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
    """Pods whose cards can be given to others: there is none such, and none will come any more.

    Parameters
    ----------
    alive
        Pods that are neither gone nor at their end.
    reserved_until
        Until when a pod that is not there yet may still be created.
    """
    return tuple(
        pod for pod in ledger if pod not in alive and (pod not in reserved_until or reserved_until[pod] <= now)
    )
