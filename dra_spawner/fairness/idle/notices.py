"""What a server's pod says about the warning of its user: it is stored there, so that it ends with the server.

Hub and service read it from the pod, and a new leader finds what its user has answered.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dra_spawner.fairness.idle.policy import IdlePolicy

_LONGEST_TEXT: Final = 1_000
_MOST_KEEPS: Final = 1_000


class KeepRefused(Exception):
    """Raised where a server cannot be kept; the message is a sentence for its user."""


@dataclass(frozen=True, slots=True)
class Notice:
    """The state of a server's warning.

    Attributes
    ----------
    warned_at
        Since when its user is warned; None without a warning.
    idle_since
        Since when the server was idle at that time.
    stops_at
        When it is stopped at the earliest.
    kept_until
        Until when "I still need it" keeps it; None if nobody has said so.
    kept
        How often it was kept.
    keeps_left
        How often it may still be kept.
    stopped_at
        When it was decided to stop it; None if it was not.
    """

    warned_at: datetime | None = None
    idle_since: datetime | None = None
    stops_at: datetime | None = None
    kept_until: datetime | None = None
    kept: int = 0
    keeps_left: int = 0
    stopped_at: datetime | None = None

    def text(self) -> str:
        """The notice as JSON, for an annotation."""
        moments = {
            "warnedAt": self.warned_at,
            "idleSince": self.idle_since,
            "stopsAt": self.stops_at,
            "keptUntil": self.kept_until,
            "stoppedAt": self.stopped_at,
        }
        written = {name: each.astimezone(UTC).isoformat() for name, each in moments.items() if each is not None}
        return json.dumps({**written, "kept": self.kept, "keepsLeft": self.keeps_left})

    @classmethod
    def read(cls, text: str) -> Notice:
        """The notice of an annotation; an empty one where it is not understood."""
        try:
            found = json.loads(text) if 0 < len(text) <= _LONGEST_TEXT else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            return cls()
        return cls(
            _moment(found.get("warnedAt")),
            _moment(found.get("idleSince")),
            _moment(found.get("stopsAt")),
            _moment(found.get("keptUntil")),
            _number(found.get("kept")),
            _number(found.get("keepsLeft")),
            _moment(found.get("stoppedAt")),
        )

    def without_warning(self) -> Notice:
        """The same without its warning; what was kept stays."""
        return replace(self, warned_at=None, idle_since=None, stops_at=None, keeps_left=0, stopped_at=None)

    def holds(self, policy: IdlePolicy, now: datetime) -> bool:
        """Whether "I still need it" keeps the server now. A time that no policy gives does not count."""
        return self.kept_until is not None and now < self.kept_until <= now + policy.keep + timedelta(minutes=5)


def keep(notice: Notice, policy: IdlePolicy | None, now: datetime) -> Notice:
    """The notice after its user has said "I still need it".

    Raises
    ------
    KeepRefused
        Without a warning, or when it was kept too often.
    """
    if policy is None or notice.warned_at is None or notice.stopped_at is not None:
        raise KeepRefused("This server is not about to be stopped.")
    if notice.kept >= policy.keeps:
        times = "once" if notice.kept == 1 else f"{notice.kept} times"
        raise KeepRefused(
            f"This server was kept {times} already. Use its device, or save your work."
            if notice.kept
            else "This server cannot be kept. Use its device, or save your work."
        )
    kept = notice.kept + 1
    left = max(policy.keeps - kept, 0)
    return replace(notice.without_warning(), kept_until=now + policy.keep, kept=kept, keeps_left=left)


def _moment(value: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        return found.astimezone(UTC) if found is not None and found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _number(value: Any) -> int:
    return min(value, _MOST_KEEPS) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
