"""Other settings of placeholders: present ones are replaced, few at a time; what is warm stays, and what a user gets."""

from __future__ import annotations

from dataclasses import replace

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Hold
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, PLAIN
from tests.placeholders.planner.world import SETTINGS, World, hub

NEW = "r.example.com/pause:2"


def started(shape: Shape, least: int, most: int) -> World:
    """Two nodes with two devices each."""
    world = hub((shape, least, most), nodes="ab", cpu="20", gpus=2)
    world.run(2)
    assert len(world.warm(shape)) == least
    return world


def change(world: World, *, image: str = NEW) -> None:
    """The service begins again with another image; new pods have `image`."""
    world.policy = replace(world.policy, placeholder_image=NEW)
    world.settings = replace(SETTINGS, image=image)
    world.restart()


def images(world: World) -> set[str]:
    return {image for each in world.view().placeholders.values() for image in each.pod.images}


def fewest(world: World, shape: Shape, minutes: float = 3) -> int:
    """The fewest warm placeholders of any moment."""
    counts: list[int] = []
    world.run(minutes, every_seconds=1, each_round=lambda: counts.append(len(world.warm(shape))))
    return min(counts)


@all_of_them(
    "shape, least, most, warm",
    {
        "no devices": (PLAIN, 5, 9, 5),
        "a device is free": (GPU, 3, 9, 3),
        # Half of them is the floor below which nothing is evicted.
        "no device is free": (GPU, 4, 9, 3),
        "no more are allowed": (GPU, 3, 3, 2),
    },
)
def test_present_ones_are_replaced_one_at_a_time(shape: Shape, least: int, most: int, warm: int) -> None:
    world = started(shape, least, most)
    change(world)
    assert fewest(world, shape) == warm
    assert images(world) == {NEW}
    assert len(world.ended(Cause.OUTDATED)) == world.made - least == least
    assert world.ended(Cause.OUTDATED)[0].reason == f"its image: {SETTINGS.image}; configured: {NEW}"
    before = len(world.log)
    world.run(10)
    assert len(world.log) == before, "nothing is replaced twice"


def test_the_only_one_of_the_only_device_stays_until_it_is_handed_over() -> None:
    world = hub((GPU, 1, 9), nodes="a", gpus=1)
    world.run(2)
    change(world)
    assert fewest(world, GPU) == 1
    assert (world.ended(), {*world.last.denied.values()}) == ([], {Hold.REPLACING})


def test_a_reserved_one_stays() -> None:
    world = started(GPU, 2, 9)
    kept = world.placement(GPU)
    world.reservation(kept, "jupyter-ada")
    change(world)
    world.run(0.4, every_seconds=1)
    assert kept.placeholder is not None
    assert kept.placeholder.key in world.view().placeholders
    assert kept.placeholder.key not in {each.key for each in world.ended(Cause.OUTDATED)}


def test_users_servers_come_first() -> None:
    world = started(GPU, 4, 9)
    world.user("ada", GPU.claims)
    change(world)
    world.decide()
    assert not world.ended(Cause.OUTDATED)


def test_a_webhook_that_writes_its_own_image_is_left_alone() -> None:
    world = started(GPU, 3, 9)
    change(world, image=SETTINGS.image)
    assert fewest(world, GPU, 10) == 3
    assert world.made - 3 <= 1
    assert not world.ended(Cause.OUTDATED)


def test_those_that_do_not_run_are_replaced_at_once() -> None:
    world = hub((GPU, 2, 9), nodes="ab", gpus=2)
    world.broken_nodes = frozenset("ab")
    world.run(0.2, every_seconds=1)
    for each in world.view().placeholders.values():
        world.snapshot.put(replace(each.pod, waits_because="ErrImagePull: not found"))
    change(world)
    world.broken_nodes = frozenset()
    world.run(0.2, every_seconds=1)
    assert (images(world), len(world.warm(GPU))) == ({NEW}, 2)


def test_while_the_new_image_does_not_run_the_old_ones_stay() -> None:
    world = started(GPU, 2, 9)
    change(world)
    world.broken_nodes = frozenset("ab")
    assert fewest(world, GPU, 15) == 2
    assert not world.ended(Cause.OUTDATED)


def test_another_priority_class_replaces_them_too_and_a_webhook_that_writes_images_is_no_reason_against_it() -> None:
    """Of the two settings only what a new placeholder really gets is a reason to replace others."""
    world = started(GPU, 3, 9)
    world.policy = replace(world.policy, placeholder_image=NEW, placeholder_priority_class="low")
    world.settings = replace(SETTINGS, priority_class="low")
    world.restart()
    assert fewest(world, GPU) == 3
    assert {each.pod.priority_class for each in world.view().placeholders.values()} == {"low"}
    assert world.ended(Cause.OUTDATED)[-1].reason == "its PriorityClass: (none); configured: low"
    before = len(world.log)
    world.run(10)
    assert len(world.log) == before, "nothing is replaced twice"


def test_a_priority_class_that_a_webhook_writes_is_left_alone() -> None:
    world = started(GPU, 3, 9)
    world.policy = replace(world.policy, placeholder_priority_class="low")
    world.restart()
    assert fewest(world, GPU, 10) == 3
    assert world.made - 3 <= 1
    assert not world.ended(Cause.OUTDATED)


def test_other_pull_secrets_replace_only_those_that_do_not_run() -> None:
    world = started(GPU, 4, 9)
    for each in world.view().placeholders.values():
        if each.node == "b":
            world.slow |= {each.pod.name}
            world.snapshot.put(replace(each.pod, phase="Pending", waits_because="ErrImagePull: not found"))
    running = {each.pod.uid for each in world.view().placeholders.values() if each.is_proven}
    world.policy = replace(world.policy, placeholder_pull_secrets=frozenset({"registry"}))
    world.settings = replace(SETTINGS, image_pull_secrets=("registry",))
    world.restart()
    world.run(1, every_seconds=1)
    found = {each.pod.uid: each.pod.pull_secrets for each in world.view().placeholders.values()}
    assert (len(running), len(found)) == (2, 4)
    assert {uid for uid, secrets in found.items() if not secrets} == running
    assert {each.reason for each in world.ended(Cause.OUTDATED)} == {"its pull secrets: (none); configured: registry"}
