"""Users who want a device before others: floods, guessed tickets, holds that are renewed, and wrong names."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner.fairness.tickets.ticket_book import TicketBook, TicketLimits, TicketRefused, Waits
from dra_spawner.fairness.tickets.ticket_data import TicketsCorrupt, book_data, read_book
from dra_spawner.placeholders.lifecycle import PlaceholderState, TicketEvent, TicketState
from dra_spawner.placeholders.planner.answers.placement import held_placement
from dra_spawner.placeholders.planner.answers.waits import WaitInterval
from dra_spawner.ticket_store.ticket_store import TicketsUnavailable
from tests.all_of_them import all_of_them
from tests.fairness.tickets.books import ticket
from tests.placeholders.planner.objects import GPU, NAMESPACE
from tests.placeholders.planner.ticket_world import TicketWorld
from tests.ticket_store.hubs import Hubs

HOSTILE_NAMES = {
    "a surrogate": "\udc80ada",
    "a null": "a\x00b",
    "a line": "ada\nbob",
    "JSON": '"],{"user":"root"}',
    "a script": "<script>",
    "very long": "x" * 255,
    "not Latin": "Ω☃" * 60,
}


def full() -> TicketWorld:
    world = TicketWorld({"gpu": GPU})
    world.node("a", cpu="100", gpus=1)
    world.settle()
    return world


async def test_a_user_who_floods_has_one_place_and_costs_others_nothing() -> None:
    hubs = Hubs()
    hub = hubs.hub()
    await hub.join("bob", "gpu")
    choices = [f"choice-{number % 7}" for number in range(200)]
    found = await asyncio.gather(*(hub.join("eve", each) for each in choices), return_exceptions=True)
    assert {type(each) for each in found if isinstance(each, BaseException)} == {TicketRefused}
    book = await hub.book()
    assert (len(book.of_user("eve")), len(book.open)) == (TicketLimits().of_user, 1 + TicketLimits().of_user)
    for _ in range(300):
        await hub.leave("eve", "choice-0")
        await hub.join("eve", "choice-0")
    book = await hub.book()
    assert (len(book.tickets), book.open[0].user) == (1 + TicketLimits().of_user, "bob")


async def test_a_queue_that_is_full_takes_nobody_and_still_serves_its_users() -> None:
    """Users of many long groups fill the ConfigMap; what the service writes to their tickets must have room."""
    hubs = Hubs()
    hub = hubs.hub()
    await hub.join("ada", "gpu")
    groups = tuple(f"{number:0>255}" for number in range(20))
    _, book = await hub.change(lambda book: (None, book))
    for number in range(100):
        _, book = book.join(ticket(f"{number:0>250}", groups=groups))
    hubs.set_data(book_data(book))
    joins = (hub.join(f"user-{number}", "gpu", groups) for number in range(80))
    assert {type(each) for each in [await asyncio.gather(each, return_exceptions=True) for each in joins][-1]} == {
        TicketRefused
    }
    before = await hubs.hub().book()

    def serve(book: TicketBook) -> tuple[None, TicketBook]:
        devices = tuple(f"{number:0>63}" for number in range(20))
        waits = Waits(hubs.now, {each.id: WaitInterval(60, 600) for each in book.open})
        return None, book.with_notes({each.id: (devices, True) for each in book.open}, waits)

    await hubs.hub().change(serve)
    await hubs.hold("ada")
    assert [each.is_held for each in await hubs.hub().standings("ada")] == [True]
    assert len((await hubs.hub().book()).open) == len(before.open)
    await hubs.hub().leave("user-0", "gpu")

    def flood(book: TicketBook) -> tuple[None, TicketBook]:
        for number in range(1000, 1200):
            _, book = book.join(ticket(f"{number:0>250}", groups=groups))
        return None, book

    with pytest.raises(TicketsUnavailable):
        await hub.change(flood)
    assert len((await hubs.hub().book()).open) == len(before.open) - 1, "what is too large is not written"


@all_of_them("name", HOSTILE_NAMES)
def test_hostile_names_stay_what_they_are(name: str) -> None:
    _, book = full().book.join(ticket(name))
    data = book_data(book)
    assert read_book(data) == book
    assert all(each.isascii() for each in data.values())


def test_a_guessed_or_foreign_ticket_is_worth_nothing() -> None:
    world = full()
    ada = world.join("ada")
    bob = world.join("bob")
    world.run(0.2)
    assert world.held == ["ada"]
    for guessed in ([], ["0" * 16], [bob.id], ["0" * 16, "f" * 16, bob.id]):
        found = held_placement(world.view(), world.policy, GPU, NAMESPACE, guessed)
        assert found is not None
        assert (found.placeholder, found.before) == (None, 1)
    mine = held_placement(world.view(), world.policy, GPU, NAMESPACE, [ada.id])
    assert mine is not None
    assert mine.placeholder is not None


def test_nobody_holds_a_device_by_joining_again_and_again() -> None:
    """Whose ticket expires is last; alone, a user holds it again, and a start of another user is not refused."""
    world = full()
    world.join("eve")
    world.join("bob")
    for _ in range(3):
        world.run(5.5)
        world.join("eve")  # as soon as the ticket has expired
    holders = [user for _, user, event in world.events if event.value == "hold"]
    assert holders[:2] == ["eve", "bob"]
    world.leave_queue("eve")
    world.run(0.2)
    assert world.start("dan") == "direct"
    world.run(0.5)
    assert world.node_of("dan") == "a"


def test_a_hold_with_a_forged_end_is_over() -> None:
    """A writer with a wrong clock, or an old backup, holds nothing for a year."""
    world = full()
    held = world.join("eve")
    world.run(0.2)
    tickets = {**world.book.tickets}
    found = tickets[held.id]
    assert found.until is not None
    tickets[held.id] = replace(found, until=found.until + timedelta(days=365))
    world.book = replace(world.book, tickets=tickets)
    world.run(0.2)
    assert world.state("eve") is TicketState.EXPIRED
    assert [each.state for each in world.view().placeholders.values() if each.ticket] == []
    assert PlaceholderState.RESERVED not in {each.state for each in world.view().placeholders.values()}


async def test_a_person_of_the_same_name_at_another_hub_changes_nothing() -> None:
    """Hubs with other ways to log in may share a queue; who is called alike may be another person."""
    hubs = Hubs()
    here, there = hubs.hub("here"), hubs.hub("there")
    await here.join("ada", "gpu")
    await hubs.hold("ada")
    there = hubs.hub("there")
    assert (await there.leave("ada", "gpu"), await there.take("ada")) == (False, ())
    await there.forget("ada")
    (found,) = await hubs.hub("here").standings("ada")
    assert (found.is_held, len(await hubs.hub("here").take("ada"))) == (True, 1)


@all_of_them(
    "minutes, held",
    {
        "at work": (4, []),
        "uninstalled, or away": (6, ["bob"]),
        "its clock is an hour ahead": (-60, ["bob"]),
    },
)
def test_tickets_of_a_hub_that_is_gone_stop_nobody(minutes: int, held: list[str]) -> None:
    """Nobody would ever hold a device for them, so starts of others would be refused without end."""
    world = TicketWorld({"gpu": GPU}, go_first=True)
    world.node("a", cpu="100", gpus=1)
    world.settle()
    world.join("eve", hub="other/shapes")
    world.book = world.book.with_waits(Waits(world.now - timedelta(minutes=minutes), {}), "other/shapes")
    assert world.start("dan") == ("behind" if not held else "direct")
    if held:
        world.leave("dan")
    world.join("bob")
    world.run(0.2)
    assert world.held == held


def hostile_values(**values: object) -> dict[str, str]:
    """A ConfigMap with one ticket that another writer has made."""
    _, book = TicketBook().join(ticket("eve"))
    data = book_data(book)
    (found,) = json.loads(data["tickets"])
    of_book = {key: str(value) for key, value in values.items() if key in ("widths", "served", "waits")}
    of_ticket = {key: value for key, value in values.items() if key not in of_book}
    return {**data, "tickets": json.dumps([found | of_ticket]), **of_book}


@all_of_them(
    "data",
    {
        "an interval of three": hostile_values(told=[1, 2, 3]),
        "an interval of texts": hostile_values(told=["a", "b"]),
        "an endless interval": hostile_values(told=[0, 1e999]),
        "an endless wait": hostile_values(waits='{"at": "2030-01-01T00:00:00+00:00", "of": {"x": [0, 1e999]}}'),
        "a time without a zone": hostile_values(told_at="2030-01-01T00:00:00"),
        "a node that is no text": hostile_values(kept_node=7),
        "a time that is none": hostile_values(kept_until="soon"),
        "a width without end": hostile_values(widths='{"hub": [NaN, 0]}'),
        "a width beyond the limit": hostile_values(widths='{"hub": [0, 1e300]}'),
        "widths that are a list": hostile_values(widths="[1, 2]"),
        "a service that served at no time": hostile_values(served='{"hub": 5}'),
    },
)
def test_values_that_no_service_writes_are_refused(data: dict[str, str]) -> None:
    with pytest.raises(TicketsCorrupt):
        read_book(data)


def test_a_node_that_does_not_exist_is_not_kept() -> None:
    """Its name would make the API server refuse placeholders."""
    world = TicketWorld({"gpu": GPU})
    world.node("a", cpu="100", gpus=1)
    world.settle()
    other = world.join("eve", hub="other/shapes")
    world.join("bob")
    until = world.now + timedelta(hours=5)
    world.book = world.book.after(other.id, TicketEvent.KEEP, world.now, kept_node="no node; \n", kept_until=until)
    world.run(1)
    assert world.held == ["bob"]
