"""Deletion of old records, in small steps, so that no reader or writer waits long."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.schema import decisions, launches, learned_demands, node_lead_times

__all__ = ["MAX_DECISION_AGE", "MAX_MEMORY_AGE", "delete_expired"]

MAX_DECISION_AGE: Final = timedelta(days=30)
"""Limit of the age of decisions, whatever the settings: there are many, and forecasts do not use them."""
MAX_MEMORY_AGE: Final = timedelta(days=7)
"""Limit of the age of records in memory, whatever the settings."""

_AT_ONCE: Final = 2_000


def delete_expired(database: HistoryDatabase, now: datetime, keep: timedelta, at_once: int = _AT_ONCE) -> bool:
    """Delete some of the old records.

    Parameters
    ----------
    keep
        Age after which launches and lead times are deleted.
    at_once
        Limit of deleted rows of each kind.

    Returns
    -------
    bool
        Whether there may be more old records.
    """
    if database.is_in_memory:
        keep = min(keep, MAX_MEMORY_AGE)
    counts = (
        database.delete_older(launches, launches.c.asked, now - keep, at_once),
        database.delete_older(node_lead_times, node_lead_times.c.created, now - keep, at_once),
        database.delete_older(learned_demands, learned_demands.c.at, now - keep, at_once),
        database.delete_older(decisions, decisions.c.at, now - min(keep, MAX_DECISION_AGE), at_once),
    )
    return max(counts) >= at_once
