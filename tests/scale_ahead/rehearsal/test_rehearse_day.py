"""A day is rehearsed as one: entries share nodes, placeholders, quotas, limits and the pace of node starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from dra_spawner.dra.quantity import NANO_PER_UNIT
from dra_spawner.placeholders.planner.cluster.quotas import Quota
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.calendars.occurrences import IN_TOTAL, Counts
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, Rehearsal, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.rehearse_day import Announced, rehearse_day
from tests.all_of_them import all_of_them
from tests.examples import example_count
from tests.placeholders.planner.objects import GPU, NAMESPACE, SHARE
from tests.placeholders.planner.world import World
from tests.scale_ahead.rehearsal.coming_day import ComingDay
from tests.scale_ahead.rehearsal.questions import IN_AN_HOUR, hub, supplies

PODS = (Quota("q", left={"pods": 12 * NANO_PER_UNIT}),)


def entry(
    users: int,
    minutes: float = 0,
    shape: Shape = SHARE,
    counts: Counts = "additional",
    lasts: float = 60,
    usual: int = 0,
    **settings: Any,
) -> tuple[ExpectedUsers, timedelta, int, dict[str, Any]]:
    begins = IN_AN_HOUR + timedelta(minutes=minutes)
    return ExpectedUsers("gpu", shape, users, begins, counts, timedelta(0)), timedelta(minutes=lasts), usual, settings


def rehearsed(world: World, *entries: Any, **more: Any) -> list[Rehearsal]:
    given = supplies(world, **more)
    announced = [
        Announced(f"class {number}", expected, expected.begins + lasts, given, RehearsalSettings(**settings), usual)
        for number, (expected, lasts, usual, settings) in enumerate(entries)
    ]
    nodes = set(world.snapshot.nodes)
    found = rehearse_day(announced, world.view(), NAMESPACE)
    assert set(world.snapshot.nodes) == nodes
    return found


@all_of_them(
    "entries, most, starting",
    {
        # Two nodes with two GPUs, or eight shares each.
        "at one time": ((entry(40), entry(40)), 8, (40, 24)),
        "a later one has less": ((entry(40, 10), entry(40)), 8, (24, 40)),
        "the first has ended": ((entry(40), entry(40, 70)), 8, (40, 40)),
        "it ends as the next begins, whose nodes come before": ((entry(40), entry(40, 60)), 8, (40, 24)),
        "other servers on the same nodes": ((entry(3, shape=GPU), entry(16)), 2, (3, 4)),
        "the rest of a node that comes": ((entry(17), entry(7)), 3, (17, 7)),
        "one quota": ((entry(10, quotas=PODS), entry(10, quotas=PODS)), 8, (10, 2)),
        "usual launches": ((entry(8, usual=10),), 2, (6,)),
        "of totals the largest counts": ((entry(14, counts=IN_TOTAL), entry(16, counts=IN_TOTAL)), 2, (14, 2)),
        "additional users are in a total": ((entry(6), entry(16, counts=IN_TOTAL)), 2, (6, 10)),
    },
)
def test_entries_share_a_cluster(entries: Sequence[Any], most: int, starting: Sequence[int]) -> None:
    found = rehearsed(hub("a", "b"), *entries, max_nodes=most)
    assert [each.placed for each in found] == list(starting)
    for each, number in zip(found, starting, strict=True):
        assert each.is_possible is (each.wanted == number), each.verdict


def test_who_else_is_there_is_said() -> None:
    first, second = rehearsed(hub("a", "b"), entry(40), entry(40, usual=3), max_nodes=8)
    assert ProblemCode.BESIDE not in {each.code for each in first.problems}
    (note,) = [each for each in second.problems if each.code is ProblemCode.BESIDE]
    assert note.message == "at the same time there are class 0 (40 users), 3 usual launches; they get nodes first"
    assert not note.blocks


def test_one_limit_of_placeholders() -> None:
    first, second = rehearsed(hub("a"), entry(24, max_placeholders=30), entry(24, max_placeholders=30))
    assert (first.is_possible, second.is_possible) == (True, False)
    # Six more placeholders bring a node for eight users.
    problem = second.problems[0]
    assert (problem.code, problem.users) == (ProblemCode.PLACEHOLDER_LIMIT, 16)
    assert problem.message == "max of placeholders of gpu is 30, 24 of them for others; 24 are needed"
    # Whoever has come needs no placeholder any more.
    _, later = rehearsed(hub("a"), entry(24, max_placeholders=30), entry(24, 6, max_placeholders=30))
    assert later.is_possible


def test_placeholders_and_nodes_on_order_are_counted_once() -> None:
    world = hub("a")
    for _ in range(16):
        world.create_placeholder(SHARE)
    world.schedule()
    found = rehearsed(world, entry(10), entry(10))
    on_order = [sum(each.servers for each in result.orders if each.is_on_order) for result in found]
    assert ([each.warm for each in found], on_order) == ([8, 0], [2, 4])
    assert found[1].free_coming == 6, "on the node that comes for two users of the first"


def test_nodes_that_start_one_after_the_other_are_ordered_one_class_after_the_other() -> None:
    world = hub("a")
    first, second = rehearsed(world, entry(8 + 40), entry(40, 2), starts_per_minute=1.0)
    # Five nodes each, ten minutes of lead and five of margin: the second's start in the five minutes before 09:47.
    assert [f"{each.first_order_at:%H:%M}" for each in (first, second) if each.first_order_at] == ["09:38", "09:43"]
    alone, _ = rehearsed(world, entry(8 + 40), entry(40, 90), starts_per_minute=1.0)
    assert f"{alone.first_order_at:%H:%M}" == "09:41"


@all_of_them("seed", range(example_count(40)))
def test_together_no_more_start_than_fit(seed: int) -> None:
    """Random days: at no time more servers are placed than nodes and quotas allow, and a later entry changes no earlier."""
    random, most = Random(seed), 6
    entries = [
        entry(random.randrange(1, 40), random.randrange(0, 180), lasts=random.choice((20, 60)), quotas=PODS[:0])
        for _ in range(6)
    ]
    found = rehearsed(hub("a", "b"), *entries, max_nodes=most)
    for expected, lasts, *_ in entries:
        at = expected.begins
        running = sum(
            each.placed
            for each, (other, stays, *_) in zip(found, entries, strict=True)
            if other.begins <= at < other.begins + stays
        )
        assert running <= 8 * most, (at, lasts)
    last = max(range(6), key=lambda number: entries[number][0].begins)
    without = rehearsed(hub("a", "b"), *(each for number, each in enumerate(entries) if number != last), max_nodes=most)
    others = [each for number, each in enumerate(found) if number != last]
    assert [replace(each, problems=()) for each in without] == [replace(each, problems=()) for each in others]


@all_of_them("seed", range(example_count(10)))
def test_what_is_rehearsed_happens(seed: int) -> None:
    """Random clusters, entries and modes in virtual time: the verdict is right, and as many users wait as it says."""
    day = ComingDay(seed)
    day.happen()
    is_possible = all(each.is_possible for each in day.rehearsed)
    assert is_possible is (not day.waited), [each.verdict for each in day.rehearsed]
    assert day.waited == pytest.approx(day.predicted, rel=0.1, abs=2)
