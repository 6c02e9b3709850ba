"""Order times of nodes for a rehearsal on a simulated cluster, and waits of users."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import expected_by_occurrence
from dra_spawner.scale_ahead.rehearsal.timetable import Waits, arrivals
from tests.placeholders.planner.objects import SHARE
from tests.placeholders.planner.simulated_cluster import START
from tests.scale_ahead.rehearsal.questions import IN_AN_HOUR, LEAD, answer, codes, expect, hub, supplies


def test_nodes_that_start_one_after_the_other_are_ordered_earlier() -> None:
    given = supplies(hub("a"), starts_per_minute=5.0, image_time=timedelta(minutes=2))
    found = answer(hub("a"), expect(8 + 88), given, margin=timedelta(minutes=3))
    # Eleven nodes: five at once, five after a minute, one after two.
    assert found.orders[0].nodes == 11
    assert found.first_order_at == IN_AN_HOUR - timedelta(minutes=3 + 2 + 10 + 2)
    assert max(found.orders[0].usable_at(found.now)) == IN_AN_HOUR - timedelta(minutes=3)


def test_times_are_in_the_zone_of_the_line_across_a_change_of_the_clock() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    world = hub("a")
    world.now = datetime(2027, 3, 27, 22, 0, tzinfo=UTC)
    begins = datetime(2027, 3, 28, 3, 10, tzinfo=berlin)
    found = answer(world, expect(10, begins=begins))
    assert found.first_order_at is not None
    assert found.first_order_at.isoformat() == "2027-03-28T01:55:00+01:00"
    assert "can start on 2027-03-28 at 03:10; 1 node of g2 is ordered at 01:55." in found.verdict
    begins = datetime(2027, 3, 28, 0, 5, tzinfo=berlin)
    assert "is ordered at 23:50 on 2027-03-27." in answer(world, expect(10, begins=begins)).verdict


def test_late_nodes_do_no_harm_where_users_come_later() -> None:
    """The node is usable five minutes after the begin; the ninth of 16 users comes half a minute later."""
    found = answer(hub("a"), expect(16, begins=START + timedelta(minutes=5)))
    assert found.first_order_at == START - timedelta(minutes=10)
    assert (found.is_possible, found.with_orders) == (True, Waits())


def test_users_wait_if_nodes_are_ordered_too_late() -> None:
    begins = START + timedelta(minutes=5)
    found = answer(hub("a"), expect(12, begins=begins, ramp=timedelta(0)))
    assert codes(found) == [ProblemCode.TOO_LATE]
    assert found.with_orders == Waits(4, timedelta(minutes=5), timedelta(minutes=5))
    assert found.without_orders == Waits(4, timedelta(minutes=10), timedelta(minutes=10))
    assert found.verdict == (
        "No: 4 of 12 users would wait up to 5 minutes at 09:05: the nodes had to be ordered at 08:50, "
        "and now it is 09:00."
    )
    now = answer(hub("a"), expect(12, begins=START, ramp=timedelta(0)))
    assert now.verdict.startswith("No: 4 of 12 users would wait up to 10 minutes now: ")


def test_a_margin_may_be_used_up() -> None:
    found = answer(hub("a"), expect(12, begins=START + timedelta(minutes=12)))
    assert found.verdict == "Yes: 12 users can start at 09:12; 1 node of g2 is ordered now."
    assert found.first_order_at == START - timedelta(minutes=3)


def test_the_wait_if_nothing_is_ordered() -> None:
    """40 users in 10 minutes on nodes of eight: a node is ordered when the 9th, 17th, 25th and 33rd come."""
    ramp = timedelta(minutes=10)
    found = answer(hub("a"), expect(40, ramp=ramp))
    come = arrivals(IN_AN_HOUR, ramp, 40)
    late = [come[number // 8 * 8] + LEAD - come[number] for number in range(8, 40)]
    assert found.without_orders == Waits(32, LEAD, sum(late, timedelta(0)) / 32)
    slow = answer(hub("a"), expect(40, ramp=timedelta(0)), supplies(hub("a"), starts_per_minute=1.0)).without_orders
    assert slow.longest == LEAD + timedelta(minutes=3)


def test_nodes_that_lack_the_image_pull_it() -> None:
    world = hub("a", images=())
    found = answer(world, expect(8), image_time=timedelta(minutes=4))
    assert (found.free, found.free_without_image) == (0, 8)
    assert found.with_orders == Waits()
    assert found.without_orders.longest == timedelta(minutes=4)
    late = answer(world, expect(8, begins=START, ramp=timedelta(0)), image_time=timedelta(minutes=4))
    assert codes(late) == [ProblemCode.TOO_LATE]
    assert late.verdict == "No: 8 of 8 users would wait up to 4 minutes now: the nodes are not ready in time."


def test_nodes_that_are_on_order_already_are_no_alarm() -> None:
    """A repeated rehearsal sees the pending placeholders for the nodes of its own order."""
    world = hub("a")
    for _ in range(20):
        world.create_placeholder(SHARE)
    world.schedule()
    assert len(world.pending) == 12
    world.pass_time(minutes=9)
    begins = START + timedelta(minutes=15)
    found = answer(world, expect(20, begins=begins))
    assert found.warm == 8
    assert [(each.nodes, each.is_on_order, each.order_at) for each in found.orders] == [(2, True, START)]
    assert found.verdict == "Yes: 20 users can start at 09:15; 2 nodes of g2 were ordered at 09:00."
    more = answer(world, expect(40, begins=begins, ramp=timedelta(0)))
    assert [(each.nodes, each.is_on_order) for each in more.orders] == [(2, True), (2, False)]
    assert codes(more) == [ProblemCode.TOO_LATE]
    assert more.problems[0].users == 16


def test_an_entry_of_a_calendar_is_rehearsed_in_the_same_way() -> None:
    entry = Occurrence(
        "physics", "gpu-slice", IN_AN_HOUR, IN_AN_HOUR + timedelta(hours=1), 20, ramp=timedelta(minutes=7)
    )
    assert expected_by_occurrence(entry, "gpu-slice", SHARE) == expect(20, ramp=timedelta(minutes=7))
