"""Hubs of one cluster that share a queue, in a test's process."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from dra_spawner import names
from dra_spawner.devcluster.api.json_values import mutable_copy
from dra_spawner.devcluster.api.resource_types import CONFIGMAPS
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.fairness.tickets.ticket_book import TicketBook, TicketLimits
from dra_spawner.placeholders.lifecycle import TicketEvent
from dra_spawner.ticket_store.ticket_store import TicketStore
from tests.presence import present
from tests.ticket_store.queue_api import NAMESPACE, QueueApi

__all__ = ["Hubs"]

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)


class Hubs:
    """Hubs of one cluster, with clocks of their own."""

    def __init__(self) -> None:
        self.now = BEGIN
        self.store = Store(lambda: self.now)
        self.api = QueueApi(self.store)

    def hub(self, name: str = "hub", clock: timedelta = timedelta(0), in_all: int = 2000) -> TicketStore:
        """A hub that has just started."""
        return TicketStore(
            self.api,
            NAMESPACE,
            f"{name}/dra-spawner-shapes",
            limits=TicketLimits(in_all=in_all),
            turn=asyncio.Lock(),
            now=lambda: self.now + clock,
            sleep=lambda _: asyncio.sleep(0),
            jitter=lambda: 1.0,
        )

    def set_data(self, data: dict[str, str]) -> None:
        found = mutable_copy(self.store.get(CONFIGMAPS, NAMESPACE, names.TICKETS_CONFIG_MAP))
        self.store.update(CONFIGMAPS, {**found, "data": data})

    async def hold(self, user: str, seconds: int = 300) -> None:
        """What the service does."""

        def held(book: TicketBook) -> tuple[None, TicketBook]:
            ticket = present(book.find(user, "gpu"))
            until = self.now + timedelta(seconds=seconds)
            return None, book.after(ticket.id, TicketEvent.HOLD, self.now, placeholder="p", until=until)

        await self.hub().change(held)
