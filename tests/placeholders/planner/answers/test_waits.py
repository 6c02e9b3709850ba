"""Estimates of waits: intervals are right for known distributions, and nothing is guessed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from statistics import mean

import pytest

from dra_spawner.placeholders.planner.answers.waits import (
    FEWEST_EXAMPLES,
    SHARE_INSIDE,
    RunningServer,
    SeenSession,
    SessionLengths,
    WaitInterval,
    first_of_both,
    kth_stop,
    like_others,
)

Draw = Callable[[random.Random], float]

HOUR = 3600.0
EXPONENTIAL: Draw = lambda chance: chance.expovariate(1 / HOUR)  # noqa: E731 (a table of them)
LOGNORMAL: Draw = lambda chance: chance.lognormvariate(8.5, 0.8)  # noqa: E731 (a table of them)
EVEN: Draw = lambda chance: chance.uniform(0.5 * HOUR, 3 * HOUR)  # noqa: E731 (a table of them)
LESSONS: Draw = lambda chance: chance.gauss(5400, 300) if chance.random() < 0.7 else chance.expovariate(1 / 900)  # noqa: E731
DISTRIBUTIONS = pytest.mark.parametrize(
    "draw", [EXPONENTIAL, LOGNORMAL, EVEN, LESSONS], ids=["exponential", "lognormal", "even", "lessons"]
)


def lengths_of(ended: Iterable[float], running: Iterable[float] = ()) -> SessionLengths:
    return SessionLengths([*map(SeenSession, ended), *(SeenSession(each, is_over=False) for each in running)])


def is_inside(interval: WaitInterval | None, wait: float) -> bool:
    assert interval is not None
    return interval.low_seconds <= wait <= interval.high_seconds


@DISTRIBUTIONS
@pytest.mark.parametrize("examples", [FEWEST_EXAMPLES, 20, 50])
def test_four_of_five_new_nodes_come_in_their_interval(draw: Draw, examples: int) -> None:
    chance = random.Random(16)
    inside = [is_inside(like_others([draw(chance) for _ in range(examples)]), draw(chance)) for _ in range(3_000)]
    assert mean(inside) == pytest.approx(SHARE_INSIDE, abs=0.05)


@DISTRIBUTIONS
def test_a_node_that_has_been_expected_for_some_time(draw: Draw) -> None:
    chance, elapsed = random.Random(16), 1200.0
    inside: list[bool] = []
    while len(inside) < 2_000:
        interval, wait = like_others([draw(chance) for _ in range(60)], elapsed), draw(chance)
        if interval is not None and wait > elapsed:
            inside.append(is_inside(interval, wait - elapsed))
    assert mean(inside) == pytest.approx(SHARE_INSIDE, abs=0.05)


class FullHub:
    """Devices that are always in use: when a session ends, another one begins."""

    def __init__(self, chance: random.Random, draw: Draw, devices: int, warm_up: float) -> None:
        self.ages: list[float] = []
        self.remaining: list[float] = []
        self.ended: list[float] = []
        for _ in range(devices):
            lengths: list[float] = []
            while sum(lengths) <= warm_up:
                lengths.append(max(draw(chance), 1.0))
            *before, last = accumulate(lengths)
            self.ended += lengths[:-1]
            self.ages.append(warm_up - (before[-1] if before else 0.0))
            self.remaining.append(last - warm_up)


#: The number of devices, the number of the stop, and the hours of recorded lengths.
HUBS = ((4, 1, 30), (20, 1, 10), (20, 5, 10), (60, 6, 10))


@DISTRIBUTIONS
def test_four_of_five_servers_stop_in_their_interval(draw: Draw) -> None:
    chance = random.Random(16)
    inside = []
    for devices, k, hours in HUBS:
        for _ in range(300 if devices < 60 else 100):
            hub = FullHub(chance, draw, devices, hours * HOUR)
            lengths = lengths_of(hub.ended, hub.ages)
            interval = kth_stop([RunningServer(age, lengths) for age in hub.ages], k)
            if interval is not None:
                inside.append(is_inside(interval, sorted(hub.remaining)[k - 1]))
    assert len(inside) > 900
    assert mean(inside) == pytest.approx(SHARE_INSIDE, abs=0.05)


@DISTRIBUTIONS
def test_a_new_node_or_an_earlier_stop_of_a_server(draw: Draw) -> None:
    """A node takes about as long as a tenth of a session, which is the time until one of ten servers stops."""
    chance = random.Random(16)
    inside, was_earlier = [], []
    for _ in range(600):
        hub = FullHub(chance, draw, 10, 12 * HOUR)
        lengths = lengths_of(hub.ended, hub.ages)
        servers = [RunningServer(age, lengths) for age in hub.ages]
        waits = [draw(chance) / 10 for _ in range(50)]
        interval = first_of_both(waits, 0.0, servers, 1)
        node, stop = draw(chance) / 10, min(hub.remaining)
        inside.append(is_inside(interval, min(node, stop)))
        was_earlier.append(stop < node)
    assert 0.2 < mean(was_earlier) < 0.8
    assert mean(inside) == pytest.approx(SHARE_INSIDE, abs=0.06)


def test_a_new_node_alone_counts_where_too_little_is_known_of_servers() -> None:
    waits = [100.0 + number for number in range(20)]
    lengths = lengths_of([1000.0] * 20)
    assert first_of_both(waits, 50.0, [], 1) == like_others(waits, 50.0)
    assert first_of_both(waits, 0.0, [RunningServer(10.0, lengths)], 2) == like_others(waits)
    assert first_of_both(waits[:3], 0.0, [RunningServer(10.0, lengths)], 1) is None, "the node may come at any time"
    soon = first_of_both(waits, 0.0, [RunningServer(990.0, lengths)] * 5, 1)
    assert soon is not None
    assert soon.high_seconds <= 10


def test_nothing_is_guessed() -> None:
    assert like_others([1.0] * (FEWEST_EXAMPLES - 1)) is None
    assert like_others([100.0] * 20, elapsed=100.0) is None, "none took longer"
    assert kth_stop([], 1) is None
    few = lengths_of([100.0] * (FEWEST_EXAMPLES - 1), [50.0] * 30)
    assert kth_stop([RunningServer(10.0, few)], 1) is None
    enough = lengths_of([100.0] * FEWEST_EXAMPLES)
    assert kth_stop([RunningServer(10.0, enough)], 1) is not None
    assert kth_stop([RunningServer(10.0, enough)], 2) is None, "there is one only"
    assert kth_stop([RunningServer(10.0, enough), *[RunningServer(200.0, enough)] * 2], 1) is None, "two never stop"
    never_end = lengths_of([100.0] * FEWEST_EXAMPLES, [9_999.0] * 99)
    assert kth_stop([RunningServer(10.0, never_end)], 1) is None


def test_sessions_that_still_run_count() -> None:
    """Half of all sessions still run: the ended sessions are only a part."""
    lengths = lengths_of([100.0, 200.0], [150.0, 250.0])
    assert lengths.ended_within(0.0, 100.0) == pytest.approx(1 / 4)
    assert lengths.ended_within(0.0, 200.0) == pytest.approx(1 - 3 / 4 * 1 / 2)
    assert lengths.ended_within(100.0, 100.0) == pytest.approx(1 / 2)
    assert lengths.ended_within(0.0, 50.0) == pytest.approx(1 / 8), "evenly spread"
    assert lengths.ended_within(300.0, 50.0) == 0.0


def test_sessions_that_began_before_they_were_seen() -> None:
    """Of sessions that are old when they are first seen, the short ones are not known."""
    chance = random.Random(16)
    ended = [SeenSession(EXPONENTIAL(chance)) for _ in range(300)]
    later = [SeenSession(2 * HOUR + EXPONENTIAL(chance), seen_from=2 * HOUR) for _ in range(300)]
    lengths = SessionLengths([*ended, *later])
    assert lengths.ended_within(0.0, HOUR) == pytest.approx(0.632, abs=0.05)
    assert lengths.ended_within(2 * HOUR, HOUR) == pytest.approx(0.632, abs=0.05)


def interval(servers: Sequence[RunningServer], k: int) -> WaitInterval:
    found = kth_stop(servers, k)
    assert found is not None
    return found


def test_many_servers_are_estimated_as_few_are() -> None:
    chance = random.Random(16)
    lengths = lengths_of([EXPONENTIAL(chance) for _ in range(200)])
    servers = [RunningServer(chance.uniform(0, HOUR), lengths) for _ in range(200)]
    exact, normal = interval(servers, 20), interval(servers, 21)
    assert normal.low_seconds == pytest.approx(exact.low_seconds * 21 / 20, rel=0.1)
    assert normal.high_seconds == pytest.approx(exact.high_seconds * 21 / 20, rel=0.1)
    for k in (1, 5):
        few, many = interval(servers, k), interval(servers * 5, k)
        assert many.low_seconds * 5 == pytest.approx(few.low_seconds, abs=0.2 * few.high_seconds)
        assert many.high_seconds * 5 == pytest.approx(few.high_seconds, rel=0.2)
    assert interval(servers * 5, 100).high_seconds == pytest.approx(exact.high_seconds, rel=0.25)


def test_an_interval_from_an_earlier_moment() -> None:
    assert WaitInterval(10, 20).later(2.5) == WaitInterval(12, 23)
