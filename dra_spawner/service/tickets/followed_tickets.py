"""The queue for devices: followed by a watch, and written by the leader."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.fairness.tickets.served_queue import changed_by, served_queue
from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketBook, Waits
from dra_spawner.fairness.tickets.ticket_data import TicketsCorrupt, read_book
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError
from dra_spawner.kube.client.api_errors import KubernetesTimeout, RequestTarget
from dra_spawner.kube.client.versions import is_older
from dra_spawner.kube.informer_task import InformerTask, wait_first_list
from dra_spawner.kube.informers import Informer, InformerSettings
from dra_spawner.kube.resource import Resource
from dra_spawner.placeholders.controller.sources.ticket_source import TicketsUnknown
from dra_spawner.placeholders.lifecycle import TicketEvent, TicketState
from dra_spawner.placeholders.planner.actions import ChangeTicket
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.placeholders.planner.ticket_queue import TicketQueue, competing_devices
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.ticket_store.ticket_store import TicketStore, TicketsUnavailable

log = logging.getLogger(__name__)

#: Expected waits are written again after this time, and for a new ticket.
_WAITS_STAY: Final = timedelta(seconds=60)
#: Time for one event: a round of decisions ends with it, and a later one tries it again.
_WRITE_SECONDS: Final = 2.0


class FollowedTickets(InformerTask):
    """Follows the ConfigMap with the tickets, and changes it.

    An asynchronous context manager: leaving it ends the informer. Every replica follows it; the leader writes.

    Parameters
    ----------
    namespace
        Of the ConfigMap.
    hub
        `Ticket.hub` of the tickets that this service serves.
    now
        The present time.
    settings
        Of the informer.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        hub: str,
        *,
        now: Callable[[], datetime],
        settings: InformerSettings | None = None,
    ) -> None:
        self.hub = hub
        self.now = now
        self._namespace = namespace
        self.store = TicketStore(api, namespace, hub, now=now, turn=asyncio.Lock(), on_object=self.put)
        self.counts: Counter[TicketEvent] = Counter()
        """Events that this process has written."""
        self._taken: tuple[int, float] = 0, 0.0
        """When waits were written last, and for which tickets."""
        self.on_hold: Callable[[float], None] = lambda seconds: None
        """Called with the wait of each ticket that gets a device."""
        self._callbacks: list[Callable[[], None]] = []
        self._present = TicketBook()
        self._expected: set[str] = set()
        """Tickets for which waits were computed last; they may be unknown."""
        self._version = ""
        self._corrupt = ""
        self._was_read = False
        self._queue: tuple[TicketBook, PublishedShapes, tuple[bool, frozenset[str]], TicketQueue] | None = None
        resource = Resource("ConfigMap", "v1", "configmaps", namespace, names.TICKETS_CONFIG_MAP)
        super().__init__(Informer(api, resource, self, settings=settings), names.TICKETS_CONFIG_MAP)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call a function after each change; it must not raise."""
        self._callbacks.append(callback)

    @property
    def present(self) -> TicketBook:
        """All tickets, as they were when they could be read last."""
        return self._present

    @property
    def problem(self) -> str:
        """Why the tickets are not known, as a clause; empty if they are."""
        problem = self._informer.status.problem or self._corrupt
        if problem:
            return f"cannot follow ConfigMap {self._name}: {problem}"
        return f"ConfigMap {self._name} was not read yet" if self.is_running and not self._informer.synced else ""

    @property
    def is_known(self) -> bool:
        """Whether the tickets were ever read; a failure later leaves what is known of them."""
        return not self.is_running or self._was_read or (self._informer.synced and not self._corrupt)

    async def wait_known(self) -> None:
        """Wait a short time for the first list, so that the first round knows what is held."""
        await wait_first_list(self._informer, "Tickets are not known", log)

    def queue(self, published: PublishedShapes) -> TicketQueue:
        """The open tickets, with the shapes of the hub's published choices."""
        known, beside = self._queue, (self.is_known, self._away())
        if known is None or known[0] is not self._present or known[1] is not published or known[2] != beside:
            is_known, away = beside
            found = served_queue(self._present, self.hub, published.shapes, away, is_known=is_known)
            known = self._queue = self._present, published, beside, found
        return known[3]

    def _away(self) -> frozenset[str]:
        """Other hubs whose services are away."""
        book, now = self._present, self.now()
        return frozenset(hub for hub in book.served if hub != self.hub and not book.is_served(hub, now))

    async def carry_out(self, action: ChangeTicket) -> None:
        """Write one event; an event that the ticket's state does not have any more changes nothing.

        Raises
        ------
        KubernetesError
        TicketsUnknown
        """
        written: list[Ticket] = []

        def change(book: TicketBook) -> tuple[None, TicketBook]:
            changed = changed_by(book, action, self.now())
            written[:] = [book.tickets[action.ticket]] if changed is not book else []
            return None, changed

        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self.store.change(change)
        except TimeoutError:
            target = RequestTarget("replace", "configmaps", self._namespace, self._name)
            message = f"not written within {_WRITE_SECONDS:g} s"
            raise KubernetesTimeout(target, status=0, reason="Timeout", message=message) from None
        except TicketsUnavailable as error:
            if isinstance(error.__cause__, KubernetesError):
                raise error.__cause__ from error
            raise TicketsUnknown(str(error)) from error
        for before in written:
            self.counts[action.event] += 1
            if action.event is TicketEvent.HOLD:
                self.on_hold(max((self.now() - before.joined).total_seconds(), 0.0))
            elif action.event is TicketEvent.TAKE and before.state is TicketState.HELD:
                count, seconds = self._taken
                self._taken = count + 1, seconds + max((self.now() - before.since).total_seconds(), 0.0)

    @property
    def take_seconds(self) -> float:
        """Mean time until a held device is taken; a minute before any was."""
        count, seconds = self._taken
        return seconds / count if count else 60.0

    async def note(
        self,
        published: PublishedShapes,
        is_behind: Callable[[str, Sequence[str]], bool],
        waits: Callable[[], Awaitable[Waits]],
    ) -> None:
        """Write what the hubs show: what own tickets compete for, who is over a budget, and expected waits.

        Nothing is written while it is unchanged.

        Parameters
        ----------
        is_behind
            Whether a user with some groups is over a budget for a choice.
        waits
            Returns the expected waits of own tickets; called only if they are to be written, so once a minute and for
            new tickets, also where no wait can be told.

        Raises
        ------
        TicketsUnavailable
        """

        def change(book: TicketBook) -> tuple[None, TicketBook]:
            notes, devices = {}, dict[str, tuple[str, ...]]()
            for each in book.open:
                shape = published.shapes.get(each.choice) if each.hub == self.hub else None
                if shape is not None:
                    if each.choice not in devices:
                        devices[each.choice] = tuple(sorted(competing_devices(shape)))
                    found = devices[each.choice], is_behind(each.user, each.groups)
                    if found != (each.devices, each.is_behind):
                        notes[each.id] = found
            changed = book.with_notes(notes, book.waits) if notes else book
            return None, changed.with_waits(told, self.hub) if told is not None else changed

        if not self._present.open:
            return
        own = {each.id for each in self._present.open if each.hub == self.hub and each.state is TicketState.WAITING}
        at = self._present.served.get(self.hub)
        is_old = at is None or not timedelta(0) <= self.now() - at < _WAITS_STAY
        told: Waits | None = None
        if own and (is_old or not own <= self._expected):
            told = await waits()
        # Looked at again in the newest version, but only if there is something to write.
        if change(self._present)[1] is not self._present:
            await self.store.change(change)
        if told is not None:
            self._expected = own

    def put(self, obj: JsonObject) -> None:
        """Take a version of the ConfigMap, unless it is older than the present one, as a watch's after an own write."""
        version = obj["metadata"].get("resourceVersion", "")
        if is_older(version, self._version):
            return
        self._version = version
        try:
            book = read_book(obj.get("data"))
        except TicketsCorrupt as error:
            if not self._corrupt:
                log.error("Tickets cannot be read until an administrator repairs ConfigMap %s: %s", self._name, error)
            self._corrupt = str(error)
            return
        self._corrupt = ""
        self._take(book)

    def remove(self, key: ObjectKey) -> None:
        """Note that the ConfigMap is gone, as after the repair of one that could not be read."""
        self._version = self._corrupt = ""
        self._take(TicketBook())

    def _take(self, book: TicketBook) -> None:
        self._was_read = True
        if book != self._present:
            self._present = book
            for each in self._callbacks:
                each()
