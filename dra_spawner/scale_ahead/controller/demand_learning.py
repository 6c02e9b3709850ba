"""What a new leader knows of demand: what the leader before it has stored, and the launches since then.

Without a stored state, forecasts are made for all past minutes as they would have been. Past entries of iCal calendars,
pending spawns and reservations are unknown then, so users who were announced there count as surprises.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.forecast import GroupSituation
from dra_spawner.scale_ahead.demand.group_demand import GroupDemand
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY
from dra_spawner.scale_ahead.demand.policies import DemandPolicy
from dra_spawner.scale_ahead.demand.settings import DemandSettings

log = logging.getLogger(__name__)

#: One day more than forecasts look back.
PAST_DAYS: Final = 57
#: Past minutes that are learned from before others have a turn.
_AT_A_TIME: Final = 250


@dataclass(frozen=True, slots=True)
class CountedMinute:
    """Launches and departures of a choice in a past minute."""

    minute: int
    choice: str
    arrivals: int = 0
    departures: int = 0


@dataclass(frozen=True, slots=True)
class PastOfGroup:
    """What is known of the past of one group.

    Attributes
    ----------
    counts
        Arrivals and departures by minute; minutes without any are left out.
    state
        Stored by the leader before, as JSON; empty without one.
    situation
        Of the first minute that is learned from, where no state is stored.
    occurrences
        Calendar entries that are near at a minute.
    """

    counts: Mapping[int, tuple[int, int]]
    state: str
    situation: GroupSituation
    occurrences: Callable[[int], tuple[Occurrence, ...]]


async def learned_demand(
    name: str, past: PastOfGroup, until: int, settings: DemandSettings, policy: DemandPolicy
) -> GroupDemand | None:
    """The demand of a group at a minute; None without any past. The event loop gets many turns.

    Parameters
    ----------
    name
        Of the group, for messages.
    until
        The first minute that is not learned.
    """
    counts, situation = past.counts, past.situation
    demand = _restored(name, past, until, settings, policy) if past.state else None
    if demand is not None:
        # Limits may be others now.
        situation = replace(demand.situation, floor=situation.floor, most=situation.most)
        begin = demand.record.counts.end
    elif counts:
        begin = min(counts)
        demand = GroupDemand(begin, settings, policy)
    else:
        return None
    for first in range(begin, until, _AT_A_TIME):
        part = range(first, min(first + _AT_A_TIME, until))
        demand.learn(((minute, *counts.get(minute, (0, 0))) for minute in part), situation, past.occurrences)
        situation = replace(situation, present=demand.situation.present)
        await asyncio.sleep(0)
    return demand


def _restored(
    name: str, past: PastOfGroup, until: int, settings: DemandSettings, policy: DemandPolicy
) -> GroupDemand | None:
    earliest = until - PAST_DAYS * MINUTES_A_DAY
    try:
        state = json.loads(past.state, parse_constant=_finite, parse_float=_finite)
        return GroupDemand.restored(state, past.counts, settings, policy, earliest=earliest, latest=until)
    except (ValueError, TypeError, RecursionError) as error:
        log.warning("Scale-ahead learns %s from launches alone: %s", name, error)
        return None


def _finite(number: str) -> float:
    """A number. With an infinite one, or none, each later forecast would fail."""
    if not isfinite(found := float(number)):
        raise ValueError(f"the state has the number {number}")
    return found


def counts_by_group(
    past: Iterable[CountedMinute], group_of: Mapping[str, str]
) -> dict[str, dict[int, tuple[int, int]]]:
    """Arrivals and departures by group and minute.

    Parameters
    ----------
    group_of
        Name of the group of each choice.
    """
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for each in past:
        if (name := group_of.get(each.choice)) is not None:
            minutes = found.setdefault(name, {})
            arrivals, departures = minutes.get(each.minute, (0, 0))
            minutes[each.minute] = (arrivals + each.arrivals, departures + each.departures)
    return found
