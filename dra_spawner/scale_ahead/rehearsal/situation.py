"""Start of a rehearsal: users that need a server, present placeholders, and nodes on order. All times are in UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from dra_spawner.placeholders.planner.cluster.pod_kinds import is_demand
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View
from dra_spawner.scale_ahead.calendars.occurrences import IN_TOTAL
from dra_spawner.scale_ahead.rehearsal.capacity import Capacity, ServersBeside
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.timetable import arrivals


@dataclass(frozen=True, slots=True)
class RehearsalSituation:
    """State of users and cluster from which a rehearsal starts.

    Attributes
    ----------
    usable_by
        Time at which all nodes should be usable.
    running, wanted, warm
        As in `Rehearsal`.
    on_order
        Creation times of the shape's pending placeholders, the oldest first: nodes for them are on order.
    beside
        Servers of other users at the same time, which come first.
    starts_before
        Time before which nodes must have started, by name of the supply: nodes for others start then.
    """

    expected: ExpectedUsers
    view: View
    namespace: str
    settings: RehearsalSettings
    now: datetime
    begins: datetime
    usable_by: datetime
    running: int
    wanted: int
    warm: int
    on_order: tuple[datetime, ...]
    beside: tuple[ServersBeside, ...] = ()
    starts_before: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def to_place(self) -> int:
        """Number of users without a placeholder."""
        return self.wanted - self.warm

    @property
    def is_done(self) -> bool:
        """Whether nodes are ordered before the users come, and whether an autoscaler adds them."""
        settings = self.settings
        return settings.is_announced and not settings.not_prepared and bool(settings.has_autoscaler)

    @property
    def arrivals(self) -> tuple[datetime, ...]:
        """Times at which the users come who still need a server."""
        return arrivals(self.begins, self.expected.ramp, self.wanted)

    @property
    def kept(self) -> int | None:
        """Placeholders that users of the shape find at any time; None for one for each of them."""
        return self.settings.max_placeholders if self.is_done else self.settings.min_placeholders

    def used_from(self) -> Mapping[str, Sequence[datetime]]:
        """Times from which a server or its placeholder is on a node, of users without a placeholder now, by shape.

        The next user to come gets the next place, whichever entry announces them. Empty if no autoscaler removes nodes.
        """
        if not self.settings.has_autoscaler:
            return {}
        come: dict[str, list[datetime]] = {self.expected.shape.id: [*self.arrivals]}
        warm, kept = Counter({self.expected.shape.id: self.warm}), {self.expected.shape.id: self.kept}
        for each in self.beside:
            if each.expected is not None:
                come.setdefault(each.shape.id, []).extend(each.arrivals())
                warm[each.shape.id] += each.warm
                kept.setdefault(each.shape.id, each.kept)
        return {
            shape: (*(self.now for _ in times[: kept[shape]]), *sorted(times))[warm[shape] : len(times)]
            for shape, times in come.items()
        }

    def placeholder_times(self, most: int | None) -> tuple[datetime, ...]:
        """Time from which on each user has a placeholder, if others that came before have taken all but so many."""
        if most is None:
            return (self.now,) * self.wanted
        same = [each for each in self.beside if each.shape.id == self.expected.shape.id]
        come = sorted([*self.arrivals, *(moment for each in same for moment in each.arrivals())])
        before = sum(each.servers + each.warm for each in same) - most
        times = ((come[min(number, len(come) - 1)] if number >= 0 else self.now) for number in count(before))
        return tuple(map(min, self.arrivals, times))

    def present(self, capacity: Capacity) -> int:
        """Number of users with a placeholder, or with capacity on a present node or on one that comes for others."""
        return self.warm + capacity.ready + capacity.without_image + capacity.coming


def situation_of(
    expected: ExpectedUsers,
    view: View,
    namespace: str,
    settings: RehearsalSettings,
    beside: Sequence[ServersBeside] = (),
    starts_before: Mapping[str, datetime] | None = None,
    lasting: timedelta = timedelta(0),
) -> RehearsalSituation:
    """The situation at the time of a view.

    Parameters
    ----------
    lasting
        Time from the order of a node until it is removed if nothing needs it.
    """
    now = view.now.astimezone(UTC)
    begins = max(expected.begins.astimezone(UTC), now)
    shape = expected.shape.id
    running = sum(1 for pod in view.users.values() if pod.node_name and view.shape_of(pod) == shape and is_demand(pod))
    same = [each for each in beside if each.shape.id == shape]
    announced = [each.expected for each in same if each.expected is not None]
    wanted = _needed([*announced, expected], running) - _needed(announced, running)
    usable, target = len(view.usable(shape)), settings.target
    warm = min(max((usable if target is None else min(usable, target)) - sum(each.warm for each in same), 0), wanted)
    # Without an autoscaler no node comes for a pending placeholder.
    on_order = _on_order(view.placeholders_of_shape.get(shape, []), now) if settings.has_autoscaler else ()
    if target is not None:
        # The newest end first; a node that is ordered comes nevertheless, and stays a while.
        lasts = begins - lasting
        on_order = (
            *on_order[: max(target - usable, 0)],
            *(at for at in on_order[max(target - usable, 0) :] if at >= lasts),
        )
    return RehearsalSituation(
        expected=expected,
        view=view,
        namespace=namespace,
        settings=settings,
        now=now,
        begins=begins,
        usable_by=begins - settings.margin,
        running=running,
        wanted=wanted,
        warm=warm,
        on_order=on_order[sum(each.on_order for each in same) :],
        beside=tuple(beside),
        starts_before=starts_before or {},
    )


def _needed(announced: Sequence[ExpectedUsers], running: int) -> int:
    """Servers that users of one shape need, as a forecast counts them: of numbers in total the largest counts."""
    additional = sum(each.users for each in announced if each.counts != IN_TOTAL)
    in_total = max((each.users for each in announced if each.counts == IN_TOTAL), default=0)
    return max(additional, in_total - running, 0)


def _on_order(placeholders: Sequence[Placeholder], now: datetime) -> tuple[datetime, ...]:
    found = []
    for each in placeholders:
        if each.is_pending:
            try:
                found.append(min(datetime.fromisoformat(each.pod.created).astimezone(UTC), now))
            except (ValueError, OverflowError):
                found.append(now)
    return tuple(sorted(found))
