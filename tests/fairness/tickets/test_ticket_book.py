"""The queue: order, limits, places, and what is written of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.fairness.tickets.served_queue import changed_by
from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import (
    MAX_ENDED,
    MAX_NAME,
    MAX_OPEN,
    TicketBook,
    TicketLimits,
    TicketRefused,
    Waits,
)
from dra_spawner.fairness.tickets.ticket_data import MAX_BYTES, TicketsCorrupt, book_data, read_book
from dra_spawner.placeholders.lifecycle import IllegalEvent, TicketEvent, TicketState
from dra_spawner.placeholders.planner.actions import ChangeTicket
from dra_spawner.placeholders.planner.answers.waits import WaitInterval
from tests.all_of_them import all_of_them
from tests.examples import example_count
from tests.fairness.tickets.books import HUB, NOW, ticket
from tests.presence import present

USERS = ("ada", "bob", "eve", "dan")
CHOICES = ("gpu", "gpu/memory=40", "card")


def book_of(*users: str, choice: str = "gpu") -> TicketBook:
    book = TicketBook()
    for user in users:
        _, book = book.join(ticket(user, choice))
    return book


def waiting_users(book: TicketBook) -> list[str]:
    return [each.user for each in book.open]


def test_who_joins_again_keeps_the_place_and_who_expired_goes_to_the_end() -> None:
    book = book_of("ada", "bob")
    same, unchanged = book.join(ticket("ada", serial=2))
    assert (same.number, unchanged is book) == (1, True)
    held = book.after(same.id, TicketEvent.HOLD, NOW, placeholder="p", until=NOW + timedelta(minutes=5))
    assert present(held.find("ada", "gpu")).is_held(NOW + timedelta(minutes=4))
    expired = held.after(same.id, TicketEvent.TIME_OVER, NOW + timedelta(minutes=5))
    assert (waiting_users(expired), present(expired.find("ada", "gpu")).state) == (["bob"], TicketState.EXPIRED)
    again, book = expired.join(ticket("ada", serial=3))
    assert (again.number, waiting_users(book), len(book.tickets)) == (3, ["bob", "ada"], 2)


def test_users_over_a_budget_come_behind_among_those_who_compete() -> None:
    book = book_of("ada", "bob", "eve")
    _, book = book.join(ticket("dan", "card"))
    of_user = {each.user: each for each in book.tickets.values()}
    devices = {"ada": ("a",), "bob": ("a", "b"), "eve": ("b",), "dan": ("b",)}
    book = book.with_notes({each.id: (devices[user], user == "bob") for user, each in of_user.items()}, None)
    places = {each.user: (found.place, found.waiting) for each in book.open for found in [book.standing(each, NOW)]}
    assert places == {"ada": (1, 2), "eve": (1, 3), "dan": (2, 3), "bob": (4, 4)}
    sentence = book.standing(present(book.find("bob", "gpu")), NOW).sentence
    assert sentence.startswith("3 persons are before you.")
    assert sentence.endswith("You have used up your device-hours, so others come first.")
    assert "ada" not in sentence


def test_a_user_for_whom_a_device_is_held_keeps_the_place_for_its_variants() -> None:
    """Nobody waits for a ticket that gets nothing, and what was told of it does not come true or not."""
    book = book_of("ada", "bob")
    for user in ("ada", "eve"):
        _, book = book.join(ticket(user, "card"))
    book = book.with_notes(dict.fromkeys(book.tickets, (("a",), False)), None)
    first, variant, eve = (present(book.find(*each)) for each in (("ada", "gpu"), ("ada", "card"), ("eve", "card")))
    book = book.with_waits(Waits(NOW, {variant.id: WaitInterval(60, 600)}), HUB)
    assert book.standing(eve, NOW).place == 4
    hold = ChangeTicket(first.id, TicketEvent.HOLD, "", placeholder="p", placeholder_uid="1", until=NOW)
    held = changed_by(book, hold, NOW)
    found = held.standing(present(held.find("ada", "card")), NOW)
    assert (found.place, found.waiting, found.wait, found.is_paused) == (2, 3, None, True)
    assert found.sentence.startswith("Such a device is held for you already.")
    assert (held.standing(eve, NOW).place, held.standing(eve, NOW).waiting) == (2, 2)
    another = ChangeTicket(variant.id, TicketEvent.HOLD, "", placeholder="q", placeholder_uid="2", until=NOW)
    assert changed_by(held, another, NOW) is held, "another hub's service may not have seen the first one yet"
    late = held.with_waits(Waits(NOW + timedelta(hours=1)), HUB)
    assert late.widths == held.widths
    taken = held.after(first.id, TicketEvent.TAKE, NOW)
    assert changed_by(taken, another, NOW).tickets[variant.id].state is TicketState.HELD


def test_waits_are_shown_while_they_are_new() -> None:
    book = book_of("ada", "bob")
    first, second = book.open
    book = replace(book, waits=Waits(NOW, {first.id: WaitInterval(60, 600)}))
    passed = {seconds: book.standing(first, NOW + timedelta(seconds=seconds)).wait for seconds in (0, 100, 301, -1)}
    assert passed == {0: WaitInterval(60, 600), 100: WaitInterval(0, 500), 301: None, -1: None}
    assert book.standing(second, NOW).wait is None


def test_waits_of_a_service_that_is_away_are_not_made_new_by_another() -> None:
    """Two hubs share the queue; each service writes its own waits, and one of them stops."""
    book = book_of("ada", "bob")
    first, second = book.open
    waits = {first.id: WaitInterval(600, 900)}
    book = book.with_waits(Waits(NOW, waits), HUB)
    seen = []
    for minute in range(1, 8):
        now = NOW + timedelta(minutes=minute)
        book = book.with_waits(Waits(now, {second.id: WaitInterval(60, 120)}), "another")
        assert read_book(book_data(book)) == book
        found = book.standing(first, now).wait
        seen.append(found.low_seconds if found is not None else None)
        assert book.standing(second, now).wait == WaitInterval(60, 120)
    assert seen == [540, 480, 420, 360, 300, None, None]


def test_places_of_the_longest_queue_are_counted_at_once() -> None:
    """As one by one; a page with all of them takes tens of milliseconds, not seconds."""
    devices = [(), ("a",), ("a", "b"), ("b",), ("c",)]
    tickets = {
        str(number): ticket(
            str(number), CHOICES[number % 3], id=str(number), number=number, devices=devices[number % 5]
        )
        for number in range(1, MAX_OPEN + 1)
    }
    book = TicketBook(tickets, MAX_OPEN + 1)
    began = thread_time()
    found = book.standings(book.open, NOW)
    assert thread_time() - began < 0.5, "1.7 s before"
    for each in found[::97]:
        competing = [other for other in book.open if other.competes_with(each.ticket)]
        assert (each.place, each.waiting) == (competing.index(each.ticket) + 1, len(competing))


@pytest.mark.parametrize(
    ("book", "new", "sentence"),
    [
        (TicketBook(), ticket("a" * (MAX_NAME + 1)), "You cannot join the queue for this choice."),
        (TicketBook(), ticket(""), "You cannot join the queue for this choice."),
        (TicketBook(), ticket("ada", "c" * (MAX_NAME + 1)), "You cannot join the queue for this choice."),
        (TicketBook(), replace(ticket("ada"), groups=("g" * 256,)), "You cannot join the queue for this choice."),
        (
            book_of("ada"),
            ticket("ada", "card"),
            "You wait in 1 queues already, which is the limit. Leave one of them first.",
        ),
        (book_of("ada", "bob", "eve"), ticket("dan"), "The queue is full. Please try again later."),
    ],
)
def test_floods_are_refused(book: TicketBook, new: Ticket, sentence: str) -> None:
    with pytest.raises(TicketRefused) as error:
        book.join(new, TicketLimits(of_user=1, in_all=3))
    assert error.value.sentence == sentence


def test_the_most_tickets_fit_into_a_config_map() -> None:
    tickets = {
        f"{number:016x}": replace(
            ticket(f"{number}@students.example.org"), id=f"{number:016x}", number=number, devices=("gpu.example.com",)
        )
        for number in range(1, MAX_OPEN + MAX_ENDED + 1)
    }
    data = book_data(TicketBook(tickets, MAX_OPEN + MAX_ENDED + 1))
    assert sum(map(len, data.values())) < MAX_BYTES
    assert len(read_book(data).tickets) == MAX_OPEN + MAX_ENDED


def test_ended_tickets_do_not_pile_up() -> None:
    book = TicketBook()
    for number in range(MAX_ENDED + 5):
        new, book = book.join(ticket(f"user-{number}"))
        book = book.after(new.id, TicketEvent.LEAVE, NOW)
    assert (len(book.tickets), book.next_number) == (MAX_ENDED, MAX_ENDED + 6)


GOOD = book_data(book_of("ada", "bob"))
LINE = GOOD["tickets"].strip("[]").split("\n")[0].rstrip(",")


@all_of_them(
    "data",
    {
        "no JSON": GOOD | {"tickets": "["},
        "no list": GOOD | {"tickets": "3"},
        "no mapping": [1],
        "deep": GOOD | {"tickets": "[" * 100_000},
        "one number twice": GOOD | {"tickets": f"[{LINE},{LINE}]"},
        "a number that is no number": GOOD | {"tickets": GOOD["tickets"].replace('"number":1', '"number":true')},
        "a state": GOOD | {"tickets": GOOD["tickets"].replace("waiting", "first")},
        "a time without zone": GOOD | {"tickets": GOOD["tickets"].replace("+00:00", "")},
        "a user": GOOD | {"tickets": GOOD["tickets"].replace('"ada"', "[]")},
        "the next number": GOOD | {"next-number": "2"},
        "a huge number": GOOD | {"next-number": "9" * 4000},
        "waits": GOOD | {"waits": '{"at":"now","of":{}}'},
        "an endless wait": GOOD | {"waits": f'{{"at":"{NOW.isoformat()}","of":{{"ada-gpu-":[1,1e999]}}}}'},
        "a wait that is no number": GOOD | {"waits": f'{{"at":"{NOW.isoformat()}","of":{{"ada-gpu-":[NaN,1]}}}}'},
        "an endless age": GOOD | {"waits": f'{{"at":"{NOW.isoformat()}","of":{{}},"older":{{"x":1e999}}}}'},
    },
)
def test_data_that_cannot_be_read_is_refused(data: object) -> None:
    with pytest.raises(TicketsCorrupt):
        read_book(data)


def test_data_of_others_is_left_alone() -> None:
    assert read_book({**GOOD, "other": "kept"}) == book_of("ada", "bob")
    assert read_book(None) == read_book({}) == TicketBook()


def test_what_a_newer_release_stores_of_a_ticket_is_kept() -> None:
    """Hubs and services of two releases write one queue while they are upgraded."""
    newer = {"mood": {"deep": [1, None, "ä"]}, "wants": 2}
    tickets = [each | newer for each in json.loads(GOOD["tickets"])]
    book = read_book({**GOOD, "tickets": json.dumps(tickets)})
    (first, *_) = book.open
    held = book.after(first.id, TicketEvent.HOLD, NOW, placeholder="p", until=NOW + timedelta(minutes=5))
    noted = held.with_notes({first.id: (("gpu",), True)}, Waits(NOW)).renamed(first.user, "eva", first.hub)
    written = json.loads(book_data(noted)["tickets"])
    assert [{key: each.get(key) for key in newer} for each in written] == [newer, newer]
    assert {"held", "eva"} <= {written[0]["state"], written[0]["user"]}


@settings(max_examples=example_count(200))
@given(st.data())
def test_random_books_keep_order_limits_and_text(data: st.DataObject) -> None:
    """A user's number never gets smaller while the ticket is open, nothing joins twice, and all can be written."""
    book, now, limits = TicketBook(), NOW, TicketLimits(of_user=2, in_all=6)
    for step in range(data.draw(st.integers(1, 25))):
        user, choice = data.draw(st.sampled_from(USERS)), data.draw(st.sampled_from(CHOICES))
        before = book
        if data.draw(st.booleans()):
            try:
                new, book = book.join(ticket(user, choice, serial=step), limits)
            except TicketRefused:
                assert book is before
                continue
            old = before.find(user, choice)
            is_open = old is not None and old.state.is_open
            assert (new == old) is is_open
            assert is_open or new.number == before.next_number
        elif (found := book.find(user, choice)) is not None:
            event = data.draw(st.sampled_from(TicketEvent))
            try:
                book = book.after(found.id, event, now)
            except IllegalEvent:
                assert book is before
        now += timedelta(seconds=data.draw(st.integers(-3600, 3600)))
        assert read_book(book_data(book)) == book
        opened = [(each.user, each.choice) for each in book.open]
        assert len(opened) == len(set(opened)) <= limits.in_all
        assert all(sum(user == each for each, _ in opened) <= limits.of_user for user in USERS)
        assert [each.number for each in book.open] == sorted(each.number for each in book.open)
        kept = {each.id for each in book.open} & {each.id for each in before.open}
        assert all(book.tickets[key].number == before.tickets[key].number for key in kept)


def test_waits_of_other_hubs_go_on_when_a_hub_writes_its_own() -> None:
    """Each service writes once a minute, at another moment."""
    first, book = TicketBook().join(ticket("ada"))
    other, book = book.join(ticket("bob", hub="other/shapes"))
    book = book.with_waits(Waits(NOW, {other.id: WaitInterval(60, 600)}), "other/shapes")
    for minutes in (1, 2):
        at = NOW + timedelta(minutes=minutes)
        book = book.with_waits(Waits(at, {first.id: WaitInterval(30, 90)}), HUB)
        assert book.standing(first, at).wait == WaitInterval(30, 90)
        assert book.standing(other, at).wait == WaitInterval(0, 600 - 60 * minutes)
    assert book.served == {"other/shapes": NOW, HUB: NOW + timedelta(minutes=2)}
