"""The queue for devices: who gets the next one, for how long it is held, and who must wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from dra_spawner import names
from dra_spawner.dra.model.extended_resources import IMPLICIT_PREFIX
from dra_spawner.fairness.tickets.ticket_book import TicketBook
from dra_spawner.placeholders.lifecycle import PlaceholderState, TicketEvent, TicketState
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.ticket_queue import TicketQueue, competing_devices
from dra_spawner.simulator.model.claims import ObjectKey
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, gpu_claim, user_shape
from tests.placeholders.planner.ticket_world import OWN_HUB, TicketWorld

TWO = user_shape({"gpu": gpu_claim(count=2)})
BIG = user_shape({"gpu": gpu_claim()}, cpu="2")
OTHER = user_shape({"gpu": gpu_claim(selectors=[{"cel": {"expression": "device.attributes['gpu.example.com'].x"}}])})
CHOICES = {"gpu": GPU, "two": TWO, "big": BIG, "other": OTHER}


def full(gpus: int = 1, **settings: object) -> TicketWorld:
    """A cluster whose devices are all in use."""
    world = TicketWorld(CHOICES, **settings)  # type: ignore[arg-type]  # keywords of TicketWorld
    world.node("a", cpu="100", gpus=gpus)
    world.settle()
    for number in range(gpus):
        world.user(f"busy-{number}", GPU.claims)
    world.settle()
    return world


def test_the_first_gets_the_next_device_and_takes_it_with_a_click() -> None:
    world = full()
    world.join("ada")
    world.join("bob")
    world.run(1)
    assert world.held == []
    world.leave("busy-0")
    world.run(0.2)
    assert (world.held, world.only_held.state) == (["ada"], PlaceholderState.RESERVED)
    assert (world.start("bob"), world.start("eve")) == ("behind", "behind")
    assert world.start("ada", server="ada-second") == "taken"
    world.run(1)
    assert (world.node_of("ada-second"), world.state("ada"), world.held) == ("a", TicketState.TAKEN, [])
    assert world.start("ada") == "behind", "it was for one server"


def test_a_device_that_is_not_taken_goes_to_the_next_and_is_never_held_longer() -> None:
    world = full()
    for user in ("ada", "bob"):
        world.join(user)
    world.leave("busy-0")
    world.run(4)
    assert world.held == ["ada"]
    world.restart()  # another replica leads
    world.run(1.5)
    assert (world.state("ada"), world.held) == (TicketState.EXPIRED, ["bob"])
    world.join("ada")
    world.run(6)
    assert (world.state("bob"), world.held) == (TicketState.EXPIRED, ["ada"])
    world.leave_queue("ada")
    world.run(0.2)
    assert world.start("eve") == "direct"
    world.run(1)
    assert world.node_of("eve") == "a"
    held = [at for at, _, event in world.events if event is TicketEvent.HOLD]
    ended = [at for at, _, event in world.events if event is TicketEvent.TIME_OVER]
    assert all(end - begin <= timedelta(minutes=5, seconds=10) for begin, end in zip(held, ended, strict=False))


def test_one_device_at_a_time_is_held_for_the_tickets_of_one_user_for_variants_of_it() -> None:
    world = full(3)
    for choice in ("gpu", "big", "two"):
        world.join("ada", choice)
    world.join("bob")
    for number in range(3):
        world.leave(f"busy-{number}")
    world.run(2)
    assert sorted(world.held) == ["ada", "bob"]
    assert [world.state("ada", choice) for choice in ("gpu", "big", "two")].count(TicketState.HELD) == 1
    assert world.start("ada", "big") == "behind"
    assert world.start("ada", "gpu") == "taken"
    world.run(2)
    assert world.state("ada", "big") is TicketState.HELD, "one is taken, so the next one waits again"
    world.leave_queue("ada", "big")
    world.start("bob")
    world.run(1)
    assert world.state("ada", "two") is TicketState.WAITING


def test_two_warm_placeholders_of_one_moment_are_not_both_for_one_user() -> None:
    world = full(2)
    world.policy = replace(world.policy, replicas={GPU.id: ReplicaRange(1, 1), BIG.id: ReplicaRange(1, 1)})
    for number in range(2):
        world.leave(f"busy-{number}")
    world.run(1)
    assert {each.shape for each in world.view().placeholders.values()} == {GPU.id, BIG.id}
    for choice in ("gpu", "big"):
        world.join("ada", choice)
    world.run(0.2)
    assert world.held == ["ada"]


def jump(world: TicketWorld, hours: float) -> None:
    world.now += timedelta(hours=hours)


def label_node(world: TicketWorld, value: str) -> None:
    obj = world.objects["Node", ObjectKey("", "a")]
    obj["metadata"]["labels"][names.DRAINING] = value
    world.apply(obj)
    # The label would go at once, as somebody waits.
    world.policy = replace(world.policy, drained={"a": "by order"})


def cordon(world: TicketWorld) -> None:
    obj = world.objects["Node", ObjectKey("", "a")]
    obj["spec"]["unschedulable"] = True
    world.apply(obj)


def lose_node(world: TicketWorld) -> None:
    world.remove_node("a")
    world.node("b", cpu="100", gpus=1)


@all_of_them(
    "event, states, held",
    {
        "the clock jumps ahead": (lambda world: jump(world, 24), "expired, held", ["bob"]),
        "the clock jumps back": (lambda world: jump(world, -24), "expired, held", ["bob"]),
        "its node is emptied": (lambda world: label_node(world, "emptying"), "waiting, waiting", []),
        "its node is cordoned": (cordon, "waiting, waiting", []),
        "its node goes": (lose_node, "held, waiting", ["ada"]),
        "the choice goes": (lambda world: world.publish({"big": BIG}), "unknown-choice, unknown-choice", []),
        "the user goes": (
            lambda world: setattr(world, "book", world.book.without_user("ada", OWN_HUB)),
            "-, held",
            ["bob"],
        ),
    },
)
def test_what_happens_to_a_held_device(event: Callable[[TicketWorld], None], states: str, held: list[str]) -> None:
    world = full()
    for user in ("ada", "bob"):
        world.join(user)
    world.leave("busy-0")
    world.run(0.2)
    assert world.held == ["ada"]
    event(world)
    world.run(1)
    found = [world.book.find(user, "gpu") for user in ("ada", "bob")]
    assert (", ".join(each.state.value if each else "-" for each in found), world.held) == (states, held)


def test_while_tickets_are_not_known_a_placeholder_ends_for_a_pending_server_alone() -> None:
    """Any may be held for a user, but none is ever in a server's way."""
    world = full()
    world.join("ada")
    world.leave("busy-0")
    world.run(0.2)
    world.book = TicketBook()
    world.queue = lambda: TicketQueue(is_known=False)
    world.run(10)
    assert [each.state for each in world.view().placeholders.values()] == [PlaceholderState.WARM], "its target is 0"
    world.user("eve", GPU.claims)
    world.run(1)
    assert world.node_of("eve") == "a"


def test_a_choice_that_an_administrator_changes_is_held_anew() -> None:
    """What was held has the old size of the choice: no start could have it, and its time would go by."""
    world = full()
    world.join("ada")
    world.join("bob")
    world.leave("busy-0")
    world.run(0.2)
    old = world.only_held.key
    world.publish({**CHOICES, "gpu": BIG, "big": GPU})
    world.run(0.5)
    assert (world.held, world.only_held.key != old, world.only_held.shape) == (["ada"], True, BIG.id)
    assert world.start("ada", server="ada-second") == "taken"


def test_a_device_of_a_node_that_is_just_being_emptied_is_not_held() -> None:
    """It could not be used a moment later, although the user was told that it is held."""
    world = full(2)
    world.node("b", cpu="100", gpus=1)
    world.settle()
    world.run(60, every_seconds=300)  # nobody has used it for long
    world.join("ada")
    world.decide()
    world.schedule()
    assert world.only.node == "b"
    world.leave("busy-0")  # so it fits on the node of others, too
    world.run(1, every_seconds=1)
    assert (world.held, [event.value for _, _, event in world.events]) == (["ada"], ["hold"])
    assert world.only_held.node == "a"


def test_a_choice_that_comes_back_has_its_queue() -> None:
    world = full()
    world.join("ada")
    world.publish({"big": BIG})
    world.run(0.2)
    assert world.state("ada") is TicketState.UNKNOWN_CHOICE
    world.publish(CHOICES)
    world.leave("busy-0")
    world.run(0.2)
    assert world.held == ["ada"]


def test_choices_that_compete_are_one_queue_in_the_order_of_arrival() -> None:
    world = full(2)
    for user, choice in (("ada", "gpu"), ("bob", "big"), ("eve", "gpu"), ("dan", "big")):
        world.join(user, choice)
    world.run(1)
    assert {each.shape for each in world.pending_placeholders} == {GPU.id}, "only the first is asked for"
    order = []
    for number in range(2):
        world.leave(f"busy-{number}")
        world.run(0.3)
        (user,) = world.held
        order.append(user)
        choice = {"ada": "gpu", "bob": "big"}[user]
        assert world.start(user, choice) == "taken"
        world.run(0.3)
    for user in ("ada", "bob"):
        world.leave(user)
        world.run(0.3)
    assert (order, world.held) == (["ada", "bob"], ["eve", "dan"])


def test_other_devices_are_another_queue() -> None:
    world = full()
    world.join("ada", "other")
    assert (world.start("bob"), world.start("eve", "other")) == ("direct", "behind")


def test_devices_by_a_claim_and_by_the_resource_of_their_class_are_one_queue() -> None:
    (name,) = competing_devices(GPU)
    resource = replace(GPU, claims={}, containers=({"name": "notebook", "requests": {IMPLICIT_PREFIX + name: "1"}},))
    assert competing_devices(resource) == {name}


def test_a_device_is_not_idle_while_the_first_needs_more_or_another_hub_is_away() -> None:
    for first, hub in (("two", ""), ("gpu", "away/dra-spawner-shapes")):
        world = full(2)
        world.join("ada", first, **({"hub": hub} if hub else {}))
        world.join("bob")
        world.run(1)
        world.leave("busy-0")
        world.run(0.4)
        assert world.held == [], "the first may take it"
        world.run(0.6)
        assert world.held == ["bob"]


def test_without_the_setting_a_direct_start_may_be_lucky() -> None:
    world = full(go_first=False)
    world.join("ada")
    assert world.start("bob") == "direct"


def test_users_over_a_budget_are_behind() -> None:
    world = full()
    over = world.join("ada")
    world.join("bob")
    world.book = world.book.with_notes({over.id: ((), True)}, None)
    world.leave("busy-0")
    world.run(0.2)
    assert world.held == ["bob"]


def test_an_idle_queue_leaves_targets_as_they_are() -> None:
    world = full()
    world.set_replicas(GPU, 2, 4)
    world.run(0.5)
    assert world.number(GPU) == 2
    world.join("ada", "big")
    world.run(1)
    assert (world.number(GPU), world.number(BIG)) == (0, 1), "placeholders for later users do not come before it"
    world.leave_queue("ada", "big")
    world.run(1)
    assert (world.number(GPU), world.number(BIG)) == (2, 0)
