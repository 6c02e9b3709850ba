"""Start of a rehearsal: users that need a server, present placeholders, and nodes on order. All times are in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dra_spawner.placeholders.planner.cluster.view import Placeholder, View
from dra_spawner.scale_ahead.calendars.occurrences import IN_TOTAL
from dra_spawner.scale_ahead.rehearsal.capacity import Capacity
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, RehearsalSettings

__all__ = ["RehearsalSituation", "situation_of"]


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

    @property
    def to_place(self) -> int:
        """Number of users without a placeholder."""
        return self.wanted - self.warm

    def present(self, capacity: Capacity) -> int:
        """Number of users with a placeholder or capacity on a present node."""
        return self.warm + capacity.ready + capacity.without_image


def situation_of(
    expected: ExpectedUsers, view: View, namespace: str, settings: RehearsalSettings
) -> RehearsalSituation:
    """The situation at the time of a view."""
    now = view.now.astimezone(UTC)
    begins = max(expected.begins.astimezone(UTC), now)
    shape = expected.shape.id
    running = sum(1 for pod in view.users.values() if pod.node_name and view.shape_of(pod) == shape)
    is_in_total = expected.counts == IN_TOTAL
    wanted = max(expected.users - running, 0) if is_in_total else expected.users
    placeholders = view.placeholders_of_shape.get(shape, [])
    warm = min(len(view.usable(shape)), wanted)
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
        on_order=_on_order(placeholders, now),
    )


def _on_order(placeholders: Sequence[Placeholder], now: datetime) -> tuple[datetime, ...]:
    found = []
    for each in placeholders:
        if each.is_pending:
            try:
                found.append(min(datetime.fromisoformat(each.pod.created).astimezone(UTC), now))
            except (ValueError, OverflowError):
                found.append(now)
    return tuple(sorted(found))
