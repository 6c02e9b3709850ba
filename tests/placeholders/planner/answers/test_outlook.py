"""How soon a server would run, as users see it: only certain statements, and no Kubernetes words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.dra.allocation.cause_text import DEVICE_CAUSES, MACHINE_IS_ADDED, RefusalKind
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.round.cluster_limits import pending_uids
from dra_spawner.placeholders.planner.answers.outlook import BusyServers, Outlook, Supply, find_outlook
from dra_spawner.placeholders.planner.answers.placement import find_placement
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, SHARE, gpu_claim, share_claim, user_shape
from tests.placeholders.planner.ticket_world import TicketWorld
from tests.placeholders.planner.world import World

KIND = "node.kubernetes.io/instance-type"
TWO = user_shape({"gpu": gpu_claim(count=2)})
LARGE = {KIND: "large"}
STATES = AvailabilityState
#: Words that a hub's users need not know.
FOREIGN = ("node", "pod", "claim", "placeholder", "preempt", "schedul", "cluster", "kube", "taint", "slice")


def hub(*, only_these_kinds: bool = False, warm: int = 0, **node: Any) -> World:
    """A hub with a node, if anything is said about it."""
    replicas = {GPU.id: ReplicaRange(warm, 9)} if warm else {}
    shapes = {each.id: each for each in (PLAIN, GPU, TWO, SHARE)}
    world = World(Policy(shapes=shapes, replicas=replicas, node_kinds_complete=only_these_kinds))
    if node:
        world.node("machine-0", **node)
        world.settle()
    return world


def outlook(world: World, shape: Shape, *, user: str = "", more: Mapping[str, int] | None = None) -> Outlook:
    state = world.planner_state
    supply = Supply(more or {}, frozenset(state.scale_up_caps.at(world.now)), state.drivers)
    view = world.view()
    placement = find_placement(view, world.policy, shape, NAMESPACE, supply.drivers_of_kind, supply.more_nodes)
    pod = world.snapshot.pods[ObjectKey(NAMESPACE, user)] if user else None
    found = find_outlook(
        view, world.policy, shape, NAMESPACE, placement, supply, lambda: BusyServers(view), for_pod=pod
    )
    assert found.sentence.endswith(".")
    assert found.sentence.count(".") <= 2
    for word in (*FOREIGN, *(name for name in world.snapshot.nodes), *(key.name for key in world.snapshot.pods)):
        assert word not in found.sentence.lower()
    return found


def full(gpus: int = 1, nodes: int = 1) -> World:
    """A user has each device of each node."""
    world = hub()
    for node in range(nodes):
        world.node(f"machine-{node}", gpus=gpus, labels=LARGE)
        for user in range(gpus):
            world.user(f"ada-{node}-{user}", {"gpu": gpu_claim()})
    world.settle()
    assert not world.pending
    return world


def test_a_warm_placeholder_is_ready() -> None:
    world = hub(warm=1, gpus=1)
    assert outlook(world, GPU).state is STATES.READY


def test_capacity_is_free() -> None:
    world = hub(gpus=1)
    assert outlook(world, GPU).state is STATES.FREE
    assert outlook(world, PLAIN).state is STATES.FREE


def test_reserves_are_freed() -> None:
    world = hub(warm=2, gpus=2)
    assert outlook(world, TWO).state is STATES.AFTER_PREEMPTION


def test_a_node_that_was_opened_without_the_image_is_not_free() -> None:
    """Its label has another value. A server would start on it, but only after the image is pulled."""
    world = hub(gpus=1, images=())
    world.run(minutes=20, every_seconds=30)
    assert world.snapshot.nodes["machine-0"].node.labels[names.IMAGES_READY] == names.LATE
    found = outlook(world, GPU)
    assert (found.state, "downloaded" in found.sentence) == (STATES.UNKNOWN, True)


def test_without_an_autoscaler_another_server_must_stop() -> None:
    """The sentence is that of the progress page."""
    found = outlook(full(gpus=2), GPU)
    assert (found.state, found.sentence) == (STATES.WHEN_STOPPED, DEVICE_CAUSES[RefusalKind.IN_USE].waiting)
    assert [each.name for each in sorted(found.holders, key=lambda pod: pod.name)] == ["ada-0-0", "ada-0-1"]


def test_another_node_of_the_kind_is_certain() -> None:
    world = full()
    found = outlook(world, GPU, more={"large": 1})
    assert (found.state, found.kind, found.before) == (STATES.NEEDS_NODE, "large", 0)
    assert found.holders, "a server that stops is enough, too"
    assert outlook(world, GPU, more={"small": 1}).state is STATES.WHEN_STOPPED


def test_pending_servers_take_the_nodes_that_can_still_come() -> None:
    world = full()
    world.user("bob", {"gpu": gpu_claim()})
    world.pass_time(seconds=1)
    world.user("zoe", {"gpu": gpu_claim()})
    assert outlook(world, GPU, more={"large": 2}).state is STATES.WHEN_STOPPED
    assert outlook(world, GPU, more={"large": 3}).state is STATES.NEEDS_NODE
    assert outlook(world, GPU, user="bob", more={"large": 1}).state is STATES.NEEDS_NODE
    assert outlook(world, GPU, user="zoe", more={"large": 1}).before == 1


def test_a_node_that_the_autoscaler_refuses_is_not_announced() -> None:
    """The autoscaler refused a pod of another shape that needs the same kind of node."""
    world = full()
    world.user("bob", {"gpu": gpu_claim(count=1)}, cpu="2")
    assert outlook(world, GPU, more={"large": 9}).state is STATES.NEEDS_NODE
    # The service reads the autoscaler's events about these pods.
    world.no_node = dict.fromkeys(pending_uids(world.view()), "1 max node group size reached")
    assert outlook(world, GPU, more={"large": 9}).state is STATES.WHEN_STOPPED


def test_a_new_node_that_becomes_ready_is_certain() -> None:
    world = full()
    world.node("machine-9", gpus=1, images=(), labels=LARGE)
    world.settle()
    found = outlook(world, GPU)
    assert (found.state, found.coming) == (STATES.NEEDS_NODE, "machine-9")
    world.user("bob", {"gpu": gpu_claim()})
    assert outlook(world, GPU).state is STATES.WHEN_STOPPED, "another server gets it"
    world.leave("bob")
    world.pass_time(minutes=16)
    assert outlook(world, GPU).state is STATES.WHEN_STOPPED, "it takes longer than any good node"


def test_a_cordoned_node_is_called_closed() -> None:
    world = full()
    node = world.snapshot.nodes["machine-0"].node
    world.snapshot.put(replace(node, is_unschedulable=True))
    found = outlook(world, GPU)
    assert (found.state, "has closed it" in found.sentence) == (STATES.CLOSED, True)
    assert "has closed it" not in outlook(world, user_shape({"gpu": gpu_claim(count=3)})).sentence


def test_no_node_can_run_the_server_at_present() -> None:
    world = hub(gpus=1)
    found = outlook(world, TWO)
    assert (found.state, found.holders) == (STATES.WAITS, ())
    placement = world.placement(TWO)
    expected = f"No machine has as many such devices as this choice asks for. {MACHINE_IS_ADDED}"
    assert (placement.state, placement.sentence) == (STATES.WAITS, expected), "nothing is in use"


def test_an_equal_server_leaves_nothing_while_the_driver_is_away() -> None:
    world = full(gpus=2)
    world.lose_slice("machine-0")
    found = outlook(world, GPU)
    assert (found.state, found.holders) == (STATES.WAITS, ())


def test_two_servers_must_stop_for_a_large_one() -> None:
    found = outlook(full(gpus=2), TWO)
    assert (found.state, found.holders) == (STATES.WHEN_STOPPED, ())


def test_a_larger_server_frees_capacity_for_a_smaller_one() -> None:
    world = hub()
    world.node("machine-0", gpus=2, labels=LARGE)
    world.user("ada", {"gpu": gpu_claim(count=2)})
    world.settle()
    assert [each.name for each in outlook(world, GPU).holders] == ["ada"]


def test_why_never() -> None:
    nobody = [{"cel": {"expression": "device.driver == 'none'"}}]
    rows = (
        (user_shape({"gpu": gpu_claim(count=3)}), "", "for 3 such devices, and the machine with most of them has 2"),
        (user_shape({"gpu": gpu_claim(count=3)}), "40Gi", "than the devices of any machine have together"),
        (user_shape(cpu="11"), "", "more memory or processors"),
        (user_shape(nodeSelector={"zone": "nowhere"}), "", "no machine is of the kind"),
        (user_shape({"gpu": gpu_claim(selectors=nobody)}), "", "no machine has a device of the kind"),
        (
            user_shape({"gpu": share_claim("999Gi")}),
            "40Gi",
            "for 1000 GiB of memory, and the largest such device has 40 GiB",
        ),
    )
    found = {
        words: outlook(hub(only_these_kinds=True, gpus=2, memory=memory, labels=LARGE), shape)
        for shape, memory, words in rows
    }
    assert {each.state for each in found.values()} == {STATES.NEVER}
    assert {words: each.sentence for words, each in found.items() if words not in each.sentence} == {}


def test_new_nodes_count_as_coming_for_a_time_only() -> None:
    world = full()
    world.policy = replace(world.policy, readiness=replace(world.policy.readiness, deadline=timedelta(minutes=1)))
    world.node("machine-9", gpus=1, images=(), labels=LARGE)
    world.pass_time(seconds=30)
    assert outlook(world, GPU).state is STATES.NEEDS_NODE
    world.pass_time(seconds=60)
    assert outlook(world, GPU).state is STATES.WHEN_STOPPED


def test_what_the_queue_gets_first_is_not_called_free() -> None:
    """A start without a ticket is refused then, so a form must not say that it starts."""
    world = TicketWorld({"gpu": GPU, "two": TWO, "plain": PLAIN})
    world.node("machine-0", gpus=2, labels=LARGE)
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    assert outlook(world, GPU).state is STATES.FREE
    world.join("bob", "two")
    found = outlook(world, GPU)
    assert (found.state, found.before) == (STATES.WAITS, 1)
    assert found.sentence == "One person is in the queue for such a device. The queue comes first."
    assert world.start("cyd") == "behind"
    assert outlook(world, PLAIN).state is STATES.FREE
    world.join("eve", "two")
    found = outlook(world, TWO)
    assert (found.state, found.before, len(found.holders)) == (STATES.WHEN_STOPPED, 2, 1)
    assert found.sentence.endswith(" 2 persons are in the queue for such a device.")
    assert outlook(world, TWO, more={"large": 9}).state is STATES.WAITS, "a new machine is for the queue, too"
    others_go_first = TicketWorld({"gpu": GPU, "two": TWO}, go_first=False)
    others_go_first.node("machine-0", gpus=1)
    others_go_first.settle()
    others_go_first.join("bob", "two")
    assert outlook(others_go_first, GPU).state is STATES.FREE
