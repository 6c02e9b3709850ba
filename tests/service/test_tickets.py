"""The service serves the queue for devices: from joining to a server, over restarts and other hubs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.fairness.tickets.ticket_book import TicketBook, Waits
from dra_spawner.history.records import Launch
from dra_spawner.kube.client.api import resource_path
from dra_spawner.placeholders.lifecycle import TicketEvent, TicketState
from dra_spawner.placeholders.planner.targets.placeholder_objects import (
    PlaceholderSettings,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.service.http.tickets.ticket_handlers import OwnTicketsHandler
from dra_spawner.service.tickets.followed_tickets import FollowedTickets
from dra_spawner.ticket_store.ticket_store import TicketStore
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import PRIORITY_CLASS, whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape
from tests.polling import eventually
from tests.presence import present
from tests.service.replica import Replica, replica, server_objects, set_up
from tests.ticket_store.queue_api import NAMESPACE, QueueApi

GPU = shape(WHOLE)


def hub_of(cluster: ClusterUnderTest) -> TicketStore:
    """A hub of the cluster that has just started."""
    return TicketStore(cluster.admin, cluster.namespace, f"{cluster.namespace}/{names.SHAPES_CONFIG_MAP}")


@contextlib.asynccontextmanager
async def full_cluster(cluster: ClusterUnderTest, **settings: Any) -> AsyncIterator[Replica]:
    """A cluster whose only device a user has, and a service with the queue."""
    await set_up(cluster, {"gpu-whole": GPU}, *node("node-a", whole("gpu-0")))
    async with replica(cluster, tickets=True, **settings) as service:
        await service.until(lambda: service.controller.leads, "it leads")
        await cluster.publish(*server_objects("busy", GPU, WHOLE))
        await service.until_running("busy")
        yield service


async def end(cluster: ClusterUnderTest, pod: str) -> None:
    await cluster.admin.delete(resource_path("v1", "pods", cluster.namespace, pod), grace_period_seconds=0)


def six_minutes_later(book: TicketBook) -> TicketBook:
    """The book as if its holds were older."""
    tickets = {
        key: replace(each, until=each.until - timedelta(minutes=6)) if each.until is not None else each
        for key, each in book.tickets.items()
    }
    return replace(book, tickets=tickets)


async def held(service: Replica, user: str) -> None:
    """Wait until a device is held for a user."""
    followed = present(present(service.context.tickets).followed)

    def is_held() -> bool:
        ticket = followed.present.find(user, "gpu-whole")
        return ticket is not None and ticket.state is TicketState.HELD

    await service.until(is_held, f"a device is held for {user}")


@pytest.mark.promise("Who waits in the queue gets the next device, and starts with one click.")
async def test_from_joining_to_a_server(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    async with full_cluster(cluster) as service:
        hub = hub_of(cluster)
        assert ((await hub.join("ada", "gpu-whole")).place, (await hub.join("bob", "gpu-whole")).place) == (1, 2)
        await service.until(lambda: len(service.controller.queue().tickets) == 2, "the service sees both")
        answer = await service.place(GPU, "eve")
        assert (answer["state"], answer["before"]) == ("waits", 2)
        await end(cluster, "busy")
        await held(service, "ada")
        others = {"shape": GPU.id, "pod": "bob", "namespace": cluster.namespace, "tickets": await hub.take("bob")}
        assert (await service.ask(others))[1]["before"] == 1
        own = {"shape": GPU.id, "pod": "ada", "namespace": cluster.namespace, "tickets": list(await hub.take("ada"))}
        _, answer = await service.ask(own)
        assert (answer["state"], list(answer["claims"])) == ("ready", ["gpu"])
        await service.start(GPU, "ada", WHOLE, answer)
        assert (await cluster.wait_running("ada"))["spec"]["nodeName"] == "node-a"

        async def are_as_expected() -> bool:
            states = {each.user: each.state for each in (await hub_of(cluster).book()).tickets.values()}
            return states == {"ada": TicketState.TAKEN, "bob": TicketState.WAITING}

        await eventually(are_as_expected, "her ticket has ended, and his has not")
        assert service.context.problems() == ()


async def test_lengths_of_sessions_are_learned_while_the_service_leads(embedded_cluster: ClusterUnderTest) -> None:
    """Not from the history alone, which it reads when it begins to lead."""
    cluster = embedded_cluster
    async with full_cluster(cluster) as service:
        uid = (await cluster.wait_running("busy"))["metadata"]["uid"]
        await service.until(lambda: service.controller.sessions.began(uid) is not None, "its begin is known")


async def test_a_placeholder_gets_no_device_of_a_node_that_is_kept_from_it(cluster: ClusterUnderTest) -> None:
    nodes = {f"node-{each}": node(f"node-{each}", whole("gpu-0")) for each in "ab"}
    await prepare(cluster, *nodes["node-a"], *nodes["node-b"])
    settings = PlaceholderSettings(namespace=cluster.namespace, priority_class=PRIORITY_CLASS)
    for name, kept in (("not-on-b", "node-b"), ("not-on-a", "node-a")):
        made = placeholder_pod(GPU, name, settings, never=[kept])
        await cluster.publish(*placeholder_claims(GPU, name, settings), made)
        assert (await cluster.wait_running(name))["spec"]["nodeName"] == (nodes.keys() - {kept}).pop()


async def test_users_over_a_budget_come_behind(embedded_cluster: ClusterUnderTest) -> None:
    """They keep their ticket, and the place is theirs again when they are within it."""
    cluster = embedded_cluster
    budgets = {"policy": [{"limit": 10, "window": 7}]}
    async with full_cluster(cluster, budgets=budgets, enforce_budgets=True) as service:
        history = present(service.context.history)
        await service.until(lambda: history.recorder.database is not None, "the history is open")
        now = datetime.now(UTC)
        used = Launch("1", now - timedelta(hours=12), "gpu-whole", "gpu-whole", "ada", bound=now - timedelta(hours=12))
        present(history.recorder.database).add((replace(used, ended=now, devices={"gpu.example.com": 1.0}),))
        await service.context.budget_use.refresh()
        assert service.context.is_over_budget("ada", ())
        hub = hub_of(cluster)
        await hub.join("ada", "gpu-whole")
        await hub.join("bob", "gpu-whole")

        async def places() -> list[int]:
            return [present(await hub.standing(user, "gpu-whole")).place for user in ("ada", "bob")]

        async def bob_is_first() -> bool:
            return await places() == [2, 1]

        await eventually(bob_is_first, "who is over a budget comes behind", shows=lambda: service.context.problems())
        await end(cluster, "busy")
        await held(service, "bob")


async def test_a_place_for_the_return_of_a_user_whose_server_is_stopped(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    async with full_cluster(cluster) as service:
        tickets, hub = present(service.context.tickets), hub_of(cluster)
        followed = present(tickets.followed)
        await tickets.keep_place("ada", "gpu-whole", ["maths"])
        assert followed.present.open == [], "the device is free for the user as for others"
        await hub.join("bob", "gpu-whole")
        await service.until(lambda: [each.devices != () for each in followed.present.open] == [True], "bob is known")
        for choice in ("no-such-choice", "gpu-whole", "gpu-whole"):
            await tickets.keep_place("ada", choice, ["maths"])
        standing = present(await hub_of(cluster).standing("ada", "gpu-whole"))
        assert (standing.place, standing.ticket.groups) == (2, ("maths",)), "budgets of groups count"
        assert len((await hub_of(cluster).book()).tickets) == 2


async def test_a_hold_ends_in_time_although_the_leader_changes(embedded_cluster: ClusterUnderTest) -> None:
    """The second replica knows only what is in the cluster."""
    cluster = embedded_cluster
    async with full_cluster(cluster) as first:
        hub = hub_of(cluster)
        await hub.join("ada", "gpu-whole")
        await hub.join("bob", "gpu-whole")
        await end(cluster, "busy")
        await held(first, "ada")
    async with replica(cluster, tickets=True) as second:
        await second.until(lambda: second.controller.leads, "it leads")
        followed = present(present(second.context.tickets).followed)
        await held(second, "ada")
        await hub.change(lambda book: (None, six_minutes_later(book)))
        await held(second, "bob")
        assert present(followed.present.find("ada", "gpu-whole")).state is TicketState.EXPIRED
        assert followed.counts[TicketEvent.TIME_OVER] == 1


async def test_what_administrators_and_users_see(
    embedded_cluster: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = embedded_cluster
    async with full_cluster(cluster) as service:
        hub = hub_of(cluster)
        for user in ("ada", "bob"):
            await hub.join(user, "gpu-whole")
        elsewhere = TicketStore(cluster.admin, cluster.namespace, "other/shapes")
        await elsewhere.join("bob", "another-choice")  # by another person of this name
        await service.until(lambda: len(service.controller.queue().tickets) == 3, "the service sees them")
        items = (await service.get_json("tickets"))["items"]
        assert [(each["user"], each["place"], each["state"]) for each in items] == [
            ("ada", 1, "waiting"),
            ("bob", 2, "waiting"),
            ("bob", 1, "waiting"),
        ]
        monkeypatch.setattr(OwnTicketsHandler, "current_user", {"name": "bob", "kind": "user"})
        (own,) = (await service.get_json("own-tickets"))["items"]
        assert (own["place"], "ada" in str(own), "user" in own) == (2, False, False)
        monkeypatch.setattr(OwnTicketsHandler, "current_user", {"name": "bob", "kind": "service"})
        assert (await service.get_json("own-tickets"))["items"] == []
        ended = [(await service.send("DELETE", f"tickets/{items[0]['id']}"))[0] for _ in range(2)]
        assert (ended, (await service.send("DELETE", "tickets/..%2Fsettings"))[0]) == ([204, 404], 404)
        assert present(await hub_of(cluster).standing("bob", "gpu-whole")).place == 1
        text = await service.get("metrics")
        assert 'dra_spawner_tickets{choice="gpu-whole",state="waiting"} 1.0' in text


async def test_a_damaged_queue_is_said_and_starts_go_on(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    async with full_cluster(cluster) as service:
        hub = hub_of(cluster)
        await hub.join("ada", "gpu-whole")
        path = resource_path("v1", "configmaps", cluster.namespace, names.TICKETS_CONFIG_MAP)
        await cluster.admin.patch(path, {"data": {"tickets": "[{"}})
        await service.until(lambda: any("Tickets:" in each for each in service.context.problems()), "it is said")
        await end(cluster, "busy")
        answer = await service.place(GPU, "eve")
        assert answer["state"] in ("waits", "free", "ready", "after-preemption")


async def test_waits_that_are_not_known_are_not_written_again_and_again() -> None:
    """A new queue has none, and the service looks every two seconds."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    api = QueueApi(Store(lambda: now))
    followed = FollowedTickets(api, NAMESPACE, "hub/shapes", now=lambda: now)
    published = PublishedShapes({"gpu-whole": GPU})

    async def waits() -> Waits:
        return Waits(now, {})

    async def writes(looks: int) -> int:
        api.requests.clear()
        for _ in range(looks):
            await followed.note(published, lambda user, groups: False, waits)
        return api.requests.count("update")

    await followed.store.join("ada", "gpu-whole")
    assert await writes(10) == 1
    await followed.store.join("bob", "gpu-whole")
    assert await writes(10) == 1
    now += timedelta(seconds=61)
    assert await writes(10) == 1
    now -= timedelta(hours=1)
    assert await writes(10) == 1
