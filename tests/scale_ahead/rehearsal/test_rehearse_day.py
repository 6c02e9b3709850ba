"""A day is rehearsed as one: entries share nodes, placeholders, quotas, limits and the pace of node starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from dra_spawner.dra.quantity import NANO_PER_UNIT
from dra_spawner.placeholders.planner.targets.limits import Quota
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.calendars.occurrences import IN_TOTAL, Counts
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import ExpectedUsers, Rehearsal, RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.rehearse import rehearse
from dra_spawner.scale_ahead.rehearsal.rehearse_day import Announced, rehearse_day
from tests.all_of_them import all_of_them
from tests.examples import example_count
from tests.placeholders.planner.objects import GPU, NAMESPACE, SHARE
from tests.placeholders.planner.simulated_cluster import START
from tests.placeholders.planner.world import World
from tests.scale_ahead.rehearsal.announced_day import AnnouncedClass, AnnouncedDay
from tests.scale_ahead.rehearsal.coming_day import happens_as_rehearsed
from tests.scale_ahead.rehearsal.questions import IN_AN_HOUR, LEAD, hub, supplies

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
    # Users who have come need no placeholder any more, so those of others order nodes, which come ten minutes later.
    _, later = rehearsed(hub("a"), entry(24, max_placeholders=30), entry(24, 6, max_placeholders=30))
    assert later.verdict.startswith("No: 16 of 24 users would wait up to 4 minutes at 10:06: only 6 servers can be")
    _, later = rehearsed(hub("a"), entry(24, max_placeholders=30), entry(24, 16, max_placeholders=30))
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


def test_rests_of_described_nodes_are_for_later_entries() -> None:
    described = (NodeSupply("g2", LEAD, max_nodes=2, slots=8),)
    announced = [
        Announced(f"class {number}", expected, expected.begins + lasts, described, RehearsalSettings())
        for number, (expected, lasts, *_) in enumerate((entry(9), entry(7, 30), entry(1, 40)))
    ]
    found = rehearse_day(announced, hub().view(), NAMESPACE)
    assert [(each.placed, each.free_coming, len(each.orders)) for each in found] == [(9, 0, 1), (7, 7, 0), (0, 0, 0)]


def test_users_who_come_at_one_time_take_what_is_free() -> None:
    """Of two entries the first has the nodes, but servers go to the users who come first: a note says so."""
    world = hub("a")
    slow = replace(entry(8)[0], ramp=timedelta(minutes=15))
    alone, both = (
        rehearse_day(
            [
                Announced(f"class {number}", expected, expected.begins + timedelta(hours=1), (), RehearsalSettings())
                for number, expected in enumerate(given)
            ],
            world.view(),
            NAMESPACE,
        )
        for given in ([slow], [slow, entry(4, 1)[0]])
    )
    assert alone[0].is_possible
    first, second = both
    assert (first.with_orders.users, second.with_orders.users) == (4, 0)
    assert first.verdict == "Yes: 8 users can start at 10:00 on the present nodes."
    (note,) = first.problems
    assert (note.code, note.blocks, note.users) == (ProblemCode.BESIDE, False, 4)
    assert second.verdict.startswith("No: 4 of 4 users cannot start at 10:01")


@all_of_them(
    "given, expected, waiting",
    {
        "nothing is created there": ({"not_prepared": "x"}, "Only if 1 node of g2 is ordered at 09:45", 4),
        "no entry": ({"is_announced": False}, "Only if a calendar entry announces them: 4 users", 4),
        "placeholders come": ({}, "Yes: 4 users can start at 10:00 on the present nodes.", 0),
        "no autoscaler": ({"not_prepared": "x", "has_autoscaler": False}, "Yes: 4 users can start at 10:00 on", 0),
        "a server runs there": ({"not_prepared": "x", "runs": 1}, "Yes: 4 users can start at 10:00 on", 0),
        "soon": ({"not_prepared": "x", "minutes": 9}, "Yes: 4 users can start at 09:09 on the present nodes.", 0),
        "not known to be removed": ({"not_prepared": "x", "unneeded": None}, "Yes: 4 users can start at 10:00 on", 0),
    },
)
def test_an_autoscaler_removes_empty_nodes(given: dict[str, Any], expected: str, waiting: int) -> None:
    world, more = hub("a"), dict(given)
    for number in range(more.pop("runs", 0)):
        world.user(f"user-{number}", {"gpu": SHARE.claims["gpu"]}, requires_ready=False)
    world.schedule()
    supply = supplies(world, unneeded=more.pop("unneeded", timedelta(minutes=10)), max_nodes=1)
    begins = START + timedelta(minutes=more.pop("minutes", 60))
    question = ExpectedUsers("gpu", SHARE, 4, begins, ramp=timedelta(0))
    found = rehearse(question, world.view(), NAMESPACE, supply, RehearsalSettings(**more))
    assert found.verdict.startswith(expected), found.verdict
    assert found.without_orders.users == waiting
    assert (ProblemCode.NODES_LEAVE in {each.code for each in found.problems}) is bool(waiting)


@all_of_them(
    "minutes, target, given, expected, warm",
    {
        "all stay": (60, None, {"not_prepared": "x"}, "Yes: 8 users can start at 10:00 on the present nodes.", 8),
        "they end, and the nodes with them": (
            60,
            0,
            {"not_prepared": "x"},
            "Only if 1 node of g2 is ordered at 09:45",
            0,
        ),
        "the nodes are there still": (9, 0, {"not_prepared": "x"}, "Yes: 8 users can start at 09:09 on the present", 0),
        "some stay": (60, 3, {"not_prepared": "x"}, "Yes: 8 users can start at 10:00 on the present nodes.", 3),
        "others come": (60, 3, {}, "Yes: 8 users can start at 10:00 on the present nodes.", 3),
    },
)
def test_placeholders_above_the_target_are_for_nobody(
    minutes: int, target: int | None, given: dict[str, Any], expected: str, warm: int
) -> None:
    """As after a change of the mode, or of a number by a person."""
    world = hub("a", "b")
    for _ in range(16):
        world.create_placeholder(SHARE)
    world.schedule()
    supply = supplies(world, unneeded=timedelta(minutes=10), max_nodes=2)
    question = ExpectedUsers("gpu", SHARE, 8, START + timedelta(minutes=minutes), ramp=timedelta(0))
    settings = RehearsalSettings(target=target, min_placeholders=target or 0, **given)
    found = rehearse(question, world.view(), NAMESPACE, supply, settings)
    assert (found.verdict.startswith(expected), found.warm) == (True, warm), found.verdict
    assert len(world.view().usable(SHARE.id)) == 16


def of(users: int, minutes: int, ramp: int = 0, counts: Counts = "additional") -> AnnouncedClass:
    return AnnouncedClass(users, minutes, ramp, counts)


ADVISE, ACT = ScaleAheadMode.ADVISE, ScaleAheadMode.ACT


@all_of_them(
    "mode, slots, present, replicas, classes, given",
    {
        "usual placeholders use a node before it is removed": (ADVISE, 4, 3, (3, 60), (of(6, 6, 5), of(5, 9, 5)), {}),
        "usual placeholders order nodes before users come": (ADVISE, 1, 3, (3, 60), (of(3, 6, 5), of(2, 16, 5)), {}),
        "a node is removed whose placeholder fits elsewhere": (ADVISE, 4, 3, (3, 60), (of(6, 35, 15),), {"running": 3}),
        "a limit of placeholders leaves nodes empty": (ACT, 8, 3, (0, 8), (of(11, 25, 5),), {}),
        "nodes for others come late": (ACT, 8, 0, (3, 8), (of(9, 25), of(6, 25, 15)), {"boot": timedelta(minutes=6)}),
        "nodes for others never come": (ACT, 8, 1, (1, 8), (of(9, 15, 15), of(6, 18)), {"has_autoscaler": False}),
        "together they come slowly enough": (
            ACT,
            4,
            2,
            (1, 60),
            (of(11, 6, 15), of(7, 6)),
            {"boot": timedelta(minutes=6)},
        ),
    },
)
def test_days_that_are_easily_misjudged(
    mode: ScaleAheadMode,
    slots: int,
    present: int,
    replicas: tuple[int, int],
    classes: tuple[AnnouncedClass, ...],
    given: dict[str, Any],
) -> None:
    """`tests/integration/test_rehearsed_days.py` has random ones, and days on a cluster."""
    day = AnnouncedDay(0)
    vars(day).update(mode=mode, slots=slots, present=present, replicas=ReplicaRange(*replicas), classes=[*classes])
    vars(day).update({"running": 0, "most": 8, "starts_per_minute": 2, "has_autoscaler": True, **given})
    vars(day).update({"pull": timedelta(minutes=1), "boot": given.get("boot", timedelta(minutes=9))})
    happens_as_rehearsed(day)
