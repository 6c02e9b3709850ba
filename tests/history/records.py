"""Records for tests of the history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dra_spawner.history.decision_log import Decision
from dra_spawner.history.records import Launch, NodeLeadTime, RecordedDecision

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


def after(seconds: float) -> datetime:
    """So many seconds after the start."""
    return START + timedelta(seconds=seconds)


def launch(uid: str = "1", seconds: float = 0, **fields: Any) -> Launch:
    """A launch that was asked for so many seconds after the start."""
    return Launch(uid, after(seconds), **{"profile": "gpu", "user": "ada", "pod": "jupyter-ada", **fields})


def lead_time(uid: str = "n1", seconds: float = 0, **fields: Any) -> NodeLeadTime:
    """The lead time of a node that was created so many seconds after the start."""
    return NodeLeadTime(uid, f"node-{uid}", fields.pop("kind", "g4"), after(seconds), **fields)


def decision(number: str = "1", seconds: float = 0, *mentions: str, **fields: Any) -> RecordedDecision:
    """A decision about the pods that it mentions."""
    subject = fields.pop("subject", "Pod hub/placeholder-1")
    reason = fields.pop("reason", "Because.")
    return RecordedDecision(number, Decision(after(seconds), "delete", subject, reason, **fields), mentions)
