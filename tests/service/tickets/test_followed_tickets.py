"""Tickets that were not read yet are not absent: what is held for users stays, and nobody else gets it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

import pytest

from dra_spawner import names
from dra_spawner.devcluster.api.resource_types import CONFIGMAPS, by_kind
from dra_spawner.fairness.tickets.ticket import Ticket
from dra_spawner.fairness.tickets.ticket_book import TicketBook, Waits
from dra_spawner.fairness.tickets.ticket_data import book_data
from dra_spawner.kube.client.api_connection import ApiRequest
from dra_spawner.kube.client.api_errors import error_from_response
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.round.reservations import OnHold
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.placeholders.planner.targets.policy import Policy, TicketRules
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.service.tickets.followed_tickets import FollowedTickets
from tests.kube.failing_api import FailingApi, Failure
from tests.placeholders.controller.resting_cluster import (
    GPU,
    NAMESPACE,
    PLACEHOLDER_SETTINGS,
    PLACEHOLDERS,
    SERVERS,
    RestingCluster,
)
from tests.presence import present
from tests.ticket_store.hubs import Hubs
from tests.ticket_store.queue_api import NAMESPACE as QUEUE_NAMESPACE
from tests.virtual_loop import pass_time, run_in_virtual_time

_HOLD: Final = timedelta(hours=1)
_SETTINGS: Final = ControllerSettings(
    NAMESPACE,
    {},
    placeholders=PLACEHOLDER_SETTINGS,
    policy=Policy(tickets=TicketRules(_HOLD), drivers_prepare_for=drivers_prepare_for()),
)
_ONLY_TICKETS: Final = f"configmaps/{names.TICKETS_CONFIG_MAP}"


def queued_cluster() -> RestingCluster:
    """A cluster in which each placeholder is held for a user of the queue."""
    cluster = RestingCluster(_SETTINGS)
    pods = present(by_kind("v1", "Pod"))
    book = TicketBook()
    for number in range(SERVERS, SERVERS + PLACEHOLDERS):
        name, now = f"placeholder-{number}", cluster.now()
        uid = cluster.store.get(pods, NAMESPACE, name)["metadata"]["uid"]
        held: dict[str, Any] = {"placeholder": name, "placeholder_uid": uid, "until": now + _HOLD}
        ticket, book = book.join(Ticket(f"{number:016x}", 0, f"user-{number}", _hub(), "gpu", now, now))
        tickets = {**book.tickets, ticket.id: replace(ticket, state=TicketState.HELD, **held)}
        book = TicketBook(tickets, book.next_number)
    _write(cluster, book_data(book))
    return cluster


def _hub() -> str:
    return f"{NAMESPACE}/{_SETTINGS.shapes_config_map}"


def _write(cluster: RestingCluster, data: dict[str, str]) -> None:
    metadata = {"name": names.TICKETS_CONFIG_MAP, "namespace": NAMESPACE}
    cluster.store.create(
        CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, NAMESPACE
    )


def followed(cluster: RestingCluster) -> FollowedTickets:
    return present(cluster.queue.followed)


def test_a_leader_that_cannot_read_the_queue_yet_keeps_what_is_held() -> None:
    async def begin() -> None:
        cluster = queued_cluster()
        cluster.api.failures[_ONLY_TICKETS].extend([Failure.BROKEN] * 1000)
        async with cluster.leading():
            await pass_time(600)
            assert [each for each in cluster.api.writes if each.startswith("delete")] == []
            with pytest.raises(OnHold, match="queue"):
                await cluster.controller.place(GPU.id, NAMESPACE, "eve")
            assert any("Tickets:" in each for each in cluster.controller.problems())
            assert cluster.controller.view().unknown_kinds == (), "users' pods may still preempt placeholders"
            cluster.api.failures[_ONLY_TICKETS].clear()
            await pass_time(100)
            held = [each.ticket for each in cluster.controller.view().placeholders.values()]
            assert (len(held), all(held)) == (PLACEHOLDERS, True)
            # A failure after that leaves what is known.
            cluster.api.failures["configmaps"].extend([Failure.NOT_FOUND, Failure.EMPTY, Failure.OLD] * 10)
            cluster.api.cut("configmaps")
            await pass_time(60)
            assert len(followed(cluster).present.open) == PLACEHOLDERS
            assert [each for each in cluster.api.writes if each.startswith("delete")] == []

    run_in_virtual_time(begin())


class NoTickets(FailingApi):
    """An API server whose webhook for ConfigMaps is away."""

    is_away = True

    async def answer(self, request: ApiRequest) -> bytes:
        if self.is_away and request.verb == "replace" and request.path.endswith(names.TICKETS_CONFIG_MAP):
            raise error_from_response(request.target, 500, b"a webhook is away")
        return await super().answer(request)


def test_rounds_go_on_while_the_queue_cannot_be_written() -> None:
    """Holds are over, and cannot be ended: each round decides for others as before."""

    async def follow() -> None:
        cluster = queued_cluster()
        cluster.api = api = NoTickets(cluster.store)
        async with cluster.leading():
            await pass_time(_HOLD.total_seconds() + 60)
            decided: list[float] = []
            for second in range(60):
                before = cluster.controller.latest
                await pass_time(1)
                assert cluster.on_hold == ""
                if cluster.controller.latest is not before:
                    decided.append(second)
            assert max(later - earlier for earlier, later in pairwise(decided)) < 20, "9.5 s more"
            api.is_away = False
            await pass_time(30)
            assert {each.state for each in followed(cluster).present.tickets.values()} == {TicketState.EXPIRED}

    run_in_virtual_time(follow())


def test_a_start_does_not_wait_for_a_queue_that_cannot_be_written() -> None:
    """The user gets what is held at once, and a later round ends the ticket."""

    async def start() -> None:
        cluster = queued_cluster()
        cluster.api = api = NoTickets(cluster.store)
        async with cluster.leading():
            await pass_time(20)
            began, (ticket, *_) = cluster.now(), followed(cluster).present.open
            found = await cluster.controller.place(GPU.id, NAMESPACE, "ada", tickets=[ticket.id])
            assert (found.placement.state, list(found.claims)) == (AvailabilityState.READY, ["gpu"])
            assert (cluster.now() - began).total_seconds() < 1
            api.is_away = False
            await pass_time(30)
            assert followed(cluster).present.tickets[ticket.id].state is TicketState.TAKEN

    run_in_virtual_time(start())


async def test_waits_that_nobody_can_tell_are_not_asked_for_again_and_again() -> None:
    """As at a new hub, whose sessions were not seen yet: once a minute and for new tickets, and nothing is written."""
    hubs = Hubs()
    hub, asked = f"{NAMESPACE}/dra-spawner-shapes", []
    queue = FollowedTickets(hubs.api, QUEUE_NAMESPACE, hub, now=lambda: hubs.now)

    async def unknown() -> Waits:
        asked.append(hubs.now)
        return Waits(hubs.now)

    async def look(seconds: int) -> None:
        for _ in range(seconds):
            await queue.note(PublishedShapes({"gpu": GPU}), lambda user, groups: False, unknown)
            hubs.now += timedelta(seconds=1)

    await queue.store.join("ada", "gpu")
    await look(10)
    hubs.api.requests.clear()
    await look(30)
    assert (hubs.api.requests, len(asked)) == ([], 1)
    await queue.store.join("bob", "gpu")
    await look(100)
    assert [(each - asked[0]).total_seconds() for each in asked] == [0, 40, 100]


def test_a_queue_that_an_administrator_removes_is_known_again() -> None:
    async def begin() -> None:
        cluster = RestingCluster(_SETTINGS)
        _write(cluster, {"tickets": "[{"})
        async with cluster.leading():
            await pass_time(60)
            assert [each for each in cluster.api.writes if each.startswith("delete")] == []
            assert followed(cluster).problem
            cluster.store.delete(CONFIGMAPS, NAMESPACE, names.TICKETS_CONFIG_MAP)
            await pass_time(60)
            assert followed(cluster).problem == ""
            assert [each for each in cluster.api.writes if each.startswith("delete")] != []

    run_in_virtual_time(begin())
