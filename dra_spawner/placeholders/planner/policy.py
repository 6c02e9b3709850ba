"""What an administrator wants: how many places are kept, and how much may be moved about for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.shapes import Shape


@dataclass(frozen=True, slots=True)
class ReplicaRange:
    """Places kept for one shape.

    Attributes
    ----------
    min
        Placeholders wanted at all times.
    max
        Never more, those beside waiting users included.
    floor
        So many warm ones stay where they are, whatever moving would gain; None is half of ``min``, rounded up.
    """

    min: int
    max: int
    floor: int | None = None

    @property
    def kept(self) -> int:
        """How many warm ones are never moved."""
        return -(-self.min // 2) if self.floor is None else self.floor


#: More than a control plane likes in one namespace.
MOST_PLACEHOLDERS: Final = 10_000
_FOR_PENDING_PODS_ONLY: Final = ReplicaRange(0, MOST_PLACEHOLDERS)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be evicted to tidy up. What users need is not bounded by it.

    Attributes
    ----------
    per_second, burst
        A bucket of ``burst`` tokens that fills at ``per_second``; each eviction takes one.
    per_node
        Evictions from one node in one round.
    most_pending
        While more placeholders than this wait for a node, nothing is evicted.
    """

    per_second: float = 1.0
    burst: int = 5
    per_node: int = 2
    most_pending: int = 0


@dataclass(frozen=True, slots=True)
class Renewal:
    """How fast placeholders are made, whatever it is that ends them.

    Attributes
    ----------
    per_second, burst
        A bucket like that of the `Budget`; bigger where more are wanted: twice as many at once, all in `whole_in`.
    whole_in
        See there.
    first_delay, longest_delay
        One that failed is replaced after so long; the delay doubles while those that replace it fail soon, too.
    """

    per_second: float = 5.0
    burst: int = 100
    whole_in: timedelta = timedelta(seconds=30)
    first_delay: timedelta = timedelta(seconds=5)
    longest_delay: timedelta = timedelta(minutes=5)

    def rate(self, wanted: int) -> float:
        """How many a second."""
        return max(self.per_second, wanted / self.whole_in.total_seconds())

    def most(self, wanted: int) -> float:
        """How many at once."""
        return float(max(self.burst, 2 * wanted))


@dataclass(frozen=True, slots=True)
class Grace:
    """How long something is left alone.

    Attributes
    ----------
    preempt_again
        After placeholders made way for a pod, before others do; four times as long after the second time, and so on.
    scheduler
        A user's pod for which there is room has a node after so long, or what the scheduler says of it is believed.
    binding
        The scheduler has so long to bind a pod that names a warm claim, unless it says why not, before it is helped.
        Where many start at once its requests wait for seconds, and who writes to the claim meanwhile makes it fail.
    reservation
        How long a warm claim is reserved for one pod.
    new_node
        A node that just came is not drained.
    freed_node
        Nor is one that the last user just left, who may come back.
    orphan
        A claim without its placeholder is deleted after so long.
    replacing
        A placeholder that no choice wants any more stays so long at most until those that are wanted are there.
    start
        A placeholder's container runs so long after its kubelet has it, or its node or its devices are of no use.
    avoid
        A node where that was not so is avoided for so long.
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
        After so long without images or devices a node counts as ready all the same, rather than strand users.
    settle
        A node that was ready, and then was not, must stay ready for so long before it is called so again.
    images
        Needed on every node, besides those of the shapes that can run there.
    kind_label
        Nodes with the same value are of one kind: they are to have the same drivers.
    """

    deadline: timedelta = timedelta(minutes=15)
    settle: timedelta = timedelta(seconds=30)
    images: frozenset[str] = frozenset()
    kind_label: str = names.INSTANCE_TYPE


@dataclass(frozen=True, slots=True)
class Policy:
    """All that bears on decisions.

    Attributes
    ----------
    shapes
        By id.
    replicas
        By id of a shape; of one that is not there, placeholders are only made beside servers that wait for a node.
    is_complete
        Whether these are all shapes; if not, a placeholder of another one is left alone.
    newest
        A node counts as new for so long; placeholders are drawn to the newest.
    drain_below
        A node used less than this (0 to 1, placeholders not counted) is to become empty; 0 drains empty nodes only.
    node_kinds_are_all
        Whether nodes of no other kinds than those that are there can come, so that "never" can be said.
    most_for_pending_pods
        Placeholders beside servers that wait for a node, of all shapes together.
    stale_after
        With knowledge older than this, nothing is evicted and nothing labelled.
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
    node_kinds_are_all: bool = False
    most_for_pending_pods: int = 500

    def replicas_of(self, shape: str) -> ReplicaRange:
        """What is kept of a shape; of one that is not named only what waits beside users' servers for a node."""
        return self.replicas.get(shape, _FOR_PENDING_PODS_ONLY)
