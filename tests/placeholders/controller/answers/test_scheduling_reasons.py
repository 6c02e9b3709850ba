"""Why a placeholder is on its node."""

from __future__ import annotations

from dra_spawner import names
from dra_spawner.placeholders.controller.answers.scheduling_reasons import explain_scheduling
from dra_spawner.placeholders.planner.actions import LabelNode
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.placeholders.planner.objects import GPU, PLAIN
from tests.placeholders.planner.world import World, hub


def world(shape: Shape = GPU, count: int = 1) -> World:
    return hub((shape, count, 2 * count))


def why(found: World) -> list[str]:
    view = found.view()
    return sorted(explain_scheduling(view, each.pod) for each in view.placeholders.values())


def relabel(found: World, node: str, **changes: str | None) -> None:
    named = {names.IMAGES_READY: changes.get("ready"), names.ATTRACT: changes.get("attract")}
    for label, value in named.items():
        found.carry_out(LabelNode(node, label, value, "for the test"))


def test_the_only_node_that_a_placeholder_may_run_on() -> None:
    found = world()
    found.node("node-a", gpus=1)
    found.run(minutes=1)
    assert why(found) == ["it may run on no other node"]


def test_labels_that_placeholders_prefer() -> None:
    found = world()
    found.node("node-a", gpus=2)
    found.node("node-b")
    found.run(minutes=1)
    placeholder = found.only
    relabel(found, placeholder.node, ready="true", attract="true")
    start = "chosen by the scheduler: "
    assert why(found) == [start + "ready for users, the newest node, which attracts placeholders"]
    relabel(found, placeholder.node)
    assert why(found) == ["chosen by the scheduler; the node now has nothing that placeholders prefer"]


def test_users_attract_placeholders_with_devices_and_repel_others() -> None:
    for shape, ground in ((GPU, "1 user's server there"), (PLAIN, "")):
        found = world(shape)
        found.node("node-a", gpus=2)
        found.node("node-b", gpus=2)
        found.run(minutes=1)
        placeholder = found.only
        for node in ("node-a", "node-b"):
            relabel(found, node)
        before = why(found)
        found.user("ada", nodeName=placeholder.node)
        (after,) = why(found)
        name = "chosen by the scheduler"
        nothing = f"{name}; the node now has nothing that placeholders prefer"
        assert before == [nothing if shape is GPU else f"{name}: no user there"]
        assert after == (f"{name}: {ground}" if ground else nothing)


def test_a_pending_placeholder_has_no_reason() -> None:
    found = world()
    found.node("node-a")
    found.run(minutes=1)
    assert why(found) == [""]
