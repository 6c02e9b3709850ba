"""What members of a class's group read: what to do, and nothing that only its teacher may know."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from dra_spawner.scale_ahead.calendars.class_progress import ClassProgress
from dra_spawner.scale_ahead.calendars.member_text import member_sentence, time_text
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

BEGIN = datetime(2026, 3, 3, 14, tzinfo=timezone(timedelta(hours=1), "CET"))
TIME = Occurrence("Lab", "gpu-whole", BEGIN, BEGIN + timedelta(hours=2), 60)
NOW = datetime(2026, 3, 3, 12, tzinfo=UTC)
CHOOSE = "Choose “A whole GPU” when you start your server."
READY = ClassProgress(60, ready_at=NOW)
BUSY = ClassProgress(came=50, running=47, waiting=3, because="no machine has such a device now")


def test_sentences() -> None:
    cases = {
        f"{CHOOSE} Everything is prepared.": (READY, -1.0, False),
        CHOOSE: (ClassProgress(12), -1.0, False),
        f"It has begun. {CHOOSE}": (BUSY, 0.5, False),
        f"Perhaps not all can start at the same time, and some have to wait. {CHOOSE}": (READY, -1.0, True),
    }
    for sentence, (progress, hours, may_wait) in cases.items():
        at = BEGIN + timedelta(hours=hours)
        assert member_sentence(TIME, progress, "A whole GPU", at, may_wait=may_wait) == sentence
        assert not any(part in sentence for part in ("60", "47", "gpu-whole", "no machine"))
    for hours in (-25, 2):
        assert member_sentence(TIME, READY, "A whole GPU", BEGIN + timedelta(hours=hours), may_wait=True) == ""
    assert time_text(BEGIN) == "14:00 CET on Tuesday 3 March"
