"""A real hub, and a service in the test's process whose clocks the test sets."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from dra_spawner import names
from dra_spawner.fairness.idle.notices import Notice
from dra_spawner.fairness.idle.settings import read_idle_settings
from dra_spawner.service.http.api.handlers import LivenessHandler
from dra_spawner.service.http.idle.idle_handlers import IdlePage
from dra_spawner.service.idle.hub_reports import HubReports
from dra_spawner.service.idle.idle_servers import IdleServers, SeenServer
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_process import HubProcess
from tests.service.open_service import open_to_all
from tests.service.replica import TOKEN, Replica, replica

__all__ = ["IdleHub", "Tickets", "idle_hub"]

PREFIX = "/services/dra-spawner/"
CONFIG = """
c.JupyterHub.services.append({{"name": "dra-spawner", "url": {url!r}, "api_token": {token!r}}})
c.JupyterHub.load_roles.append(
    {{"name": "idle", "services": ["dra-spawner"], "scopes": ["read:servers", "delete:servers"]}})
c.JupyterHub.load_roles[0]["scopes"].append("tokens")
c.Authenticator.admin_users = {{"root"}}
c.DRASpawner.profile_list = [
    {{"display_name": "share", "slug": "share", "kubespawner_override": {{"device_claims": {{
        "gpu": {{"device_class": "gpu-share.example.com", "capacity": {{"memory": "15Gi"}}}}}}}}}},
    {{"display_name": "none", "slug": "none"}},
]
"""
#: The list as an administrator of the service sees it, and as a reader does.
PAGES = [("idle-open", open_to_all(IdlePage)), ("idle-read", open_to_all(IdlePage, scope=names.READ_SCOPE))]
POLICY = {"after_minutes": 5, "notice_minutes": 4, "keep_minutes": 10, "keeps": 1}


@dataclass
class Tickets:
    """Places that were kept."""

    kept: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)

    async def keep_place(self, user: str, choice: str, groups: Sequence[str]) -> None:
        self.kept.append((user, choice, tuple(groups)))


class IdleHub:
    """See the module.

    Attributes
    ----------
    begin, skipped
        Both clocks of the service show their sum: a slow machine brings nothing closer.
    """

    def __init__(self, hub: HubProcess, service: Replica, settings: Any) -> None:
        self.hub = hub
        self.service = service
        self.begin = datetime.now(UTC)
        self.skipped = timedelta(0)
        self.may_act = True
        self.tickets = Tickets()
        self.idle = self.new_leader(settings)

    def new_leader(self, settings: Any) -> IdleServers:
        """Looks at servers from now on."""
        context = self.service.context
        assert context.elector is not None
        self.idle = IdleServers(
            read_idle_settings(settings),
            self.service.controller,
            self.service.cluster.admin,
            context.decisions,
            HubReports(f"{self.hub.url}/hub/api", TOKEN),
            context.elector.require,
            self.tickets,
            wall=self.now,
            steady=lambda: self.now().timestamp(),
        )
        self.idle.leads = True
        context.idle = self.idle
        return self.idle

    def now(self) -> datetime:
        return self.begin + self.skipped

    async def look(self) -> dict[str, SeenServer]:
        """Look once; the servers seen, by user and name."""
        await self.idle.look()
        return {f"{each.server.user}/{each.server.server}".rstrip("/"): each for each in self.idle.seen.values()}

    async def pass_minutes(self, minutes: int) -> dict[str, SeenServer]:
        """Look each minute."""
        found: dict[str, SeenServer] = {}
        for _ in range(minutes):
            self.skipped += timedelta(minutes=1)
            found = await self.look()
        return found

    async def runs(self, user: str) -> bool:
        """Whether the hub has a server of a user."""
        _, model = await self.hub.request("GET", f"/users/{user}")
        return bool(model["servers"])

    def decided(self) -> list[tuple[str, str]]:
        """Kind and outcome of all decisions about idle servers."""
        found = self.service.context.decisions.newest(1000, matches=lambda each: each.code == "idle")
        return [(each.decision.kind, each.decision.outcome) for each in reversed(found)]

    async def notice(self, pod: str) -> Notice:
        """What the pod says."""
        found = await self.service.cluster.admin.get(self.service.cluster.path("pods", pod))
        return Notice.read((found["metadata"].get("annotations") or {}).get(names.IDLE_NOTICE, ""))

    async def asked(self, path: str, token: str = "", body: Any = None) -> tuple[int, Any]:
        """Status and JSON of the hub's answer; a ``POST`` if there is a body."""
        headers = {"Authorization": f"token {token}"} if token else {}
        data = json.dumps(body) if body is not None and not isinstance(body, str) else body
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                "GET" if body is None else "POST",
                f"{self.hub.url}/hub/dra-spawner/{path}",
                data=data,
                headers=headers,
                allow_redirects=False,
            ) as answer,
        ):
            text = await answer.text()
            return answer.status, json.loads(text) if answer.content_type == "application/json" else text


@contextlib.asynccontextmanager
async def idle_hub(cluster: ClusterUnderTest, config: str = "", settings: Any = None) -> AsyncIterator[IdleHub]:
    """A hub whose service looks at idle servers when the test says so."""
    # JupyterHub looks at the service's first page before it goes on.
    async with replica(cluster, prefix=PREFIX, more=[("", LivenessHandler), *PAGES]) as service:
        own = CONFIG.format(url=service.url.removesuffix(PREFIX.rstrip("/")), token=TOKEN) + config
        directory = cluster.directory / "hub"
        async with HubProcess(directory, cluster.hub_kubeconfig, cluster.namespace, own) as hub:
            yield IdleHub(hub, service, settings or {"policies": {"*": POLICY}})
