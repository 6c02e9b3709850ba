"""All tickets of a cluster, and what changes them. Every change returns a new book; writing it is the store's task."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.placeholders.lifecycle import TICKET, TicketEvent, TicketState, following
from dra_spawner.placeholders.planner.answers.waits import WaitInterval

__all__ = [
    "MAX_ENDED",
    "MAX_NAME",
    "MAX_OPEN",
    "TicketBook",
    "TicketLimits",
    "TicketRefusal",
    "TicketRefused",
    "TicketStanding",
    "Waits",
]

#: Limit of tickets in the queue, of all hubs: their text stays below the size of a ConfigMap.
MAX_OPEN: Final = 2_000
#: Limit of tickets that have ended and are kept for their users to read.
MAX_ENDED: Final = 200
#: Limit of characters of a name of a user, a group or a choice.
MAX_NAME: Final = 255
_MAX_GROUPS: Final = 20
#: Age up to which expected waits are shown.
_WAITS_LAST: Final = timedelta(minutes=5)


class TicketRefusal(StrEnum):
    """Why a user gets no ticket."""

    TOO_MANY_OF_USER = "too-many-of-user"
    FULL = "full"
    NAME = "name"


class TicketRefused(Exception):
    """Raised where a user gets no ticket.

    Attributes
    ----------
    reason
        For code.
    sentence
        For the user.
    """

    def __init__(self, reason: TicketRefusal, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class TicketLimits:
    """Limits of joining.

    Attributes
    ----------
    of_user
        Open tickets of one user, over all choices and hubs.
    in_all
        Open tickets of all users.
    """

    of_user: int = 3
    in_all: int = MAX_OPEN


@dataclass(frozen=True, slots=True)
class Waits:
    """Expected waits, as the service computed them.

    Attributes
    ----------
    at
        When; the service's time.
    of
        Interval by id of a waiting ticket.
    older
        Seconds before `at` at which an interval of another hub's service was computed, by id.
    """

    at: datetime
    of: Mapping[str, WaitInterval] = field(default_factory=dict)
    older: Mapping[str, int] = field(default_factory=dict)

    def age(self, ticket: str, now: datetime) -> timedelta:
        """Time since the interval of a ticket was computed; negative by a clock that jumped."""
        return now - self.at + timedelta(seconds=self.older.get(ticket, 0))


@dataclass(frozen=True, slots=True)
class TicketStanding:
    """A ticket as its user sees it.

    Attributes
    ----------
    place
        1 for the next one to get a device; 0 if the ticket does not wait.
    waiting
        Number of tickets that wait for the same devices, this one included.
    wait
        When a device is held with a probability of 80 %, from now; None if that is not known.
    is_held
        Whether a device is held for the user now.
    """

    ticket: Ticket
    place: int = 0
    waiting: int = 0
    wait: WaitInterval | None = None
    is_held: bool = False

    @property
    def sentence(self) -> str:
        """What the place depends on, for the user; empty if the ticket does not wait."""
        if self.ticket.state is TicketState.UNKNOWN_CHOICE:
            return "This choice is not offered at present. Your place is kept until it is offered again."
        if not self.place:
            return ""
        before = self.place - 1
        moves = "You move up when one of them gets a device or leaves."
        if before == 1:
            moves = "You move up when that person gets a device or leaves."
        found = f"{_persons(before)} before you. {moves}" if before else "The next device that is free is for you."
        if self.ticket.is_behind:
            found += " You have used up your device-hours, so others come first."
        return found


def _persons(number: int) -> str:
    return "One person is" if number == 1 else f"{number} persons are"


@dataclass(frozen=True, slots=True)
class TicketBook:
    """All tickets.

    Attributes
    ----------
    tickets
        By id.
    next_number
        Of the next ticket.
    waits
        The last expected waits; None if there are none.
    """

    tickets: Mapping[str, Ticket] = field(default_factory=dict)
    next_number: int = 1
    waits: Waits | None = None

    @property
    def open(self) -> list[Ticket]:
        """Tickets in the queue, in order."""
        found = (each for each in self.tickets.values() if each.state.is_open)
        return sorted(found, key=lambda each: each.order)

    def of_user(self, user: str) -> list[Ticket]:
        """All tickets of a user, also ended ones, in the order of arrival."""
        return sorted((each for each in self.tickets.values() if each.user == user), key=lambda each: each.number)

    def find(self, user: str, choice: str) -> Ticket | None:
        """The last ticket of a user for a choice, also an ended one; None if there is none."""
        return next((each for each in reversed(self.of_user(user)) if each.choice == choice), None)

    def standing(self, ticket: Ticket, now: datetime) -> TicketStanding:
        """A ticket as its user sees it."""
        (found,) = self.standings([ticket], now)
        return found

    def standings(self, tickets: Iterable[Ticket], now: datetime) -> list[TicketStanding]:
        """Tickets as their users see them."""
        # Tickets of one kind compete with the same ones, and there are few kinds.
        of_kind: dict[tuple[str, ...], list[Ticket]] = {}
        for each in self.open:
            if each.state is TicketState.WAITING:
                of_kind.setdefault(each.kind, []).append(each)
        competing: dict[tuple[str, ...], list[tuple[bool, int]]] = {}
        found = []
        for each in tickets:
            if each.state is not TicketState.WAITING:
                found.append(TicketStanding(each, is_held=each.is_held(now)))
                continue
            if each.kind not in competing:
                others = (of for of in of_kind.values() if of[0].competes_with(each))
                competing[each.kind] = sorted(other.order for of in others for other in of)
            orders = competing[each.kind]
            found.append(TicketStanding(each, bisect_right(orders, each.order), len(orders), self._wait(each, now)))
        return found

    def _wait(self, ticket: Ticket, now: datetime) -> WaitInterval | None:
        waits = self.waits
        found = waits.of.get(ticket.id) if waits is not None else None
        if waits is None or found is None:
            return None
        passed = waits.age(ticket.id, now)
        if not timedelta(0) <= passed <= _WAITS_LAST:  # of a service that is away, or by a clock that jumped
            return None
        seconds = int(passed.total_seconds())
        return WaitInterval(max(found.low_seconds - seconds, 0), max(found.high_seconds - seconds, 0))

    def join(self, ticket: Ticket, limits: TicketLimits = TicketLimits()) -> tuple[Ticket, TicketBook]:
        """Add a ticket at the end; the user's open one for this choice, and the same book, if there is one.

        Parameters
        ----------
        ticket
            Its number does not count.

        Raises
        ------
        TicketRefused
        """
        names = (ticket.user, ticket.choice, ticket.hub, *ticket.groups)
        if not ticket.user or not ticket.choice or any(len(each) > MAX_NAME for each in names):
            raise TicketRefused(TicketRefusal.NAME, "You cannot join the queue for this choice.")
        before = self.find(ticket.user, ticket.choice)
        if before is not None and before.state.is_open:
            return before, self
        opened = self.open
        if sum(each.user == ticket.user for each in opened) >= limits.of_user:
            sentence = f"You wait in {limits.of_user} queues already, which is the limit. Leave one of them first."
            raise TicketRefused(TicketRefusal.TOO_MANY_OF_USER, sentence)
        if len(opened) >= min(limits.in_all, MAX_OPEN):
            raise TicketRefused(TicketRefusal.FULL, "The queue is full. Please try again later.")
        new = replace(ticket, number=self.next_number, state=TicketState.WAITING, groups=ticket.groups[:_MAX_GROUPS])
        # The ended ones of this user and choice have nothing to tell any more.
        tickets = {
            key: each for key, each in self.tickets.items() if (each.user, each.choice) != (new.user, new.choice)
        }
        return new, replace(self, tickets={**tickets, new.id: new}, next_number=self.next_number + 1)

    def after(self, ticket_id: str, event: TicketEvent, now: datetime, **values: object) -> TicketBook:
        """The book after an event of a ticket.

        Parameters
        ----------
        values
            Fields of the ticket that change with it.

        Raises
        ------
        KeyError
            If the ticket is gone.
        IllegalEvent
            If its state has no such event.
        """
        ticket = self.tickets[ticket_id]
        state = following(TICKET, ticket.state, event)
        kept = {"placeholder": "", "placeholder_uid": "", "until": None, "kept_node": "", "kept_until": None} | values
        since = now if state is not ticket.state else ticket.since
        changed = replace(ticket, state=state, since=since, **kept)  # type: ignore[arg-type]  # names of fields
        return self._with({**self.tickets, ticket_id: changed})

    def with_waits(self, waits: Waits) -> TicketBook:
        """The book with expected waits, of which those of other hubs stay while they are new; the same without any."""
        before = self.waits or Waits(waits.at)
        if not waits.of and not before.of:
            return self
        waiting = {each.id for each in self.tickets.values() if each.state is TicketState.WAITING}
        kept, older = dict[str, WaitInterval](), dict[str, int]()
        for key in waiting.intersection(before.of) - waits.of.keys():
            age = before.age(key, waits.at)
            if timedelta(0) <= age <= _WAITS_LAST:
                kept[key], older[key] = before.of[key], int(age.total_seconds())
        of = kept | {key: each for key, each in waits.of.items() if key in waiting}
        return replace(self, waits=Waits(waits.at, of, {key: each for key, each in older.items() if each}))

    def with_notes(self, notes: Mapping[str, tuple[tuple[str, ...], bool]], waits: Waits | None) -> TicketBook:
        """The book with what the service found out.

        Parameters
        ----------
        notes
            `Ticket.devices` and `Ticket.is_behind`, by id; tickets that are gone do not count.
        """
        tickets = dict(self.tickets)
        for key, (devices, is_behind) in notes.items():
            if key in tickets:
                tickets[key] = replace(tickets[key], devices=devices, is_behind=is_behind)
        return replace(self, tickets=tickets, waits=waits)

    def without_user(self, user: str) -> TicketBook:
        """The book without the tickets of a user who was deleted."""
        return replace(self, tickets={key: each for key, each in self.tickets.items() if each.user != user})

    def _with(self, tickets: Mapping[str, Ticket]) -> TicketBook:
        """The book with tickets, of ended ones the newest."""
        ended = sorted((each.number for each in tickets.values() if not each.state.is_open), reverse=True)
        kept = set(ended[:MAX_ENDED])
        return replace(
            self, tickets={key: each for key, each in tickets.items() if each.state.is_open or each.number in kept}
        )
