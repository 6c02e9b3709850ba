"""Expected waits: how many hold, at hubs of all kinds, and what they are for random queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.fairness.tickets.interval_widths import MOST_STRETCH, IntervalWidths
from dra_spawner.fairness.tickets.queue_waits import QueueHabits, QueueOutlook, expected_waits
from dra_spawner.placeholders.planner.answers.waits import RunningServer, SeenSession, SessionLengths
from tests.bench.queue_hubs import HUBS, HubDays, shares
from tests.presence import present


@pytest.mark.parametrize("kind", HUBS)
def test_four_of_five_waits_end_in_the_interval(kind: str) -> None:
    """At each kind of hub: also at a new one, and where sessions become longer or shorter."""
    found = sum((HubDays(HUBS[kind], seed).run() for seed in range(2)), Counter[str]())
    inside, early, late = shares(found)
    assert 0.75 <= inside <= 0.85, found
    assert max(early, late) <= 0.2, found


def test_four_of_five_waits_at_a_hub_that_is_new_and_whose_weekends_are_longer() -> None:
    """As above, in short: nothing is told before twenty sessions have ended."""
    hub = replace(HUBS["small, twice as long on weekends"], days=28, has_history=False)
    found = HubDays(hub, 1).run()
    assert 0.72 <= shares(found)[0] <= 0.88, found
    assert 10 <= found["unknown"] <= 30, found


def lengths(seconds: Sequence[float]) -> SessionLengths:
    return SessionLengths([SeenSession(each) for each in seconds])


#: Lengths of sessions, ages of servers, devices that are free, and ended tickets by kind.
QUEUES = st.tuples(
    st.lists(st.floats(60, 36_000), min_size=20, max_size=60),
    st.lists(st.floats(0, 100_000), max_size=6),
    st.integers(0, 2),
    st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)),
)


@given(QUEUES, st.integers(1, 12), st.floats(-MOST_STRETCH, MOST_STRETCH), st.integers(0, 9))
def test_later_tickets_of_random_queues_do_not_get_a_device_earlier(
    queue: tuple[list[float], list[float], int, tuple[int, int, int]], waiting: int, width: float, seed: int
) -> None:
    seconds, ages, ready, ended = queue
    of = lengths(seconds)
    outlook = QueueOutlook([RunningServer(each, of) for each in ages], [of] * waiting, ready, QueueHabits(*ended))
    found = expected_waits(outlook, Random(seed).random)
    if not ages and not ready:
        assert found == [None] * waiting
        return
    waits = [present(each) for each in found]
    assert all(0 <= each.low_seconds <= each.high_seconds for each in waits)
    for first, second in pairwise(waits):
        assert first.low_seconds <= second.low_seconds
        assert first.high_seconds <= second.high_seconds
    wider = expected_waits(replace(outlook, widths=IntervalWidths(abs(width), abs(width))), Random(seed).random)
    for before, after in zip(waits, map(present, wider), strict=True):
        assert after.low_seconds <= before.low_seconds
        assert before.high_seconds <= after.high_seconds


def test_few_examples_make_wide_intervals() -> None:
    """Of sessions, and of what users did."""
    few, many = lengths([1800.0, 3600.0, 5400.0] * 7), lengths([1800.0, 3600.0, 5400.0] * 100)

    def width(of: SessionLengths, habits: QueueHabits) -> int:
        queue = QueueOutlook([RunningServer(0.0, of)] * 4, [of] * 20, 0, habits)
        last = present(expected_waits(queue, Random(1).random)[-1])
        return last.high_seconds - last.low_seconds

    known = QueueHabits(left=20, taken=160, expired=20)
    assert width(few, known) > 1.2 * width(many, known)
    assert width(many, QueueHabits()) > 1.1 * width(many, known)
