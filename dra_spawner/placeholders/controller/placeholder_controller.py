"""The placeholder controller of the service: policy, view, and, while it leads, rounds and reservations."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Self

from dra_spawner import names
from dra_spawner.common.owned_tasks import OwnedTasks
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.client.api_errors import KubernetesError
from dra_spawner.kube.client.rights import missing_right
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.leader import NotLeading
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.records.controller_counts import ControllerCounts
from dra_spawner.placeholders.controller.records.event_recorder import NODE_NAMESPACE, EventRecorder
from dra_spawner.placeholders.controller.records.launch_waits import LaunchWaits
from dra_spawner.placeholders.controller.records.node_lead_times import NodeLeadTimes
from dra_spawner.placeholders.controller.records.session_records import HandoverTimes, SessionRecords
from dra_spawner.placeholders.controller.round.cluster_limits import ClusterLimits, pending_uids
from dra_spawner.placeholders.controller.round.drained_devices import DrainedDevices
from dra_spawner.placeholders.controller.round.executor import ActionExecutor
from dra_spawner.placeholders.controller.round.reconciler import Reconciler, ReconcilerTimes
from dra_spawner.placeholders.controller.round.reservation_log import ReservationLog
from dra_spawner.placeholders.controller.round.reservations import OnHold, Reservations, ReservedPlacement
from dra_spawner.placeholders.controller.round.steady_clock import SteadyClock
from dra_spawner.placeholders.controller.round.views import Views
from dra_spawner.placeholders.controller.sources.health_reports import HealthReports
from dra_spawner.placeholders.controller.sources.node_ceilings import NodeCeilings
from dra_spawner.placeholders.controller.sources.override_store import OverrideStore
from dra_spawner.placeholders.controller.sources.server_namespaces import ServerNamespaces
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.controller.sources.shapes_source import ShapesSource
from dra_spawner.placeholders.controller.sources.target_source import ConfiguredTargets, ProfileGroup, TargetSource
from dra_spawner.placeholders.controller.sources.ticket_source import TicketSource, end_ticket
from dra_spawner.placeholders.controller.sources.wanted_policy import PolicySources, WantedPolicies, WantedPolicy
from dra_spawner.placeholders.planner.cluster.view import AwaitedServer, View
from dra_spawner.placeholders.planner.decide import Decisions
from dra_spawner.placeholders.planner.decisions.orders import RefusedOrder, ordered_placeholder
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.limits import Quota
from dra_spawner.placeholders.planner.targets.overrides import MAX_ORDERS, Overrides, StoredOrder
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.placeholders.planner.targets.shape_definition import DefinitionError, read_definition
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.placeholders.planner.ticket_queue import TicketQueue
from dra_spawner.simulator.model.claims import ObjectKey

__all__ = ["ControllerCounts", "PlaceholderController", "UnknownShape"]

log = logging.getLogger(__name__)


class UnknownShape(Exception):
    """Raised for a shape that the hub does not publish."""


class PlaceholderController:
    """Manages placeholders while its process leads, and reads them on a standby too."""

    def __init__(
        self,
        api: KubernetesApi,
        watch: ClusterWatch,
        decisions: DecisionLog,
        settings: ControllerSettings,
        *,
        targets: TargetSource | None = None,
        now: Callable[[], datetime] | None = None,
        times: ReconcilerTimes | None = None,
    ) -> None:
        self.settings = settings
        self.targets = targets or ConfiguredTargets()
        self.shapes = ShapesSource(api, settings.hub_namespace, settings.shapes_config_map, on_change=self.wake)
        self.now = now or SteadyClock()
        self.overrides = OverrideStore(
            api, settings.hub_namespace, settings.settings_config_map, now=self.now, on_change=self.wake
        )
        owner = (settings.hub_namespace, settings.placeholders.labels.get(names.INSTALLATION, ""))
        health = HealthReports(watch, settings.drain_sick_devices, lambda: self.server_namespaces.present)
        self.drained_devices = DrainedDevices(api, self.overrides, watch, owner, self.now, health)
        self.tickets: TicketSource | None = None
        """The queue for devices; None without one."""
        self.server_namespaces = ServerNamespaces(api, settings, on_change=self._note_namespaces)
        self.watch = watch
        self.handover_times = HandoverTimes(watch)
        self.launch_waits = LaunchWaits(
            watch, settings.namespaces, now=self.now, start_seconds=lambda: self.shapes.published.start_seconds
        )
        self.node_lead_times = NodeLeadTimes(
            watch, settings.policy.readiness.kind_label, self._drivers_of, now=self.now
        )
        self.node_ceilings = NodeCeilings(watch, settings, now=self.now)
        self.sessions = SessionRecords(self.now)
        self._api = api
        self._decisions = decisions
        self._times = times or ReconcilerTimes()
        self._views = Views(watch, self.now)
        self._reconciler: Reconciler | None = None
        self._reservations: Reservations | None = None
        self._index = WantedPolicies(settings)
        self._followed: tuple[Policy, int, Policy] | None = None
        self._reservation_problem = ""
        self._record = ReservationLog(decisions, self.now, self.name_of)
        self._followers = (self.shapes, self.overrides, self.server_namespaces)
        self._following = AsyncExitStack()
        self._tasks = OwnedTasks()
        self.counts = ControllerCounts()
        decisions.on_append(self.counts.note)

    def _note_namespaces(self) -> None:
        self.launch_waits.namespaces = self.server_namespaces.present
        if self._reconciler is not None:
            self._reconciler.namespaces = self.server_namespaces.present
            self._reconciler.wake()

    @property
    def is_on(self) -> bool:
        return self.settings.has_placeholders

    @property
    def policy(self) -> Policy:
        """The policy for the published shapes, with the targets of its source.

        It is the same object until something changes.
        """
        configured, version = self._wanted.policy, self.targets.version
        known = self._followed
        if known is None or known[0] is not configured or known[1] != version:
            ranges = self.targets.ranges(self.groups())
            keeps = self.targets.keeps_surplus
            policy = replace(configured, replicas={**configured.replicas, **ranges}, keeps_surplus=keeps)
            known = self._followed = (configured, version, policy if ranges or keeps else configured)
        return known[2]

    def groups(self) -> tuple[ProfileGroup, ...]:
        """Choices that share their placeholders, as configured."""
        return tuple(
            ProfileGroup(self.name_of(shape), shape, frozenset(self.names_of(shape)), replicas)
            for shape, replicas in self._wanted.policy.replicas.items()
        )

    @property
    def published(self) -> PublishedShapes:
        """The last valid shapes that the hub published."""
        return self.shapes.published

    def names_of(self, shape: str) -> tuple[str, ...]:
        """Choices with a shape: those with own targets and short names first."""
        return self._wanted.names.get(shape, ())

    @property
    def replicas(self) -> Mapping[str, ReplicaRange]:
        """Targets by published name of the choice."""
        return self._wanted.replicas

    def name_of(self, shape: str) -> str:
        """The name of a choice with a shape; empty if there is none."""
        return next(iter(self.names_of(shape)), "")

    def problems(self) -> tuple[str, ...]:
        tasks = self._tasks.problems()
        if not self.is_on:
            return tasks
        reserving = self._reservation_problem and f"nothing can be reserved: {self._reservation_problem}"
        by_part = (
            ("Placeholders", self.shapes.problem),
            ("Servers", self.server_namespaces.problem),
            ("Overrides by the API", self.overrides.problem),
            ("Tickets", self.tickets.problem if self.tickets is not None else ""),
            ("Placeholders", reserving),
            *(("Scale-ahead", each) for each in self.targets.problems(self.now())),
        )
        found = [f"{part}: {problem}." for part, problem in by_part if problem]
        reconciler = self._reconciler.problems() if self._reconciler is not None else ()
        wanted = (f"{each}." for each in self._wanted.problems)
        return (*found, *wanted, *tasks, *self.drained_devices.problems(), *reconciler)

    @property
    def _wanted(self) -> WantedPolicy:
        sources = PolicySources(
            self.shapes.published, self.shapes.is_usable, self.watch.has_devices, self.overrides.present
        )
        return self._index.of(sources)

    @property
    def latest(self) -> Decisions | None:
        """The last decisions of this process; None if it does not lead."""
        return self._reconciler.latest if self._reconciler is not None else None

    @property
    def changes(self) -> int:
        """A number that grows with each change that this process knows before the watch shows it."""
        return self._reconciler.changes if self._reconciler is not None else 0

    @property
    def leads(self) -> bool:
        """Whether this process manages placeholders."""
        return self._reconciler is not None

    def view(self) -> View:
        """The view; with this process's expectations while it leads."""
        if self._reconciler is not None:
            return self._reconciler.view()
        return self._views.view(self.server_namespaces.present, tickets=self.queue())

    def queue(self) -> TicketQueue:
        """The queue for devices; without tickets if there is none."""
        return self.tickets.queue(self.published) if self.tickets is not None else TicketQueue()

    async def lead(self, may_act: Callable[[], None]) -> None:
        """Manage placeholders until cancelled.

        Parameters
        ----------
        may_act
            Called before each request; raises `NotLeading` if this process must not act.
        """
        await self.watch.wait_synced()
        if self.is_on:
            await self.shapes.wait_synced()
            await self.overrides.wait_synced()
            if self.tickets is not None:
                await self.tickets.wait_known()
        placeholders = self.settings.placeholders
        events = EventRecorder(
            self._api,
            self.watch,
            instance=socket.gethostname(),
            namespaces=(placeholders.namespace, NODE_NAMESPACE),
            may_act=may_act,
            now=self.now,
        )
        executor = ActionExecutor(
            self._api, placeholders, may_act=may_act, new_name=_new_name, on_done=events.note, tickets=self.tickets
        )
        reconciler = Reconciler(
            self.watch,
            lambda: self.policy,
            executor,
            self._decisions,
            self.server_namespaces.present,
            trusts_servers=not self.settings.user_namespaces,
            now=self.now,
            times=self._times,
            name_of=self.name_of,
            on_denial=self.counts.note_denial,
            tickets=self.queue,
        )
        self._reconciler = reconciler
        self._reservations = Reservations(reconciler)
        try:
            async with self._tasks as tasks:
                tasks.begin("events", events.run)
                tasks.begin("drained devices", lambda: self.drained_devices.run(may_act))
                tasks.begin("orders", lambda: self.overrides.forget_done_orders(self.view, may_act))
                if self.is_on:
                    async with self._cluster_limits(reconciler) as reconciler.cluster_limits:
                        await reconciler.run()
                else:
                    await reconciler.run()
        finally:
            self._reconciler = self._reservations = None

    @property
    def quotas(self) -> tuple[Quota, ...] | None:
        """ResourceQuotas of the placeholders' namespace; None while they are not known."""
        limits = self._reconciler.cluster_limits if self._reconciler is not None else None
        return limits.quotas if limits is not None and limits.are_known else None

    def resume(self, choice: str) -> bool:
        """Create placeholders of a choice again, although earlier ones have failed or got no node.

        Returns
        -------
        bool
            Whether they were not created.

        Raises
        ------
        NotLeading
        UnknownShape
            If the hub publishes no such choice.
        """
        if self._reconciler is None:
            raise NotLeading("this replica does not manage placeholders at present")
        found = find_choice(choice, self.published.shapes)
        if found is None:
            raise UnknownShape(choice)
        return self._reconciler.resume(self.published.shapes[found].id)

    async def order_deletion(self, name: str, by: str, *, releases: bool) -> None:
        """Let the next round evict a placeholder, or release its reservation, which deletes it, too.

        The order is stored in the cluster, so that the next leader carries it out if this one cannot.

        Raises
        ------
        NotLeading
        UnknownPlaceholder
        RefusedOrder
            If the placeholder's state does not allow the order, or too many orders wait.
        OverridesUnavailable
            If the order cannot be stored.
        """
        if self._reconciler is None:
            raise NotLeading("this replica does not manage placeholders at present")
        key = ObjectKey(self.settings.placeholders.namespace, name)
        found = ordered_placeholder(self.view(), key, releases)
        server = found.reservation.pod if releases and found.reservation is not None else ""
        order = StoredOrder(found.key, found.pod.uid, server, by, self.now())

        def add(present: Overrides) -> Overrides:
            if len(present.orders) >= MAX_ORDERS:
                raise RefusedOrder("Too many orders are not done yet. Try again in a minute.")
            return present.with_order(order)

        await self.overrides.change(add)

    def _cluster_limits(self, reconciler: Reconciler) -> ClusterLimits:
        settings = self.settings.placeholders
        return ClusterLimits(
            self._api,
            settings.namespace,
            priority_class=settings.priority_class,
            has_servers=not self.settings.user_namespaces,
            pending=lambda: pending_uids(reconciler.view()),
            now=self.now,
            on_change=reconciler.wake,
        )

    async def place(
        self,
        shape: str,
        namespace: str,
        pod: str,
        definition: str = "",
        tickets: Collection[str] = (),
        *,
        is_over_budget: bool = False,
    ) -> ReservedPlacement:
        """The placement of a server; see `Reservations.place`.

        Parameters
        ----------
        definition
            Of the shape, in case the hub does not publish it.
        tickets
            Ids of the open tickets of the server's user.

        Raises
        ------
        UnknownShape
            If there is no definition, or no placeholders are configured, so that no node is made ready.
        DefinitionError
            If the definition is invalid.
        NotLeading
        KubernetesError
        """
        # Both are gone when this replica ceases to lead while the reservation is written.
        reservations, reconciler = self._reservations, self._reconciler
        if reservations is None or reconciler is None:
            raise NotLeading("this replica does not manage placeholders at present")
        shapes = self.policy.shapes
        known = shapes.get(shape)
        if known is None and shapes and definition:
            try:
                known = read_definition(definition, shape)
            except DefinitionError as error:
                self._record.refused(shape, namespace, pod, "definition", f"its shape is invalid: {error}")
                raise
        if known is None:
            raise UnknownShape(shape)
        try:
            reservation = await reservations.place(known, namespace, pod, tickets, is_over_budget=is_over_budget)
        except OnHold as error:
            self._record.refused(shape, namespace, pod, "on-hold", f"no placeholder is reserved at present: {error}")
            raise
        except KubernetesError as error:
            self._reservation_problem = missing_right(error)
            self._record.failed(known, namespace, pod, self._reservation_problem or str(error))
            raise
        self._reservation_problem = ""
        if self.tickets is not None and reservation.placement.state.is_now:
            await end_ticket(self.tickets, self.queue(), tickets, shape)
        self._record.answered(known, namespace, pod, reservation)
        self.counts.placements[reservation.placement.state] += 1
        if reservation.placement.placeholder is not None:
            self.launch_waits.reservation(namespace, pod)
        # The quotas that placeholders use are those of their own namespace.
        is_beside = namespace == self.settings.placeholders.namespace
        if is_beside and reservation.placement.state is not AvailabilityState.NEVER:
            key = ObjectKey(namespace, pod)
            awaited = AwaitedServer(key, known, self.now(), has_claims=bool(reservation.claims))
            reconciler.expectations.expect_server(awaited)
        if reservation.claims:
            self.handover_times.begin(namespace, pod)
        reconciler.wake()
        return reservation

    async def wait_ended(self) -> None:
        """Wait until the informer of the published shapes ends, and raise the cause; return if there is none."""
        if self.is_on:
            informers = [asyncio.create_task(each.wait_ended()) for each in self._followers]
            try:
                await asyncio.wait(informers, return_when=asyncio.FIRST_COMPLETED)
                for each in informers:
                    if each.done():
                        await each
            finally:
                for each in informers:
                    each.cancel()

    async def __aenter__(self) -> Self:
        """Follow the published shapes, if placeholders are configured."""
        if self.is_on:
            async with AsyncExitStack() as stack:
                for each in self._followers:
                    await stack.enter_async_context(each)
                self._following = stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._following.__aexit__(exc_type, exc, traceback)

    def _drivers_of(self, kind: str) -> Collection[str]:
        return self.latest.planner_state.drivers.get(kind, ()) if self.latest is not None else ()

    def wake(self) -> None:
        if self._reconciler is not None:
            self._reconciler.wake()


def _new_name(shape: Shape) -> str:
    return f"placeholder-{shape.id[:8]}-{secrets.token_hex(4)}"
