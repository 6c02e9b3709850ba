"""Handlers of tickets. Users see their own ones alone, and nothing of others but their number."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tornado.web import HTTPError

from dra_spawner.fairness.tickets.ticket_book import TicketBook, TicketStanding
from dra_spawner.placeholders.lifecycle import TicketEvent
from dra_spawner.service.http.api.placeholder_handlers import PlaceholderHandler
from dra_spawner.service.http.requests.endpoints import CONTINUE, LIMIT_OR_ALL, Access, endpoint
from dra_spawner.service.http.requests.page_frame import may
from dra_spawner.service.http.schemas.ticket_schemas import OWN_TICKETS, TICKETS
from dra_spawner.service.tickets.followed_tickets import FollowedTickets
from dra_spawner.ticket_store.ticket_store import TicketsUnavailable

_NO_QUEUE = "There is no queue: the service's setting tickets is off."


class _TicketsBase(PlaceholderHandler):
    @property
    def followed(self) -> FollowedTickets | None:
        """The queue; None if there is none."""
        if self.context.tickets is None:
            raise HTTPError(503, "The cluster is not found yet.")
        return self.context.tickets.followed

    def write_page(self, items: list[dict[str, Any]]) -> None:
        """Write a page of tickets, and why there are none or they are not known."""
        numbered = [(f"{number:08}", each) for number, each in enumerate(items)]
        found = self.page(numbered, lambda each: each[0])
        followed = self.followed
        problem = followed.problem if followed is not None else ""
        unknown = f"Tickets are not known at present: {problem}." if problem else ""
        self.write_json(
            {
                **found,
                "items": [each for _, each in found["items"]],
                "problem": unknown if followed is not None else _NO_QUEUE,
            }
        )


class TicketsHandler(_TicketsBase):
    """``GET api/tickets``: all tickets, also of other hubs that share the queue, in their order; then ended ones.

    Names of users are for administrators of the service.
    """

    @endpoint("Tickets of all users, in their order.", Access.READ, answer=TICKETS, query=(LIMIT_OR_ALL, CONTINUE))
    async def get(self) -> None:
        followed = self.followed
        if followed is None:
            self.write_page([])
            return
        with_names = may(Access.ADMIN, self.web, self.hub_user)
        self.write_page(tickets_json(followed.present, followed.now(), with_names=with_names))


def tickets_json(book: TicketBook, now: datetime, *, with_names: bool) -> list[dict[str, Any]]:
    """All tickets in their order, then ended ones.

    Parameters
    ----------
    with_names
        Whether the names of users are told.
    """
    ended = sorted((each for each in book.tickets.values() if not each.state.is_open), key=lambda e: -e.number)
    shown = [*book.open, *ended]
    return [
        {
            "id": each.id,
            "number": each.number,
            "user": each.user if with_names else "",
            "hub": each.hub,
            "over_budget": each.is_behind,
            "placeholder": each.placeholder,
            "kept_node": each.kept_node,
            "kept_until": each.kept_until.isoformat() if each.kept_until is not None else None,
            **_shown(standing),
        }
        for each, standing in zip(shown, book.standings(shown, now), strict=True)
    ]


class TicketHandler(_TicketsBase):
    """``DELETE api/tickets/<id>``: an operator ends a ticket."""

    @endpoint("End a ticket.", Access.OPERATE, status=204, problems=(404, 503))
    async def delete(self, name: str) -> None:
        followed = self.followed
        if followed is None:
            raise HTTPError(404, "%s", _NO_QUEUE)

        def end(book: TicketBook) -> tuple[bool, TicketBook]:
            ticket = book.tickets.get(name)
            if ticket is None or not ticket.state.is_open:
                return False, book
            return True, book.after(name, TicketEvent.LEAVE, followed.now())

        try:
            is_ended, _ = await followed.store.change(end)
        except TicketsUnavailable:
            raise HTTPError(503, "Tickets cannot be changed at present. The log has the reason.") from None
        if not is_ended:
            raise HTTPError(404, "There is no open ticket with this id.")
        self.set_status(204)


class OwnTicketsHandler(_TicketsBase):
    """``GET api/own-tickets``: the caller's tickets."""

    @endpoint("The caller's tickets.", Access.ASK, answer=OWN_TICKETS, query=(LIMIT_OR_ALL, CONTINUE))
    async def get(self) -> None:
        caller, followed = self.current_user or {}, self.followed
        if followed is None:
            self.write_page([])
            return
        book, now = followed.present, followed.now()
        # A service may have the name of a user.
        own = book.of_user(str(caller.get("name", ""))) if caller.get("kind", "user") == "user" else []
        # Another person may have this name at another hub.
        self.write_page(
            [_shown(each) for each in book.standings([each for each in own if each.hub == followed.hub], now)]
        )


def _shown(standing: TicketStanding) -> dict[str, Any]:
    ticket, wait = standing.ticket, standing.wait
    return {
        "choice": ticket.choice,
        "state": ticket.state.value,
        "place": standing.place,
        "waiting": standing.waiting,
        "wait": {"low_seconds": wait.low_seconds, "high_seconds": wait.high_seconds} if wait is not None else None,
        "sentence": standing.sentence,
        "joined": ticket.joined.isoformat(),
        "until": ticket.until.isoformat() if ticket.until is not None else None,
    }
