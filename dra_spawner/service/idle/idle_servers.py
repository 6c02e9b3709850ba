"""Looks at servers with devices while a replica leads: what is idle, who is warned, what is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from dra_spawner.common.owned_tasks import OwnedTasks, all_of
from dra_spawner.fairness.idle.decisions import IdleDecision, Shown, decide, shown_longer
from dra_spawner.fairness.idle.notices import KeepRefused, Notice, keep
from dra_spawner.fairness.idle.policy import IdlePolicy, IdleSettings
from dra_spawner.fairness.idle.samples import Moment, Sample
from dra_spawner.fairness.idle.verdicts import Judgement, Verdict, judge
from dra_spawner.history.decision_log import Decision, DecisionLog
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.leader import NotLeading
from dra_spawner.names import IDLE_NOTICE
from dra_spawner.placeholders.lifecycle import IdleAction
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.idle.held_devices import ServerWithDevices, servers_with_devices, uses_of
from dra_spawner.service.idle.hub_reports import HubReports, NotStopped, ReportedServer, ReportsUnknown
from dra_spawner.service.idle.metric_reader import FoundMetrics, read_use
from dra_spawner.simulator.model.claims import ObjectKey

log = logging.getLogger(__name__)

#: Servers that are stopped in one look: a defect of a metric must not stop all at once.
_MOST_STOPS: Final = 20
#: Age from which a report says nothing any more: servers report each half a minute.
_OLD_REPORT: Final = timedelta(seconds=100)
_DONE: Final = "done"


class ReturnTickets(Protocol):
    """Keeps a place in the queue for a user whose idle server is stopped."""

    async def keep_place(self, user: str, choice: str, groups: Sequence[str]) -> None:
        """Called before the stop; it must not raise."""


@dataclass(frozen=True, slots=True)
class SeenServer:
    """A server after a look.

    Attributes
    ----------
    reported
        As the hub knows it.
    shown
        For how long its warning was to be seen.
    """

    server: ServerWithDevices
    judgement: Judgement
    policy: IdlePolicy | None
    reported: ReportedServer
    shown: Shown | None = None

    @property
    def idle_device_hours(self) -> float | None:
        """Device-hours since it is idle; None if its devices are not known."""
        held = self.server.held
        return held * self.judgement.idle_for.total_seconds() / 3600 if held is not None else None


class IdleServers:
    """See the module.

    Parameters
    ----------
    hub
        None without a hub: then nothing is known, and nothing is stopped.
    may_act
        Called before each change; raises `NotLeading`.
    wall, steady
        The time of day, and seconds of a monotonic clock.
    """

    def __init__(
        self,
        settings: IdleSettings,
        controller: ScaleAheadController,
        api: KubernetesApi,
        decisions: DecisionLog,
        hub: HubReports | None,
        may_act: Callable[[], None],
        tickets: ReturnTickets,
        *,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._tickets = tickets
        self._controller = controller
        self._api = api
        self._decisions = decisions
        self.hub = hub
        self._wall = wall
        self._steady = steady
        self._tasks = OwnedTasks()
        self.may_act = may_act
        self.leads = False
        """Whether this replica looks."""
        self._problems: tuple[str, ...] = ()
        self.seen: dict[str, SeenServer] = {}
        """Servers of the last look, by pod uid; empty on a standby."""
        self.looked_at: datetime | None = None
        self.counts: Counter[IdleAction] = Counter()
        self.idle_device_seconds: defaultdict[str, float] = defaultdict(float)

    def problems(self) -> tuple[str, ...]:
        """What is not known, and what could not be done, as sentences."""
        return (*self._problems, *self._tasks.problems())

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Look until the context ends."""
        if not self.settings.is_on:
            yield
            return
        self.leads = True
        try:
            async with self._tasks as tasks:
                tasks.begin("idle servers", self._run)
                yield
        finally:
            # The next leader begins anew, and so does this one in its next term.
            self.leads, self.seen, self.looked_at, self._problems = False, {}, None, ()

    async def _run(self) -> None:
        await self._controller.watch.wait_synced()
        if self._controller.is_on:
            await self._controller.shapes.wait_synced()
        while True:
            await self.look()
            await asyncio.sleep(self.settings.look.total_seconds())

    async def look(self) -> None:
        """Look once at all servers, and do what is due."""
        (reports, problem), metrics = await all_of(asyncio.gather(self._reports(), read_use(self.settings.prometheus)))
        at, gap = self._moment(), self.settings.longest_gap
        seen: dict[str, SeenServer] = {}
        for server in servers_with_devices(self._controller):
            before, reported = self.seen.get(server.uid), reports.get(server.pod)
            if reported is None and (before is None or not problem):
                continue  # a server of another hub, or nobody knows whose
            if before is not None and reported is not None and before.reported.started != reported.started:
                before = None  # another server, although the pod is the same
            sample = self._sample(server, reported, metrics, problem)
            judgement = judge(before.judgement if before is not None else None, sample, at, gap)
            shown = shown_longer(
                before.shown if before is not None else None, server.notice, at, gap, hub_answers=not problem
            )
            known = reported if reported is not None or before is None else before.reported
            assert known is not None  # or it was left out
            seen[server.uid] = SeenServer(server, judgement, self.settings.policy_of(server.profile), known, shown)
            self._count(before, seen[server.uid])
        self.seen, self.looked_at = seen, at.wall
        problems = [*metrics.problems, *([f"Idle servers are not judged: {problem}."] if problem else [])]
        if not problem:
            problems += await self._act()
        self._problems = tuple(problems)

    async def keep(self, namespace: str, pod: str) -> Notice:
        """Keep a server for its user, who has said that it is needed.

        Raises
        ------
        KeepRefused
            The message is a sentence for the user.
        NotLeading
        """
        if not self.leads:
            raise NotLeading("this replica does not look at idle servers at present")
        key = ObjectKey(namespace, pod)
        seen = next((each for each in self.seen.values() if each.server.pod == key), None)
        # The pod as the watch shows it now, not as it was in the last look.
        server = next((each for each in servers_with_devices(self._controller) if each.pod == key), None)
        if seen is None or server is None or seen.server.uid != server.uid:
            raise KeepRefused("This server is not about to be stopped.")
        notice = keep(server.notice, seen.policy, self._wall())
        self.may_act()
        try:
            await self._write(server, notice)
        except KubernetesError as error:
            log.warning("A server is not kept: pod=%s error=%s", key, error)
            raise KeepRefused("This could not be noted. Try again in a moment, or use the device.") from None
        times = "once" if notice.kept == 1 else f"{notice.kept} times"
        until = f"{notice.kept_until:%Y-%m-%d %H:%M} UTC" if notice.kept_until is not None else ""
        self.counts[IdleAction.KEEP] += 1
        self._note(IdleAction.KEEP, server, f"Its user has said that it is needed, {times}. Kept until {until}.")
        return notice

    # --- questions ----------------------------------------------------------------------------------------------------

    async def _reports(self) -> tuple[dict[ObjectKey, ReportedServer], str]:
        """The hub's servers by pod, and why they are not known."""
        if self.hub is None:
            return {}, "there is no hub"
        try:
            return await self.hub.read(), ""
        except ReportsUnknown as error:
            return {}, str(error)

    def _sample(
        self, server: ServerWithDevices, reported: ReportedServer | None, metrics: FoundMetrics, problem: str = ""
    ) -> Sample:
        devices = tuple(uses_of(server, metrics))
        if reported is None:
            return Sample(None, problem or "the hub does not know it any more", devices)
        if not reported.is_settled:
            return Sample(None, "it is starting or stopping", devices)
        if isinstance(reported.activity, str):
            return Sample(None, reported.activity, devices)
        age = reported.age_seconds
        if age is None or not 0 <= age <= _OLD_REPORT.total_seconds():
            return Sample(None, f"its last report is {age or 0:.0f} s old", devices)
        return Sample(reported.activity, devices=devices)

    def _moment(self) -> Moment:
        return Moment(self._wall(), self._steady())

    # --- what is done -------------------------------------------------------------------------------------------------

    async def _act(self) -> list[str]:
        """Do what is due; what could not be done, as sentences."""
        problems: dict[str, None] = {}
        stops = 0
        for seen in sorted(self.seen.values(), key=lambda each: each.judgement.since or each.judgement.at.wall):
            decision = decide(seen.judgement, seen.server.notice, seen.shown, seen.policy)
            if decision is None:
                continue
            if decision.action is IdleAction.STOP:
                stops += 1
                if stops > _MOST_STOPS:
                    continue  # in the next looks
            try:
                self.may_act()
                if decision.action is IdleAction.STOP:
                    await self._stop_server(seen, decision)
                else:
                    await self._write(seen.server, decision.notice)
            except NotLeading:
                return [*problems]
            except KubernetesError as error:
                if not error.conflict:
                    problems[f"Warnings of idle servers cannot be written: {error.status} {error.reason}."] = None
                    self._note(decision.action, seen.server, decision.reason, f"failed: {error.status} {error.reason}")
            except NotStopped as error:
                problems["An idle server was not stopped; the decisions say which and why."] = None
                self._note(decision.action, seen.server, decision.reason, f"not done: {error}")
            else:
                self._note(decision.action, seen.server, decision.reason, _DONE)
                self.counts[decision.action] += 1
        return [*problems]

    async def _stop_server(self, seen: SeenServer, decision: IdleDecision) -> None:
        """Stop a server, unless it is used again or another one by now.

        Raises
        ------
        NotStopped
        KubernetesError
        NotLeading
        """
        metrics = await read_use(self.settings.prometheus)
        await self.require_idle(seen, metrics)
        self.may_act()
        # By compare-and-swap: of two leaders one succeeds, and a user who has just kept it wins.
        written = await self._write(seen.server, decision.notice)
        try:
            await self._end(seen, metrics)
        except NotStopped as error:
            if error.is_sure:
                # It is warned as before, so that its user can still keep it.
                await self._write(written, replace(decision.notice, stopped_at=None))
            raise

    async def _end(self, seen: SeenServer, metrics: FoundMetrics) -> None:
        await self._tickets.keep_place(seen.server.user, seen.server.choice, seen.reported.groups)
        # Servers tell at once when a kernel begins to compute: this is the last word before the stop.
        await self.require_idle(seen, metrics)
        self.may_act()
        assert self.hub is not None  # or it was not idle
        await self.hub.stop(seen.reported.user, seen.reported.server)

    async def require_idle(self, seen: SeenServer, metrics: FoundMetrics) -> None:
        """Refuse to stop a server that is not as it was seen.

        Raises
        ------
        NotStopped
        """
        reports, problem = await self._reports()
        reported = reports.get(seen.server.pod)
        if reported is not None and reported.started != seen.reported.started:
            raise NotStopped("it was started again meanwhile")
        sample = self._sample(seen.server, reported, metrics, problem)
        now = judge(seen.judgement, sample, self._moment(), self.settings.longest_gap)
        if now.verdict is not Verdict.IDLE or now.since != seen.judgement.since:
            raise NotStopped(f"it is used again, or that is not known: {now.reason}")

    async def _write(self, server: ServerWithDevices, notice: Notice) -> ServerWithDevices:
        """Write a notice to the pod, unless the pod was changed or replaced; the server with the written version."""
        metadata = {
            "uid": server.uid,
            "resourceVersion": server.version,
            "annotations": {IDLE_NOTICE: notice.text() if notice != Notice() else None},
        }
        path = resource_path("v1", "pods", server.pod.namespace, server.pod.name)
        written = await self._api.patch(path, {"metadata": metadata})
        return replace(server, version=written["metadata"].get("resourceVersion", ""), notice=notice)

    def _note(self, kind: IdleAction, server: ServerWithDevices, reason: str, outcome: str = _DONE) -> None:
        log.info("Idle servers: action=%s pod=%s outcome=%s", kind.value, server.pod, outcome)
        self._decisions.append(
            Decision(
                at=self._wall(),
                kind=kind.value,
                subject=f"Pod {server.pod}",
                reason=reason,
                code="idle",
                node=server.node,
                profile=server.choice,
                outcome=outcome,
            ),
            of_round=False,
        )

    def _count(self, before: SeenServer | None, seen: SeenServer) -> None:
        """Add the device-seconds since the last look in which a server was idle."""
        if before is None or before.judgement.since is None or seen.judgement.since is None:
            return
        time_between = seen.judgement.at.wall - max(before.judgement.at.wall, seen.judgement.since)
        if time_between > timedelta(0) and seen.server.held:
            self.idle_device_seconds[seen.server.profile] += time_between.total_seconds() * seen.server.held
