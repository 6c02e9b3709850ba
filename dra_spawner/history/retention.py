"""What is too old is deleted, a little at a time, so that no reader or writer waits for it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.schema import decisions, launches, node_lead_times

__all__ = ["DECISIONS_KEPT", "MEMORY_KEPT", "delete_expired"]

DECISIONS_KEPT: Final = timedelta(days=30)
"""Age at which decisions are deleted in any case: there are many, and no forecast reads them."""
MEMORY_KEPT: Final = timedelta(days=7)
"""Age at which records in memory are deleted in any case."""

_AT_ONCE: Final = 2_000


def delete_expired(database: HistoryDatabase, now: datetime, keep: timedelta, at_once: int = _AT_ONCE) -> bool:
    """Delete some of the records that are too old.

    Parameters
    ----------
    keep
        Age after which launches and lead times are deleted.
    at_once
        Limit of rows of each kind.

    Returns
    -------
    bool
        Whether there may be more.
    """
    if database.is_in_memory:
        keep = min(keep, MEMORY_KEPT)
    counts = (
        database.delete_older(launches, launches.c.asked, now - keep, at_once),
        database.delete_older(node_lead_times, node_lead_times.c.created, now - keep, at_once),
        database.delete_older(decisions, decisions.c.at, now - min(keep, DECISIONS_KEPT), at_once),
    )
    return max(counts) >= at_once
