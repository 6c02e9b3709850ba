"""Looks at one server, one after the other: what each has seen, and what was decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dra_spawner.fairness.idle.decisions import IdleAction, IdleDecision, Shown, decide, shown_longer
from dra_spawner.fairness.idle.notices import Notice
from dra_spawner.fairness.idle.policy import IdlePolicy
from dra_spawner.fairness.idle.samples import DeviceUse, Kernel, KernelState, Moment, Sample, ServerActivity
from dra_spawner.fairness.idle.verdicts import Judgement, judge

__all__ = ["BEGIN", "GAP", "MINUTE", "POLICY", "Looks", "at", "sample"]

BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GAP = 2.5 * MINUTE
POLICY = IdlePolicy(after=30 * MINUTE, notice=10 * MINUTE, keep=60 * MINUTE, keeps=2)
LONG_AGO = BEGIN - timedelta(days=1)


def at(minutes: float, *, set_by: timedelta = timedelta(0)) -> Moment:
    """A moment so long after the begin; its time of day may have been set."""
    return Moment(BEGIN + minutes * MINUTE + set_by, 1000.0 + 60 * minutes)


def sample(
    state: str = "idle",
    percent: float | None = 0.0,
    *,
    last: datetime = LONG_AGO,
    is_own: bool = True,
    terminals: tuple[datetime, ...] = (),
    has_metric: bool = True,
) -> Sample:
    """A server with a kernel and a GPU."""
    devices = (DeviceUse("gpu-0", percent, is_own),) if has_metric else ()
    return Sample(ServerActivity((Kernel(KernelState(state), last),), terminals), devices=devices)


@dataclass
class Looks:
    """See the module."""

    policy: IdlePolicy | None = POLICY
    notice: Notice = field(default_factory=Notice)
    judgement: Judgement | None = None
    shown: Shown | None = None
    decided: list[tuple[float, IdleAction]] = field(default_factory=list)

    def look(
        self, minute: float, seen: Sample, *, hub_answers: bool = True, set_by: timedelta = timedelta(0)
    ) -> IdleDecision | None:
        """A look, whose decision is written to the pod."""
        moment = at(minute, set_by=set_by)
        self.judgement = judge(self.judgement, seen, moment, GAP)
        self.shown = shown_longer(self.shown, self.notice, moment, GAP, hub_answers=hub_answers)
        found = decide(self.judgement, self.notice, self.shown, self.policy)
        if found is not None:
            self.notice = found.notice
            self.decided.append((minute, found.action))
        return found

    def new_leader(self) -> None:
        """Another replica leads: it has the pod alone."""
        self.judgement = self.shown = None
