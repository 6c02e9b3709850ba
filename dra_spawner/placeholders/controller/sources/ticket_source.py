"""Where the controller gets the queue for devices from, and who writes it: a port, as for targets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final, Protocol

from dra_spawner.kube.client.api_errors import KubernetesError
from dra_spawner.placeholders.lifecycle import TicketEvent
from dra_spawner.placeholders.planner.actions import ChangeTicket
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.placeholders.planner.ticket_queue import TicketQueue

log = logging.getLogger(__name__)

#: Time for which a start waits for the end of its ticket: a hub waits a second for the whole answer.
_END_SECONDS: Final = 0.5


class TicketsUnknown(Exception):
    """Raised where tickets cannot be written, as they cannot be read; the message says why."""


class TicketSource(Protocol):
    """The queue for devices."""

    @property
    def problem(self) -> str:
        """Why the tickets are not known, as a clause; empty if they are."""

    def queue(self, published: PublishedShapes) -> TicketQueue:
        """The open tickets, with the shapes of the hub's published choices."""

    async def wait_known(self) -> None:
        """Wait a short time for the tickets, so that the first round knows what is held."""

    async def carry_out(self, action: ChangeTicket) -> None:
        """Write one event; an event that the ticket's state does not have any more changes nothing.

        Raises
        ------
        KubernetesError
        TicketsUnknown
        """


async def end_ticket(source: TicketSource, queue: TicketQueue, tickets: Collection[str], shape: str) -> None:
    """End a user's ticket for a shape, as the user's server gets a device.

    The server's start waits for it a moment only; a later round does it where this fails.

    Parameters
    ----------
    tickets
        Ids of the user's open tickets.
    """
    found = next((each for each in queue.tickets if each.id in tickets and each.shape == shape), None)
    if found is None:
        return
    try:
        async with asyncio.timeout(_END_SECONDS):
            await source.carry_out(ChangeTicket(found.id, TicketEvent.TAKE, "its user's server starts", shape))
    except (KubernetesError, TicketsUnknown) as error:
        log.warning("A ticket is not ended yet: %s", error)
    except TimeoutError:
        log.warning("A ticket is not ended yet: it could not be written within %g s", _END_SECONDS)
