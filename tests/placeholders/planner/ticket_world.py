"""A simulated cluster with a queue for devices: users join, start with what is held for them, and leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from dra_spawner import names
from dra_spawner.fairness.tickets.served_queue import changed_by, served_queue
from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketBook
from dra_spawner.placeholders.lifecycle import TicketEvent, TicketState
from dra_spawner.placeholders.planner.actions import ChangeTicket
from dra_spawner.placeholders.planner.answers.placement import held_placement
from dra_spawner.placeholders.planner.cluster.view import Placeholder
from dra_spawner.placeholders.planner.targets.policy import TicketRules
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.placeholders.planner.ticket_queue import TicketQueue, competing_devices
from tests.placeholders.planner.objects import NAMESPACE
from tests.placeholders.planner.simulated_cluster import START
from tests.placeholders.planner.world import World, policy_for
from tests.presence import present

__all__ = ["OWN_HUB", "TicketWorld"]

OWN_HUB = "hub/dra-spawner-shapes"
_NAME_OF_CLAIM = "gpu"


class TicketWorld(World):
    """See the module.

    Attributes
    ----------
    choices
        Published shapes by name of the choice.
    book
        All tickets, as in the cluster.
    events
        Time, user and event of each change that the service wrote.
    """

    def __init__(
        self,
        choices: Mapping[str, Shape],
        hold: timedelta = timedelta(minutes=5),
        *,
        go_first: bool = True,
        keep: timedelta = timedelta(0),
        now: datetime = START,
    ) -> None:
        super().__init__(policy_for(tickets=TicketRules(hold, go_first, keep)), now)
        self.choices = choices
        self.publish(choices)
        self.book = TicketBook()
        self.events: list[tuple[datetime, str, TicketEvent]] = []
        self.queue = self._queue
        self.change_ticket = self._change
        self.serial = 0

    def publish(self, choices: Mapping[str, Shape]) -> None:
        """The hub publishes choices."""
        self.choices = choices
        self.policy = replace(self.policy, shapes={each.id: each for each in choices.values()})

    def _queue(self) -> TicketQueue:
        away = [hub for hub in self.book.served if hub != OWN_HUB and not self.book.is_served(hub, self.now)]
        return served_queue(self.book, OWN_HUB, self.choices, away)

    def _change(self, action: ChangeTicket) -> None:
        before = self.book
        self.book = changed_by(before, action, self.now)
        if self.book is not before:
            self.events.append((self.now, before.tickets[action.ticket].user, action.event))

    def join(self, user: str, choice: str = "gpu", hub: str = OWN_HUB) -> Ticket:
        """A user joins the queue."""
        self.serial += 1
        devices = tuple(competing_devices(self.choices[choice])) if hub != OWN_HUB else ()
        new = Ticket(f"{self.serial:016x}", 0, user, hub, choice, self.now, self.now, devices=devices)
        ticket, self.book = self.book.join(new)
        return ticket

    def leave_queue(self, user: str, choice: str = "gpu") -> None:
        """A user leaves the queue."""
        self.book = self.book.after(present(self.book.find(user, choice)).id, TicketEvent.LEAVE, self.now)

    def state(self, user: str, choice: str = "gpu") -> TicketState:
        return present(self.book.find(user, choice)).state

    @property
    def held(self) -> list[str]:
        """Users for whom a device is held, in the order of arrival."""
        return [each.user for each in self.book.open if each.state is TicketState.HELD]

    @property
    def only_held(self) -> Placeholder:
        """The only placeholder that is held for a ticket."""
        (found,) = (each for each in self.view().placeholders.values() if each.ticket)
        return found

    def start(self, user: str, choice: str = "gpu", server: str = "") -> str:
        """A user starts a server of a choice.

        Returns
        -------
        str
            ``taken`` if it has the device that was held, ``behind`` if others are first, else ``direct``.
        """
        shape = self.choices[choice]
        own = [each.id for each in self.book.of_user(user) if each.state.is_open]
        found = held_placement(self.view(), self.policy, shape, NAMESPACE, own)
        if found is None:
            self.user(server or user, shape.claims)
            return "direct"
        if found.placeholder is None:
            return "behind"
        claim = self.reservation(found, server or user)
        ticket = next(each for each in self.queue().tickets if each.id in own and each.shape == shape.id)
        self._change(ChangeTicket(ticket.id, TicketEvent.TAKE, "its user's server starts", shape.id))
        self.user(server or user, claim_names={_NAME_OF_CLAIM: claim}, labels={names.SHAPE: shape.id})
        return "taken"
