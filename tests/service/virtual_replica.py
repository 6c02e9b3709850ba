"""Replicas in virtual time: they decide by the clock that jumps.

Leases, back-offs and limits of requests stay in real time, and are short: a jump is no sign that a leader is gone.
The age of the view of the cluster counts in virtual time. Watches end after their seconds of it, as an API server ends
them, and begin anew; so the view is fresh after a jump, unless the connection is broken. Until then the service holds
its decisions, and its eviction budget does not fill: where that must not be, the age counts in real time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi, WatchEventType
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.informers import InformerSettings
from dra_spawner.kube.leader import LeaderElector, LeaseTimes
from dra_spawner.placeholders.controller.round.reconciler import ReconcilerTimes
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.context import Role, ServiceContext
from tests.cluster.fault_proxy import Fault, FaultProxy
from tests.cluster.under_test import ClusterUnderTest
from tests.service.replica import Replica, Service, begin_round, replica
from tests.virtual_time.api import Stamps, VirtualTimeApi
from tests.virtual_time.clock import JumpingClock

_BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)
_INFORMERS = InformerSettings(first_delay_seconds=0.05, longest_delay_seconds=0.4)
_LEASE = LeaseTimes(2.2, 1.6, 0.2)
_TIMES = ReconcilerTimes(idle=0.05, unseen=2.0, pause=0.5, first_refusal=0.2, longest_refusal=1.0)
#: Of a request that is not answered.
_REQUEST_SECONDS = 0.6


@dataclass(frozen=True)
class ReplicaTimes:
    """Times that a replica waits, in real time; short by default, so that trouble is over soon."""

    request_seconds: float = _REQUEST_SECONDS
    lease: LeaseTimes = _LEASE
    watch_seconds: int = 30
    """Of virtual time. A jump of the clock ends each watch that is due: short ones cost many requests."""
    jumps_age_view: bool = True
    """Whether the age of the view of the cluster counts in virtual time."""


#: Of a replica that nothing happens to, on a machine that is busy with other things.
PATIENT = ReplicaTimes(10.0, LeaseTimes(60.0, 40.0, 1.0))
#: Of one that decides after each jump as if the time had passed second by second: its view was never old.
FOLLOWING = replace(PATIENT, jumps_age_view=False)


class VirtualTime:
    """The time that replicas, hub and observer have in common."""

    def __init__(self, begin: datetime = _BEGIN, clock: type[JumpingClock] = JumpingClock) -> None:
        self.clock = clock(begin)
        self.stamps = Stamps(self.clock)

    def now(self) -> datetime:
        return self.clock.now()

    def seconds(self) -> float:
        """Seconds that only go forward."""
        return self.clock.now().timestamp()


class _Api(VirtualTimeApi):
    """Its watches end after their seconds of virtual time."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._watches: dict[asyncio.Timeout, datetime] = {}

    async def watch(
        self, path: str, *, watch_seconds: int = 300, **options: Any
    ) -> AsyncGenerator[tuple[WatchEventType, JsonObject], None]:
        try:
            async with asyncio.timeout(None) as limit:
                self._watches[limit] = self._stamps.clock.now() + timedelta(seconds=watch_seconds)
                try:
                    async for each in super().watch(path, watch_seconds=watch_seconds, **options):
                        yield each
                finally:
                    del self._watches[limit]
        except TimeoutError:
            if not limit.expired():
                raise

    def end_watches(self) -> None:
        """End watches whose time is over."""
        now, loop = self._stamps.clock.now(), asyncio.get_running_loop()
        for limit, ends in self._watches.items():
            if now >= ends:
                limit.reschedule(loop.time())


class _VirtualService(Service):
    def __init__(self, time: VirtualTime, times: ReplicaTimes, **traits: Any) -> None:
        super().__init__(**traits)
        self._time = time
        self._times = times
        self.api: _Api | None = None

    async def _connected(self, context: ServiceContext) -> KubernetesApi:
        context.now = self._time.now
        self.api = await _Api.connect(
            Path(self.kubeconfig), self._time.stamps, timeout_seconds=self._times.request_seconds
        )
        return self.api

    def new_watch(self, api: KubernetesApi) -> ClusterWatch:
        clock = self._time.seconds if self._times.jumps_age_view else monotonic
        return ClusterWatch(api, settings=replace(_INFORMERS, watch_seconds=self._times.watch_seconds), clock=clock)

    def new_controller(self, api: KubernetesApi, watch: ClusterWatch, decisions: DecisionLog) -> ScaleAheadController:
        settings = self.controller_settings()
        ahead = self.new_scale_ahead()
        return ScaleAheadController(
            api, watch, decisions, settings, scale_ahead=ahead, now=self._time.now, times=_TIMES
        )

    def new_elector(self, api: KubernetesApi) -> LeaderElector:
        return LeaderElector(api, self.namespace, self.lease_name, times=self._times.lease)


class VirtualReplica:
    """A replica that can be killed and started again, behind a network that can be broken."""

    def __init__(
        self,
        cluster: ClusterUnderTest,
        time: VirtualTime,
        proxy: FaultProxy,
        traits: dict[str, Any],
        times: ReplicaTimes = ReplicaTimes(),
    ) -> None:
        self.proxy = proxy
        self.is_cut_off = False
        self._cluster = cluster
        self._time = time
        self._traits = traits
        self._times = times
        self._service: _VirtualService | None = None
        self._running: Replica | None = None
        self._stack = contextlib.AsyncExitStack()

    @property
    def running(self) -> Replica:
        assert self._running is not None
        return self._running

    @property
    def is_running(self) -> bool:
        return self._running is not None

    @property
    def leads(self) -> bool:
        return self._running is not None and self._running.context.role is Role.LEADER

    @property
    def is_fresh(self) -> bool:
        """Whether its view of the cluster is as fresh as possible."""
        if self._running is None or self.is_cut_off:
            return True
        return self._running.controller.watch.staleness_seconds() <= self._times.watch_seconds

    @property
    def is_on_hold(self) -> bool:
        """Whether it does not lead, or reports a hold."""
        latest = self.running.controller.latest
        return latest is None or bool(latest.on_hold)

    async def start(self) -> Replica:
        """Begin anew, with nothing but the state of the cluster."""
        kubeconfig = self._cluster.admin_kubeconfig_for(self.proxy.url)
        running = replica(self._cluster, kubeconfig, service=self._make, **self._traits)
        self._running = await self._stack.enter_async_context(running)
        return self._running

    async def stop(self) -> None:
        """End; a leader gives its Lease away, unless it is cut off."""
        self._running = self._service = None
        await self._stack.aclose()

    async def kill(self) -> None:
        """End in the middle of its work: nothing gets through any more, not even the release of the Lease."""
        self.cut_off()
        await self.stop()
        self.heal()

    def cut_off(self) -> None:
        """Let nothing get through; requests under way break."""
        self.is_cut_off = True
        self.proxy.heal()
        self.proxy.fail(Fault.refuse(), times=None)
        self.proxy.cut()

    def break_watches(self, resource: str | None = None) -> None:
        """Break all watches, or those of one kind; requests still get through."""
        self.is_cut_off = True
        self.proxy.heal()
        for verb in ("list", "watch"):
            self.proxy.fail(Fault.refuse(), verb=verb, resource=resource, times=None)
        self.proxy.cut(resource=resource)

    def heal(self) -> None:
        self.is_cut_off = False
        self.proxy.heal()

    def note_jump(self) -> None:
        """The clock has jumped: watches that are due end, and a new round begins."""
        if self._times.jumps_age_view and self._service is not None and self._service.api is not None:
            self._service.api.end_watches()
        if self._running is not None:
            begin_round(self._running)

    def _make(self, **traits: Any) -> Service:
        self._service = _VirtualService(self._time, self._times, **traits)
        return self._service
