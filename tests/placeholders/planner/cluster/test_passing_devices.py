"""No placeholder is created for a device from which Kubernetes would evict it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from dra_spawner.placeholders.planner.actions import LabelNode
from dra_spawner.placeholders.planner.cluster.passing_devices import lasting_shape
from dra_spawner.placeholders.planner.round import DenialCause
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, Json, gpu_claim, gpu_slice, user_shape
from tests.placeholders.planner.world import World, hub

WORN = {"key": "example.com/worn", "value": "yes", "effect": "NoExecute"}
FOR_SECONDS = {"key": "example.com/worn", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}


def tolerating(*tolerations: Json) -> Shape:
    return user_shape({"gpu": gpu_claim(tolerations=list(tolerations))})


def taint(world: World, node: str, gpus: int, *tainted: int) -> None:
    """The driver taints GPUs of a node; without numbers, none."""
    published = gpu_slice(node, gpus, "")
    for number in tainted:
        published["spec"]["devices"][number]["taints"] = [WORN]
    world.apply(published)


def worn_hub(shape: Shape, gpus: Mapping[str, tuple[int, tuple[int, ...]]], wanted: int = 1) -> World:
    """A hub with nodes, each with its number of GPUs and the tainted ones."""
    world = hub((shape, wanted, 9))
    for name, (count, tainted) in gpus.items():
        world.node(name, gpus=count)
        taint(world, name, count, *tainted)
    return world


TOLERATIONS: dict[str, tuple[tuple[Json, ...], int]] = {
    "for seconds": ((FOR_SECONDS,), 0),
    "for no time": (({**FOR_SECONDS, "tolerationSeconds": 0},), 0),
    "any effect": (({"key": "example.com/worn", "operator": "Exists"},), 0),
    "any effect and key": (({"operator": "Exists"},), 0),
    "for good": (({"key": "example.com/worn", "operator": "Exists", "effect": "NoExecute"},), 1),
    "for good, and for seconds": (({"operator": "Exists", "effect": "NoExecute"}, FOR_SECONDS), 1),
}


@all_of_them("tolerations, made", TOLERATIONS)
def test_only_where_it_may_stay(tolerations: tuple[Json, ...], made: int) -> None:
    world = worn_hub(tolerating(*tolerations), {"a": (2, (0, 1))})
    world.run(minutes=1)
    assert world.made == made


def test_the_reason_is_told_and_ends() -> None:
    shape = tolerating(FOR_SECONDS)
    world = worn_hub(shape, {"a": (2, (0, 1))}, wanted=2)
    world.run(minutes=1)
    denial = world.last.limited[shape.id]
    assert (denial.cause, denial.cause.is_resumable) == (DenialCause.TAINT, False)
    assert denial.sentence("gpu") == (
        "Placeholders of gpu: 2 are wanted, 0 are allowed as Kubernetes would end them for the taint of each device "
        "that they could get."
    )
    taint(world, "a", 2)
    world.run(minutes=1)
    assert len(world.warm(shape)) == 2
    assert not world.last.limited


def test_a_node_with_lasting_devices_is_preferred() -> None:
    shape = tolerating(FOR_SECONDS)
    world = worn_hub(shape, {"a": (1, (0,)), "b": (1, ())})
    world.run(minutes=1)
    assert (world.placeholders_on("a"), world.placeholders_on("b")) == (0, 1)


def test_none_while_servers_have_the_others() -> None:
    """It would not be pending: the scheduler would give it the tainted one."""
    shape = tolerating(FOR_SECONDS)
    world = worn_hub(shape, {"a": (2, ())})
    world.user("ada", {"gpu": gpu_claim()}, requires_ready=False)
    world.schedule()
    taint(world, "a", 2, 1)
    world.run(minutes=1)
    assert world.made == 0
    world.leave("ada")
    world.run(minutes=1)
    assert len(world.warm(shape)) == 1


def test_none_after_those_that_are_ended_now() -> None:
    """They still hold the devices that the next ones would get."""
    shape = tolerating(FOR_SECONDS)
    world = worn_hub(shape, {"a": (2, ())}, wanted=2)
    world.settle()
    world.grace = timedelta(seconds=5)
    taint(world, "a", 2, 0, 1)
    for each in world.warm(shape):
        world.end_pod(each.key)
    world.run(minutes=1, every_seconds=1)
    assert world.made == 2


def test_an_autoscaler_may_add_a_node() -> None:
    """Where no device is free, the placeholder asks for one."""
    world = worn_hub(tolerating(FOR_SECONDS), {"a": (0, ())})
    world.node("b", gpus=1)
    taint(world, "b", 1, 0)
    world.user("ada", {"gpu": gpu_claim(tolerations=[FOR_SECONDS])})
    world.schedule()
    world.settle()
    assert len(world.pending_placeholders) == 1


def test_no_node_is_emptied_for_such_devices() -> None:
    shape = tolerating(FOR_SECONDS)
    world = worn_hub(shape, {"a": (1, ())})
    world.set_replicas(shape, 1, 9, floor=0)
    world.settle()
    world.node("b", gpus=1)
    taint(world, "b", 1, 0)
    world.run(minutes=60, every_seconds=60)
    assert not [each for each in world.actions(LabelNode) if each.label.endswith("draining")]
    taint(world, "b", 1)
    world.run(minutes=60, every_seconds=60)
    assert [each for each in world.actions(LabelNode) if each.label.endswith("draining")], "a node is emptied else"


def test_other_shapes_are_as_they_are() -> None:
    assert lasting_shape(GPU) is GPU
    for empty in ({"requests": None}, {"requests": [{"name": "gpu", "exactly": None, "firstAvailable": None}]}, None):
        odd = user_shape({"gpu": {"devices": empty}})
        assert lasting_shape(odd) is odd
    first = {
        "devices": {"requests": [{"name": "gpu", "firstAvailable": [{"name": "a", "tolerations": [FOR_SECONDS]}]}]}
    }
    (request,) = lasting_shape(user_shape({"gpu": first})).claims["gpu"]["devices"]["requests"]
    assert request["firstAvailable"] == [{"name": "a", "tolerations": []}]
