"""What is done about a server: warn its user, withdraw the warning, or stop it.

A stop needs a warning that was to be seen for the whole notice. What counts is the time in which the hub answered and
showed it, by the clock of this leader: a new leader, a hub that is away, and a clock that is set make it longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.fairness.idle.notices import Notice
from dra_spawner.fairness.idle.policy import IdlePolicy
from dra_spawner.fairness.idle.samples import Moment
from dra_spawner.fairness.idle.verdicts import Judgement, Verdict, follows
from dra_spawner.placeholders.lifecycle import IdleAction

__all__ = ["IdleAction", "IdleDecision", "Shown", "decide", "shown_longer"]

#: Difference to the announced time from which the announcement is corrected.
_LATE: Final = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class IdleDecision:
    """A decision, with the notice that its pod then has.

    Attributes
    ----------
    reason
        Why, as a sentence for administrators.
    """

    action: IdleAction
    reason: str
    notice: Notice


@dataclass(frozen=True, slots=True)
class Shown:
    """For how long a warning was to be seen.

    Attributes
    ----------
    warned_at
        Which warning that is.
    time
        Time in which the hub showed it.
    at
        Moment of the last look.
    """

    warned_at: datetime
    time: timedelta
    at: Moment


def shown_longer(
    before: Shown | None, notice: Notice, at: Moment, longest_gap: timedelta, *, hub_answers: bool
) -> Shown | None:
    """For how long the present warning was to be seen; None without one.

    Parameters
    ----------
    notice
        As the pod has it.
    hub_answers
        Whether the hub has answered in this look.
    """
    if notice.warned_at is None or not hub_answers:
        return None if notice.warned_at is None or before is None else replace(before, at=at)
    if before is None or before.warned_at != notice.warned_at:
        return Shown(notice.warned_at, timedelta(0), at)
    if not follows(before.at, at, longest_gap):
        return Shown(notice.warned_at, timedelta(0), at)
    return Shown(notice.warned_at, before.time + timedelta(seconds=at.steady - before.at.steady), at)


def decide(judgement: Judgement, notice: Notice, shown: Shown | None, policy: IdlePolicy | None) -> IdleDecision | None:
    """The decision about a server; None if nothing changes."""
    now = judgement.at.wall
    because = _not_stopped_because(judgement, notice, policy, now)
    if because or policy is None:
        if notice.warned_at is None and notice.stopped_at is None:
            return None
        return IdleDecision(IdleAction.WITHDRAW, because, notice.without_warning())
    since = judgement.since or now
    idle = f"It has been idle since {since:%Y-%m-%d %H:%M} UTC: {judgement.reason}"
    if notice.warned_at is None:
        warned = Notice(
            warned_at=now,
            idle_since=since,
            stops_at=now + policy.notice,
            kept_until=notice.kept_until,
            kept=notice.kept,
            keeps_left=max(policy.keeps - notice.kept, 0),
        )
        return IdleDecision(IdleAction.WARN, idle, warned)
    time = shown.time if shown is not None and shown.warned_at == notice.warned_at else timedelta(0)
    if time >= policy.notice:
        minutes = time.total_seconds() / 60
        return IdleDecision(
            IdleAction.STOP, f"{idle} Its warning was shown for {minutes:.0f} min.", replace(notice, stopped_at=now)
        )
    stops_at = now + policy.notice - time
    if notice.stops_at is None or stops_at - notice.stops_at > _LATE:
        return IdleDecision(IdleAction.WARN, f"{idle} The notice takes longer.", replace(notice, stops_at=stops_at))
    return None


def _not_stopped_because(judgement: Judgement, notice: Notice, policy: IdlePolicy | None, now: datetime) -> str:
    """Why a server is neither warned nor stopped, as a sentence; empty if it is idle for long enough."""
    if policy is None:
        return "Its profile has no policy."
    if judgement.verdict is not Verdict.IDLE:
        return judgement.reason
    if notice.holds(policy, now):
        return "Its user has said that it is needed."
    if judgement.idle_for < policy.after:
        return "It is not idle for long enough."
    return ""
