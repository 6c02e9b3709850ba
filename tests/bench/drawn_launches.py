"""Forecasts on hubs whose launches are drawn, beside the best fixed number: small, steady and bursty hubs, and an exam.

Run ``python -m tests.bench.drawn_launches``. Eight weeks, the last four are judged. A lead time is ten minutes. ``fixed`` is
the smallest number with as many hits. The exam: 300 users within three minutes on a hub of 60 a day, without an entry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY
from dra_spawner.scale_ahead.replay.equal_hit import smallest_buffer
from dra_spawner.scale_ahead.replay.replay import replay
from dra_spawner.scale_ahead.replay.traces import Trace
from tests.bench.figures import options_parser
from tests.scale_ahead.demand.drawn_hubs import BEGIN, EXAM, LEAD, Said, batches, exam, hub, launches

_WEEKS, _LEARNED = 8, 4


def main() -> int:
    parser = options_parser(__doc__, seed=1)
    options = parser.parse_args()
    for name, trace, slots in _hubs(options.seed):
        base, said = hub(trace, slots, _LEARNED), Said()
        ours = replay(base, said)
        number, fixed = smallest_buffer(base, ours.hit_rate, guess=max(round(ours.idle_hours_a_day / 24), 1))
        print(
            f"{name}, {slots} slots a node: hits {ours.hit_rate:.2%}, idle {ours.idle_hours_a_day:,.1f} h/day; fixed:{number}"
            f" {fixed.hit_rate:.2%}, {fixed.idle_hours_a_day:,.1f}; target {_largest(trace, said):.2f} times what was seen",
            flush=True,
        )
    for slots in (1, 8):
        _exam(options.seed, slots)
    return 0


def _hubs(seed: int) -> Iterator[tuple[str, Trace, int]]:
    for a_day, slots in ((3, 1), (3, 8), (10, 8), (288, 8)):
        yield f"{a_day} a day", launches(_WEEKS, seed, partial(_steady, a_day / MINUTES_A_DAY)), slots
    for slots in (1, 8):
        yield "600 a day in batches", batches(_WEEKS, seed), slots


def _steady(rate: float, minute: int) -> float:
    return rate


def _largest(trace: Trace, said: Said) -> float:
    """The largest target of the judged time in relation to the most launches of any lead time before it."""
    lead, seen, most = LEAD // LEAD.resolution // 60_000_000, 0, 0.0
    for minute, answer in enumerate(said.answers):
        seen = max(seen, sum(trace.launches[max(minute - lead + 1, 0) : minute + 1]))
        if minute >= _LEARNED * 7 * MINUTES_A_DAY and seen:
            most = max(most, answer.placeholders / seen)
    return most


def _exam(seed: int, slots: int) -> None:
    said = Said()
    base = hub(exam(seed), slots, _LEARNED)
    replay(replace(base, judged_from=EXAM), said)
    targets = [each.placeholders for each in said.answers]
    at = EXAM - BEGIN
    usual = max(targets[at - 60 : at])
    after = next(minute for minute in range(600) if max(targets[at + 3 + minute : at + 120]) <= usual + 1)
    print(
        f"exam, {slots} slots a node: usual {usual}, at most {max(targets[at:])}, as usual {after} min after the last user"
    )


if __name__ == "__main__":
    sys.exit(main())
