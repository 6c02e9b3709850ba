"""What pages say of a ticket."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketStanding
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.placeholders.planner.answers.waits import WaitInterval
from dra_spawner.spawner.ticket_pages.shown_ticket import ShownState, kept_ticket, ordinal, shown_ticket
from tests.all_of_them import all_of_them

NOW = datetime(2030, 1, 1, 14, tzinfo=UTC)
FIRST = "What becomes free next is for you."
OPEN = "Keep a page of the hub open, such as Home: nothing tells you when all are closed."
UNKNOWN = f"How long it takes is not known yet. {OPEN}"
OTHERS = "2 persons are before you. You move up when one of them gets a device or leaves."


def standing(
    state=TicketState.WAITING, place=0, waiting=0, wait=None, *, until=None, since=NOW, is_held=False
) -> TicketStanding:
    ticket = Ticket("id-of-ada", 7, "ada", "hub/shapes", "gpu", NOW, since, state, until=until)
    return TicketStanding(ticket, place, waiting, wait, is_held)


@all_of_them(
    "found, state, sentence",
    {
        "third": (
            standing(place=3, waiting=7, wait=WaitInterval(600, 2400)),
            ShownState.WAITS,
            f"You are 3rd of 7 in the queue. {OTHERS} Your turn usually comes in 10 to 40 min. {OPEN}",
        ),
        "no wait is known": (
            standing(place=3, waiting=7),
            ShownState.WAITS,
            f"You are 3rd of 7 in the queue. {OTHERS} {UNKNOWN}",
        ),
        "alone": (
            standing(place=1, waiting=1),
            ShownState.WAITS,
            f"You are the only one in the queue. {FIRST} {UNKNOWN}",
        ),
        "held": (
            standing(TicketState.HELD, is_held=True, until=NOW + timedelta(minutes=5)),
            ShownState.READY,
            "It is held for you alone.",
        ),
        "held, and the leader is away when the time is over": (
            standing(TicketState.HELD, until=NOW - timedelta(seconds=1)),
            ShownState.MISSED,
            "It was held for you, but your server was not started in time. Others may have it now.",
        ),
        "expired": (
            standing(TicketState.EXPIRED, since=NOW - timedelta(hours=11)),
            ShownState.MISSED,
            "It was held for you, but your server was not started in time. Others may have it now.",
        ),
        "not published": (
            standing(TicketState.UNKNOWN_CHOICE),
            ShownState.GONE,
            "This choice is not offered at present. Your place is kept until it is offered again.",
        ),
    },
)
def test_states(found, state, sentence):
    shown = shown_ticket(found, "GPU slice", NOW)
    assert shown is not None
    assert (shown.state, shown.sentence, shown.text) == (state, sentence, "GPU slice")
    assert "id-of-ada" not in str(shown.as_json()), "the service takes it as a proof"


def test_tickets_that_say_nothing_any_more():
    for found in (
        standing(TicketState.TAKEN),
        standing(TicketState.LEFT),
        standing(TicketState.EXPIRED, since=NOW - timedelta(hours=13)),
    ):
        assert shown_ticket(found, "GPU slice", NOW) is None, found.ticket.state


def test_a_choice_that_the_form_of_this_user_lacks_is_not_started():
    held = standing(TicketState.HELD, is_held=True, until=NOW + timedelta(minutes=5))
    gone = shown_ticket(held, None, NOW)
    assert gone is not None
    assert (gone.state, gone.text, gone.until) == (ShownState.GONE, "gpu", None)
    assert gone.sentence == "Your form does not offer this choice at present."


def test_a_place_is_kept_while_it_cannot_be_read():
    kept = kept_ticket(standing(place=3, waiting=7), "GPU slice")
    assert kept is not None
    assert (kept.state, kept.sentence) == (ShownState.KEPT, "Your place is kept; it cannot be shown now.")
    assert kept_ticket(standing(TicketState.HELD, is_held=True), "GPU slice") is None, "its time goes on"


def test_ordinals():
    assert [ordinal(each) for each in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th",
    ]  # fmt: skip
