"""Users who are announced, and whether others are announced beside them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers


@dataclass(frozen=True, slots=True)
class AnnouncedUsers:
    """Users who are announced, by an entry of a calendar or by a line.

    Attributes
    ----------
    not_prepared
        Why scale-ahead creates no placeholders for them; empty if it does.
    entry
        None for a line.
    usual
        Servers by which the usual launches grow while they come.
    """

    expected: ExpectedUsers
    ends: datetime
    not_prepared: str
    entry: Occurrence | None = None
    usual: int = 0

    def is_beside(self, other: ExpectedUsers) -> bool:
        """Whether the users begin before others or with them, and have not ended when these come."""
        # In UTC: Python compares local times of one zone without regard to changes of the clock.
        begins = other.begins.astimezone(UTC)
        return self.expected.begins.astimezone(UTC) <= begins < self.ends.astimezone(UTC)

    def announces(self, other: ExpectedUsers) -> bool:
        """Whether these are the same users."""
        mine = self.expected
        return (mine.shape.id, mine.begins.astimezone(UTC), mine.users, mine.counts) == (
            other.shape.id,
            other.begins.astimezone(UTC),
            other.users,
            other.counts,
        )
