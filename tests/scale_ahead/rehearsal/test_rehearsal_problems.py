"""Problems of a rehearsal: the cause of each, whether it blocks, and the sentence about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from dra_spawner.dra.quantity import NANO_PER_UNIT
from dra_spawner.placeholders.planner.targets.limits import Quota
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_table import rehearsal_text
from dra_spawner.scale_ahead.rehearsal.rehearse import rehearse
from dra_spawner.scale_ahead.rehearsal.timetable import Waits
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import IMAGE, NAMESPACE, SHARE, gpu_claim, user_shape
from tests.placeholders.planner.simulated_cluster import START
from tests.scale_ahead.rehearsal.questions import LEAD, answer, codes, expect, hub, supplies


def test_no_kind_of_node_is_large_enough() -> None:
    found = answer(hub("a"), expect(10, user_shape(cpu="11")))
    (problem,) = [each for each in found.problems if each.blocks]
    assert (problem.code, problem.users) == (ProblemCode.NO_NODE_KIND, 10)
    assert "g2: Insufficient cpu" in problem.message
    assert found.verdict == "No: 10 of 10 users cannot start at 10:00: no node can run a server of this choice."
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
    assert found.verdict.endswith("no device of the cluster fits this choice.")


def test_too_many_devices_for_any_node() -> None:
    found = answer(hub("a"), expect(3, user_shape({"gpu": gpu_claim(count=3)})))
    (problem,) = [each for each in found.problems if each.blocks]
    assert problem.code is ProblemCode.NO_NODE_KIND
    assert "g2: 2 of 3 devices, then memory: 0 left, 40Gi needed" in problem.message


def test_the_maximum_of_nodes() -> None:
    found = answer(hub("a"), expect(40), supplies(hub("a"), max_nodes=3))
    (problem,) = [each for each in found.problems if each.blocks]
    assert (problem.code, problem.users) == (ProblemCode.MAX_NODES, 16)
    assert found.orders[0].nodes == 2
    assert found.verdict == (
        "No: 16 of 40 users cannot start at 10:00: the maximum is 3 nodes of g2, and more are needed."
    )
    assert found.with_orders == Waits(16, without_end=16)


def test_a_kind_that_is_full_and_too_small_is_too_small() -> None:
    found = answer(hub("a"), expect(2, user_shape(cpu="11")), supplies(hub("a"), max_nodes=1))
    assert codes(found) == [ProblemCode.NO_NODE_KIND]
    assert codes(answer(hub("a"), expect(9), supplies(hub("a"), max_nodes=1))) == [ProblemCode.MAX_NODES]


def quota(name: str, pods: int) -> Quota:
    return Quota(name, left={"pods": pods * NANO_PER_UNIT})


def test_a_quota() -> None:
    world = hub("a", "b")
    world.create_placeholder(SHARE)
    world.schedule()
    quotas = (quota("small", pods=3), quota("large", pods=100), replace(quota("some", pods=0), for_servers=False))
    found = answer(world, expect(10), quotas=quotas)
    problem = found.problems[0]
    # The server replaces its placeholder in the quota.
    assert (problem.code, problem.users) == (ProblemCode.QUOTA, 6)
    assert "ResourceQuota small of namespace hub has pods for 3 more servers" in problem.message
    assert found.verdict == "No: 6 of 10 users cannot start at 10:00: a limit of the cluster allows 3 more servers."
    assert found.without_orders.without_end == 6
    assert answer(world, expect(4), quotas=quotas[:2]).is_possible
    unjudged = answer(world, expect(4), quotas=(Quota("q", left={"limits.cpu": 1}),))
    assert "ResourceQuota q limits limits.cpu: not checked" in rehearsal_text(unjudged)


def test_the_limit_of_placeholders() -> None:
    """Free capacity needs no placeholder; new nodes come for placeholders, and then for users who wait."""
    found = answer(hub("a"), expect(30, ramp=timedelta(0)), max_placeholders=20)
    (problem,) = [each for each in found.problems if each.blocks]
    # Two nodes come for twelve placeholders, with room for 16 users.
    assert (problem.code, problem.users) == (ProblemCode.PLACEHOLDER_LIMIT, 6)
    assert "max of placeholders of gpu-slice is 20; 30 are needed" in problem.message
    assert found.verdict == (
        "No: 6 of 30 users would wait up to 10 minutes at 10:00: only 20 servers can be prepared in advance."
    )
    assert found.with_orders == Waits(6, LEAD, LEAD)
    assert [each.nodes for each in found.orders] == [2]
    for most, prepared in ((1, "only 1 server"), (0, "no server")):
        found = answer(hub("a"), expect(30, ramp=timedelta(0)), max_placeholders=most)
        assert found.verdict.endswith(f": {prepared} can be prepared in advance."), found.verdict
    assert answer(hub("a"), expect(8), max_placeholders=2).is_possible
    assert answer(hub("a"), expect(24), max_placeholders=17).is_possible, "the limit keeps nobody from the new node"
    assert answer(hub("a"), expect(30), max_placeholders=30).is_possible
    nobody = answer(hub("a"), expect(30, ramp=timedelta(0)), max_placeholders=20, has_autoscaler=False)
    assert nobody.with_orders.without_end == 6


def test_a_quota_needs_no_nodes_for_servers_that_it_forbids() -> None:
    found = answer(hub("a"), expect(40), quotas=(quota("q", pods=10),))
    assert [each.slots for each in found.orders] == [(2,)]
    assert (found.placed, found.with_orders.without_end) == (10, 30)
    assert answer(hub("a"), expect(40), quotas=(quota("q", pods=5),)).orders == ()


@all_of_them(
    "minutes, given, expected",
    {
        "it is done": (60, {}, "Yes: 12 users can start at 10:00; 1 node of g2 is ordered at 09:45."),
        "nothing is needed": (60, {"users": 8, "not_prepared": "x", "has_autoscaler": False}, "Yes: 8 users can start"),
        "only advice": (
            60,
            {"not_prepared": "x"},
            "Only if 1 node of g2 is ordered at 09:45: 12 users can start at 10:00.",
        ),
        "no autoscaler": (60, {"has_autoscaler": False}, "Only if 1 node of g2 is added by 09:55: 12 users can start"),
        "neither": (
            60,
            {"not_prepared": "x", "has_autoscaler": False},
            "Only if 1 node of g2 is added by 09:55: 12 users",
        ),
        "not known": (
            60,
            {"not_prepared": "x", "has_autoscaler": None},
            "Only if 1 node of g2 is ordered at 09:45: 12",
        ),
        "acts, rest not known": (60, {"has_autoscaler": None}, "Only if 1 node of g2 is added by 09:55: 12 users can"),
        "no entry": (
            60,
            {"is_announced": False},
            "Only if a calendar entry announces them: 12 users can start at 10:00.",
        ),
        "neither entry nor autoscaler": (
            60,
            {"is_announced": False, "has_autoscaler": False},
            "Only if a calendar entry announces them and 1 node of g2 is added by 09:55: 12 users can start at 10:00.",
        ),
        "the margin is used up": (13, {"not_prepared": "x"}, "Only if 1 node of g2 is ordered now: 12 users can start"),
        "too late, whoever does it": (
            3,
            {"not_prepared": "x"},
            "No: 4 of 12 users would wait up to 7 minutes at 09:03: ",
        ),
        "too late without autoscaler": (
            3,
            {"has_autoscaler": False},
            "No: 4 of 12 users cannot start at 09:03: the present machines are too few, and nothing is known to add",
        ),
    },
)
def test_nothing_is_said_that_nobody_does(minutes: int, given: dict[str, Any], expected: str) -> None:
    more = dict(given)
    users = more.pop("users", 12)
    begins = START + timedelta(minutes=minutes)
    found = answer(hub("a"), expect(users, begins=begins, ramp=timedelta(0)), **more)
    assert found.verdict.startswith(expected), found.verdict
    nobody = [each.message for each in found.problems if each.code is ProblemCode.NOBODY_ORDERS]
    assert bool(nobody) is expected.startswith(("Only if", "No"))


def test_pending_placeholders_order_nothing_without_an_autoscaler() -> None:
    world = hub("a")
    for _ in range(12):
        world.create_placeholder(SHARE)
    world.schedule()
    world.pass_time(minutes=9)
    question = expect(12, begins=START + timedelta(minutes=12), ramp=timedelta(0))
    assert answer(world, question).verdict == "Yes: 12 users can start at 09:12; 1 node of g2 was ordered at 09:00."
    found = answer(world, question, not_prepared="scale-ahead only advises", has_autoscaler=False)
    assert found.verdict.startswith("No: 4 of 12 users cannot start at 09:12: the present machines are too few")


def test_an_image_that_no_node_has_is_reported() -> None:
    new = replace(SHARE, images=frozenset({"example.com/new:1", IMAGE}))
    found = answer(hub("a", "b"), expect(3, new))
    assert found.is_possible
    (note,) = found.problems
    assert (note.code, note.blocks) == (ProblemCode.IMAGE_MISSING, False)
    assert "no node has image example.com/new:1:" in note.message
    full = hub("a", images=[f"example.com/{number}:1" for number in range(50)])
    assert not answer(full, expect(3, new)).problems, "a node lists no more than 50"


def test_the_largest_obstacle_is_reported_first() -> None:
    found = answer(hub("a"), expect(40), supplies(hub("a"), max_nodes=3), quotas=(quota("q", pods=5),))
    assert codes(found) == [ProblemCode.QUOTA, ProblemCode.MAX_NODES]
    assert found.verdict.startswith("No: 35 of 40 users")


def test_a_rehearsal_can_be_given_up() -> None:
    found = rehearse(expect(40), hub("a").view(), NAMESPACE, supplies(hub("a")), is_over=lambda: True)
    assert codes(found) == [ProblemCode.NOT_KNOWN]
    assert found.verdict == (
        "Not known whether 40 of 40 users can start at 10:00: the search for free nodes took too long."
    )
