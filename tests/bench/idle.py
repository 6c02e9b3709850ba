"""What a policy for idle devices is worth: ``python -m tests.bench.idle``, in virtual time, with the real decisions.

No public trace has sessions of notebooks with GPUs. The generator draws them from figures that were published about
notebooks with reserved GPUs (Adobe's, in "NotebookOS", ASPLOS '26): GPUs are idle more than 81 % of the time, about
70 % of the sessions never use their GPU, and the median pause between two runs of cells is 5 minutes. All else is assumed
here: sessions are used for a lognormal time with a median of three hours, and half of them are left open for 4 to 16
hours more; pauses are lognormal with that median; runs of cells have a median of half a minute, and of twenty minutes
where they use the GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from dra_spawner.fairness.idle.decisions import IdleAction, Shown, decide, shown_longer
from dra_spawner.fairness.idle.notices import KeepRefused, Notice, keep
from dra_spawner.fairness.idle.policy import IdlePolicy
from dra_spawner.fairness.idle.samples import DeviceUse, Kernel, KernelState, Moment, Sample, ServerActivity
from dra_spawner.fairness.idle.verdicts import Judgement, judge

__all__ = ["Outcome", "Session", "sessions", "simulate"]

BEGIN: Final = datetime(2026, 3, 2, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
#: A user who comes back within this time must find the server.
SOON: Final = 10.0
NEVER_USED: Final = 0.70
LEFT_OPEN: Final = 0.5
MEDIAN_PAUSE: Final = 5.0
_GAP: Final = 2.5 * MINUTE
_HEAD: Final = (
    "after + notice",
    "idle hours back",
    "stops",
    "busy kernels stopped",
    "back within 10 min, no server",
    "back within 10 min after a stop",
    "back later, no server",
    "kept",
)


@dataclass(frozen=True, slots=True)
class Session:
    """A server with one GPU; all times in minutes since its start.

    Attributes
    ----------
    runs
        Begin and end of each run of a cell, in order.
    on_gpu
        Whether they use the GPU.
    ends
        When its user, or nobody, stops it.
    """

    runs: tuple[tuple[float, float], ...]
    on_gpu: bool
    ends: float


def sessions(number: int, seed: int = 1) -> Iterator[Session]:
    """Sessions by the published figures."""
    chance = random.Random(seed)
    for _ in range(number):
        on_gpu = chance.random() >= NEVER_USED
        active = min(chance.lognormvariate(math.log(180), 0.8), 24 * 60.0)
        ends = active + (chance.uniform(4 * 60, 16 * 60) if chance.random() < LEFT_OPEN else chance.uniform(0, 30))
        at, runs = chance.uniform(1, 5), list[tuple[float, float]]()
        while at < active:
            length = min(chance.lognormvariate(math.log(20.0 if on_gpu else 0.5), 1.9 if on_gpu else 1.2), 12 * 60.0)
            runs.append((at, at + length))
            at += length + chance.lognormvariate(math.log(MEDIAN_PAUSE), 1.3)
        yield Session(tuple(runs), on_gpu, max([ends, *(end for _, end in runs)]))


@dataclass(slots=True)
class Outcome:
    """Sums over sessions; hours of one GPU.

    Attributes
    ----------
    idle
        Hours in which no cell ran.
    back
        Idle hours in which the server was stopped, so that others had the GPU.
    returns, found_nothing
        Runs of a cell within ten minutes after the last one, and those that found no server.
    after_stop
        Runs within ten minutes after a stop: the device may be another user's by then, but for a ticket.
    later, later_found_nothing
        Runs after longer pauses, and those that found no server.
    """

    held: float = 0.0
    idle: float = 0.0
    used_on_gpu: float = 0.0
    back: float = 0.0
    stops: int = 0
    busy_stopped: int = 0
    returns: int = 0
    found_nothing: int = 0
    after_stop: int = 0
    later: int = 0
    later_found_nothing: int = 0
    kept: int = 0

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(*(getattr(self, each) + getattr(other, each) for each in self.__slots__))


@dataclass
class _Server:
    """What the service knows of one server."""

    policy: IdlePolicy
    judgement: Judgement | None = None
    shown: Shown | None = None
    notice: Notice = field(default_factory=Notice)

    def look(self, minute: int, last: float, *, is_busy: bool, on_gpu: bool) -> IdleAction | None:
        """A look, by the service's own decisions."""
        at = Moment(BEGIN + minute * MINUTE, 60.0 * minute)
        kernel = Kernel(KernelState.BUSY if is_busy else KernelState.IDLE, BEGIN + last * MINUTE)
        use = DeviceUse("gpu-0", 60.0 if is_busy and on_gpu else 0.0)
        self.judgement = judge(self.judgement, Sample(ServerActivity((kernel,)), devices=(use,)), at, _GAP)
        self.shown = shown_longer(self.shown, self.notice, at, _GAP, hub_answers=True)
        found = decide(self.judgement, self.notice, self.shown, self.policy)
        if found is not None:
            self.notice = found.notice
        return found.action if found is not None else None


def simulate(
    session: Session, policy: IdlePolicy, answers: float = 0.0, chance: random.Random | None = None
) -> Outcome:
    """Look each minute at one session. Who is stopped starts again with the next run of a cell.

    Parameters
    ----------
    answers
        Share of warnings that are answered by "I still need it".
    """
    used = sum(end - begin for begin, end in session.runs) / 60
    found = Outcome(session.ends / 60, session.ends / 60 - used, used if session.on_gpu else 0.0)
    server: _Server | None = _Server(policy)
    position, last, stopped_at = 0, 0.0, 0.0
    for minute in range(1, math.ceil(session.ends) + 1):
        while position < len(session.runs) and session.runs[position][0] < minute:
            begin, end = session.runs[position]
            is_soon = begin - last <= SOON
            found.returns += is_soon
            found.later += not is_soon
            if server is None:
                found.found_nothing += is_soon
                found.later_found_nothing += not is_soon
                found.after_stop += begin - stopped_at <= SOON
                found.back += (begin - stopped_at) / 60
                server = _Server(policy)
            position, last = position + 1, end
        if server is None:
            continue
        is_busy = last > minute
        action = server.look(minute, min(last, minute), is_busy=is_busy, on_gpu=session.on_gpu)
        if action is IdleAction.WARN and chance is not None and chance.random() < answers:
            with contextlib.suppress(KeepRefused):  # too often
                server.notice = keep(server.notice, policy, BEGIN + minute * MINUTE)
                found.kept += 1
        if action is IdleAction.STOP:
            server, stopped_at = None, float(minute)
            found.stops += 1
            found.busy_stopped += is_busy
    if server is None:
        found.back += max(session.ends - stopped_at, 0.0) / 60
    return found


POLICIES: Final[Sequence[IdlePolicy]] = tuple(
    IdlePolicy(after * MINUTE, notice * MINUTE) for after, notice in ((20, 10), (30, 15), (60, 15), (120, 15))
)


def main() -> None:
    """Print what was drawn, and a row for each policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--answers", type=float, default=0.1, help="share of warnings that are answered (%(default)s)")
    options = parser.parse_args()
    drawn = list(sessions(options.sessions))
    pauses = sorted(b[0] - a[1] for each in drawn for a, b in pairwise(each.runs))
    for number, policy in enumerate(POLICIES):
        chance = random.Random(7)
        found = sum((simulate(each, policy, options.answers, chance) for each in drawn), Outcome())
        if not number:
            print(
                f"{len(drawn):,} sessions with {found.held:,.0f} GPU-hours: GPUs idle "
                f"{1 - found.used_on_gpu / found.held:.1%}, no cell runs {found.idle / found.held:.1%}; median pause "
                f"{pauses[len(pauses) // 2]:.1f} min; {sum(not each.on_gpu for each in drawn) / len(drawn):.0%} never "
                "use their GPU"
            )
            print(f"| {' | '.join(_HEAD)} |\n|{'---|' * len(_HEAD)}")
        after, notice = (each / MINUTE for each in (policy.after, policy.notice))
        row = (
            f"{after:.0f} + {notice:.0f} min",
            f"{found.back / found.idle:.1%}",
            found.stops,
            found.busy_stopped,
            f"{found.found_nothing} of {found.returns}",
            f"{found.after_stop} ({found.after_stop / (found.returns + found.later):.2%} of all returns)",
            f"{found.later_found_nothing} of {found.later}",
            found.kept,
        )
        print(f"| {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()
