"""What is asked in a rehearsal, and its answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner.calendars.occurrences import ADDITIONAL, Counts, Occurrence
from dra_spawner.placeholders.planner.published_shapes import PublishedShapes
from dra_spawner.placeholders.planner.quotas import Quota
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.rehearsal.node_supply import NodeSupply
from dra_spawner.rehearsal.rehearsal_line import RehearsalLine, published_choice
from dra_spawner.rehearsal.rehearsal_problems import RehearsalProblem
from dra_spawner.rehearsal.timetable import Waits, start_delays

__all__ = [
    "ExpectedUsers",
    "NodeOrder",
    "Rehearsal",
    "RehearsalSettings",
    "expected_by_line",
    "expected_by_occurrence",
]

#: As of an entry of a calendar that does not say it.
_RAMP: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class ExpectedUsers:
    """Users who are expected at a time.

    Attributes
    ----------
    profile
        Published name of the choice.
    begins
        When the first users start their servers; its time zone is that of the answer.
    counts
        Whether they are additional to servers that run, or all in total.
    ramp
        Time within which they start their servers.
    """

    profile: str
    shape: Shape
    users: int
    begins: datetime
    counts: Counts = ADDITIONAL
    ramp: timedelta = _RAMP


def expected_by_line(line: RehearsalLine, published: PublishedShapes) -> ExpectedUsers:
    """The users that a line announces.

    Raises
    ------
    ValueError
        If the hub does not publish the profile.
    """
    demand = published_choice(line, published).demand
    ramp = demand.ramp if demand.ramp is not None else _RAMP
    shape = published.shapes[demand.profile]
    return ExpectedUsers(demand.profile, shape, demand.users, line.begins, demand.counts, ramp)


def expected_by_occurrence(occurrence: Occurrence, profile: str, shape: Shape) -> ExpectedUsers:
    """The users that an entry of a calendar announces.

    Parameters
    ----------
    profile
        Published name of the entry's profile.
    """
    return ExpectedUsers(profile, shape, occurrence.users, occurrence.begins, occurrence.counts, occurrence.ramp)


@dataclass(frozen=True, slots=True)
class RehearsalSettings:
    """What a rehearsal goes by."""

    margin: timedelta = timedelta(minutes=5)
    """Time before the begin at which all nodes are useful: the first users may come as early."""
    image_time: timedelta = timedelta(0)
    """Time until a present node has pulled the images that it lacks."""
    most_placeholders: int | None = None
    """The most placeholders of the shape; None for no limit."""
    quotas: tuple[Quota, ...] | None = ()
    """ResourceQuotas of the servers' namespace; None if they are not known."""
    kinds_are_all: bool = True
    """Whether no nodes of other kinds can come; if some can, no answer says that no node can run a server."""


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """New nodes of one kind.

    Attributes
    ----------
    slots
        Expected servers on each of them.
    like
        Node that they were proved with; empty if the described number of slots was taken.
    order_at
        When they must be ordered, so that all are useful in time, or when they were ordered.
    is_on_order
        Whether pending placeholders wait for them already.
    """

    supply: NodeSupply
    slots: tuple[int, ...]
    like: str
    order_at: datetime
    is_on_order: bool = False

    @property
    def nodes(self) -> int:
        return len(self.slots)

    @property
    def servers(self) -> int:
        return sum(self.slots)

    def useful(self, now: datetime) -> Iterator[datetime]:
        """When each node is useful, in UTC, if they are ordered in time, or now where that is past."""
        # Times of one zone are compared and added by what their clock shows, which may change in between.
        now, order_at = now.astimezone(UTC), self.order_at.astimezone(UTC)
        begin = order_at if self.is_on_order else max(order_at, now)
        for delay in start_delays(self.nodes, self.supply.starts_per_minute):
            yield max(begin + delay + self.supply.useful_after, now)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The answer. All of its times are in the time zone of `expected`.

    Attributes
    ----------
    verdict
        One sentence for everybody, without Kubernetes' words.
    is_possible
        Whether all users can start at once.
    begin_at
        When the first nodes must be ordered; None if none is needed. It may be past.
    problems
        What stands in the way, the most important first, then notes.
    running
        Servers of the shape that run; of users in total they are a part.
    wanted
        Users who still need a server.
    warm
        Users who find a placeholder that has a node already.
    free, free_without_image
        Users for whom a present node has capacity, with the images and without.
    lacking
        Users for whom there is no node, whatever is ordered.
    without_orders, with_orders
        Who waits if nothing is ordered before the users come, and if all is ordered at `begin_at`, or now.
    """

    expected: ExpectedUsers
    now: datetime
    verdict: str
    is_possible: bool
    begin_at: datetime | None
    problems: tuple[RehearsalProblem, ...]
    running: int
    wanted: int
    warm: int
    free: int
    free_without_image: int
    lacking: int
    orders: tuple[NodeOrder, ...]
    without_orders: Waits
    with_orders: Waits
