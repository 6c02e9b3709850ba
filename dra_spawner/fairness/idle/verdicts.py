"""Whether a server is busy, idle since a time, or unknown, with the reason; from one look to the next.

Missing data is never idle, and the time counts only while nothing is missing: a gap, a clock that jumps and a new
leader all begin anew. A kernel that computes is never idle, whatever a metric says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from dra_spawner.fairness.idle.samples import KernelState, Moment, Sample, ServerActivity

#: Clocks of nodes differ; a server that is further ahead is not believed.
_AHEAD: Final = timedelta(minutes=1)
#: Difference of the two clocks between two looks from which the time of day has jumped.
_JUMP: Final = timedelta(seconds=5)


class Verdict(StrEnum):
    """What is known of the use of a server."""

    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict about a server after a look.

    Attributes
    ----------
    reason
        Why, as a sentence for administrators.
    since
        Since when it is idle; None for another verdict.
    unused_since
        Since when its devices are seen to be unused, whatever its kernels do; None if that is not known, or not so.
    connections
        Number of pages that are connected; None if that is not known.
    """

    verdict: Verdict
    reason: str
    at: Moment
    since: datetime | None = None
    unused_since: datetime | None = None
    connections: int | None = None

    @property
    def idle_for(self) -> timedelta:
        """Time since it is idle; 0 for another verdict."""
        return self.at.wall - self.since if self.since is not None else timedelta(0)


def judge(before: Judgement | None, sample: Sample, at: Moment, longest_gap: timedelta) -> Judgement:
    """The verdict after a look.

    Parameters
    ----------
    before
        That of the last look at the same server; None for a new one.
    longest_gap
        Time between two looks from which the time begins anew.
    """
    known = before if before is not None and follows(before.at, at, longest_gap) else None
    verdict, reason, last = _of_sample(sample, at.wall)
    since = None
    if verdict is Verdict.IDLE:
        since = known.since if known is not None and known.since is not None else at.wall
        since = min(max(since, last), at.wall) if last is not None else since
    unused_since = None
    if sample.devices and all(each.is_unused for each in sample.devices):
        unused_since = known.unused_since if known is not None and known.unused_since is not None else at.wall
    connections = sample.activity.connections if sample.activity is not None else None
    found = Judgement(verdict, reason, at, since, unused_since, connections)
    if verdict is Verdict.IDLE and known is None and before is not None and before.since is not None:
        return replace(found, reason=f"{reason} The time begins anew, as looks were missed or a clock was set.")
    return found


def follows(before: Moment, after: Moment, longest_gap: timedelta) -> bool:
    """Whether a look follows another one without a gap, and without a jump of the time of day."""
    steady = timedelta(seconds=after.steady - before.steady)
    return timedelta(0) <= steady <= longest_gap and abs(after.wall - before.wall - steady) <= _JUMP


def _of_sample(sample: Sample, now: datetime) -> tuple[Verdict, str, datetime | None]:
    """Verdict, reason, and the last activity of an idle server."""
    used = [each for each in sample.devices if each.is_used]
    activity = sample.activity
    if used:
        return Verdict.BUSY, f"{used[0].device} is used ({used[0].percent:.3g}).", None
    if activity is not None and any(each.state is KernelState.BUSY for each in activity.kernels):
        return Verdict.BUSY, "A kernel computes.", None
    if activity is None:
        return Verdict.UNKNOWN, f"Its kernels are not known: {sample.problem or 'it was not asked'}.", None
    if problem := _doubt(activity, sample, now):
        return Verdict.UNKNOWN, problem, None
    times = [each.last_activity for each in activity.kernels if each.state is KernelState.IDLE]
    devices = "its devices are not used" if sample.devices else "no metric tells of its devices"
    return Verdict.IDLE, f"No kernel computes, and {devices}.", max((*times, *activity.terminals), default=None)


def _doubt(activity: ServerActivity, sample: Sample, now: datetime) -> str:
    """Why a server without a busy kernel or a used device is not surely idle; empty if it is."""
    if any(each.state is KernelState.UNKNOWN for each in activity.kernels):
        return "The state of a kernel is not understood."
    for each in sample.devices:
        if each.percent is None:
            return f"The metric of {each.device} has no value."
        if not each.is_unused:
            return f"{each.device} is used, and its metric does not tell the shares of servers apart."
    if activity.terminals and not sample.devices:
        return "A terminal is open, and no metric tells whether it computes."
    times = (*(each.last_activity for each in activity.kernels), *activity.terminals)
    if any(each - now > _AHEAD for each in times):
        return "The server's times are in the future."
    return ""
