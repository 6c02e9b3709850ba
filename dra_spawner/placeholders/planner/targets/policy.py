"""The administrator's policy: targets of placeholders, and limits of rebalancing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.placeholders.planner.targets.limits import Limit
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey


@dataclass(frozen=True, slots=True)
class ReplicaRange:
    """Numbers of placeholders of one shape.

    Attributes
    ----------
    min
        The target at all times.
    max
        The most, besides a placeholder for each pending server that needs a node.
    floor
        Warm placeholders that rebalancing leaves alone; None is half of ``min``, rounded up.
    because
        Where ``min`` comes from, as the end of a sentence; empty if it is configured.
    servers
        Servers of the shape that ``min`` was computed with, if it is for users who are still to come. Each further one,
        or one for which a placeholder is reserved, is a user who came, and lowers the target. None if users go on to
        come.
    beyond
        Number of these users for whom a limit leaves no placeholder: the first that come do not lower the target.
    least
        The target is never lowered below this.
    """

    min: int
    max: int
    floor: int | None = None
    because: str = ""
    servers: int | None = None
    beyond: int = 0
    least: int = 0

    @property
    def effective_floor(self) -> int:
        """Warm placeholders that rebalancing leaves alone."""
        return -(-self.min // 2) if self.floor is None else self.floor

    def with_servers(self, servers: int) -> ReplicaRange:
        """The range without the users who came since it was computed."""
        if self.servers is None or servers <= self.servers:
            return self
        came = servers - self.servers
        lowered = max(self.min - max(came - self.beyond, 0), min(self.least, self.min))
        return replace(self, min=lowered, servers=servers, beyond=max(self.beyond - came, 0))


#: More than a control plane likes in one namespace.
MAX_PLACEHOLDERS: Final = 10_000
_FOR_PENDING_PODS_ONLY: Final = ReplicaRange(0, MAX_PLACEHOLDERS)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be evicted to rebalance and drain. It does not bound preemption for users.

    Attributes
    ----------
    per_second, burst
        A bucket of ``burst`` tokens that fills at ``per_second``; each eviction takes one.
    per_node
        Evictions from one node in one round.
    max_pending
        While more placeholders than this wait for a node, nothing is evicted.
    """

    per_second: float = 1.0
    burst: int = 5
    per_node: int = 2
    max_pending: int = 0


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens left at a time.

    A service that just started has none, as the one before it may have spent them.
    """

    left: float
    at: datetime

    def refilled(self, budget: Budget, now: datetime) -> Tokens:
        """The bucket filled until now. A clock that jumps back adds nothing; one that jumps ahead fills it once."""
        seconds = max((now - self.at).total_seconds(), 0.0)
        return Tokens(min(self.left + seconds * budget.per_second, float(budget.burst)), now)

    def take(self) -> Tokens | None:
        """The bucket with one token less; None if it is empty."""
        return Tokens(self.left - 1.0, self.at) if self.left >= 1.0 else None


@dataclass(frozen=True, slots=True)
class Renewal:
    """How fast placeholders are created, whatever ends them.

    Attributes
    ----------
    per_second, burst
        A token bucket as in `Budget`. With a high target it is larger: twice the target at once, all in `whole_in`.
    whole_in
        Time in which the whole target can be created.
    first_delay, longest_delay
        Time until a failed placeholder is replaced; the delay doubles while the replacements fail soon, too.
    max_failed
        Failed replacements in a row after which no more are created for the target.
    """

    per_second: float = 5.0
    burst: int = 100
    whole_in: timedelta = timedelta(seconds=30)
    first_delay: timedelta = timedelta(seconds=5)
    longest_delay: timedelta = timedelta(minutes=5)
    max_failed: int = 5

    def rate(self, wanted: int) -> float:
        """Creations a second."""
        return max(self.per_second, wanted / self.whole_in.total_seconds())

    def most(self, wanted: int) -> float:
        """Creations at once."""
        return float(max(self.burst, 2 * wanted))


@dataclass(frozen=True, slots=True)
class Grace:
    """Times before the planner acts.

    Attributes
    ----------
    preempt_again
        Time between two preemptions for the same pod; it grows fourfold with each.
    scheduler
        Time that the scheduler has for a pod that fits. After it the planner believes the scheduler.
    binding
        Time that the scheduler has to bind a pod that names a warm claim, unless it reports why the pod does not fit.
        In a rush its requests wait for seconds, and a concurrent write would conflict with the scheduler's.
    reservation
        Time for which a warm claim is reserved for one pod.
    new_node
        Time for which a new node is not emptied.
    freed_node
        Time for which a node is not emptied after its last user has left; the user may come back.
    orphan
        Time until a claim without a placeholder is deleted.
    replacing
        The longest time that a placeholder of an outdated shape stays until the new ones are there.
    start
        Time from the kubelet's first report of a placeholder until its container runs. After it the placeholder is
        broken.
    avoid
        Time for which new placeholders avoid a node where a placeholder was broken.
    """

    preempt_again: timedelta = timedelta(seconds=10)
    scheduler: timedelta = timedelta(seconds=15)
    binding: timedelta = timedelta(seconds=15)
    reservation: timedelta = timedelta(seconds=30)
    new_node: timedelta = timedelta(minutes=10)
    freed_node: timedelta = timedelta(minutes=10)
    orphan: timedelta = timedelta(seconds=60)
    replacing: timedelta = timedelta(seconds=60)
    start: timedelta = timedelta(minutes=2)
    avoid: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Readiness:
    """When a node is ready for users.

    Attributes
    ----------
    deadline
        Time after which a node without images or devices counts as ready all the same, so that no user is stranded.
    settle
        Time that a node which lost its readiness must be ready before it gets the label again.
    images
        Needed on every node, besides the images of the shapes that can run there.
    kind_label
        Nodes with the same value are of one kind: they are to have the same drivers.
    """

    deadline: timedelta = timedelta(minutes=15)
    settle: timedelta = timedelta(seconds=30)
    images: frozenset[str] = frozenset()
    kind_label: str = names.INSTANCE_TYPE


@dataclass(frozen=True, slots=True)
class TicketRules:
    """Settings of the queue.

    Attributes
    ----------
    hold
        Time for which a placeholder is held for a ticket.
    go_first
        Whether servers that start without a ticket get no device that a waiting ticket competes for.
    keep
        Time for which the free devices of one node are kept for the first ticket if it needs several; zero for never.
    """

    hold: timedelta = timedelta(minutes=5)
    go_first: bool = True
    keep: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class DeletionOrder:
    """A person's order to delete one placeholder.

    Attributes
    ----------
    uid
        Of its pod.
    server
        Name of the pod whose reservation is to end; empty for an order to evict.
    """

    key: ObjectKey
    uid: str
    server: str
    reason: str


@dataclass(frozen=True, slots=True)
class Policy:
    """All settings of decisions.

    Attributes
    ----------
    replicas
        By id of a shape; other shapes only have placeholders for pending pods.
    is_complete
        Whether these are all shapes; if not, placeholders of others are not deleted.
    newest
        Time for which a node counts as new; placeholders prefer the newest one.
    drain_below
        A node used less than this (0 to 1, placeholders not counted) is emptied; 0 empties only nodes that nobody uses.
    node_kinds_complete
        Whether new nodes are always of a present kind; only then the answer "never" is possible.
    max_for_pending_pods
        The most placeholders for pending pods, of all shapes together.
    keeps_surplus
        Whether no placeholder counts as surplus, since targets are not known yet.
    limits
        Limits of placeholders for targets; placeholders for pending pods are not limited.
    stale_after
        With a view older than this, nothing is decided.
    paused
        Ids of shapes of which no placeholder is created or deleted for the target.
    drained
        Nodes that people ordered to be drained, each with the order as the end of a sentence.
    drained_until
        Ends of orders to drain, by name of the node or of the device (``driver/pool/device``), where they have one.
    orders
        Placeholders that people ordered to be deleted.
    observing_because
        Why nothing may be decided by order of a person, as a clause; empty if decisions may be made.
    placeholder_image
        Image of new placeholders; present ones with another are replaced. Empty if images do not matter.
    placeholder_priority_class
        The same of their PriorityClass.
    placeholder_pull_secrets
        Names of Secrets with which the image is pulled; placeholders that do not run without them are replaced.
    drivers_prepare_for
        What drivers prepare claims for, by name of the driver.
    packs_devices
        Whether nodes and devices are chosen so that whole devices and large partitions stay free.
    tickets
        Settings of the queue for devices; None if there is none.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    replicas: Mapping[str, ReplicaRange] = field(default_factory=dict)
    is_complete: bool = True
    budget: Budget = Budget()
    renewal: Renewal = Renewal()
    grace: Grace = Grace()
    readiness: Readiness = Readiness()
    newest: timedelta = timedelta(minutes=20)
    drain_below: float = 0.0
    stale_after: timedelta = timedelta(seconds=60)
    node_kinds_complete: bool = False
    max_for_pending_pods: int = 500
    keeps_surplus: bool = False
    limits: tuple[Limit, ...] = ()
    paused: frozenset[str] = frozenset()
    drained: Mapping[str, str] = field(default_factory=dict)
    drained_until: Mapping[str, datetime] = field(default_factory=dict)
    orders: tuple[DeletionOrder, ...] = ()
    observing_because: str = ""
    drivers_prepare_for: Mapping[str, PreparedFor] = field(default_factory=dict)
    placeholder_image: str = ""
    placeholder_priority_class: str = ""
    placeholder_pull_secrets: frozenset[str] = frozenset()
    packs_devices: bool = False
    tickets: TicketRules | None = None

    def replicas_of(self, shape: str) -> ReplicaRange:
        """The range of a shape; for one without a setting, no target, only placeholders for pending pods."""
        return self.replicas.get(shape, _FOR_PENDING_PODS_ONLY)
