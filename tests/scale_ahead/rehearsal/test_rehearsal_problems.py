"""Problems of a rehearsal: the cause of each, whether it blocks, and the sentence about it."""

from __future__ import annotations

from dataclasses import replace

from dra_spawner.dra.quantity import NANO_PER_UNIT
from dra_spawner.placeholders.planner.cluster.quotas import Quota
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_table import rehearsal_text
from dra_spawner.scale_ahead.rehearsal.rehearse import rehearse
from dra_spawner.scale_ahead.rehearsal.timetable import Waits
from tests.placeholders.planner.objects import IMAGE, NAMESPACE, SHARE, gpu_claim, user_shape
from tests.scale_ahead.rehearsal.questions import answer, codes, expect, hub, supplies


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
    assert found.verdict.endswith("no device of the cluster fits gpu-slice.")


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
    """Free capacity needs no placeholder; new nodes come for placeholders only."""
    found = answer(hub("a"), expect(30), max_placeholders=20)
    (problem,) = [each for each in found.problems if each.blocks]
    assert (problem.code, problem.users) == (ProblemCode.PLACEHOLDER_LIMIT, 10)
    assert "max of placeholders of gpu-slice is 20; 30 are needed" in problem.message
    assert answer(hub("a"), expect(8), max_placeholders=2).is_possible
    assert answer(hub("a"), expect(30), max_placeholders=30).is_possible


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
