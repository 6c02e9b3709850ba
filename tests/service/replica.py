"""A replica of the service in the test's process, on a cluster under test, and objects that a hub publishes for it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
from traitlets import Float

from dra_spawner import names
from dra_spawner.fairness.budget_settings import read_budgets
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.informers import InformerSettings
from dra_spawner.kube.leader import LeaderElector, LeaseTimes
from dra_spawner.placeholders.controller.round.reconciler import ReconcilerTimes
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, published_config_map
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.application import DRASpawnerService
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.addresses import Address
from dra_spawner.service.http.api import (
    calendar_entry_handlers,
    forecast_handler,
    handlers,
    order_handlers,
    override_handlers,
    pending_handlers,
    placeholder_handlers,
    rehearsal_handler,
    resume_handler,
    what_if_handler,
)
from dra_spawner.service.http.pages import nodes_page, override_pages, timeline_handler
from dra_spawner.service.http.requests.limited_server import LimitedServer
from dra_spawner.service.http.tickets import ticket_handlers
from dra_spawner.service.http.web_application import web_application
from dra_spawner.service.web_settings import WebSettings
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.access import PLACEHOLDER_RULES, USER_NAMESPACES_RULES, manifests
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.fault_proxy import FaultProxy, Request
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import PRIORITY_CLASS
from tests.local_server import serving_tornado
from tests.placeholders.controller.objects import prepare, user_pod
from tests.placeholders.controller.seen_servers import claims_of, has_devices
from tests.polling import PATIENCE_SECONDS, eventually
from tests.running import running
from tests.service.open_service import open_to_all
from tests.set_clock import SkippingClock

TOKEN = "0123456789abcdef" * 2
#: Much longer than any machine stands still.
LEASE_SECONDS = 60.0

Json = dict[str, Any]


async def publish_shapes(
    cluster: ClusterUnderTest, shapes: Mapping[str, Shape], skipped: Mapping[str, str] | None = None, **more: Any
) -> None:
    """Publish shapes as the hub does when it starts; they replace earlier ones."""
    manifest = published_config_map(PublishedShapes(shapes, skipped or {}, **more), cluster.namespace, {})
    path = resource_path("v1", "configmaps", cluster.namespace)
    await cluster.admin.delete(f"{path}/{names.SHAPES_CONFIG_MAP}", missing_ok=True)
    await cluster.admin.create(path, manifest)


async def set_up(cluster: ClusterUnderTest, shapes: Mapping[str, Shape], *objects: Json) -> None:
    """A cluster with a kubelet and these objects, and the shapes that its hub has published."""
    await prepare(cluster, *objects)
    await publish_shapes(cluster, shapes)


async def publish_settings(cluster: ClusterUnderTest) -> None:
    """Create the empty ConfigMap for settings made by people, as the chart does."""
    (settings,) = [
        each for each in manifests(cluster.namespace) if each["metadata"]["name"] == names.SETTINGS_CONFIG_MAP
    ]
    await cluster.admin.create(resource_path("v1", "configmaps", cluster.namespace), settings)


def server_objects(name: str, shape: Shape, claims: Mapping[str, Json] | None = None, **kind: Any) -> list[Json]:
    """Templates of its own claims, and the pod, of a user's server of a shape; as the hub creates them without a placement."""
    specs = {f"{name}-{entry}": spec for entry, spec in (claims or {}).items()}
    api = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    templates = [{**api, "metadata": {"name": each}, "spec": {"spec": spec}} for each, spec in specs.items()]
    pod = user_pod(name, {entry: {"resourceClaimTemplateName": f"{name}-{entry}"} for entry in claims or {}}, **kind)
    pod["metadata"]["labels"][names.SHAPE] = shape.id
    return [*templates, pod]


class Replica:
    """See the module.

    Attributes
    ----------
    election_clock
        Of its part in the election.
    """

    def __init__(
        self, context: ServiceContext, url: str, cluster: ClusterUnderTest, election_clock: SkippingClock
    ) -> None:
        self.context = context
        self.url = url
        self.cluster = cluster
        self.election_clock = election_clock

    @property
    def controller(self) -> ScaleAheadController:
        assert self.context.controller is not None
        return self.context.controller

    @property
    def identity(self) -> str:
        """Its name in the election."""
        assert self.context.elector is not None
        return self.context.elector.identity

    async def until(self, condition: Callable[[], bool], what: str = "", seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until the replica shows something."""

        def last() -> str:
            watch = self.context.watch
            pods = watch.snapshot.pods if watch is not None else {}
            seen = [(key.name, pod.node_name or "no node", pod.is_running) for key, pod in pods.items()]
            told = f"problems: {self.context.problems()}; decisions: {self.context.decisions.newest(12)}"
            return f"pods, nodes, and whether they run: {seen}; {told}"

        await eventually(condition, what, seconds, shows=last)

    async def until_warm(self, shape: Shape, count: int) -> None:
        """Wait until so many placeholders of a shape are warm and can be reserved."""

        def are_warm() -> bool:
            if self.context.controller is None:
                return False
            view = self.controller.view()
            warm, claims = view.warm(shape.id), view.snapshot.claims
            # The watch of claims may be behind the watch of pods.
            return len(warm) == count and all(
                key in claims and claims[key].claim.is_allocated for each in warm for key in each.claims
            )

        await self.until(are_warm, f"{count} warm placeholders")

    async def until_running(self, name: str) -> Json:
        """Wait until a server runs, and the replica sees it with its devices; its pod."""
        key = ObjectKey(self.cluster.namespace, name)
        found = await self.cluster.wait_running(name)

        def is_seen() -> bool:
            snapshot = self.controller.watch.snapshot
            return has_devices(snapshot, key) and snapshot.pods[key].is_running

        await self.until(is_seen, f"{name} is seen with its devices")
        return found

    async def until_pending(self, name: str) -> None:
        """Wait until the replica sees a pending server and the claims that were made for it."""
        key = ObjectKey(self.cluster.namespace, name)

        def is_seen() -> bool:
            snapshot = self.controller.watch.snapshot
            return claims_of(snapshot, key) is not None and not snapshot.pods[key].node_name

        await self.until(is_seen, f"{name} is pending, with its claims")

    async def decide(self, rounds: int = 5) -> None:
        """Until some more rounds of decisions are over."""
        for _ in range(rounds):
            begin_round(self)
            await self._until_decided(self.controller.latest)

    async def _until_decided(self, before: object) -> None:
        await self.until(lambda: self.controller.latest is not before, "a round of decisions")

    def placeholders(self) -> dict[ObjectKey, Any]:
        return self.controller.view().placeholders

    async def ask(self, body: Any, token: str = TOKEN, **headers: str) -> tuple[int, Json]:
        """``POST api/placements``."""
        if token:
            headers["Authorization"] = f"token {token}"
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.url}/api/placements", data=data, headers=headers) as answer,
        ):
            return answer.status, await answer.json()

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, str]:
        """Status, JSON and ETag of an answer."""
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self.url}/{path}", json=body, headers=headers) as answer,
        ):
            return answer.status, json.loads(await answer.text() or "null"), answer.headers.get("ETag", "")

    async def get(self, path: str) -> str:
        """The answer of an address."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/{path}") as answer:
            assert answer.status == 200, await answer.text()
            return await answer.text()

    async def get_json(self, path: str) -> Json:
        """The same of an address that answers JSON."""
        answer: Json = json.loads(await self.get(path))
        return answer

    async def place(self, shape: Shape, pod: str, **user: Any) -> Json:
        """Ask for a placement, which is answered with 200."""
        status, answer = await self.ask({"shape": shape.id, "pod": pod, "namespace": self.cluster.namespace, **user})
        assert status == 200, answer
        return answer

    async def start(self, shape: Shape, name: str, claims: Mapping[str, Json], answer: Json, **kind: Any) -> Json:
        """A user's pod, as the spawner makes it of an answer with claims."""
        entries = {entry: {"resourceClaimName": claim} for entry, claim in answer["claims"].items()}
        manifest = user_pod(name, entries, **kind)
        manifest["metadata"]["labels"][names.SHAPE] = shape.id
        (pod,) = await self.cluster.publish(manifest)
        return pod


OPEN = (
    ("page", open_to_all(nodes_page.NodesPage)),
    ("placeholders-page", open_to_all(override_pages.PlaceholdersPage)),
    ("calendar-page", open_to_all(override_pages.CalendarPage)),
    ("audit-page", open_to_all(override_pages.AuditPage)),
    ("decisions-page", open_to_all(override_pages.DecisionsPage)),
    ("timeline", open_to_all(timeline_handler.TimelineHandler)),
    ("profiles", open_to_all(placeholder_handlers.ProfilesHandler)),
    ("placeholders", open_to_all(placeholder_handlers.PlaceholdersHandler)),
    ("pending-servers", open_to_all(pending_handlers.PendingServersHandler)),
    ("decisions", open_to_all(handlers.DecisionsHandler)),
    ("forecasts", open_to_all(forecast_handler.ForecastsHandler)),
    ("calendar-entries", open_to_all(calendar_entry_handlers.CalendarEntriesHandler)),
    ("calendar-entries/{id}", open_to_all(calendar_entry_handlers.CalendarEntryHandler)),
    ("settings/placeholders/{choice}", open_to_all(override_handlers.PlaceholderSettingHandler)),
    ("settings/paused/{choice}", open_to_all(override_handlers.PausedHandler)),
    ("settings/draining/{node}", open_to_all(override_handlers.DrainingHandler)),
    ("devices/{device}/drain", open_to_all(override_handlers.DeviceDrainHandler)),
    ("settings/acting", open_to_all(override_handlers.ActingHandler)),
    ("settings/observing", open_to_all(override_handlers.ObservingHandler)),
    ("settings", open_to_all(override_handlers.SettingsHandler)),
    ("audit", open_to_all(override_handlers.AuditHandler)),
    ("placeholders/{name}", open_to_all(order_handlers.EvictionHandler)),
    ("placeholders/{name}/reservation", open_to_all(order_handlers.ReleaseHandler)),
    ("resume", open_to_all(resume_handler.ResumeHandler)),
    ("what-if", open_to_all(what_if_handler.WhatIfHandler)),
    ("rehearsals", open_to_all(rehearsal_handler.RehearsalsHandler)),
    ("status", open_to_all(handlers.StatusHandler)),
    ("tickets", open_to_all(ticket_handlers.TicketsHandler)),
    ("tickets/{id}", open_to_all(ticket_handlers.TicketHandler)),
    ("own-tickets", open_to_all(ticket_handlers.OwnTicketsHandler)),
)
"""Addresses that answer without a hub."""


class Service(DRASpawnerService):
    """The service, with a grace that no administrator need know of, and with times that suit tests."""

    orphan_seconds = 60.0
    reservation_seconds = Float(30.0, config=True)
    """Without its minimum."""

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self.election_clock = SkippingClock()

    def new_elector(self, api: KubernetesApi) -> LeaderElector:
        """With a long Lease it asks often, so that a replica leads soon after the one before it has ended."""
        times = LeaseTimes(self.lease_seconds, self.lease_seconds * 2 / 3, retry_seconds=0.2)
        return LeaderElector(api, self.namespace, self.lease_name, times=times, clock=self.election_clock)

    def new_watch(self, api: KubernetesApi) -> ClusterWatch:
        """It tries again soon after a failure."""
        return ClusterWatch(api, settings=InformerSettings(first_delay_seconds=0.05, longest_delay_seconds=0.4))

    def reconciler_times(self) -> ReconcilerTimes:
        """A reservation or a grace that has ended is soon seen."""
        return ReconcilerTimes(idle=0.3)

    def controller_settings(self) -> ControllerSettings:
        found = super().controller_settings()
        grace = replace(found.policy.grace, orphan=timedelta(seconds=self.orphan_seconds))
        return replace(found, policy=replace(found.policy, grace=grace))


def begin_round(service: Replica) -> None:
    """Let the reconciler decide anew, as after a change."""
    service.controller.wake()


@contextlib.asynccontextmanager
async def replica(
    cluster: ClusterUnderTest,
    kubeconfig: Path | None = None,
    *,
    orphan_seconds: float = 60.0,
    service: Callable[..., Service] = Service,
    prefix: str = "/",
    more: Sequence[Address] = (),
    **traits: Any,
) -> AsyncIterator[Replica]:
    """A replica at work; the service's traits as given.

    Parameters
    ----------
    kubeconfig
        By default of the service's account, as the chart grants it rules for these traits.
    service
        Makes it of its traits.
    prefix
        Of all addresses, with a slash at both ends: a hub asks below its own.
    more
        Further addresses.
    """
    users_rules = (USER_NAMESPACES_RULES,) if traits.get("user_namespaces") else ()
    kubeconfig = kubeconfig or await service_kubeconfig(cluster, rules=(PLACEHOLDER_RULES, *users_rules))
    application = service(
        **{
            "kubeconfig": str(kubeconfig),
            "namespace": cluster.namespace,
            "placeholder_priority_class": PRIORITY_CLASS,
            "lease_seconds": LEASE_SECONDS,
            **traits,
        }
    )
    application.orphan_seconds = orphan_seconds
    context = ServiceContext(
        WebSettings(prefix, own_token=TOKEN, authenticate_metrics=False),
        DecisionLog(),
        max_staleness_seconds=application.max_staleness_seconds,
        budgets=read_budgets(application.budgets),
        enforces_budgets=application.enforce_budgets,
    )
    server = LimitedServer(
        web_application(context, cookie_secret=b"x" * 32, more=(*OPEN, *more)), limits=application.server_limits()
    )
    async with serving_tornado(server) as url, running(application.work(context)):
        found = Replica(context, f"{url}{prefix}".rstrip("/"), cluster, application.election_clock)
        await found.until(lambda: context.controller is not None and context.watch is not None and context.watch.synced)
        await found.until(lambda: knows_settings(found.controller), "it has read what people have set")
        yield found


def knows_settings(controller: ScaleAheadController) -> bool:
    """Whether a replica has read what people have set, or says why it cannot; until then it refuses changes."""
    settings = controller.overrides
    return not controller.is_on or (settings.is_running and bool(settings.problem or not settings.unknown_because))


async def run_out_lease(*replicas: Replica) -> None:
    """Skip the seconds for which the leader's Lease lasts; each of the replicas has to know the leader."""
    for each in replicas:
        elector = each.context.elector
        assert elector is not None
        await each.until(lambda elector=elector: bool(elector.leader), "it knows the leader")  # type: ignore[misc]
    for each in replicas:
        each.election_clock.skipped_seconds += LEASE_SECONDS


READS = ("get", "list", "watch")


def writes(proxy: FaultProxy) -> list[Request]:
    """Requests that change something, except for requests of the election, and events."""
    return [each for each in proxy.requests if each.verb not in READS and each.resource not in ("leases", "events")]
