"""A device that a taint closes, of its driver or of a rule, is given to nobody: not by a warm placeholder either."""

from __future__ import annotations

from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import Cause, PlaceholderState
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.all_of_them import all_of_them
from tests.cluster.example_objects import taint_rule
from tests.placeholders.planner.objects import GPU, Json, gpu_claim, gpu_slice, user_shape
from tests.placeholders.planner.world import World, policy_for

READY = {names.IMAGES_READY: names.TRUE}
TAINT = {"key": "example.com/upkeep", "effect": "NoSchedule"}


def by_rule(world: World, **taint: Any) -> None:
    (device,) = held(world)
    rule = taint_rule("upkeep", pool=device.pool, device=device.device)
    rule["spec"]["deviceSelector"]["driver"] = device.driver
    rule["spec"]["taint"].update(taint)
    world.apply(rule)


def by_driver(world: World, **taint: Any) -> None:
    (device,) = held(world)
    published = gpu_slice("a", 2, "")
    for each in published["spec"]["devices"]:
        if each["name"] == device.device:
            each["taints"] = [{**TAINT, **taint}]
    world.apply(published)


def held(world: World) -> list[Any]:
    """Devices of warm placeholders."""
    view = world.view()
    claims = [view.snapshot.claims[key] for each in view.placeholders.values() for key in each.claims]
    return [part.id for claim in claims for part in claim.claim.status.devices or ()]


def hub(claim: Json | None = None) -> World:
    """Node a with two GPUs, one of a warm placeholder."""
    shape = user_shape({"gpu": claim}) if claim is not None else GPU
    world = World(policy_for((shape, 1, 1)))
    world.node("a", gpus=2, labels=READY)
    world.settle()
    assert [each.state for each in world.view().placeholders.values()] == [PlaceholderState.WARM]
    return world


@all_of_them("close", {"a rule": by_rule, "its driver": by_driver})
def test_the_next_user_gets_the_sound_device_and_the_placeholder_goes(close: Any) -> None:
    world = hub()
    (closed,) = held(world)
    close(world)
    (placeholder,) = world.view().placeholders.values()
    assert placeholder.state is PlaceholderState.STARTING
    found = world.placement(GPU)
    assert (found.state, found.node, found.placeholder) == (AvailabilityState.FREE, "a", None)
    world.settle()
    (ended,) = world.ended(Cause.EVICTED)
    assert ended.reason == f"device {closed} is closed by the taint example.com/upkeep:NoSchedule"
    # The replacement comes at once: no failure is counted, and its node is not avoided.
    world.run(minutes=1)
    (sound,) = held(world)
    assert sound != closed
    assert world.placement(GPU).state is AvailabilityState.READY
    assert len(world.ended(Cause.EVICTED)) == 1


@all_of_them(
    "close, taint",
    {
        "information": (by_rule, {"effect": "None"}),
        "information of the driver": (by_driver, {"effect": "None"}),
    },
)
def test_a_taint_without_effect_changes_nothing(close: Any, taint: Any) -> None:
    world = hub()
    close(world, **taint)
    world.run(minutes=1)
    assert world.ended(Cause.EVICTED) == []
    assert world.placement(GPU).state is AvailabilityState.READY


def test_a_placeholder_whose_claim_tolerates_the_taint_stays() -> None:
    world = hub(gpu_claim(tolerations=[{"key": "example.com/upkeep", "operator": "Exists"}]))
    by_rule(world)
    world.run(minutes=1)
    assert world.ended(Cause.EVICTED) == []


def test_a_closed_device_is_no_free_one_and_an_open_one_is() -> None:
    world = World(policy_for((GPU, 0, 0)))
    world.node("a", gpus=1, labels=READY)
    world.settle()
    world.apply(taint_rule("all") | {"spec": {"deviceSelector": {}, "taint": TAINT}})
    assert world.placement(GPU).state is not AvailabilityState.FREE
    world.snapshot.remove(Kind.DEVICE_TAINT_RULE, ObjectKey("", "all"))
    assert world.placement(GPU).state is AvailabilityState.FREE
