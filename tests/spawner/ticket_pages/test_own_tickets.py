"""A user's own tickets: joining twice, a queue that cannot be read, too many clicks, and tickets at other hubs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.fairness.tickets.ticket_book import TicketBook, TicketRefused
from dra_spawner.placeholders.lifecycle import TicketEvent
from dra_spawner.spawner.ticket_pages.own_tickets import OwnTickets, TooManyChanges, UserForm
from dra_spawner.spawner.ticket_pages.shown_ticket import ShownState
from dra_spawner.ticket_store.ticket_store import TicketStore, TicketsUnavailable
from tests.presence import present
from tests.ticket_store.queue_api import NAMESPACE, QueueApi

FORM = UserForm.of(
    [
        {
            "slug": "gpu",
            "display_name": "GPU &lt;b&gt; <i>slice</i>",
            "default": True,
            "kubespawner_override": {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}},
            "profile_options": {
                "memory": {"choices": {"5Gi": {"default": True}, "15Gi": {"display_name": "15 GiB"}}},
                "image": {"choices": {"a": {"default": True}}, "unlisted_choice": {"enabled": True}},
            },
        },
        {"slug": "cpu"},
        "no profile",
    ],
    {},
)


class Cluster:
    """A queue, with clocks that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.seconds = 0.0
        self.api = QueueApi(Store(lambda: self.now))

    def store(self, hub: str = "hub") -> TicketStore:
        return TicketStore(
            self.api,
            NAMESPACE,
            f"{hub}/shapes",
            turn=asyncio.Lock(),
            now=lambda: self.now,
            sleep=lambda _: asyncio.sleep(0),
        )

    def tickets(self, user: str, hub: str = "hub") -> OwnTickets:
        """As a hub that has just started."""
        return OwnTickets(user, f"{hub}/shapes", self.store(hub), lambda: self.seconds, lambda: self.now)

    async def hold(self, user: str) -> None:
        """What the service does."""

        def held(book: TicketBook) -> tuple[None, TicketBook]:
            until = self.now + timedelta(minutes=5)
            return None, book.after(present(book.find(user, "gpu")).id, TicketEvent.HOLD, self.now, until=until)

        await self.store().change(held)

    def writes(self) -> int:
        return sum(each != "get" for each in self.api.requests)


async def shown(tickets: OwnTickets) -> list[tuple[str, ShownState]]:
    return [(each.choice, each.state) for each in await tickets.shown(FORM)]


async def test_several_tabs_and_a_restart_leave_a_user_one_place() -> None:
    cluster = Cluster()
    tickets = cluster.tickets("ada")
    await cluster.tickets("bob").join("gpu", [])
    await asyncio.gather(*(tickets.join("gpu", ["maths"]) for _ in range(5)))
    await cluster.tickets("ada").join("gpu", [])
    assert cluster.writes() == 2
    (found,) = await cluster.tickets("ada").shown(FORM)
    assert found.sentence.startswith("You are 2nd of 2 in the queue.")
    assert found.text == "GPU <b> slice"
    await tickets.leave("gpu")
    await tickets.leave("gpu")
    assert (await shown(tickets), cluster.writes()) == ([], 3)


async def test_a_queue_that_cannot_be_read() -> None:
    cluster = Cluster()
    tickets, fresh = cluster.tickets("ada"), cluster.tickets("ada")
    await tickets.join("gpu", [])
    assert await shown(tickets) == [("gpu", ShownState.WAITS)]
    cluster.api.is_away = True
    tickets.store, fresh.store = cluster.store(), cluster.store()  # their answers are too old
    with pytest.raises(TicketsUnavailable):
        await fresh.shown(FORM)
    assert await shown(tickets) == [("gpu", ShownState.KEPT)]
    cluster.seconds = 31.0  # it may have been held meanwhile, and its time may be over
    with pytest.raises(TicketsUnavailable):
        await tickets.shown(FORM)
    with pytest.raises(TicketsUnavailable):
        await tickets.join("gpu", [])


async def test_a_device_that_was_not_taken_and_another_try_at_the_end() -> None:
    cluster = Cluster()
    tickets = cluster.tickets("ada")
    await tickets.join("gpu", [])
    await cluster.tickets("bob").join("gpu", [])
    await cluster.hold("ada")
    tickets = cluster.tickets("ada")
    assert (await shown(tickets), await tickets.held("gpu") is None) == ([("gpu", ShownState.READY)], False)
    held = present(await tickets.held("gpu"))
    assert not tickets.has_begun(held)
    tickets.begin(held)
    assert tickets.has_begun(held), "a click in another tab"
    cluster.now += timedelta(minutes=6)  # the leader is away: the ticket is still called held
    assert (await shown(tickets), await tickets.held("gpu")) == ([("gpu", ShownState.MISSED)], None)
    await tickets.join("gpu", [])
    (found,) = await tickets.shown(FORM)
    assert found.sentence.startswith("You are 2nd of 2 in the queue.")


async def test_clicks_without_end_are_refused_and_are_free_again_after_a_minute() -> None:
    cluster = Cluster()
    tickets = cluster.tickets("ada")

    async def joins_and_leaves() -> None:
        for _ in range(100):
            await tickets.join("gpu", [])
            await tickets.leave("gpu")

    with pytest.raises(TooManyChanges):
        await joins_and_leaves()
    assert cluster.writes() == 20
    await cluster.tickets("bob").join("gpu", [])
    cluster.seconds = 61.0
    await tickets.join("gpu", [])


async def test_a_ticket_of_another_hub_is_not_shown_and_not_started_here() -> None:
    cluster = Cluster()
    await cluster.tickets("ada", "other").join("gpu", [])
    await cluster.hold("ada")
    here = cluster.tickets("ada")
    assert (await shown(here), await here.held("gpu")) == ([], None)
    with pytest.raises(TicketRefused, match="at another hub"):
        await here.join("gpu", [])


def test_the_choice_of_options() -> None:
    found = {
        name: FORM.chosen(slug, options)
        for name, slug, options in (
            ("by default", "", {}),
            ("a size", "gpu", {"profile": "gpu", "memory": "15Gi", "course": "a"}),
            ("free text", "gpu", {"image--unlisted-choice": "evil"}),
            ("another profile", "gone", {}),
            ("no options", "gpu", None),
            ("hostile", "gpu", {"memory": ["15Gi"]}),
        )
    }
    assert found == {
        "by default": "gpu",
        "a size": "gpu/memory=15Gi",
        "free text": None,
        "another profile": None,
        "no options": "gpu",
        "hostile": "gpu",
    }
    assert [FORM.text(name) for name in ("gpu/memory=15Gi", "gpu/memory=99Gi", "gone", "")] == [
        "GPU <b> slice, 15 GiB",
        None,
        None,
        None,
    ]
    assert {name: FORM.has_devices(name) for name in ("gpu/memory=15Gi", "cpu", "gone")} == {
        "gpu/memory=15Gi": True,
        "cpu": False,
        "gone": False,
    }
