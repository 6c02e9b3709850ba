"""Recorded lead times, by kind of node."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.history.database import HistoryDatabase

_MAX: Final = 50
_LONGEST: Final = timedelta(hours=2)


def seen_lead_times(database: HistoryDatabase, since: datetime | None = None) -> dict[str, tuple[timedelta, ...]]:
    """The last lead times of each kind: from the order of a node until it was open to users, with all images.

    If the time of the order is unknown, the creation of the node counts. Lead times above two hours are ignored: these
    nodes were broken.

    Parameters
    ----------
    since
        Only nodes that were created from this time on.
    """
    found: dict[str, deque[timedelta]] = {}
    for each in database.lead_times(begin=since):
        if each.images is None:
            continue
        lead = each.images - min(each.asked or each.created, each.created)
        if timedelta(0) < lead <= _LONGEST:
            found.setdefault(each.kind, deque(maxlen=_MAX)).append(lead)
    return {kind: tuple(leads) for kind, leads in found.items()}
