"""State of the service that handlers and metrics read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from dra_spawner.fairness.budget_replay import Standing
from dra_spawner.fairness.budget_settings import ReadBudgets
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.cordons import on_cordon
from dra_spawner.kube.leader import LeaderElector
from dra_spawner.placeholders.controller.answers.availability import Availability
from dra_spawner.scale_ahead.calendars.class_limits import ClassLimitsByPerson
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.service.ahead.launch_steps import LaunchSteps
from dra_spawner.service.ahead.rehearsals import Rehearsals
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.ahead.weekly_misses import WeeklyMisses
from dra_spawner.service.call_rates import ClassRates
from dra_spawner.service.change_feed import ChangeFeed
from dra_spawner.service.figures.budget_use import BudgetUse
from dra_spawner.service.figures.chart_parts import ChartParts
from dra_spawner.service.figures.device_use import DeviceUse
from dra_spawner.service.figures.idle_devices import IdleDevices
from dra_spawner.service.figures.node_figures import NodeFigures
from dra_spawner.service.figures.node_summaries import NodeSummaries
from dra_spawner.service.history_recording import HistoryRecording
from dra_spawner.service.idle.idle_servers import IdleServers
from dra_spawner.service.leader_label import LeaderLabel
from dra_spawner.service.profile_answers import ProfileAnswers
from dra_spawner.service.self_examination import SelfExamination
from dra_spawner.service.tickets.ticket_service import TicketService
from dra_spawner.service.wait_learning import WaitLearning
from dra_spawner.service.web_settings import WebSettings

_ANSWER_BUCKETS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
#: Lists of the API that show what people set, beside ``settings``; the figures of classes are stored with it.
_SET_BY_PEOPLE: Final = ("audit", "calendar-entries", "placeholders", "profiles")


class Role(StrEnum):
    LEADER = "leader"
    STANDBY = "standby"
    UNKNOWN = "unknown"
    """No leader is known."""


@dataclass(frozen=True, slots=True)
class ReplicaReadiness:
    """Whether this replica can answer, and why not."""

    ready: bool
    role: Role
    reasons: tuple[str, ...] = ()
    """Why the replica is not ready. Unauthenticated callers read this: it names no object of the cluster."""


@dataclass
class ServiceContext:
    """The parts of the service. A part that needs the cluster is None until the cluster is found."""

    web: WebSettings
    decisions: DecisionLog
    max_staleness_seconds: float
    """Age of the data about the cluster after which nothing is decided."""
    node_pool_labels: tuple[str, ...] = ()
    """Labels that name the pool of a node; the first one that a node has counts."""
    watch: ClusterWatch | None = None
    figures: NodeFigures | None = None
    summaries: NodeSummaries | None = None
    elector: LeaderElector | None = None
    leader_label: LeaderLabel | None = None
    """None if the service has no pod name, so that no Service can select the leader."""
    controller: ScaleAheadController | None = None
    availability: Availability | None = None
    rehearsals: Rehearsals | None = None
    chart_parts: ChartParts | None = None
    history: HistoryRecording | None = None
    scale_ahead: ScaleAheadRunner | None = None
    waits: WaitLearning | None = None
    tickets: TicketService | None = None
    idle: IdleServers | None = None
    examination: SelfExamination | None = None
    misses: WeeklyMisses = field(default_factory=WeeklyMisses)
    budgets: ReadBudgets = field(default_factory=ReadBudgets)
    enforces_budgets: bool = False
    launch_steps: LaunchSteps = field(default_factory=LaunchSteps)
    class_rates: ClassRates = field(default_factory=ClassRates)
    class_limits: ClassLimitsByPerson = field(default_factory=lambda: ClassLimitsByPerson({}))
    settings_problems: tuple[str, ...] = ()
    """Unknown settings and unsupported versions, as sentences."""
    startup_problem: str = ""
    """Why the cluster is not watched yet."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    """Metrics of the service."""
    idle_devices: IdleDevices = field(default_factory=IdleDevices)
    profile_answers: ProfileAnswers = field(default_factory=ProfileAnswers)
    feed: ChangeFeed = field(default_factory=ChangeFeed)
    """Changes, for streams."""

    placement_seconds: Histogram = field(init=False)
    """Times of answers about placements, each of which a user waits for."""

    def __post_init__(self) -> None:
        self.use = DeviceUse(self.budgets, self._hub)
        self.budget_use = BudgetUse(self.budgets, self._database, self._hub, self.now)
        self.registry.register(self.idle_devices)
        self.placement_seconds = Histogram(
            "dra_spawner_placement_answer_seconds",
            "Seconds from the hub's question about a placement until it is answered",
            buckets=_ANSWER_BUCKETS,
            registry=self.registry,
        )

    def over_budget(self, user: str, groups: Iterable[str]) -> Standing | None:
        """The budget that a user has used up most, if budgets are enforced; None within all, and without a name."""
        return self.budget_use.over(user, groups) if self.enforces_budgets and user else None

    def is_over_budget(self, user: str, groups: Iterable[str]) -> bool:
        """Whether others come before a user while devices are scarce."""
        return self.over_budget(user, groups) is not None

    def follow(
        self, watch: ClusterWatch, controller: ScaleAheadController | None = None, node_kinds: Sequence[NodeKind] = ()
    ) -> None:
        """Set the parts that need the cluster.

        Parameters
        ----------
        node_kinds
            Kinds of nodes that an administrator has described.
        """
        self.watch, self.startup_problem = watch, ""
        self.figures = NodeFigures(watch, self.node_pool_labels)
        self.summaries = NodeSummaries(watch, self.figures)
        self.controller = controller
        watch.on_change(self.feed.note_change)
        on_cordon(watch, lambda: self.feed.note(["settings"]))  # hubs tell users who wait at once, as of a drain
        self.feed.data_age = watch.staleness_seconds
        if controller is not None:
            controller.overrides.on_change(lambda: self.feed.note(_SET_BY_PEOPLE))
            controller.overrides.on_change_of(lambda each: each.settings, lambda: self.feed.note(["settings"]))
            namespaces = {controller.settings.hub_namespace, controller.settings.placeholders.namespace}
            self.chart_parts = ChartParts(watch, namespaces, with_placeholders=controller.is_on)
            self.availability = Availability(controller)
            self.rehearsals = Rehearsals(controller, self._database, lambda: controller.quotas, node_kinds)

    def _hub(self) -> tuple[str, str]:
        auth = self.web.hub_auth
        return (auth.api_url, self.web.own_token) if auth is not None else ("", "")

    def _database(self) -> HistoryDatabase | None:
        return self.history.recorder.database if self.history is not None else None

    def open_history(self) -> tuple[HistoryDatabase | None, str]:
        """The history's database, or why this replica cannot read it, as a sentence.

        Asked once: the recorder's thread closes the database at any moment.
        """
        database = self._database()
        return database, "" if database is not None else self._closed_because()

    @property
    def role(self) -> Role:
        if self.elector is None or not (self.elector.is_leader or self.elector.leader):
            return Role.UNKNOWN
        return Role.LEADER if self.elector.is_leader else Role.STANDBY

    def not_leading_because(self) -> str:
        """Why this replica decides nothing, as a sentence that names the leader; empty if it leads."""
        if self.role is Role.LEADER:
            return ""
        leader = self.elector.leader if self.elector is not None else ""
        # The Lease may still name this replica, although it could not renew the Lease.
        if self.elector is None or leader in ("", self.elector.identity):
            return "This replica does not lead, and no leader is known."
        return f"This replica stands by: the leader is {leader}."

    def not_managing_because(self) -> str:
        """Why this replica takes no orders for placeholders, as a sentence; to be asked for after `NotLeading`."""
        # A leader manages placeholders a moment after its election, and ceases to a moment before its term ends.
        return self.not_leading_because() or (
            "This replica leads, but does not manage placeholders at present. Try again in a few seconds."
        )

    def incomplete_because(self) -> str:
        """Why an answer of this replica lacks decisions and reasons; empty if it leads."""
        because = self.not_leading_because()
        return f"{because} Only the leader knows decisions and their reasons." if because else ""

    def _closed_because(self) -> str:
        """Why this replica has no open database, as a sentence."""
        history = self.history
        if history is None:
            return "There is no history yet: the cluster is not found."
        if not history.is_on:
            return "No history is recorded: keep_days is 0 in the service's setting history."
        if problem := history.recorder.problem:
            return f"The history is not available, as it cannot be opened: {problem}."
        if because := self.not_leading_because():
            return f"{because} Only the leader reads the history."
        return "The history is not open yet."

    def unread_because(self) -> str:
        """Why this replica knows nothing of the cluster yet, as a sentence; empty once everything was read."""
        if self.watch is None:
            return "The cluster is not found yet."
        return "" if self.watch.synced else "The cluster is not read completely yet."

    def readiness(self) -> ReplicaReadiness:
        """Whether the data are complete and fresh, and a leader is known."""
        reasons = []
        if unread := self.unread_because():
            reasons.append(unread)
        elif self.watch is not None and self.watch.staleness_seconds() > self.max_staleness_seconds:
            limit = self.max_staleness_seconds
            reasons.append(
                f"The data about the cluster are {self.watch.staleness_seconds():.0f} s old (limit {limit:g} s)."
            )
        if self.role is Role.UNKNOWN:
            reasons.append("No leader is known.")
        if self.role is not Role.LEADER and self.leader_label is not None and self.leader_label.is_set:
            # While the pod is not ready, the Service sends it no requests.
            reasons.append("This replica does not lead, but its pod still has the leader's label.")
        return ReplicaReadiness(not reasons, self.role, tuple(reasons))

    def problems(self) -> tuple[str, ...]:
        """Every problem as a sentence, for authenticated readers. A missing right is named with the rule to add."""
        found = [*self.settings_problems, *([self.startup_problem] if self.startup_problem else [])]
        if self.watch is not None:
            found += self.watch.problems()
        if self.elector is not None and self.elector.problem:
            found.append(f"The leader cannot be elected: {self.elector.problem}.")
        if self.leader_label is not None and self.leader_label.problem:
            found.append(self.leader_label.problem)
        if self.controller is not None:
            found += self.controller.problems()
        if self.figures is not None:
            found += self.figures.problems()
        if self.chart_parts is not None:
            found += self.chart_parts.problems()
        if self.scale_ahead is not None:
            found += self.scale_ahead.problems()
        if self.history is not None:
            found += self.history.problems()
        if self.waits is not None:
            found += self.waits.problems()
        if self.tickets is not None:
            found += self.tickets.problems()
        if self.idle is not None:
            found += self.idle.problems()
        if self.enforces_budgets:
            found += self.budget_use.problems()
        return tuple(found)

    def problems_of_settings(self) -> tuple[str, ...]:
        """What settings about budgets and idle servers lack, which only the running service knows."""
        return (*self.budget_use.problems(), *(self.idle.problems() if self.idle is not None else ()))
