"""All tickets of a cluster, and what changes them. Every change returns a new book; writing it is the store's task."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from dra_spawner.fairness.tickets.interval_widths import AS_COMPUTED, IntervalWidths
from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.placeholders.lifecycle import TICKET, TicketEvent, TicketState, following
from dra_spawner.placeholders.planner.answers.waits import WaitInterval

#: Limit of tickets in the queue, of all hubs: their text stays below the size of a ConfigMap.
MAX_OPEN: Final = 2_000
#: Limit of tickets that have ended and are kept for their users to read.
MAX_ENDED: Final = 200
#: Limit of characters of a name of a user, a group or a choice.
MAX_NAME: Final = 255
_MAX_GROUPS: Final = 20
#: Age up to which expected waits are shown.
_WAITS_LAST: Final = timedelta(minutes=5)
#: Time after which a service that has written nothing about its waiting tickets is away.
_SERVED_FOR: Final = timedelta(minutes=5)


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
    is_paused
        Whether the ticket keeps its place, as such a device is held for the user by another ticket.
    """

    ticket: Ticket
    place: int = 0
    waiting: int = 0
    wait: WaitInterval | None = None
    is_held: bool = False
    is_paused: bool = False

    @property
    def sentence(self) -> str:
        """What the place depends on, for the user; empty if the ticket does not wait."""
        if self.ticket.state is TicketState.UNKNOWN_CHOICE:
            return "This choice is not offered at present. Your place is kept until it is offered again."
        if self.is_paused:
            return "Such a device is held for you already. Your place is kept until you take it or leave its queue."
        if not self.place:
            return ""
        before = self.place - 1
        moves = "You move up when one of them gets a device or leaves."
        if before == 1:
            moves = "You move up when that person gets a device or leaves."
        found = f"{_persons(before)} before you. {moves}" if before else "What becomes free next is for you."
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
    widths
        How expected waits came true, by `Ticket.hub`.
    served
        When the service of a hub served its waiting tickets last, by `Ticket.hub`; the service's time.
    """

    tickets: Mapping[str, Ticket] = field(default_factory=dict)
    next_number: int = 1
    waits: Waits | None = None
    widths: Mapping[str, IntervalWidths] = field(default_factory=dict)
    served: Mapping[str, datetime] = field(default_factory=dict)

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
        paused = self._paused()
        for each in self.open:
            if each.state is TicketState.WAITING and each.id not in paused:
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
            if each.id in paused:
                place = bisect_right(orders, each.order) + 1
                found.append(TicketStanding(each, place, len(orders) + 1, is_paused=True))
                continue
            found.append(TicketStanding(each, bisect_right(orders, each.order), len(orders), self._wait(each, now)))
        return found

    def is_paused(self, ticket_id: str) -> bool:
        """Whether a ticket keeps its place, as a device of the same kind is held for its user by another one."""
        return ticket_id in self._paused()

    def _paused(self) -> frozenset[str]:
        held = defaultdict[str, list[Ticket]](list)
        for each in self.tickets.values():
            if each.state is TicketState.HELD:
                held[each.user].append(each)
        return frozenset(
            each.id
            for each in self.tickets.values()
            if each.state is TicketState.WAITING and any(of.competes_with(each) for of in held.get(each.user, ()))
        )

    def _wait(self, ticket: Ticket, now: datetime) -> WaitInterval | None:
        waits = self.waits
        found = waits.of.get(ticket.id) if waits is not None else None
        if waits is None or found is None:
            return None
        passed = waits.age(ticket.id, now)
        if not timedelta(0) <= passed <= _WAITS_LAST:  # of a service that is away, or by a clock that jumped
            return None
        return _less(found, int(passed.total_seconds()))

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
        book = self._with({**self.tickets, ticket_id: changed})
        if event is not TicketEvent.HOLD:
            return book
        # What the others of this user were told does not come true or not: they wait for their user.
        untold = {each: replace(book.tickets[each], told=None) for each in book._paused()}
        return replace(book, tickets={**book.tickets, **untold})._judged(changed, now, has_ended=True)

    def _judged(self, ticket: Ticket, now: datetime, *, has_ended: bool) -> TicketBook:
        """The book after a ticket's first expected wait has come true or not; the same book while that is open."""
        told, at = ticket.told, ticket.told_at
        if told is None or at is None:
            return self
        seconds = (now - at).total_seconds()
        is_late = seconds > told.high_seconds
        if not (has_ended or is_late):
            return self
        judged = {**self.tickets, ticket.id: replace(ticket, told=None)}
        if seconds < 0:  # the clock was set back
            return replace(self, tickets=judged)
        before = self.widths.get(ticket.hub, AS_COMPUTED)
        widths = before.after(is_early=seconds < told.low_seconds, is_late=is_late)
        return replace(self, tickets=judged, widths={**self.widths, ticket.hub: widths})

    def is_served(self, hub: str, now: datetime) -> bool:
        """Whether the service of a hub is at work, as far as is known, so that its waiting tickets count elsewhere."""
        at = self.served.get(hub)
        return at is None or abs(now - at) <= _SERVED_FOR

    def with_waits(self, waits: Waits, hub: str) -> TicketBook:
        """The book with new expected waits of one hub; expected waits of other hubs stay while they are new."""
        before = self.waits or Waits(waits.at)
        waiting = {key: each for key, each in self.tickets.items() if each.state is TicketState.WAITING}
        kept, older = dict[str, WaitInterval](), dict[str, int]()
        for key in (waiting.keys() & before.of.keys()) - waits.of.keys():
            age = before.age(key, waits.at)
            if timedelta(0) <= age <= _WAITS_LAST:
                kept[key], older[key] = before.of[key], int(age.total_seconds())
        of = kept | {key: each for key, each in waits.of.items() if key in waiting}
        shown = Waits(waits.at, of, {key: each for key, each in older.items() if each})
        told = {
            key: replace(each, told=waits.of[key], told_at=waits.at)
            for key, each in waiting.items()
            if key in waits.of and each.told_at is None
        }
        served = {key: at for key, at in self.served.items() if any(each.hub == key for each in waiting.values())}
        book = replace(self, tickets={**self.tickets, **told}, waits=shown, served={**served, hub: waits.at})
        for each in waiting.values():
            book = book._judged(each, waits.at, has_ended=False)
        return book

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

    def without_user(self, user: str, hub: str) -> TicketBook:
        """The book without the tickets of a user who was deleted at a hub."""
        mine = (user, hub)
        return replace(self, tickets={key: each for key, each in self.tickets.items() if (each.user, each.hub) != mine})

    def renamed(self, before: str, after: str, hub: str) -> TicketBook:
        """The book after a hub gave a user another name: the user's tickets keep their places.

        A ticket of a choice for which the new name has an open one, as a person of this name at another hub may, ends:
        a name has one open ticket for a choice. The same book if the user has no tickets.
        """
        if not any((each.user, each.hub) == (before, hub) for each in self.tickets.values()):
            return self
        taken = {each.choice for each in self.tickets.values() if each.user == after and each.state.is_open}
        tickets = {}
        for key, each in self.tickets.items():
            if (each.user, each.hub) != (before, hub):
                tickets[key] = each
            elif each.choice not in taken:
                tickets[key] = replace(each, user=after)
        return replace(self, tickets=tickets)

    def _with(self, tickets: Mapping[str, Ticket]) -> TicketBook:
        """The book with tickets, of ended ones the newest."""
        ended = sorted((each.number for each in tickets.values() if not each.state.is_open), reverse=True)
        kept = set(ended[:MAX_ENDED])
        return replace(
            self, tickets={key: each for key, each in tickets.items() if each.state.is_open or each.number in kept}
        )


def _less(wait: WaitInterval, seconds: int) -> WaitInterval:
    """An expected wait some seconds later."""
    return WaitInterval(max(wait.low_seconds - seconds, 0), max(wait.high_seconds - seconds, 0))
