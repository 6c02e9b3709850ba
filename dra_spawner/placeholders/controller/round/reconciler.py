"""The round: view, decisions, actions. Changes in the cluster wake it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from dra_spawner import names
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.kube.leader import NotLeading
from dra_spawner.placeholders.controller.records.decision_text import KINDS_OF_DECISIONS, decision_of
from dra_spawner.placeholders.controller.round.backoff import Backoff
from dra_spawner.placeholders.controller.round.cluster_limits import ClusterLimits
from dra_spawner.placeholders.controller.round.executor import ActionExecutor, PlaceholderChanged, ReservationLost
from dra_spawner.placeholders.controller.round.expectations import Expectation, Expectations
from dra_spawner.placeholders.controller.round.forced_ends import ForcedEnds
from dra_spawner.placeholders.controller.round.pending_shapes import PendingShapes
from dra_spawner.placeholders.controller.round.views import Views
from dra_spawner.placeholders.lifecycle import RESERVATION, ReservationEvent, ReservationState, following
from dra_spawner.placeholders.planner.actions import (
    Action,
    AddConsumer,
    CreatePlaceholder,
    DeletePlaceholder,
    Hold,
    ReservePlaceholder,
    in_chains,
    in_order,
)
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.answers.placement import group_alike_nodes
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.placeholders.planner.cluster.search_ledger import SearchLedger
from dra_spawner.placeholders.planner.cluster.undecided import Unknown
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decide import Decisions, decide
from dra_spawner.placeholders.planner.round import PendingUser
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.ticket_queue import TicketQueue
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

__all__ = ["KINDS_OF_DECISIONS", "Reconciler", "ReconcilerTimes"]

log = logging.getLogger(__name__)

#: Limit of parallel requests.
_AT_ONCE = 16
#: Turns for the warm-up of one shape.
_MAX_WARMING = 100
#: Nodes that are read without a pause.
_AT_A_TIME = 100
#: Shortest time in seconds to gather changes, as related changes come close together.
_LEAST_GATHER = 0.002
#: Time until the next round where it should come soon, in seconds.
_SOON = 1.0


@dataclass(frozen=True, slots=True)
class ReconcilerTimes:
    """Durations in seconds.

    Attributes
    ----------
    gather
        Longest time to gather changes for one round.
    idle
        Time between rounds without a change, as reservations and graces end.
    unseen
        Longest wait for the watch to show a write. After it, rounds go on but create no placeholder.
    never
        Further time after which an unseen created placeholder counts as gone. Watches restart before; it matters only
        where versions run backwards, as after a restore of etcd.
    pause
        Pause after several failed requests in a row.
    first_refusal, longest_refusal
        Delay until a refused action is tried again; it doubles each time.
    """

    gather: float = 0.02
    idle: float = 5.0
    unseen: float = 10.0
    never: float = 60.0
    pause: float = 10.0
    first_refusal: float = 5.0
    longest_refusal: float = 300.0


@dataclass
class Reconciler:
    """Decides and acts while this process leads.

    Attributes
    ----------
    policy
        Returns the present policy.
    executor
        Carries out actions.
    namespaces
        Namespaces that are read; None means all.
    trusts_servers
        Whether the labels of servers' pods are believed; not where users may write them.
    name_of
        Returns the name of a choice with a shape; empty if there is none.
    on_denial
        Called once for each denied eviction, with its rule.
    cluster_limits
        Quotas, and what the autoscaler says; None if they are not followed.
    tickets
        Returns the present queue for devices.
    """

    watch: ClusterWatch
    policy: Callable[[], Policy]
    executor: ActionExecutor
    decisions: DecisionLog
    namespaces: Namespaces | frozenset[str] | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    times: ReconcilerTimes = ReconcilerTimes()
    name_of: Callable[[str], str] = lambda shape: ""
    on_denial: Callable[[Hold], None] = lambda denial: None
    cluster_limits: ClusterLimits | None = None
    trusts_servers: bool = True
    tickets: Callable[[], TicketQueue] = TicketQueue
    latest: Decisions | None = None
    """The last decisions."""
    expectations: Expectations = field(default_factory=Expectations)
    """Unseen changes of rounds and reservations."""
    views: Views = field(init=False)
    _undecided: frozenset[ObjectKey] = frozenset()
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _changes: int = 0
    is_running: bool = False
    _bug: str = ""
    _took: float = 0.0
    _on_hold: str = ""
    planner_state: PlannerState = field(init=False)
    backoff: Backoff = field(init=False)
    """Delays after failures of rounds and reservations."""
    _pending_shapes: PendingShapes = field(init=False)
    _forced_ends: ForcedEnds = field(init=False)
    _denied: Mapping[ObjectKey, Hold] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.views = Views(self.watch, self.now)
        self.planner_state = self._fresh_state()
        self.backoff = Backoff(self.times.first_refusal, self.times.longest_refusal, self.times.pause)
        trusts_servers = self.trusts_servers and Namespaces.of(self.namespaces).servers is not None
        self._pending_shapes = PendingShapes(self.watch, trusts_servers=trusts_servers)
        self._forced_ends = ForcedEnds(self.watch, self.policy, Namespaces.of(self.namespaces))

    def _fresh_state(self) -> PlannerState:
        return PlannerState.fresh(self.now(), SearchLedger(time.thread_time))

    @property
    def changes(self) -> int:
        """Number of relevant changes since `run` began."""
        return self._changes + self.expectations.version

    def wake(self) -> None:
        """Decide soon."""
        self._woken.set()

    def resume(self, shape: str) -> bool:
        """Create placeholders of a shape again, after failures or a maximum of the autoscaler.

        Returns
        -------
        bool
            Whether there were any.
        """
        before = self.planner_state
        self.planner_state = before.resumed(shape)
        self.wake()
        return self.planner_state != before

    async def run(self) -> None:
        """Decide and act until cancelled."""
        await self.watch.wait_synced()
        # Begin with an empty budget, as the leader before this one may have spent it.
        self.planner_state = self._fresh_state()
        end = self.watch.on_change(self._note)
        self.is_running = True
        try:
            await self._safe_warm_up()
            while True:
                await self._safe_round()
                with contextlib.suppress(TimeoutError):
                    is_soon = self.latest is not None and self.latest.is_soon_again
                    async with asyncio.timeout(min(self.times.idle, _SOON) if is_soon else self.times.idle):
                        await self._woken.wait()
                # Gather as long as deciding takes, so that decisions use half of the time at most.
                most = self._took if self.latest is not None and self.latest.is_unfinished else self.times.gather
                await asyncio.sleep(min(most, max(self._took, _LEAST_GATHER)))
        finally:
            self.is_running = False
            end()

    async def warm_up(self) -> None:
        """Fill the caches for the first placement, which would take a second or two on a big cluster."""
        names = list(self.watch.snapshot.nodes)
        for first in range(0, len(names), _AT_A_TIME):
            busyness = NodesBusyness(self.view())
            for name in names[first : first + _AT_A_TIME]:
                if name in self.watch.snapshot.nodes:
                    busyness.of(name)
            await asyncio.sleep(0)
        for shape in self.policy().shapes.values():
            for _ in range(_MAX_WARMING):
                is_done = group_alike_nodes(self.view(), shape)
                await asyncio.sleep(0)
                if is_done:
                    break

    async def _safe_warm_up(self) -> None:
        try:
            await self.warm_up()
        except Exception:
            # Only the first placement is slower.
            log.exception("Warm-up of placements failed.")

    async def _safe_round(self) -> None:
        """A round; one that fails does not end the next."""
        try:
            await self.round()
        except NotLeading:
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            if problem != self._bug:
                log.exception("Reconcile round failed.")
            self._bug = problem
            await asyncio.sleep(self.times.idle)
        else:
            self._bug = ""

    def problems(self) -> tuple[str, ...]:
        """Problems of rounds, as sentences."""
        found = [f"Placeholders: the reconcile round failed: {self._bug}."] if self._bug else []
        if self._on_hold:
            found.append(f"Placeholders: {self._on_hold}.")
        limited = self.latest.limited if self.latest is not None else {}
        found += (each.sentence(self.name_of(shape)) for shape, each in limited.items())
        found += self._forced_ends.problems()
        gates = sorted({gate for each in self.view().placeholders.values() for gate in each.pod.gates})
        if gates:
            found.append(
                f"Placeholders are held back by {', '.join(gates)}: exclude pods with the label "
                f"{names.COMPONENT}: {names.PLACEHOLDER} there."
            )
        creations = self.planner_state.creations
        found += (f"Placeholders: {each}." for each in creations.problems(self.now(), self.name_of, limited))
        if self.cluster_limits is not None:
            found += (f"Placeholders: {each}." for each in self.cluster_limits.problems())
        return (*found, *(f"Placeholders: {each}." for each in self.backoff.problems()))

    async def round(self) -> None:
        """One round: decide, act, and wait until the watch shows the changes."""
        self._woken.clear()
        began = time.perf_counter()
        policy, view = self._pending_shapes.added_to(self.policy(), self.view())
        self.latest = decided = decide(view, policy, self.planner_state)
        # Tokens are spent even if the action fails.
        self.planner_state = decided.planner_state
        self._took = time.perf_counter() - began
        self.decisions.note_round(self.now())
        if decided.on_hold and not self._on_hold:  # its text changes every second
            log.warning("%s", decided.on_hold)
        self._on_hold = decided.on_hold
        self._note_denials(decided.denied)
        self._note_undecided(decided.pending)
        try:
            expected = await self.carry_out(self.expectations.allowed(decided.actions, self.watch), policy)
            await self.until_seen(expected)
            self._note_made(expected)
        finally:
            self.expectations.expect_deletions(())
        if decided.is_unfinished:
            self._woken.set()

    def _note_made(self, expected: Iterable[Expectation]) -> None:
        """Tell the next round which placeholders it is to see; one that was created and is not there was ended."""
        there = self.planner_state.creations.lost.there
        made = (each for each in expected if each.shape and each.uid not in there and each.is_met(self.watch))
        self.planner_state = self.planner_state.with_made(Counter(each.shape for each in made))

    def view(self) -> View:
        """The present view, with expectations."""
        return self.views.view(
            self.namespaces, self.expectations, self.backoff.api_problem, self.cluster_limits, self.tickets()
        )

    def _note(self, change: Change) -> None:
        if not change.decides:
            return
        self._changes += 1
        self._woken.set()

    def _note_denials(self, denied: Mapping[ObjectKey, Hold]) -> None:
        for key, denial in denied.items():
            if self._denied.get(key) is not denial:
                self.on_denial(denial)
        self._denied = denied

    def _note_undecided(self, pending: Iterable[PendingUser]) -> None:
        """Log each undecided pod once."""
        lasting = (Unknown.STOPPED, Unknown.NO_VERDICT)
        stopped = {each.pod: each.reason for each in pending if each.unknown in lasting}
        for key in stopped.keys() - self._undecided:
            log.warning("A pending pod is undecided: pod=%s because=%s", key, stopped[key])
        self._undecided = frozenset(stopped)

    async def reserve(self, action: ReservePlaceholder) -> bool:
        """Reserve a placeholder at once, outside of rounds.

        Returns
        -------
        bool
            Whether it is reserved. If not, another writer was quicker, and it counts as reserved.

        Raises
        ------
        NotLeading
        KubernetesError
            The API server's answer.
        """
        # From here on no other reservation and no round touches it.
        self.expectations.expect_reservation(action)
        event = ReservationEvent.WRITTEN
        try:
            await self.executor.do(action, {}, self.expectations)
        except ReservationLost as error:
            log.info(
                "A placeholder is not reserved: placeholder=%s pod=%s because=%s", action.placeholder, action.pod, error
            )
            event = ReservationEvent.LOST
        except KubernetesError as error:
            self.backoff.failed(action, error)
            if not error.retryable:
                # Writes on its other claims are still to be seen.
                self.expectations.forget_reservation(action)
            raise
        self.backoff.worked(action)
        if following(RESERVATION, ReservationState.WRITING, event) is ReservationState.ENDED:
            return False
        decision = decision_of(action, self.watch, self.now(), self.name_of)
        self.decisions.append(replace(decision, outcome="done"), of_round=False)
        return True

    async def carry_out(self, actions: tuple[Action, ...], policy: Policy) -> list[Expectation]:
        limit = asyncio.Semaphore(_AT_ONCE)
        allowed = frozenset(map(id, self.backoff.allowed(actions)))
        chains, rest = in_chains(actions)
        # A delayed action delays the rest of its chain.
        steps = [tuple(itertools.takewhile(lambda each: id(each) in allowed, chain)) for chain in chains]
        rest = tuple(each for each in rest if id(each) in allowed)
        self.expectations.expect_deletions((*itertools.chain(*steps), *rest))
        expected: list[Expectation] = []
        # Chains for users come first; the rest runs in parallel.
        for group in in_order(steps, rest):
            async with asyncio.TaskGroup() as side_by_side:
                tasks = [side_by_side.create_task(self._do_all(chain, policy, limit)) for chain in group]
            for task in tasks:
                expected += task.result()
        return expected

    async def _do_all(
        self, chain: tuple[Action, ...], policy: Policy, limit: asyncio.Semaphore
    ) -> tuple[Expectation, ...]:
        """Do the actions of a chain until one fails."""
        expected: tuple[Expectation, ...] = ()
        async with limit:
            for action in chain:
                found = await self._do(action, policy)
                if found is None:
                    return (*expected, *await self._end_instead(action, chain, policy))
                expected += found
        return expected

    async def _end_instead(self, failed: Action, chain: tuple[Action, ...], policy: Policy) -> tuple[Expectation, ...]:
        """Free the devices for a user's pod that could not become a consumer, although others may take them."""
        end = next((each for each in chain if isinstance(each, DeletePlaceholder)), None)
        if end is None or not isinstance(failed, AddConsumer) or not self.backoff.is_refused(failed):
            return ()
        reason = f"{failed.pod} needs its devices, and could not become a consumer of its claim"
        return await self._do(replace(end, reason=reason), policy) or ()

    async def _do(self, action: Action, policy: Policy) -> tuple[Expectation, ...] | None:
        """Do and log an action; None if it failed."""
        outcome = "done"
        found: tuple[Expectation, ...] | None = None
        decision = decision_of(action, self.watch, self.now(), self.name_of)
        try:
            found = await self.executor.do(action, policy.shapes, self.expectations)
        except (NotLeading, PlaceholderChanged) as error:
            outcome = str(error)
        except Exception as error:  # a defect in one action must not stop the others
            outcome = str(error) if isinstance(error, KubernetesError) else f"{type(error).__name__}: {error}"
            self._note_failure(action, error)
        else:
            self.backoff.worked(action)
        if isinstance(action, CreatePlaceholder):
            made = next((each.key for each in found or () if each.kind is Kind.POD), None)
            if made is not None:
                decision = replace(decision, subject=f"Pod {made}")
        self.decisions.append(replace(decision, at=self.now(), outcome=outcome))
        return found

    def _note_failure(self, action: Action, error: Exception) -> None:
        problem = self.backoff.failed(action, error) or str(error)
        if isinstance(error, KubernetesError):
            log.warning("An action failed: kind=%s problem=%s", action.kind, problem)
        else:
            log.error("An action failed: kind=%s", action.kind, exc_info=error)

    async def until_seen(self, expected: list[Expectation]) -> None:
        """Wait until the watch shows the writes, so that they are not decided again."""
        if not expected:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + self.times.unseen
        while expected := [each for each in expected if not each.is_met(self.watch)]:
            if loop.time() >= end:
                names = ", ".join(f"{each.kind} {each.key}" for each in expected[:3])
                log.warning("The watch does not show a write in time: %s", names)
                self.expectations.keep_creations(expected, self.times.never)
                return
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(1.0, end - loop.time())):
                    await self._woken.wait()
        self._woken.set()
