"""The maximum lifetime of a server with devices. Pure.

Only time that the hub has seen by a monotonic clock counts. So no jump of a clock, and no time for which the hub was
away, ends a server early: its end is later by the time that was not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dra_spawner.profiles.server_limits import LONGEST_LIFETIME, SHORTEST_LIFETIME, SHORTEST_NOTICE
from dra_spawner.spawner.progress.durations import duration_text


@dataclass(frozen=True, slots=True)
class SessionTime:
    """How long a server may run, and how long it has run.

    Attributes
    ----------
    limit, notice
        Seconds: the whole time, and its last part in which the user is warned.
    ran
        Seconds that were counted.
    seen_at
        Monotonic seconds at which they were counted; None in a hub that has not looked yet.
    """

    limit: int
    notice: int
    ran: float = 0.0
    seen_at: float | None = None

    def at(self, now: float) -> SessionTime:
        """The same with the time until now counted.

        Parameters
        ----------
        now
            Monotonic seconds of this process.
        """
        ran = self.ran + (0.0 if self.seen_at is None else max(now - self.seen_at, 0.0))
        if not self.ends_soon:
            # However long nobody looked, as a hub may hang: the end comes after a warning.
            ran = min(ran, max(self.limit - SHORTEST_NOTICE, self.ran))
        return replace(self, ran=ran, seen_at=now)

    @property
    def seconds_left(self) -> float:
        """Seconds until the end, from the last look."""
        return max(self.limit - self.ran, 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the server is to be stopped."""
        return self.ran >= self.limit

    @property
    def ends_soon(self) -> bool:
        """Whether the user is warned."""
        return self.seconds_left <= self.notice

    def sentence(self, wall_clock: datetime) -> str:
        """When the server ends, for its user."""
        end = (wall_clock + timedelta(seconds=self.seconds_left)).astimezone(UTC)
        save = " Save your work." if self.ends_soon else ""
        return f"It ends at {end:%Y-%m-%d %H:%M} UTC, in {duration_text(self.seconds_left)}.{save}"

    def as_json(self) -> dict[str, Any]:
        """What the server's panel is told."""
        return {"ends_in_seconds": round(self.seconds_left), "ends_soon": self.ends_soon}

    @property
    def end_sentence(self) -> str:
        """Why the server was ended, for its user."""
        return f"It ran for {duration_text(self.limit)}, the longest time of its choice. You may start it again."

    def state(self) -> dict[str, Any]:
        """What is stored with the server."""
        return {"limit": self.limit, "notice": self.notice, "ran": round(self.ran)}

    @classmethod
    def of_state(cls, found: object) -> SessionTime | None:
        """Read what was stored; None for no limit, and for values that make no sense: nothing ends by them."""
        if not isinstance(found, Mapping):
            return None
        limit, notice, ran = (_whole(found.get(key)) for key in ("limit", "notice", "ran"))
        if not SHORTEST_LIFETIME <= limit <= LONGEST_LIFETIME or notice < SHORTEST_NOTICE or ran < 0:
            return None
        # The user has been warned, and is warned again by this hub before anything ends.
        return cls(limit, notice, float(min(ran, limit - SHORTEST_NOTICE)))


def _whole(value: object) -> int:
    """A whole number; -1 for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
