"""The queue as one service serves it: its tickets for decisions, and what decisions change in the book."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketBook
from dra_spawner.placeholders.lifecycle import IllegalEvent, TicketEvent, TicketState
from dra_spawner.placeholders.planner.actions import ChangeTicket
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.placeholders.planner.ticket_queue import QueuedTicket, TicketQueue, competing_devices


def served_queue(
    book: TicketBook, hub: str, shapes: Mapping[str, Shape], away: Collection[str] = (), *, is_known: bool = True
) -> TicketQueue:
    """The open tickets.

    Parameters
    ----------
    hub
        `Ticket.hub` of own tickets.
    shapes
        By published name of the choice.
    away
        Hubs whose services are away; their tickets are left out.
    is_known
        Whether the book was ever read.
    """
    opened = [each for each in book.open if each.hub not in away]
    # Once for each choice, of which there are few.
    wanted = {each.choice for each in opened if each.hub == hub}
    devices = {choice: competing_devices(shapes[choice]) for choice in wanted.intersection(shapes)}
    queued = [_queued(each, hub, shapes, devices) for each in opened]
    of_user: dict[str, list[QueuedTicket]] = defaultdict(list)
    for ticket, each in zip(opened, queued, strict=True):
        of_user[ticket.user].append(each)
    found = (_beside(each, of_user[ticket.user]) for ticket, each in zip(opened, queued, strict=True))
    return TicketQueue(tuple(found), is_known)


def _beside(ticket: QueuedTicket, of_user: Collection[QueuedTicket]) -> QueuedTicket:
    """A ticket with the user's others for the same devices."""
    same = [each for each in of_user if each.id != ticket.id and not each.devices.isdisjoint(ticket.devices)]
    if not same:
        return ticket
    is_paused = ticket.waits and any(each.state is TicketState.HELD for each in same)
    return replace(ticket, of_user=frozenset(each.id for each in same), is_paused=is_paused)


def _queued(
    ticket: Ticket, hub: str, shapes: Mapping[str, Shape], devices: Mapping[str, frozenset[str]]
) -> QueuedTicket:
    is_own = ticket.hub == hub
    shape = shapes.get(ticket.choice) if is_own else None
    return QueuedTicket(
        ticket.id,
        shape.id if shape is not None and shape.wants_devices else "",
        devices[ticket.choice] if shape is not None else frozenset(ticket.devices),
        ticket.state,
        is_own,
        ticket.placeholder,
        ticket.placeholder_uid,
        ticket.until,
        ticket.kept_node,
        ticket.kept_until,
    )


def changed_by(book: TicketBook, action: ChangeTicket, now: datetime) -> TicketBook:
    """The book after a decision; the same book if the ticket's state does not have the event any more."""
    values: dict[str, object] = {}
    if action.event is TicketEvent.HOLD:
        held = {each.placeholder_uid for each in book.tickets.values() if each.state is TicketState.HELD}
        if action.placeholder_uid in held or book.is_paused(action.ticket):
            return book
        values = {
            "placeholder": action.placeholder,
            "placeholder_uid": action.placeholder_uid,
            "until": action.until,
        }
    if action.event is TicketEvent.KEEP:
        values = {"kept_node": action.node, "kept_until": action.until}
    try:
        return book.after(action.ticket, action.event, now, **values)
    except (KeyError, IllegalEvent):
        return book
