"""What a rehearsal starts from: who needs a server, and what is there or on order. All times in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dra_spawner.calendars.occurrences import IN_TOTAL
from dra_spawner.placeholders.planner.view import Placeholder, View
from dra_spawner.rehearsal.capacity import Capacity
from dra_spawner.rehearsal.rehearsal_result import ExpectedUsers, RehearsalSettings

__all__ = ["Situation", "situation_of"]


@dataclass(frozen=True, slots=True)
class Situation:
    """See the module.

    Attributes
    ----------
    useful_by
        When all nodes should be useful.
    running, wanted, warm
        As in `Rehearsal`.
    on_order
        When each pending placeholder of the shape was created, the oldest first: nodes are ordered for them already.
    """

    expected: ExpectedUsers
    view: View
    namespace: str
    settings: RehearsalSettings
    now: datetime
    begins: datetime
    useful_by: datetime
    running: int
    wanted: int
    warm: int
    on_order: tuple[datetime, ...]

    @property
    def to_place(self) -> int:
        """Users who find no placeholder."""
        return self.wanted - self.warm

    def present(self, capacity: Capacity) -> int:
        """Users who find a placeholder or a free place on a present node."""
        return self.warm + capacity.ready + capacity.without_image


def situation_of(expected: ExpectedUsers, view: View, namespace: str, settings: RehearsalSettings) -> Situation:
    """The situation at the time of a view."""
    now = view.now.astimezone(UTC)
    begins = max(expected.begins.astimezone(UTC), now)
    shape = expected.shape.id
    running = sum(1 for pod in view.users.values() if pod.node_name and view.shape_of(pod) == shape)
    is_in_total = expected.counts == IN_TOTAL
    wanted = max(expected.users - running, 0) if is_in_total else expected.users
    placeholders = view.placeholders_of_shape.get(shape, [])
    warm = min(sum(each.is_free for each in placeholders), wanted)
    return Situation(
        expected=expected,
        view=view,
        namespace=namespace,
        settings=settings,
        now=now,
        begins=begins,
        useful_by=begins - settings.margin,
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
