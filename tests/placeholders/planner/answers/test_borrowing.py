"""Users over a budget borrow devices while these are not scarce, and leave warm placeholders to others else."""

from __future__ import annotations

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement
from dra_spawner.placeholders.planner.answers.reservation import find_borrowers_placement
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, gpu_claim, user_shape
from tests.placeholders.planner.world import World, hub

TWO = user_shape({"gpu": gpu_claim(count=2)})


def borrowers(world: World, shape: Shape) -> Placement:
    return find_borrowers_placement(world.view(), world.policy, shape, NAMESPACE)


@all_of_them(
    "gpus, users, warm, state, is_behind",
    {
        "a device is free beside the placeholder": (2, 0, 1, AvailabilityState.READY, False),
        "only the placeholder has one": (2, 1, 1, AvailabilityState.AFTER_PREEMPTION, True),
        "two placeholders have all": (2, 0, 2, AvailabilityState.AFTER_PREEMPTION, True),
        "all are in use": (2, 2, 0, AvailabilityState.WAITS, True),
        "free, without placeholders": (2, 1, 0, AvailabilityState.FREE, False),
    },
)
def test_when_a_device_is_scarce(gpus: int, users: int, warm: int, state: AvailabilityState, is_behind: bool) -> None:
    world = hub((GPU, warm, warm), nodes="a", gpus=gpus)
    for number in range(users):
        world.user(f"user-{number}", {"gpu": gpu_claim()})
    world.settle()
    found = borrowers(world, GPU)
    assert (found.state, found.is_behind) == (state, is_behind)
    assert (found.placeholder is None) is (state is not AvailabilityState.READY)
    others = find_placement(world.view(), world.policy, GPU, NAMESPACE)
    assert not others.is_behind
    assert (others.state is AvailabilityState.READY) is bool(warm), "a user within budget gets it"


def test_what_can_never_start_is_said_as_ever() -> None:
    world = hub((GPU, 1, 1), nodes="a", gpus=1)
    world.policy = world.policy.__class__(shapes={**world.policy.shapes, TWO.id: TWO}, node_kinds_complete=True)
    found = borrowers(world, TWO)
    assert (found.state, found.is_behind) == (AvailabilityState.NEVER, False)


def test_a_server_without_devices_is_not_concerned() -> None:
    world = hub((PLAIN, 4, 4), nodes="a", gpus=1)
    world.user("big", cpu="6")
    world.settle()
    assert not borrowers(world, PLAIN).is_behind
