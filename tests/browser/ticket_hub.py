"""A real hub with a queue for devices, whose service answers as a test says, and what the service does to tickets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from dra_spawner import names
from dra_spawner.fairness.tickets.ticket_book import TicketBook
from dra_spawner.placeholders.lifecycle import TicketEvent
from dra_spawner.ticket_store.ticket_store import TicketStore
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable
from tests.integration.hub_process import HubProcess
from tests.presence import present
from tests.spawner.service_stand_in import FREE, TOKEN, WAITS, ServiceStandIn, profile_items
from tests.spawner.sized_profiles import sized_share

#: A file of the hub: without it, starts of 40 GiB give up.
PATIENT = "patient"
CONFIG = """
c.JupyterHub.services.append({{"name": "dra-spawner", "url": {url!r}, "api_token": {token!r}}})
c.Authenticator.admin_users = {{"root"}}
c.DRASpawner.tickets = True
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 600}}
# After a restart the hub waits this long for a running server. A server that starts gets more time.
c.DRASpawner.http_timeout = 20
import os.path


def limits(spawner):
    spawner.http_timeout = 120
    is_patient = spawner.user_options.get("memory") == "15Gi" or os.path.exists({patient!r})
    spawner.start_timeout = 3600 if is_patient else 40


c.DRASpawner.pre_spawn_hook = limits
c.DRASpawner.profile_list = {profiles!r}
"""
PROFILES = [
    {**sized_share("GPU slice", "slice", "40Gi", "15Gi"), "default": True},
    {"display_name": "No &lt;img src=x class=hostile> device", "slug": "cpu"},
]


@dataclass
class TicketHub:
    """A hub with one device of 40 GiB."""

    hub: HubProcess
    cluster: ClusterUnderTest
    service: ServiceStandIn

    def refuse_starts(self, sentence: str) -> None:
        """Let the service say that others are first; the form shows it."""
        self.hub.let_forms_wait()
        self.service.always({"state": "waits", "sentence": sentence, "before": 1})

    def be_patient(self) -> None:
        """Let starts of 40 GiB wait from now on."""
        (self.hub.directory / PATIENT).touch()

    def prepare_nothing(self) -> None:
        """Let the service say nothing about starts."""
        self.hub.let_forms_wait(False)
        self.service.always(lambda: web.Response(status=503))

    @property
    def store(self) -> TicketStore:
        """The queue, as a service sees it that has just started."""
        namespace = self.cluster.namespace
        return TicketStore(self.cluster.admin, namespace, f"{namespace}/{names.SHAPES_CONFIG_MAP}")

    async def change(self, user: str, choice: str, event: TicketEvent, until_seconds: float | None = None) -> None:
        """Let something happen to a user's ticket, as the service does."""
        now = datetime.now(UTC)
        values = {} if until_seconds is None else {"until": now + timedelta(seconds=until_seconds)}

        def changed(book: TicketBook) -> tuple[None, TicketBook]:
            return None, book.after(present(book.find(user, choice)).id, event, now, **values)

        await self.store.change(changed)

    async def order(self, choice: str) -> list[str]:
        """Users in the queue for a choice, in order."""
        return [each.user for each in (await self.store.book()).open if each.choice == choice]

    async def garble(self) -> dict[str, str]:
        """Write what no reader understands into the queue; return what was there."""
        path = self.cluster.path("configmaps", names.TICKETS_CONFIG_MAP)
        before = (await self.cluster.admin.get(path))["data"]
        await self.set_data(dict.fromkeys(before, "garbled"))
        return dict(before)

    async def set_data(self, data: dict[str, str]) -> None:
        """Write into the queue as an administrator can."""
        path = self.cluster.path("configmaps", names.TICKETS_CONFIG_MAP)
        await self.cluster.admin.patch(path, {"data": data})


@contextlib.asynccontextmanager
async def ticket_hub(cluster: ClusterUnderTest) -> AsyncIterator[TicketHub]:
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    async with ServiceStandIn().listening() as service:
        choices: dict[str, Any] = {"slice": WAITS, "slice/memory=15Gi": WAITS, "cpu": FREE}

        async def answer(query: dict[str, Any]) -> dict[str, Any]:
            return profile_items(**choices)

        service.profiles = answer
        config = CONFIG.format(url=service.url, token=TOKEN, patient=PATIENT, profiles=PROFILES)
        async with HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, config) as hub:
            made = TicketHub(hub, cluster, service)
            made.prepare_nothing()
            yield made
