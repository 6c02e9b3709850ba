"""Question and answer of a rehearsal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from dra_spawner.placeholders.planner.targets.limits import Quota
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.calendars.occurrences import ADDITIONAL, Counts, Occurrence
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply
from dra_spawner.scale_ahead.rehearsal.rehearsal_line import RehearsalLine, published_choice
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode, RehearsalProblem
from dra_spawner.scale_ahead.rehearsal.timetable import Waits, start_delays

#: The same default as for entries of a calendar.
_RAMP: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class ExpectedUsers:
    """Users that are expected at a time.

    Attributes
    ----------
    profile
        Published name of the choice.
    begins
        Time at which the first users start their servers; the answer has the same time zone.
    counts
        Whether the number is additional to running servers, or the total.
    ramp
        Time within which the users start their servers.
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
    """Assumptions and limits of a rehearsal."""

    margin: timedelta = timedelta(minutes=5)
    """Time before the begin at which all nodes are usable, as the first users may come early."""

    image_time: timedelta = timedelta(0)
    """Time until a present node has pulled its missing images."""

    max_placeholders: int | None = None
    """Limit of placeholders of the shape; None for no limit."""

    min_placeholders: int = 0
    """Placeholders of the shape that there are at all times, in any mode."""

    target: int | None = None
    """Placeholders of the shape that are wanted at present; further ones end soon. None if it is not known."""

    placeholders_of_others: int = 0
    """Placeholders within this limit that are for other users of the same time."""

    not_prepared: str = ""
    """Why no placeholders are created before the users come, as a clause; empty if scale-ahead creates them."""

    is_announced: bool = True
    """Whether a calendar entry announces the users; without one, scale-ahead does not know of them."""

    has_autoscaler: bool | None = True
    """Whether an autoscaler adds nodes for pending pods; None if that is not known."""

    quotas: tuple[Quota, ...] | None = ()
    """ResourceQuotas of the servers' namespace; None if they are unknown."""

    kinds_are_all: bool = True
    """Whether nodes of other kinds cannot come; if they can, no answer says that no node can run a server."""

    back_at: Mapping[str, datetime] = field(default_factory=dict)
    """Ends of orders to drain nodes, by name of the node."""

    packs_devices: bool = False
    """Whether the service packs devices (its setting `pack_devices`)."""

    @property
    def placeholders_left(self) -> int | None:
        """Placeholders that may be created for these users; None for no limit."""
        most = self.max_placeholders
        return max(most - self.placeholders_of_others, 0) if most is not None else None


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """New nodes of one kind.

    Attributes
    ----------
    slots
        Number of expected servers on each node.
    template_node
        Node of which they are copies; empty if the described number of slots was used.
    order_at
        Time at which they must be ordered to be usable in time, or were ordered.
    is_on_order
        Whether they are ordered already, for pending placeholders.
    not_before
        Time before which none of them starts, as nodes of the kind that are on order start first; None without any.
    """

    supply: NodeSupply
    slots: tuple[int, ...]
    template_node: str
    order_at: datetime
    is_on_order: bool = False
    not_before: datetime | None = None

    @property
    def nodes(self) -> int:
        return len(self.slots)

    @property
    def servers(self) -> int:
        return sum(self.slots)

    def usable_at(self, now: datetime) -> Iterator[datetime]:
        """Time at which each node is usable, in UTC, if the order is given in time, or now if that time is past."""
        # In UTC: Python computes with local times of one zone without regard to changes of the clock.
        now, begin = now.astimezone(UTC), self._begin(now)
        for delay in start_delays(self.nodes, self.supply.starts_per_minute):
            yield max(begin + delay + self.supply.usable_after, now)

    def next_start(self, now: datetime) -> datetime:
        """Time in UTC at which a further node of the kind can start."""
        return self._begin(now) + start_delays(self.nodes + 1, self.supply.starts_per_minute)[-1]

    def is_due(self, now: datetime) -> bool:
        """Whether the nodes were ordered before now, or have to be ordered now."""
        return self.is_on_order or self.order_at <= now

    def _begin(self, now: datetime) -> datetime:
        begin = self.order_at if self.is_on_order else max(self.order_at, now)
        return max(begin, self.not_before or begin).astimezone(UTC)


class VerdictKind(StrEnum):
    """What a verdict says; it begins with these words."""

    YES = "yes"
    ONLY_IF = "only-if"
    NO = "no"
    NOT_KNOWN = "not-known"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The answer. All of its times are in the time zone of `expected`.

    Attributes
    ----------
    verdict
        One sentence for all readers, without words of Kubernetes.
    is_possible
        Whether all users can start without a wait, and without anybody's doing.
    first_order_at
        Time at which the first nodes must be ordered, which may be past; None if no node is needed.
    problems
        Problems, the most important first, then notes.
    running
        Running servers of the shape; a number of users in total includes them.
    wanted
        Users that still need a server.
    warm
        Users that find a placeholder with a node.
    free, free_without_image
        Users that fit on present nodes with the images, and on those without.
    free_coming
        Users that fit on nodes that come for users of other entries.
    lacking
        Users that fit on no node, even if all possible nodes are ordered.
    placed
        Users that can have a server, also those that wait for it.
    without_orders, with_orders
        Waits of users if no node is ordered before the users come, and if all nodes are ordered in time, or now.
    """

    expected: ExpectedUsers
    now: datetime
    verdict: str
    is_possible: bool
    first_order_at: datetime | None
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
    free_coming: int = 0
    placed: int = 0

    @property
    def verdict_kind(self) -> VerdictKind:
        """The kind of the most important problem that blocks."""
        blocking = next((each.code for each in self.problems if each.blocks), None)
        if blocking is None:
            return VerdictKind.YES
        return _KINDS.get(blocking, VerdictKind.NO)


_KINDS: Final = {ProblemCode.NOBODY_ORDERS: VerdictKind.ONLY_IF, ProblemCode.NOT_KNOWN: VerdictKind.NOT_KNOWN}
