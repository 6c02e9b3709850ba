"""Nodes that are kept for tickets of several devices, so that tickets for one do not pass them for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import TicketEvent, TicketState
from dra_spawner.simulator.model.claims import ObjectKey
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, gpu_claim, user_shape
from tests.placeholders.planner.ticket_world import OWN_HUB, TicketWorld
from tests.presence import present

TWO = user_shape({"gpu": gpu_claim(count=2)})
CHOICES = {"gpu": GPU, "two": TWO}
KEEP = timedelta(hours=1)


def full(keep: timedelta = KEEP, nodes: str = "ab") -> TicketWorld:
    """Nodes of two devices, all in use by servers that began one after the other."""
    world = TicketWorld(CHOICES, keep=keep)
    for node in nodes:
        world.node(node, cpu="100", gpus=2)
    world.settle()
    for number in range(2 * len(nodes)):
        world.user(f"busy-{number}", GPU.claims)
        world.settle()
    return world


def users_of(world: TicketWorld, node: str) -> list[str]:
    return sorted(pod.name for pod in world.view().users_of_node[node])


def kept_node(world: TicketWorld, user: str = "ada") -> str:
    return present(world.book.find(user, "two")).kept_node


def until_of(world: TicketWorld) -> datetime:
    return present(present(world.book.find("ada", "two")).kept_until)


def churn(world: TicketWorld, stops: int) -> None:
    """Each ten minutes the oldest server stops, another user joins for one device, and takes it when it is held."""
    running = sorted(pod.name for pod in world.view().users.values())
    for number in range(stops):
        world.leave(running.pop(0))
        world.join(f"single-{number}")
        for _ in range(5):
            world.run(2, every_seconds=40)
            for user in world.held:
                choice = "two" if user == "ada" else "gpu"
                assert world.start(user, choice) == "taken"
                running.append(user)


def test_a_ticket_for_two_devices_is_passed_without_end_unless_a_node_is_kept() -> None:
    found = {}
    for keep in (timedelta(0), KEEP):
        world = full(keep)
        world.join("ada", "two")
        for number in range(3):
            world.join(f"early-{number}")
        churn(world, 8)
        held = [at for at, user, event in world.events if (user, event) == ("ada", TicketEvent.HOLD)]
        found[keep] = len(held)
        served = [user for _, user, event in world.events if event is TicketEvent.TAKE]
        assert len(served) >= 5, "others get what is not kept"
    assert found == {timedelta(0): 0, KEEP: 1}


def test_only_the_devices_of_the_node_are_kept_that_is_free_soonest_and_not_for_longer() -> None:
    world = full()
    world.leave(users_of(world, "b")[0])  # one device is free on b
    world.join("ada", "two")
    world.join("bob")
    world.join("eve")
    world.run(1)
    assert (kept_node(world), world.held) == ("b", [])
    world.leave(users_of(world, "a")[0])
    world.run(1)
    assert world.held == ["bob"], "a device elsewhere is not kept"
    assert world.start("bob") == "taken"
    world.restart()  # another replica leads
    world.run(50, every_seconds=60)
    assert world.held == []
    world.run(10, every_seconds=20)
    assert world.held == ["eve"], "the time is over"
    assert world.start("eve") == "taken"
    world.join("dan")
    world.run(58, every_seconds=60)
    assert until_of(world) < world.now
    world.run(3, every_seconds=60)
    assert until_of(world) > world.now, "another try"


def test_both_devices_go_to_the_ticket_as_soon_as_the_second_is_free() -> None:
    world = full(nodes="a")
    world.join("ada", "two")
    world.join("bob")
    for name in users_of(world, "a"):
        assert world.held == []
        world.leave(name)
        world.run(2)
    assert (world.held, kept_node(world)) == (["ada"], "")


def cordon(world: TicketWorld) -> None:
    obj = world.objects["Node", ObjectKey("", "a")]
    obj["spec"]["unschedulable"] = True
    world.apply(obj)


def drain(world: TicketWorld) -> None:
    obj = world.objects["Node", ObjectKey("", "a")]
    obj["metadata"]["labels"][names.DRAINING] = "by order"
    world.apply(obj)
    world.policy = replace(world.policy, drained={"a": "by order"})


def come_late(world: TicketWorld) -> None:
    world.now += timedelta(days=2)


@all_of_them(
    "event, kept",
    {
        "nothing": (lambda world: None, "a"),
        "another leader": (lambda world: world.restart(), "a"),
        "the node is cordoned": (cordon, "b"),
        "the node is drained": (drain, "b"),
        "the node is gone": (lambda world: world.remove_node("a"), "b"),
        "the user leaves": (lambda world: world.leave_queue("ada", "two"), ""),
        "all others leave": (lambda world: world.leave_queue("bob"), "a"),
        "the choice goes": (lambda world: world.publish({"gpu": GPU}), ""),
        "the clock jumps ahead": (come_late, "a"),
        "the clock jumps back": (lambda world: setattr(world, "now", world.now - timedelta(days=2)), "a"),
    },
)
def test_what_becomes_of_a_kept_node(event: Callable[[TicketWorld], None], kept: str) -> None:
    world = full()
    world.leave(users_of(world, "a")[0])
    world.join("ada", "two")
    world.join("bob")
    world.run(0.5)
    assert kept_node(world) == "a"
    event(world)
    world.run(0.5)
    ticket = present(world.book.find("ada", "two"))
    assert ticket.kept_node == kept
    assert ticket.kept_until is None or ticket.kept_until - world.now <= KEEP


def test_a_node_that_another_hub_keeps_is_not_taken() -> None:
    world = full()
    first, _ = users_of(world, "b")
    other = world.join("ada", "two", hub="other/dra-spawner-shapes")
    world.join("bob")
    until = world.now + timedelta(minutes=10)
    world.book = world.book.after(other.id, TicketEvent.KEEP, world.now, kept_node="b", kept_until=until)
    world.leave(first)
    world.run(9)
    assert world.held == []
    world.run(3)
    assert (world.held, world.state("bob")) == (["bob"], TicketState.HELD)
    assert {each.hub for each in world.book.open} == {"other/dra-spawner-shapes", OWN_HUB}
