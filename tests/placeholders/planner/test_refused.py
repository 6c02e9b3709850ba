"""Users' pods that the scheduler does not place although the service's model says that they fit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder, LabelPod
from dra_spawner.placeholders.planner.amounts.preemption_backoff import PreemptionRecord
from dra_spawner.placeholders.planner.decisions.preemption import NO_CAPACITY
from dra_spawner.placeholders.planner.round import PendingUser
from dra_spawner.placeholders.planner.targets.policy import Grace, Policy
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, gpu_claim
from tests.placeholders.planner.simulated_cluster import START
from tests.placeholders.planner.world import World, hub
from tests.presence import present

MESSAGE = (
    "0/4 nodes are available: 4 node(s) didn't match PersistentVolume's node affinity. no new claims to deallocate, "
    "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
)
CAUSE = "0/4 nodes are available: 4 node(s) didn't match PersistentVolume's node affinity. no new claims to deallocate,"
ADA = ObjectKey(NAMESPACE, "ada")


def full_hub(placeholders_wanted: int = 4) -> World:
    """Four nodes with a device each; placeholders hold the wanted number of them."""
    world = hub((GPU, placeholders_wanted, 8), shapes={GPU.id: GPU, PLAIN.id: PLAIN})
    for name in "abcd":
        world.node(name, gpus=1)
    world.settle()
    assert len(world.warm(GPU)) == placeholders_wanted
    return world


def refused_hub(placeholders_wanted: int = 4, message: str = MESSAGE, **pod: Any) -> World:
    """A full hub whose scheduler refuses Ada's server."""
    world = full_hub(placeholders_wanted)
    world.refused["ada"] = message
    world.user("ada", **{"claims": {"gpu": gpu_claim()}, **pod})
    return world


def pass_minutes(world: World, minutes: float, each_round: Callable[[], None] = lambda: None) -> list[PendingUser]:
    """Records of the only pending server, round by round."""
    said: list[PendingUser] = []

    def note() -> None:
        said.extend(world.last.pending)
        each_round()

    world.run(minutes, every_seconds=2, each_round=note)
    return said


def preemption_gaps(world: World) -> list[float]:
    """Seconds between preemptions for a user."""
    deletions = [
        (at, each) for at, each in world.log if isinstance(each, DeletePlaceholder) and each.cause is Cause.PREEMPTED
    ]
    times = [at for at, each in deletions if "fits on node" in each.reason]
    assert len(times) == len(world.actions(LabelPod))
    return [(after - before).total_seconds() for before, after in pairwise(times)]


def test_placeholders_are_preempted_a_few_times_and_then_the_scheduler_is_believed() -> None:
    world = refused_hub()
    said = pass_minutes(world, 10)
    assert [round(each / 10) for each in preemption_gaps(world)] == [1, 4, 16]
    assert all(each.needs_node and each.reason.endswith(f"but the scheduler says: {CAUSE}") for each in said[10:])
    assert len(world.warm(GPU)) == 4
    # All nodes are full, so the pending placeholder for ada asks for one more.
    (for_pending_pod,) = world.pending_placeholders
    assert for_pending_pod.shape == GPU.id
    assert world.actions(CreatePlaceholder)[-1].for_pending_pod == ADA


def test_preemptions_are_known_after_a_restart() -> None:
    world = refused_hub()

    def restart() -> None:
        if world.now.second % 20 == 0:
            world.restart()

    pass_minutes(world, 10, restart)
    assert [round(each / 10) for each in preemption_gaps(world)] == [1, 4, 16]


def test_preemptions_are_known_without_the_right_to_label_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    world = refused_hub()
    executor = world.carry_out

    def refuse(action: Action) -> None:
        if not isinstance(action, LabelPod):
            executor(action)

    monkeypatch.setattr(world, "carry_out", refuse)
    pass_minutes(world, 10)
    assert [round(each / 10) for each in preemption_gaps(world)] == [1, 4, 16]


@pytest.mark.parametrize("placeholders_wanted", [4, 2], ids=["all nodes are full", "some nodes are free"])
@pytest.mark.parametrize("node", ["a", "b", "c", "d"])
def test_each_preemption_is_on_another_node(placeholders_wanted: int, node: str) -> None:
    """The volume is on one of the nodes, and the service does not know which."""
    world = refused_hub(placeholders_wanted)

    def schedule_there() -> None:
        ada = world.snapshot.pods[ADA]
        if not ada.node_name and world.snapshot.schedule(ada, node).fits:
            del world.refused["ada"]

    pass_minutes(world, 6, schedule_there)
    assert world.node_of("ada") == node


def test_nothing_is_preempted_while_the_scheduler_may_still_place_the_pod() -> None:
    world = refused_hub(2, "")
    said = pass_minutes(world, 0.25)
    assert {each.reason.split(" on ")[0] for each in said} == {"fits"}
    assert not world.actions(LabelPod)


def test_a_scheduler_that_says_nothing_is_not_asked_for_a_node() -> None:
    """The scheduler has many pods to place, or does not run."""
    world = refused_hub(0, "")
    said = pass_minutes(world, 2)
    assert said[-1].reason == "fits on node a, but the scheduler has not tried it yet"
    assert not any(each.needs_node for each in said)
    assert not world.view().placeholders


def test_of_a_server_without_devices_the_scheduler_is_believed_too() -> None:
    world = refused_hub(0, claims={})
    said = pass_minutes(world, 1)
    assert said[-1].reason == f"should fit on node a, but the scheduler says: {CAUSE}"
    assert said[-1].needs_node
    assert not world.actions(LabelPod)


def test_a_refused_server_blocks_no_other_server() -> None:
    """The scheduler's message about one server does not hold for other servers of the shape."""
    world = full_hub(0)
    for name in "abc":
        world.remove_node(name)
    world.refused |= {"ada": MESSAGE, "bob": ""}
    world.user("ada", {"gpu": gpu_claim()})
    pass_minutes(world, 1)
    world.user("bob", {"gpu": gpu_claim()}, nodeSelector={"kubernetes.io/hostname": "d"})
    for key in world.view().placeholders:
        world.remove_pod(key)
    pending = {each.pod.name: each for each in world.decide().pending}
    assert pending["ada"].needs_node
    assert pending["bob"].reason == "fits on node d"


def test_the_scheduler_has_time_to_try_a_new_node() -> None:
    """A message from before the node came is no reason to ask for another node."""
    world = refused_hub(claims={"gpu": gpu_claim(count=2)})
    assert pass_minutes(world, 2)[-1].reason == NO_CAPACITY
    world.node("e", gpus=2)
    world.policy = Policy(shapes=world.policy.shapes)
    said = pass_minutes(world, 0.2)
    assert said[-1].reason == "fits on node e"
    assert not said[-1].needs_node


def test_no_placeholder_is_created_on_a_device_freed_for_a_user() -> None:
    """kube-scheduler retries a refused pod after a second, and would look at a new placeholder at once."""
    world = full_hub(1)
    for name in "bcd":
        world.remove_node(name)
    world.settle()
    world.user("ada", {"gpu": gpu_claim()})
    world.refused["ada"] = ""
    world.decide()
    assert preemption_gaps(world) == []
    assert len(world.actions(LabelPod)) == 1
    for _ in range(3):
        world.pass_time(seconds=0.5)
        world.schedule()
        assert world.decide().pending[0].reason == "fits on node a"
    assert not world.view().placeholders
    world.refused.clear()
    world.schedule()
    assert world.node_of("ada") == "a"


def test_the_label() -> None:
    times = {"1772442000": 1, "1772442000-3": 3, "1772442000-999": 8, "1772442000-x": 1, "1772442000-99999": 1}
    found = {label: PreemptionRecord.from_label(label) for label in times}
    assert found == {label: PreemptionRecord(START, count) for label, count in times.items()}
    assert all(PreemptionRecord.from_label(present(each).label) == each for each in found.values())
    for label in ("", "-2", "x-2", "2026-03-02"):
        senseless = PreemptionRecord.from_label(label)
        assert senseless is None or senseless.at.year == 1970, label


def test_back_off() -> None:
    waits = [PreemptionRecord(START, times).waits(Grace()).total_seconds() for times in range(1, 5)]
    assert waits == [10, 40, 160, 640]
