"""The thought experiment of zero-to-jupyterhub#1414, step by step: ten slots a node, five placeholders."""

from __future__ import annotations

from tests.placeholders.planner.objects import PLAIN
from tests.placeholders.planner.world import World, hub


def begin() -> World:
    """Step 1: one node with 7 users and 3 placeholders, 2 placeholders pending."""
    world = hub((PLAIN, 5, 20), nodes="a")
    for number in range(7):
        world.user(f"user-{number}")
        world.schedule()
    world.settle()
    return world


def test_1_pending_placeholders_ask_for_a_node() -> None:
    world = begin()
    assert world.picture("a") == "UUUUUUUPPP"
    assert len(world.pending) == 2


def test_3_a_user_comes_while_the_node_is_on_its_way() -> None:
    world = begin()
    world.user("first")
    world.settle()
    assert world.node_of("first") == "a"
    assert world.picture("a") == "UUUUUUUUPP"
    assert len(world.pending) == 3


def test_4_and_5_users_stay_away_from_a_node_without_the_image_and_placeholders_go_there() -> None:
    world = begin()
    world.user("first")
    world.settle()
    world.pass_time(minutes=5)
    world.node("b", images=())
    world.settle()
    assert world.picture("a", "b") == "UUUUUUUUPP PPP+++++++"
    world.user("second")
    world.settle()
    assert world.node_of("second") == "a", "not on the node that still pulls"
    assert not world.is_ready("b")


def test_6_and_7_once_the_image_is_there_users_fill_the_busiest_node_first() -> None:
    world = begin()
    world.user("first")
    world.pass_time(minutes=5)
    world.node("b", images=())
    world.settle()
    world.user("second")
    world.settle()
    world.pull("b")
    world.settle()
    assert world.is_ready("b")
    assert world.users_on("b") == 0
    assert world.users_on("a") == 9
