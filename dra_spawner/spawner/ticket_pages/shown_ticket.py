"""One ticket of a user as the hub's pages say it: plain text. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from dra_spawner.fairness.tickets.ticket_book import TicketStanding
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.spawner.availability.shown import wait_text

#: How long a page says that a user did not start in time.
_MISSED_FOR: Final = timedelta(hours=12)
#: A browser notifies for open pages alone.
_KEEP_OPEN: Final = "Keep a page of the hub open, such as Home: nothing tells you when all are closed."


class ShownState(StrEnum):
    """What a page shows of a ticket."""

    #: Others are before the user, or nothing is free.
    WAITS = "waits"
    #: A device is held for the user.
    READY = "ready"
    #: The user did not start in time.
    MISSED = "missed"
    #: The choice is not offered at present, or not to this user.
    GONE = "gone"
    #: The ticket exists, but its place cannot be read at the moment.
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class ShownTicket:
    """One ticket.

    Attributes
    ----------
    choice
        Its name in the service's answers.
    text
        The choice's name for users.
    sentence
        What the page says. The page itself says until when a device is held, in the time zone of the browser.
    since
        Begin of the state.
    until
        End of the time in which the device is held; None if none is.
    """

    choice: str
    text: str
    state: ShownState
    sentence: str
    since: datetime
    until: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        """The ticket for the script of a page; times are in seconds since 1970."""
        return {
            "choice": self.choice,
            "text": self.text,
            "state": self.state.value,
            "sentence": self.sentence,
            "since": self.since.timestamp(),
            "until": self.until.timestamp() if self.until is not None else None,
        }


def shown_ticket(standing: TicketStanding, text: str | None, now: datetime) -> ShownTicket | None:
    """A ticket as a page shows it; None if there is nothing to say.

    Parameters
    ----------
    text
        The choice's name for users; None if the user's form does not offer it.
    """
    ticket = standing.ticket
    shown = text or ticket.choice
    match ticket.state:
        case TicketState.TAKEN | TicketState.LEFT:
            return None
        case TicketState.EXPIRED if now - ticket.since > _MISSED_FOR:
            return None
    # The leader may be away when the time is over.
    is_over = ticket.state is TicketState.HELD and not standing.is_held
    if ticket.state is TicketState.EXPIRED or is_over:
        sentence = "It was held for you, but your server was not started in time. Others may have it now."
        since = ticket.until or ticket.since if is_over else ticket.since
        return ShownTicket(ticket.choice, shown, ShownState.MISSED, sentence, since)
    if text is None or ticket.state is TicketState.UNKNOWN_CHOICE:
        sentence = standing.sentence or "Your form does not offer this choice at present."
        return ShownTicket(ticket.choice, shown, ShownState.GONE, sentence, ticket.since)
    if standing.is_held:
        sentence = "It is held for you alone."
        return ShownTicket(ticket.choice, shown, ShownState.READY, sentence, ticket.since, ticket.until)
    said = (_place(standing), standing.sentence, _wait(standing), _KEEP_OPEN)
    sentence = " ".join(each for each in said if each)
    return ShownTicket(ticket.choice, shown, ShownState.WAITS, sentence, ticket.since)


def kept_ticket(standing: TicketStanding, text: str | None) -> ShownTicket | None:
    """A ticket that was waiting when it was read last; None for another one."""
    ticket = standing.ticket
    if ticket.state is not TicketState.WAITING:
        return None
    sentence = "Your place is kept; it cannot be shown now."
    return ShownTicket(ticket.choice, text or ticket.choice, ShownState.KEPT, sentence, ticket.since)


def _place(standing: TicketStanding) -> str:
    if not standing.place:
        return "You are in the queue; your place is not known now."
    if standing.waiting == 1:
        return "You are the only one in the queue."
    return f"You are {ordinal(standing.place)} of {standing.waiting} in the queue."


def _wait(standing: TicketStanding) -> str:
    wait = standing.wait
    if wait is None:
        return "How long it takes is not known yet."
    return f"Your turn usually comes in {wait_text(wait.low_seconds, wait.high_seconds)}."


def ordinal(number: int) -> str:
    """An ordinal number, such as ``3rd``."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ends.get(number % 10, 'th')}"
