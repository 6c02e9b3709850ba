"""What a new node brings for a group: by nodes that were seen, else by the description, never by what runs now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.scale_ahead.demand.estimators.whole_nodes import NewNodeSlots
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.rehearsal.nodes.node_slots import NodeSlots, servers_on_new_node
from dra_spawner.scale_ahead.rehearsal.nodes.seen_nodes import SeenNodes
from dra_spawner.simulator.node_templates import template_of
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, SHARE
from tests.placeholders.planner.world import World

KIND = names.INSTANCE_TYPE
READY = {names.IMAGES_READY: names.TRUE}
LEAD = (timedelta(minutes=10),)


def hub(**gpus: int) -> World:
    """A node of each kind with so many GPUs, open to users."""
    world = World(Policy(shapes={each.id: each for each in (PLAIN, GPU, SHARE)}))
    for kind, count in gpus.items():
        world.node(kind, gpus=count, memory="40Gi", labels={KIND: kind, **READY})
    return world


def described(kinds: Sequence[NodeKind] = ()) -> NodeSlots:
    return NodeSlots(SeenNodes(KIND), KIND, NAMESPACE, kinds)


@all_of_them(
    "world, kinds, slots, starts",
    {
        "no node was seen": (hub(), (), None, None),
        "shares of two GPUs": (hub(g2=2), (), 8, None),
        "of two kinds the one with fewer": (hub(g2=2, g1=1), (), 4, None),
        "a kind without devices takes none": (hub(g2=2, cpu=0), (), 8, None),
        "as described": (hub(), (NodeKind("a100", 5, LEAD, starts_per_minute=2),), 5, 2),
        "described for others": (hub(), (NodeKind("a100", 5, LEAD, profiles=("cpu",)),), None, None),
        "a node proves more than the description": (hub(g2=2), (NodeKind("g2", 5, LEAD),), 8, None),
        "a kind that is not described does not come": (hub(g1=1), (NodeKind("g2", 7, LEAD),), 7, None),
        "the slowest kind": (
            hub(),
            (NodeKind("big", 9, LEAD, starts_per_minute=1), NodeKind("small", 5, LEAD, starts_per_minute=2)),
            9,
            1,
        ),
    },
)
def test_what_a_new_node_brings(
    world: World, kinds: Sequence[NodeKind], slots: int | None, starts: float | None
) -> None:
    lead = LEAD[0] if kinds and slots else None
    assert described(kinds).of(world.view(), SHARE, ["gpu-slice"]) == NewNodeSlots(slots, starts, lead)


def test_what_runs_and_what_is_gone_change_nothing() -> None:
    world, slots = hub(g2=2), described()
    empty = slots.of(world.view(), SHARE, ["gpu-slice"])
    for number in range(5):
        world.user(f"user-{number}", {"gpu": {"devices": {"requests": []}}})
    world.settle()
    assert slots.of(world.view(), SHARE, ["gpu-slice"]) == empty
    world.remove_node("g2")
    world.pass_time(hours=20)
    assert slots.of(world.view(), SHARE, ["gpu-slice"]) == empty


def test_a_question_leaves_the_cluster_as_it_is() -> None:
    world = hub(g2=2)
    view = world.view()
    nodes, pods = set(view.snapshot.nodes), set(view.snapshot.pods)
    assert servers_on_new_node(view, SHARE, NAMESPACE, template_of(view.snapshot, "g2")) == 8
    assert (set(view.snapshot.nodes), set(view.snapshot.pods)) == (nodes, pods)
