"""Nodes and devices that are out of use: a verdict names them, and says until when; it counts on no node by a guess."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.dra.model.devices import Taint
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import RehearsalSettings
from dra_spawner.scale_ahead.rehearsal.rehearse_day import Announced, rehearse_day
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import NAMESPACE
from tests.placeholders.planner.simulated_cluster import START
from tests.placeholders.planner.world import World
from tests.scale_ahead.rehearsal.questions import answer, codes, expect, hub, supplies

SOON = START + timedelta(minutes=8)
OUT_OF_USE = "machines that could run them are taken out of use by an administrator"


def drain(world: World, node: str) -> None:
    change_node(world, node, labels={**world.snapshot.nodes[node].node.labels, names.DRAINING: names.ORDERED})


def cordon(world: World, node: str) -> None:
    taint = Taint(names.UNSCHEDULABLE, "", "NoSchedule")
    change_node(world, node, is_unschedulable=True, taints=(*world.snapshot.nodes[node].node.taints, taint))


def change_node(world: World, node: str, **changes: Any) -> None:
    world.snapshot.put(replace(world.snapshot.nodes[node].node, **changes))


def taint_devices(world: World, node: str) -> None:
    for item in [each for each in world.snapshot.slices.values() if each.node_name == node]:
        devices = [replace(each, taints=(Taint("example.com/upkeep", "", "NoSchedule"),)) for each in item.devices]
        world.snapshot.put(replace(item, devices=tuple(devices)))


def drain_and_cordon(world: World, node: str) -> None:
    drain(world, node)
    cordon(world, node)


Closing = Callable[[World, str], None]
CLOSINGS: dict[str, tuple[Closing, str, str]] = {
    "drained": (drain, OUT_OF_USE, "a, b are drained by order; dra-spawner drain a --end"),
    "cordoned": (cordon, OUT_OF_USE, "a, b are cordoned; kubectl uncordon a"),
    "both": (drain_and_cordon, OUT_OF_USE, "a, b are drained by order; dra-spawner drain a --end"),
    "tainted": (taint_devices, "devices that they need are taken out of use", "devices are closed by taints"),
}


@all_of_them("close, plain, message", CLOSINGS)
def test_without_an_autoscaler_no_guess_hides_what_is_closed(close: Closing, plain: str, message: str) -> None:
    world = hub("a", "b")
    for node in ("a", "b"):
        close(world, node)
    for begins, when in ((SOON, "09:08"), (START + timedelta(hours=1), "10:00")):
        found = answer(world, expect(4 if begins == SOON else 9, begins=begins), has_autoscaler=False)
        users = found.wanted
        assert found.verdict == f"No: {users} of {users} users cannot start at {when}: {plain}."
        assert found.problems[0].code is ProblemCode.DRAINED
        if users == 9 or close is taint_devices:
            assert message in found.problems[0].message


def test_with_an_autoscaler_the_wait_has_its_cause() -> None:
    world = hub("a")
    drain(world, "a")
    found = answer(world, expect(4, begins=SOON, ramp=timedelta(0)))
    assert found.verdict == (
        f"No: 4 of 4 users would wait up to 2 minutes at 09:08: {OUT_OF_USE}, and others are not ready in time."
    )


def test_an_order_has_an_end() -> None:
    world = hub("a")
    drain(world, "a")
    after, before = (START + timedelta(minutes=each) for each in (90, 30))
    found = answer(world, expect(4), has_autoscaler=False, back_at={"a": after})
    assert found.verdict.endswith(f"{OUT_OF_USE} until {after:%Y-%m-%d %H:%M} UTC.")
    found = answer(world, expect(4), has_autoscaler=False, back_at={"a": before})
    assert (found.verdict, found.free) == ("Yes: 4 users can start at 10:00 on the present nodes.", 4)
    assert "a is drained until then, and counted as open" in [each.message for each in found.problems]


def test_nodes_for_others_are_a_guess_without_an_autoscaler() -> None:
    """Others come before, and take the present nodes: a node that nobody adds has no room for these users."""
    for begins, verdict in (
        (SOON, "No: 4 of 4 users cannot start at 09:08: the present machines are too few, and nothing is known to add"),
        (START + timedelta(hours=1), "Only if nodes for other users are added by 09:55: 4 users can start at 10:00."),
    ):
        world = hub("a")
        change_node(world, "a", allocatable={})
        settings = RehearsalSettings(has_autoscaler=False)
        given = supplies(hub("a"), slots=8, nodes=())
        ends = begins + timedelta(hours=1)
        first, second = (expect(number, begins=begins, ramp=timedelta(0)) for number in (1, 4))
        days = [Announced("first", first, ends, given, settings), Announced("second", second, ends, given, settings)]
        found = rehearse_day(days, world.view(), NAMESPACE)[1]
        assert found.verdict.startswith(verdict)


def test_nothing_is_there() -> None:
    """Neither a node, nor a device that a driver publishes: no verdict says that servers can start."""
    empty = answer(hub(), expect(4), has_autoscaler=False, kinds_are_all=False)
    assert codes(empty) == [ProblemCode.NOT_KNOWN]
    world = hub("a")
    world.lose_slice("a")
    assert not answer(world, expect(4), has_autoscaler=False, kinds_are_all=False).is_possible
