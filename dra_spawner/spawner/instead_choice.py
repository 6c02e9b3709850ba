"""What a start takes in place of a choice that is not free, where the administrator lets it (``take_instead``)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.spawner.availability.client import AvailabilityClient
from dra_spawner.spawner.availability.shown import ShownAvailability
from dra_spawner.spawner.free_choices import FREE, named_instead, states_of
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.ticket_access import queue_hub, tickets_of


@dataclass(frozen=True, slots=True)
class TakenInstead:
    """A choice that is taken in place of another one.

    Attributes
    ----------
    options
        The server's options with it.
    sentence
        For the user.
    lasting
        The same, also while the server runs.
    """

    options: dict[str, Any]
    sentence: str
    lasting: str


def first_available(own: str, named: Sequence[str], states: Mapping[str, ShownAvailability]) -> str:
    """The choice to take: the own one while it is free, or nothing better is known.

    Of the named ones, the first that is free now; if none is, the one with the shortest expected wait, if that is
    surely shorter than the own one's.

    Parameters
    ----------
    named
        Other choices, the best first.
    states
        By name; what is missing is not known.
    """
    mine = states.get(own)
    if mine is None or mine.state in FREE or mine.state is AvailabilityState.UNKNOWN:
        return own
    for name in named:
        if name in states and states[name].state in FREE:
            return name
    if mine.wait is None:
        return own
    waits = {name: wait for name in named if name in states and (wait := states[name].wait) is not None}
    # The longest expected time counts: with it, four of five servers have started.
    best = min(waits, key=lambda name: waits[name][1], default=own)
    return best if best != own and waits[best][1] < mine.wait[0] else own


async def taken_instead(server: ServerContext, client: AvailabilityClient | None) -> TakenInstead | None:
    """What the start takes in place of the user's choice; None for the choice itself, also if nothing is known."""
    if client is None or server.is_trial:  # a trial is of one choice alone
        return None
    found = await named_instead(server)
    if found is None or not found.is_taken or not found.named or await _may_be_held(server, found.own):
        return None
    states = await states_of(client, [found.own, *(each.name for each in found.named)])
    if states is None:
        return None
    best = first_available(found.own, [each.name for each in found.named], states)
    choice = next((each for each in found.named if each.name == best), None)
    if choice is None:
        return None
    how = "is free" if states[best].state in FREE else "is expected sooner"
    sentence = f"“{found.words}” is not free now. You get “{choice.words}” instead, which {how}."
    lasting = f"This is “{choice.words}” instead of “{found.words}”, which was not free."
    return TakenInstead(found.options_with(choice), sentence, lasting)


async def _may_be_held(server: ServerContext, choice: str) -> bool:
    """Whether a device of a choice may be held for the user, who has waited for it: for all others it is not free."""
    store = tickets_of(server)
    if store is None:
        return False
    from dra_spawner.ticket_store.ticket_store import TicketsUnavailable  # most hubs have no queue

    try:
        async with asyncio.timeout(server.spawner.placement_wait_seconds):
            standing = await store.standing(str(server.spawner.user.name), choice)
    except (TicketsUnavailable, TimeoutError):
        return True
    return standing is not None and standing.is_held and standing.ticket.hub == queue_hub(server)
