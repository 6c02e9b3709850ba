"""Tickets in a ConfigMap that is written by compare-and-swap.

Every change reads the ConfigMap, decides, and replaces exactly that version (``resourceVersion``). If another writer
was faster, the API server answers 409 and the change is repeated: so hubs and services of one cluster share one queue,
and its order is the order in which the API server took the writes. A ConfigMap that cannot be read is never
overwritten. A hub or a service that starts again reads what is there.

What a hub does with it:

- ``join`` for the button "Tell me when", ``leave`` for "Leave the queue", ``forget`` and ``rename`` when a user is
  deleted or gets another name;
- ``standings`` for the form, the pages and the notification: place, expected wait, whether a device is held, until when
  (``standing.ticket.until``), and how the last ticket ended (``standing.ticket.state``);
- nothing for the click that takes the device: it is the usual start of the choice. The start asks ``take`` itself
  (`dra_spawner.spawner.steps.placement`) and the service hands the held placeholder over.

Each method raises `TicketsUnavailable` where the queue cannot be read or written; the page says then that tickets are
not known at present, and starts go on. Only `join` raises `TicketRefused`, with a sentence for the user.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from time import monotonic
from typing import Final, TypeVar

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import (
    TicketBook,
    TicketLimits,
    TicketRefusal,
    TicketRefused,
    TicketStanding,
)
from dra_spawner.fairness.tickets.ticket_data import MAX_BYTES, TicketsCorrupt, book_data, read_book
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.placeholders.lifecycle import TicketEvent

log = logging.getLogger(__name__)

#: Tries of a change that others write at the same time.
_MAX_TRIES: Final = 12
_FIRST_WAIT_SECONDS: Final = 0.05
_LONGEST_WAIT_SECONDS: Final = 2.0
#: Age up to which all pages of a hub get the same answer.
_SAME_SECONDS: Final = 2.0
#: Size of the data from which nobody joins: what the service writes to the tickets that are there has room above it.
_FULL_BYTES: Final = MAX_BYTES * 2 // 3
_LIMITS: Final = TicketLimits()

_Answer = TypeVar("_Answer")


class TicketsUnavailable(Exception):
    """Raised where tickets cannot be read or written; the message is for the log."""


class TicketStore:
    """The queue of one cluster.

    Parameters
    ----------
    namespace, name
        Of the ConfigMap.
    hub
        `Ticket.hub` of tickets that this hub or service joins.
    limits
        Of joining.
    turn
        Lock of each try of a change: avoids conflicts within a process; safety does not depend on it.
    now, sleep, jitter
        Clock, and source of random numbers from 0 to 1.
    new_id
        Returns an id that nobody can guess.
    on_object
        Called with each version of the ConfigMap that was written.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        hub: str,
        *,
        name: str = names.TICKETS_CONFIG_MAP,
        limits: TicketLimits = _LIMITS,
        turn: AbstractAsyncContextManager[object] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
        on_object: Callable[[JsonObject], None] = lambda obj: None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._hub = hub
        self._limits = limits
        self._turn = turn or nullcontext()
        self._now = now
        self._sleep = sleep
        self._jitter = jitter
        self._new_id = new_id
        self._on_object = on_object
        self._last: tuple[float, TicketBook | TicketsUnavailable] = -inf, TicketsUnavailable("not read yet")
        self._problem = ""

    async def join(self, user: str, choice: str, groups: Sequence[str] = ()) -> TicketStanding:
        """Give a user a ticket for a choice, or return the open one, which keeps its place.

        Parameters
        ----------
        user
            JupyterHub's name of the user who is logged in, never a name from a request.
        choice
            A name that the hub publishes; the caller has checked that this user may start it.
        groups
            Of the user, for budgets.

        Raises
        ------
        TicketRefused
            With a sentence for the user: too many tickets, the queue is full, or a name is too long.
        TicketsUnavailable
        """

        def add(book: TicketBook) -> tuple[Ticket, TicketBook]:
            now = self._now()
            ticket = Ticket(self._new_id(), 0, user, self._hub, choice, now, now, groups=tuple(groups))
            joined, after = book.join(ticket, self._limits)
            if after is not book and _size(book_data(after)) > _FULL_BYTES:
                raise TicketRefused(TicketRefusal.FULL, "The queue is full. Please try again later.")
            return joined, after

        ticket, book = await self.change(add)
        return book.standing(ticket, self._now())

    async def leave(self, user: str, choice: str) -> bool:
        """End a user's ticket for a choice; a held device goes to the next ticket.

        Returns
        -------
        bool
            Whether there was an open one.

        Raises
        ------
        TicketsUnavailable
        """

        def end(book: TicketBook) -> tuple[bool, TicketBook]:
            ticket = book.find(user, choice)
            # Another person may have this name at another hub.
            if ticket is None or ticket.hub != self._hub or not ticket.state.is_open:
                return False, book
            return True, book.after(ticket.id, TicketEvent.LEAVE, self._now())

        return (await self.change(end))[0]

    async def forget(self, user: str) -> None:
        """Remove all tickets of a user who was deleted at this hub.

        Raises
        ------
        TicketsUnavailable
        """
        await self.change(lambda book: (None, book.without_user(user, self._hub)))

    async def rename(self, before: str, after: str) -> None:
        """Give the tickets of a user to the name that this hub has given the user.

        Raises
        ------
        TicketsUnavailable
        """
        await self.change(lambda book: (None, book.renamed(before, after, self._hub)))

    async def standings(self, user: str) -> list[TicketStanding]:
        """A user's tickets, in the order of arrival: the open ones, and the last ended one of each other choice.

        All calls within two seconds share one request to the API server.

        Raises
        ------
        TicketsUnavailable
        """
        book, now = await self.book(), self._now()
        return book.standings(book.of_user(user), now)

    async def standing(self, user: str, choice: str) -> TicketStanding | None:
        """A user's ticket for a choice, as `standings`; None if there is none.

        Raises
        ------
        TicketsUnavailable
        """
        book = await self.book()
        ticket = book.find(user, choice)
        return book.standing(ticket, self._now()) if ticket is not None else None

    async def take(self, user: str) -> tuple[str, ...]:
        """Ids of the user's open tickets of this hub: a start sends them to the service.

        The service hands over the placeholder that is held for the ticket with the start's shape, and ends this ticket.
        A waiting ticket counts for the place of a start before its time.

        Raises
        ------
        TicketsUnavailable
        """
        book = await self.book()
        return tuple(each.id for each in book.of_user(user) if each.hub == self._hub and each.state.is_open)

    async def waiting_for(self, choice: str) -> int:
        """Number of tickets that wait for a choice of this hub, or have a device held.

        Raises
        ------
        TicketsUnavailable
        """
        book = await self.book()
        return sum((each.hub, each.choice) == (self._hub, choice) for each in book.open)

    async def book(self) -> TicketBook:
        """All tickets, up to two seconds old; for administrators and the service, as it names users.

        Raises
        ------
        TicketsUnavailable
        """
        if not self._is_new():
            async with self._turn:
                if not self._is_new():
                    try:
                        self._note(self._book_of(await self._read()))
                    except (KubernetesError, TicketsCorrupt) as error:
                        self._note(self._unavailable(error))
        found = self._last[1]
        if isinstance(found, TicketsUnavailable):
            raise found
        return found

    def _is_new(self) -> bool:
        """Whether the last answer, also that there is none, is the one for this moment."""
        return 0 <= monotonic() - self._last[0] < _SAME_SECONDS

    async def change(self, decide: Callable[[TicketBook], tuple[_Answer, TicketBook]]) -> tuple[_Answer, TicketBook]:
        """Read, decide and write until there is no conflict.

        Parameters
        ----------
        decide
            Returns an answer and the new book; the same book is not written. It is called again after a conflict.

        Raises
        ------
        TicketsUnavailable
        """
        wait = _FIRST_WAIT_SECONDS
        for left in reversed(range(_MAX_TRIES)):
            try:
                async with self._turn:
                    return await self._try(decide)
            except TicketsCorrupt as error:
                raise self._unavailable(error) from error
            except KubernetesError as error:
                if not left or not (error.retryable or error.conflict or error.already_exists or error.not_found):
                    raise self._unavailable(error) from error
            await self._sleep(wait * (0.5 + self._jitter() / 2))
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)
        raise AssertionError("the last try returns or raises")

    async def _try(self, decide: Callable[[TicketBook], tuple[_Answer, TicketBook]]) -> tuple[_Answer, TicketBook]:
        found = await self._read()
        before = self._book_of(found)
        answer, after = decide(before)
        if after is not before:
            data = book_data(after)
            if _size(data) > MAX_BYTES:
                after = replace(after, waits=None)  # neither places nor devices depend on them
                data = book_data(after)
            if _size(data) > MAX_BYTES:
                raise TicketsCorrupt(f"it would have more than {MAX_BYTES} bytes")
            if found is None:
                written = await self._create(data)
            else:
                path = resource_path("v1", "configmaps", self._namespace, self._name)
                written = await self._api.replace(path, {**found, "data": {**(found.get("data") or {}), **data}})
            self._on_object(written)
        self._note(after)
        return answer, after

    def _book_of(self, found: JsonObject | None) -> TicketBook:
        if found is not None and found.get("binaryData"):
            raise TicketsCorrupt("it has binaryData")
        return read_book(found.get("data") if found is not None else None)

    def _note(self, found: TicketBook | TicketsUnavailable) -> None:
        self._last = monotonic(), found
        if isinstance(found, TicketBook):
            self._problem = ""

    async def _read(self) -> JsonObject | None:
        try:
            return await self._api.get(resource_path("v1", "configmaps", self._namespace, self._name))
        except KubernetesError as error:
            if error.not_found:
                return None
            raise

    async def _create(self, data: dict[str, str]) -> JsonObject:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self._name, "labels": {names.MANAGED_BY: names.MANAGER}},
            "data": data,
        }
        return await self._api.create(resource_path("v1", "configmaps", self._namespace), body)

    def _unavailable(self, error: Exception) -> TicketsUnavailable:
        problem = f"ConfigMap {self._namespace}/{self._name}: {error}"
        if problem != self._problem:  # once in the log
            log.warning("Tickets cannot be read or written: %s", problem)
        self._problem = problem
        return TicketsUnavailable(problem)


def _size(data: Mapping[str, str]) -> int:
    """Bytes of a ConfigMap's data, which is ASCII."""
    return sum(map(len, data.values()))
