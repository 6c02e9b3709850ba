"""Tickets of several hubs in one ConfigMap."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.devcluster.api.resource_types import CONFIGMAPS
from dra_spawner.fairness.tickets.ticket_book import TicketRefused
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.ticket_store.ticket_store import TicketsUnavailable
from tests.presence import present
from tests.ticket_store.hubs import Hubs
from tests.ticket_store.queue_api import NAMESPACE


async def test_everybody_who_joins_at_once_has_one_place_whatever_the_clocks_say() -> None:
    hubs = Hubs()
    stores = [hubs.hub("one"), hubs.hub("two", timedelta(days=365)), hubs.hub("three", timedelta(days=-9))]
    hubs.api.lost = 3
    joins = [stores[number % 3].join(f"user-{number % 8}", "gpu", ["maths"]) for number in range(24)]
    await asyncio.gather(*joins)
    book = await hubs.hub().book()
    assert sorted(each.user for each in book.open) == [f"user-{number}" for number in range(8)]
    assert sorted(each.number for each in book.open) == list(range(1, 9))
    for number in range(8):
        (standing,) = await hubs.hub("started-again").standings(f"user-{number}")
        assert standing.place == [each.user for each in book.open].index(f"user-{number}") + 1 or standing.waiting < 8


async def test_a_held_device_is_taken_by_its_user_alone_and_a_place_survives_restarts() -> None:
    hubs = Hubs()
    hub = hubs.hub()
    await hub.join("ada", "gpu")
    assert (await hub.join("bob", "gpu")).place == 2
    await hubs.hold("ada")
    after_restart = hubs.hub()
    assert [each.is_held for each in await after_restart.standings("ada")] == [True]
    (mine,), (others,) = await after_restart.take("ada"), await after_restart.take("bob")
    assert (mine != others, await after_restart.take("eve")) == (True, ())
    assert present(await after_restart.standing("bob", "gpu")).place == 1
    assert (await after_restart.standing("bob", "other"), await after_restart.waiting_for("gpu")) == (None, 2)
    hubs.now += timedelta(minutes=6)
    assert [each.is_held for each in await after_restart.standings("ada")] == [False]


async def test_leaving_and_forgetting_give_the_place_away() -> None:
    hubs = Hubs()
    hub = hubs.hub()
    for user in ("ada", "bob", "eve"):
        await hub.join(user, "gpu")
    assert (await hub.leave("ada", "gpu"), await hub.leave("ada", "gpu"), await hub.leave("eve", "no")) == (
        True,
        False,
        False,
    )
    assert present(await hub.standing("ada", "gpu")).ticket.state is TicketState.LEFT
    await hub.forget("bob")
    assert present(await hub.standing("eve", "gpu")).place == 1
    assert (await hub.join("ada", "gpu")).place == 2


async def test_a_page_that_is_loaded_again_and_again_costs_no_requests_and_changes_nothing() -> None:
    hubs = Hubs()
    hub = hubs.hub()
    await hub.join("ada", "gpu")
    hubs.api.requests.clear()
    await asyncio.gather(*(hub.standings("ada") for _ in range(50)))
    assert hubs.api.requests == []
    await hub.join("ada", "gpu")
    assert hubs.api.requests == ["get"]


async def test_a_queue_that_cannot_be_read_is_not_known_and_stays_as_it_is() -> None:
    hubs = Hubs()
    await hubs.hub().join("ada", "gpu")
    damaged = {"tickets": "[{", "next-number": "9"}
    hubs.set_data(damaged)
    for hub in (hubs.hub(),):
        with pytest.raises(TicketsUnavailable):
            await hub.join("bob", "gpu")
        with pytest.raises(TicketsUnavailable):
            await hub.standings("bob")
    assert hubs.store.get(CONFIGMAPS, NAMESPACE, names.TICKETS_CONFIG_MAP)["data"] == damaged
    hubs.api.is_away = True
    with pytest.raises(TicketsUnavailable):
        await hubs.hub().join("bob", "gpu")


async def test_a_flood_of_users_is_refused_and_the_first_keep_their_places() -> None:
    hubs = Hubs()
    hub = hubs.hub(in_all=5)
    results = await asyncio.gather(*(hub.join(f"user-{n}", "gpu") for n in range(20)), return_exceptions=True)
    assert sum(isinstance(each, TicketRefused) for each in results) == 15
    assert len((await hubs.hub().book()).open) == 5


async def test_a_ticket_follows_its_user_to_a_new_name_at_its_own_hub_alone() -> None:
    hubs = Hubs()
    hub, other = hubs.hub(), hubs.hub("other")
    for store, user, choice in ((hub, "eve", "gpu"), (other, "eva", "card"), (hub, "eve", "card"), (other, "eve", "x")):
        await store.join(user, choice)
    await hub.rename("eve", "eva")
    # A name has one open ticket for a choice: the other hub's eva was there, and the other hub's eve is another person.
    book = await hub.book()
    assert [(each.user, each.choice, each.number) for each in book.of_user("eva")] == [
        ("eva", "gpu", 1),
        ("eva", "card", 2),
    ]
    assert [(each.choice, each.hub) for each in book.of_user("eve")] == [("x", "other/dra-spawner-shapes")]
    hubs.api.requests.clear()
    await hub.rename("nobody", "somebody")
    assert hubs.api.requests == ["get"]
