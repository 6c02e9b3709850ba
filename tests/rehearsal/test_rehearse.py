"""Rehearsals on a simulated cluster: who fits where, what is ordered when, what is in the way, who waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dra_spawner import names
from dra_spawner.calendars.occurrences import IN_TOTAL, Occurrence
from dra_spawner.dra.quantity import NANO_PER_UNIT
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.quotas import Quota
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.rehearsal.node_supply import NodeSupply, present_kinds, supplies_of_present_kinds
from dra_spawner.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.rehearsal.rehearsal_result import ExpectedUsers, Rehearsal, RehearsalSettings, expected_by_occurrence
from dra_spawner.rehearsal.rehearsal_table import rehearsal_json, rehearsal_text
from dra_spawner.rehearsal.rehearse import rehearse
from dra_spawner.rehearsal.timetable import Waits
from tests.placeholders.planner.world import GPU, IMAGE, NAMESPACE, PLAIN, SHARE, START, World, gpu_claim, user_shape

LEAD = timedelta(minutes=10)
IN_AN_HOUR = START + timedelta(hours=1)
#: Words that only an administrator of Kubernetes knows.
KUBERNETES_WORDS = ("pod", "claim", "placeholder", "quota", "namespace", "resource", "class", "shape")


def hub(*nodes: str, gpus: int = 2, **more: Any) -> World:
    """Nodes that run eight servers with a share each."""
    world = World(Policy(shapes={each.id: each for each in (PLAIN, GPU, SHARE)}))
    for name in nodes:
        world.node(name, gpus=gpus, memory="40Gi", **more)
    return world


def expect(users: int, shape: Shape = SHARE, **more: Any) -> ExpectedUsers:
    return ExpectedUsers("gpu-slice", shape, users, **{"begins": IN_AN_HOUR, **more})


def supplies(world: World, **more: Any) -> tuple[NodeSupply, ...]:
    return tuple(replace(each, **more) for each in supplies_of_present_kinds(world.view(), names.INSTANCE_TYPE, LEAD))


def answer(world: World, expected: ExpectedUsers, given: Iterable[NodeSupply] | None = None, **more: Any) -> Rehearsal:
    found = rehearse(
        expected,
        world.view(),
        NAMESPACE,
        tuple(given) if given is not None else supplies(world),
        RehearsalSettings(**more),
    )
    assert not [word for word in KUBERNETES_WORDS if word in found.verdict.lower()], found.verdict
    assert found.is_possible == found.verdict.startswith("Yes")
    assert found.is_possible == (not any(each.blocks for each in found.problems))
    return found


def codes(found: Rehearsal) -> list[ProblemCode]:
    return [each.code for each in found.problems if each.blocks]


# --- where they fit ---------------------------------------------------------------------------------------------------


def test_all_fit_on_present_nodes() -> None:
    found = answer(hub("a", "b"), expect(16))
    assert found.verdict == "Yes: 16 users can start at 10:00 on the nodes that are there."
    assert (found.free, found.orders, found.begin_at, found.without_orders) == (16, (), None, Waits())


def test_the_rest_gets_new_nodes() -> None:
    found = answer(hub("a", "b"), expect(350))
    (order,) = found.orders
    assert (found.free, order.nodes, order.servers, order.like) == (16, 42, 334, "a")
    assert set(order.slots[:-1]) == {8}
    assert order.slots[-1] == 334 - 41 * 8
    assert found.begin_at == order.order_at == IN_AN_HOUR - timedelta(minutes=15)
    assert found.verdict == "Yes: 350 users can start at 10:00; 42 nodes of g2 are ordered at 09:45."
    assert found.with_orders == Waits()


def test_the_snapshot_is_as_before() -> None:
    world = hub("a")
    world.settle()
    before = [
        repr(sorted(map(str, table))) for table in (world.snapshot.nodes, world.snapshot.pods, world.snapshot.claims)
    ]
    answer(world, expect(30))
    after = [
        repr(sorted(map(str, table))) for table in (world.snapshot.nodes, world.snapshot.pods, world.snapshot.claims)
    ]
    assert after == before
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    assert not world.pending, "searches have the limits of the service again"


def test_it_is_the_same_each_time() -> None:
    world = hub("a", "b", "c")
    world.node("other", gpus=4, memory="40Gi")
    world.settle()
    first, again = (answer(world, expect(100)) for _ in range(2))
    assert first == again
    assert rehearsal_json(first) == rehearsal_json(again)


def test_placeholders_and_users_count() -> None:
    """Two placeholders are there for the users; three servers run, and are part of a number in total only."""
    world = hub("a", gpus=1)
    for number in range(2):
        world.create_placeholder(SHARE)
        world.user(f"user-{number}", {"gpu": SHARE.claims["gpu"]}, requires_ready=False)
    world.schedule()
    assert not world.pending
    additional = answer(world, expect(4))
    assert (additional.wanted, additional.running, additional.warm, additional.free) == (4, 2, 2, 0)
    assert additional.orders[0].servers == 2
    in_total = answer(world, expect(4, counts=IN_TOTAL))
    assert (in_total.wanted, in_total.warm, in_total.orders) == (2, 2, ())
    fewer = answer(world, expect(1, counts=IN_TOTAL))
    assert (fewer.wanted, fewer.verdict) == (0, "Yes: no further server is needed for 1 user.")


def test_pending_servers_of_others_come_first() -> None:
    world = hub("a", gpus=1)
    world.user("early", {"gpu": gpu_claim()}, requires_ready=False)
    found = answer(world, expect(2))
    assert (found.free, found.orders[0].servers) == (0, 2), "the only device is about to be theirs"


def test_placeholders_of_other_shapes_stay() -> None:
    world = hub("a", gpus=1)
    world.create_placeholder(GPU)
    world.schedule()
    assert answer(world, expect(2)).free == 0


@pytest.mark.parametrize("state", ["cordoned", "draining", "not ready"])
def test_nodes_that_take_nobody(state: str) -> None:
    world = hub("a")
    node = world.snapshot.nodes["a"].node
    changed = {
        "cordoned": replace(node, is_unschedulable=True),
        "draining": replace(node, labels={**node.labels, names.DRAINING: names.TRUE}),
        "not ready": replace(node, is_ready=False),
    }
    world.snapshot.put(changed[state])
    found = answer(world, expect(4))
    assert (found.free, found.orders[0].nodes) == (0, 1)


def test_servers_without_devices() -> None:
    world = World(Policy(shapes={PLAIN.id: PLAIN}))
    world.node("a", cpu="4")
    found = answer(world, expect(9, PLAIN))
    assert (found.free, found.orders[0].slots) == (4, (4, 1))


def test_kinds_are_used_in_their_order_up_to_their_maximum() -> None:
    world = hub("a")
    world.node("big", cpu="40", gpus=4, memory="40Gi")
    small, big = supplies(world)
    assert (small.name, big.name) == ("g2", "g4")
    found = answer(world, expect(24 + 30), (replace(small, most=2), big))
    assert [(each.supply.name, each.nodes, each.servers) for each in found.orders] == [("g2", 1, 8), ("g4", 2, 22)]
    assert found.verdict == (
        "Yes: 54 users can start at 10:00; 1 node of g2 and 2 nodes of g4 are needed, and the first of them is ordered "
        "at 09:45."
    )
    # A kind that comes too late is used last.
    found = answer(world, expect(24 + 30), (replace(small, lead=timedelta(hours=2)), big))
    assert [each.supply.name for each in found.orders] == ["g4"]


def test_a_kind_without_a_present_node_is_as_described() -> None:
    world = hub("a")
    absent = NodeSupply("t4", LEAD, slots=4, most=5)
    found = answer(world, expect(8 + 10), [absent])
    assert [(each.slots, each.like) for each in found.orders] == [((4, 4, 2), "")]
    assert found.verdict.startswith("Yes, if a node of t4 runs 4 servers: 18 users can start at 10:00; 3 nodes of t4")
    assert "no node of t4 is present: 4 servers on each are as described, not proved" in rehearsal_text(found)
    assert codes(answer(world, expect(8 + 30), [absent])) == [ProblemCode.MOST_NODES]
    unknown = answer(world, expect(10), [replace(absent, slots=None)])
    assert codes(unknown) == [ProblemCode.NO_NODE_KIND]


def test_a_description_that_says_something_else_is_told() -> None:
    found = answer(hub("a"), expect(40), supplies(hub("a"), slots=10))
    assert found.is_possible
    assert "a new node of g2 runs 8 servers; the description says 10" in rehearsal_text(found)


def test_kinds_of_nodes_without_a_label() -> None:
    world = hub("a", "b", labels={names.INSTANCE_TYPE: ""})
    world.node("c", gpus=1)
    assert present_kinds(world.view(), names.INSTANCE_TYPE) == {"the kind of a": ("a", "b"), "g1": ("c",)}


def test_another_node_of_the_kind_is_the_template_where_the_first_does_not_do() -> None:
    world = World(Policy(shapes={}))
    for zone in ("a", "b"):
        world.node(f"in-{zone}", cpu="2", labels={names.INSTANCE_TYPE: "std", "zone": zone})
    found = answer(world, expect(6, user_shape(nodeSelector={"zone": "b"})))
    assert (found.free, found.orders[0].like, found.orders[0].nodes) == (2, "in-b", 2)


# --- time -------------------------------------------------------------------------------------------------------------


def test_nodes_that_start_one_after_the_other_are_ordered_earlier() -> None:
    given = supplies(hub("a"), starts_per_minute=5.0, image_time=timedelta(minutes=2))
    found = answer(hub("a"), expect(8 + 88), given, margin=timedelta(minutes=3))
    # Eleven nodes: five at once, five after a minute, one after two.
    assert found.orders[0].nodes == 11
    assert found.begin_at == IN_AN_HOUR - timedelta(minutes=3 + 2 + 10 + 2)
    assert max(found.orders[0].useful(found.now)) == IN_AN_HOUR - timedelta(minutes=3)


def test_times_are_in_the_zone_of_the_line_across_a_change_of_the_clock() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    world = hub("a")
    world.now = datetime(2027, 3, 27, 22, 0, tzinfo=UTC)
    begins = datetime(2027, 3, 28, 3, 10, tzinfo=berlin)
    found = answer(world, expect(10, begins=begins))
    assert found.begin_at is not None
    assert found.begin_at.isoformat() == "2027-03-28T01:55:00+01:00"
    assert "can start on 2027-03-28 at 03:10; 1 node of g2 is ordered at 01:55." in found.verdict
    begins = datetime(2027, 3, 28, 0, 5, tzinfo=berlin)
    assert "is ordered at 23:50 on 2027-03-27." in answer(world, expect(10, begins=begins)).verdict


def test_late_nodes_do_no_harm_where_users_come_later() -> None:
    """The node is useful five minutes after the begin; the ninth of 16 users comes after seven and a half."""
    found = answer(hub("a"), expect(16, begins=START + timedelta(minutes=5)))
    assert found.begin_at == START - timedelta(minutes=10)
    assert (found.is_possible, found.with_orders) == (True, Waits())


def test_who_waits_if_it_is_too_late() -> None:
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
    assert found.begin_at == START - timedelta(minutes=3)


def test_the_wait_if_nothing_is_ordered() -> None:
    """40 users in 10 minutes on nodes of eight: a node is ordered when the 9th, 17th, 25th and 33rd come."""
    found = answer(hub("a"), expect(40, ramp=timedelta(minutes=10)))
    without = found.without_orders
    assert (without.users, without.longest) == (32, LEAD)
    # Of eight users of a node each comes 15 seconds after the one before.
    assert without.mean == LEAD - timedelta(seconds=15) * 3.5
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
    """What is rehearsed again and again sees the placeholders that wait for the nodes of its own order."""
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


# --- what is in the way -----------------------------------------------------------------------------------------------


def test_no_kind_of_node_is_large_enough() -> None:
    found = answer(hub("a"), expect(10, user_shape(cpu="11")))
    (problem,) = [each for each in found.problems if each.blocks]
    assert (problem.code, problem.users) == (ProblemCode.NO_NODE_KIND, 10)
    assert "g2: Insufficient cpu" in problem.message
    assert found.verdict == "No: 10 of 10 users cannot start at 10:00: no node can run a server of gpu-slice."
    assert found.without_orders.without_end == found.with_orders.without_end == 10


def test_no_nodes_can_be_added() -> None:
    found = answer(hub("a"), expect(10), [])
    assert codes(found) == [ProblemCode.NO_NODE_KIND]
    assert found.verdict == (
        "No: 2 of 10 users cannot start at 10:00: no node can be added, and the present ones are full."
    )


def test_a_device_class_is_missing() -> None:
    shape = user_shape(
        {"gpu": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "tpu.example.com"}}]}}}
    )
    found = answer(hub("a"), expect(3, shape))
    (problem,) = [each for each in found.problems if each.blocks]
    assert problem.code is ProblemCode.DEVICE_CLASS_MISSING
    assert "DeviceClass tpu.example.com" in problem.message


def test_a_selector_selects_nothing() -> None:
    nothing = [{"cel": {"expression": 'device.driver == "other"'}}]
    found = answer(hub("a"), expect(3, user_shape({"gpu": gpu_claim(selectors=nothing)})))
    (problem,) = [each for each in found.problems if each.blocks]
    assert problem.code is ProblemCode.NO_DEVICE_SELECTED
    assert "no device selected by" in problem.message
    assert found.verdict.endswith("no device of the cluster is what gpu-slice asks for.")


def test_too_many_devices_for_any_node() -> None:
    found = answer(hub("a"), expect(3, user_shape({"gpu": gpu_claim(count=3)})))
    (problem,) = [each for each in found.problems if each.blocks]
    assert problem.code is ProblemCode.NO_NODE_KIND
    assert "g2: 2 of 3 devices, then memory: 0 left, 40Gi needed" in problem.message


def test_the_maximum_of_nodes() -> None:
    found = answer(hub("a"), expect(40), supplies(hub("a"), most=3))
    (problem,) = [each for each in found.problems if each.blocks]
    assert (problem.code, problem.users) == (ProblemCode.MOST_NODES, 16)
    assert found.orders[0].nodes == 2
    assert found.verdict == (
        "No: 16 of 40 users cannot start at 10:00: there may be 3 nodes of g2, and more are needed."
    )
    assert found.with_orders == Waits(16, without_end=16)


def test_a_kind_that_is_full_and_too_small_is_too_small() -> None:
    found = answer(hub("a"), expect(2, user_shape(cpu="11")), supplies(hub("a"), most=1))
    assert codes(found) == [ProblemCode.NO_NODE_KIND]
    assert codes(answer(hub("a"), expect(9), supplies(hub("a"), most=1))) == [ProblemCode.MOST_NODES]


def quota(name: str, pods: int) -> Quota:
    return Quota(name, left={"pods": pods * NANO_PER_UNIT})


def test_a_quota() -> None:
    world = hub("a", "b")
    world.create_placeholder(SHARE)
    world.schedule()
    quotas = (quota("small", pods=3), quota("large", pods=100), replace(quota("some", pods=0), for_servers=False))
    found = answer(world, expect(10), quotas=quotas)
    problem = found.problems[0]
    # The server of the placeholder takes its place in the quota.
    assert (problem.code, problem.users) == (ProblemCode.QUOTA, 6)
    assert "ResourceQuota small of namespace hub has pods for 3 more servers" in problem.message
    assert found.verdict == "No: 6 of 10 users cannot start at 10:00: a limit of the cluster allows 3 more servers."
    assert found.without_orders.without_end == 6
    assert answer(world, expect(4), quotas=quotas[:2]).is_possible
    unjudged = answer(world, expect(4), quotas=(Quota("q", left={"limits.cpu": 1}),))
    assert "ResourceQuota q limits limits.cpu: not judged" in rehearsal_text(unjudged)


def test_the_limit_of_placeholders() -> None:
    """Free capacity needs no placeholder; new nodes come for placeholders only."""
    found = answer(hub("a"), expect(30), most_placeholders=20)
    (problem,) = [each for each in found.problems if each.blocks]
    assert (problem.code, problem.users) == (ProblemCode.PLACEHOLDER_LIMIT, 10)
    assert "max of placeholders of gpu-slice is 20, and 30 are needed" in problem.message
    assert answer(hub("a"), expect(8), most_placeholders=2).is_possible
    assert answer(hub("a"), expect(30), most_placeholders=30).is_possible


def test_an_image_that_no_node_has_is_told() -> None:
    new = replace(SHARE, images=frozenset({"example.com/new:1", IMAGE}))
    found = answer(hub("a", "b"), expect(3, new))
    assert found.is_possible
    (note,) = found.problems
    assert (note.code, note.blocks) == (ProblemCode.IMAGE_MISSING, False)
    assert "no node has image example.com/new:1:" in note.message
    full = hub("a", images=[f"example.com/{number}:1" for number in range(50)])
    assert not answer(full, expect(3, new)).problems, "a node lists no more than 50"


def test_the_largest_obstacle_is_told_first() -> None:
    found = answer(hub("a"), expect(40), supplies(hub("a"), most=3), quotas=(quota("q", pods=5),))
    assert codes(found) == [ProblemCode.QUOTA, ProblemCode.MOST_NODES]
    assert found.verdict.startswith("No: 35 of 40 users")


def test_it_can_be_given_up() -> None:
    found = rehearse(expect(40), hub("a").view(), NAMESPACE, supplies(hub("a")), is_over=lambda: True)
    assert codes(found) == [ProblemCode.NOT_KNOWN]
    assert found.verdict == "No: 40 of 40 users cannot start at 10:00: it took too long to find out where they fit."


# --- the output -------------------------------------------------------------------------------------------------------


def test_the_table_and_json_have_the_same_figures() -> None:
    found = answer(
        hub("a"), expect(40, begins=IN_AN_HOUR.astimezone(ZoneInfo("Europe/Berlin"))), supplies(hub("a"), most=9)
    )
    text = rehearsal_text(found)
    assert text.splitlines()[0] == found.verdict
    assert "40 of gpu-slice, additional, Monday 2026-03-02 11:00 CET within 15 min" in text
    row = next(line.split() for line in text.splitlines() if line.startswith("g2 "))
    assert row == ["g2", "4", "32", "(8", "each)", "1", "9", "10", "min", "03-02", "10:45", "03-02", "10:55", "a"]
    json = rehearsal_json(found)
    assert json["verdict"] == found.verdict
    assert json["begin_at"] == "2026-03-02T10:45:00+01:00"
    assert json["orders"][0] == {
        "kind": "g2",
        "nodes": 4,
        "servers": 32,
        "servers_on_a_node": 8,
        "present_nodes": 1,
        "most_nodes": 9,
        "lead_seconds": 600.0,
        "image_seconds": 0.0,
        "order_at": "2026-03-02T10:45:00+01:00",
        "is_on_order": False,
        "useful_at": "2026-03-02T10:55:00+01:00",
        "proved_with_node": "a",
    }
    assert (json["wanted"], json["on_present_nodes"], json["lacking"]) == (40, 8, 0)
