"""A server gets no claim whose devices were prepared for its placeholder alone before that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.availability_text import SENTENCES
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import AddConsumer, CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.answers.outlook import BusyServers, Supply, find_outlook
from dra_spawner.placeholders.planner.answers.placement import Placement
from dra_spawner.placeholders.planner.answers.reservation import decide_reservation
from dra_spawner.placeholders.planner.decisions.prepared_claims import unnamed_claims
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings, placeholder_pod
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.spawner.placement.pod import after_placeholder
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, NAMESPACE, gpu_claim, user_shape
from tests.placeholders.planner.world import World, hub
from tests.presence import present

ADA = ObjectKey(NAMESPACE, "ada")
DRIVER = "gpu.example.com"
CLAIM, CONTAINER, POD = PreparedFor
MIXED = user_shape({"gpu": gpu_claim(), "more": gpu_claim()})


def world_of(prepared: Mapping[str, PreparedFor] | None = None, **more: Any) -> World:
    """A node with room for a placeholder and a server beside it, and a second device."""
    return hub((GPU, 1, 1), nodes="a", gpus=2, policy={"drivers_prepare_for": prepared or {DRIVER: POD}, **more})


def start(world: World, found: Placement) -> ObjectKey:
    """Act as hub and spawner: a server's pod names the claim, and requires that the placeholder is gone."""
    claim = world.reservation(found, "ada")
    name = present(found.placeholder).key.name
    world.user("ada", claim_names={"gpu": claim}, affinity=after_placeholder({}, name))
    return ObjectKey(NAMESPACE, claim)


def consumers(world: World, claim: ObjectKey) -> list[str]:
    return [each.name for each in world.snapshot.claims[claim].consumers]


@pytest.mark.promise("A server never joins a device that was prepared for another pod alone.")
def test_the_placeholder_goes_first_where_the_node_is_not_full() -> None:
    world = world_of()
    world.grace = timedelta(seconds=2)
    found = world.placement(GPU)
    assert found.state is AvailabilityState.AFTER_PLACEHOLDER
    placeholder = present(found.placeholder)
    claim = start(world, found)
    device = world.snapshot.claims[claim].claim.status.devices

    actions = world.decide().actions
    kinds = [type(each) for each in actions if isinstance(each, AddConsumer | DeletePlaceholder)]
    assert kinds == [AddConsumer, DeletePlaceholder], "at once: no scheduler can bind the pod meanwhile"
    assert [each.key for each in world.ended(Cause.HANDED_OVER)] == [placeholder.key]
    assert consumers(world, claim) == [placeholder.key.name, "ada"]
    # The placeholder terminates: kube-scheduler counts it, and preempts what is terminating already no second time.
    assert not world.snapshot.fits_on(world.snapshot.pods[ADA], "a", explain=False).fits
    world.decide()
    assert consumers(world, claim) == ["ada"], "a driver may prepare for the first consumer, or refuse two"
    assert not world.snapshot.fits_on(world.snapshot.pods[ADA], "a", explain=False).fits
    (pending,) = world.last.pending
    assert not pending.needs_node

    world.pass_time(seconds=3)
    world.schedule()
    assert world.node_of("ada") == "a"
    assert world.snapshot.claims[claim].claim.status.devices == device
    assert consumers(world, claim) == ["ada"]
    world.run(minutes=1)
    assert len(world.ended()) == 1


def test_users_are_told_that_it_is_free() -> None:
    world = world_of()
    view = world.view()
    found = world.placement(GPU)
    outlook = find_outlook(view, world.policy, GPU, NAMESPACE, found, Supply(), lambda: BusyServers(view))
    assert outlook.state is AvailabilityState.AFTER_PLACEHOLDER
    assert (outlook.sentence, "warm" in found.reason) == (SENTENCES[AvailabilityState.FREE], False)
    reserved = present(decide_reservation(view, found, ADA, timedelta(seconds=30)))
    assert (reserved.placement, len(reserved.claims)) == ("after-placeholder", 1)


KINDS: dict[str, tuple[dict[str, PreparedFor], AvailabilityState]] = {
    "a driver of GPUs": ({DRIVER: CLAIM}, AvailabilityState.READY),
    "one that is not known": ({"other.example.com": CLAIM}, AvailabilityState.AFTER_PLACEHOLDER),
    "one that prepares for a pod": ({DRIVER: POD}, AvailabilityState.AFTER_PLACEHOLDER),
    "one that prepares for a container, and the placeholder's names the claim": (
        {DRIVER: CONTAINER},
        AvailabilityState.AFTER_PLACEHOLDER,
    ),
}


@all_of_them("prepared, kind", [pytest.param(*each, id=name) for name, each in KINDS.items()])
def test_the_driver_of_the_allocated_device_decides(prepared: dict[str, PreparedFor], kind: AvailabilityState) -> None:
    assert world_of(prepared).placement(GPU).state is kind


def test_a_claim_with_an_interface_is_never_joined() -> None:
    """The driver has moved the interface into the placeholder, whatever is known about the driver."""
    world = world_of({DRIVER: CLAIM})
    (key,) = world.only.claims
    tracked = world.snapshot.claims[key]
    status = replace(tracked.claim.status, has_network_data=True)
    world.snapshot.put(replace(tracked, claim=replace(tracked.claim, status=status)))
    assert world.placement(GPU).state is AvailabilityState.AFTER_PLACEHOLDER


def test_one_of_several_claims_decides_for_all() -> None:
    world = hub((MIXED, 1, 1), nodes="a", gpus=2, policy={"drivers_prepare_for": {DRIVER: CLAIM}})
    assert world.placement(MIXED).state is AvailabilityState.READY
    tracked = world.snapshot.claims[world.only.claims[1]]
    status = replace(tracked.claim.status, has_network_data=True)
    world.snapshot.put(replace(tracked, claim=replace(tracked.claim, status=status)))
    assert world.placement(MIXED).state is AvailabilityState.AFTER_PLACEHOLDER


def made(world: World) -> CreatePlaceholder:
    (action,) = world.actions(CreatePlaceholder)
    assert isinstance(action, CreatePlaceholder)
    return action


def test_no_container_of_a_placeholder_takes_what_is_for_the_first_container() -> None:
    """The pod names the claim all the same, so that the kubelet prepares it; and a server joins it."""
    world = World(Policy(shapes={GPU.id: GPU}, drivers_prepare_for={DRIVER: CONTAINER}))
    expression = f'device.driver == "{DRIVER}"'
    world.snapshot.apply(
        {
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
    )
    world.set_replicas(GPU, 1, 1)
    world.node("a", gpus=1)
    world.settle()
    assert made(world).unnamed == ("gpu",)
    (container,) = world.only.pod.containers
    assert (container.claims, len(world.only.claims)) == ((), 1)
    assert world.placement(GPU).state is AvailabilityState.READY
    for prepared in (CLAIM, POD):
        other = replace(world.policy, drivers_prepare_for={DRIVER: prepared})
        named = "the kubelet reports the health of devices for containers alone"
        assert unnamed_claims(world.view(), other, GPU) == (), named


def test_a_placeholder_of_an_older_release_is_replaced() -> None:
    """No server can wait for its end, so its devices would be lost for users."""
    world = world_of()
    old = world.only
    labels = {key: value for key, value in old.pod.labels.items() if key != names.PLACEHOLDER_NAME}
    world.snapshot.put(replace(world.snapshot.pods[old.key], labels=labels))
    assert world.placement(GPU).state is AvailabilityState.FREE, "it is not joined"
    world.settle()
    (end,) = world.ended(Cause.OUTDATED)
    assert end.key == old.key
    assert "older release" in end.reason
    assert world.placement(GPU).state is AvailabilityState.AFTER_PLACEHOLDER


def test_the_grace_period_that_proves_that_a_placeholder_has_ended() -> None:
    """With 0 the object is gone before the kubelet has undone the preparation: a server would get no interface."""
    pod = placeholder_pod(GPU, "placeholder-1", PlaceholderSettings())
    assert pod["spec"]["terminationGracePeriodSeconds"] > 0
    assert pod["metadata"]["labels"][names.PLACEHOLDER_NAME] == "placeholder-1"
