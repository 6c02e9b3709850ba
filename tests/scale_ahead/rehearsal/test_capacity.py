"""Where the servers of a rehearsal fit: on present nodes, and on nodes that are ordered."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from dra_spawner import names
from dra_spawner.dra.model.devices import Taint
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.scale_ahead.calendars.occurrences import IN_TOTAL
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply, present_kinds
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode
from dra_spawner.scale_ahead.rehearsal.rehearsal_table import rehearsal_json, rehearsal_text
from dra_spawner.scale_ahead.rehearsal.timetable import Waits
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import GPU, PLAIN, SHARE, gpu_claim, user_shape
from tests.placeholders.planner.world import World
from tests.scale_ahead.rehearsal.questions import IN_AN_HOUR, LEAD, answer, codes, expect, hub, supplies


def test_all_fit_on_present_nodes() -> None:
    found = answer(hub("a", "b"), expect(16))
    assert found.verdict == "Yes: 16 users can start at 10:00 on the present nodes."
    assert (found.free, found.orders, found.first_order_at, found.without_orders) == (16, (), None, Waits())


def test_the_rest_gets_new_nodes() -> None:
    found = answer(hub("a", "b"), expect(350))
    (order,) = found.orders
    assert (found.free, order.nodes, order.servers, order.template_node) == (16, 42, 334, "a")
    assert set(order.slots[:-1]) == {8}
    assert order.slots[-1] == 334 - 41 * 8
    assert found.first_order_at == order.order_at == IN_AN_HOUR - timedelta(minutes=15)
    assert found.verdict == "Yes: 350 users can start at 10:00; 42 nodes of g2 are ordered at 09:45."
    assert found.with_orders == Waits()


def test_the_snapshot_is_as_before() -> None:
    world = hub("a")
    world.settle()
    before = [
        repr(sorted(map(str, table))) for table in (world.snapshot.nodes, world.snapshot.pods, world.snapshot.claims)
    ]
    answer(world, expect(30))
    after = [
        repr(sorted(map(str, table))) for table in (world.snapshot.nodes, world.snapshot.pods, world.snapshot.claims)
    ]
    assert after == before
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    assert not world.pending, "searches have the limits of the service again"


def test_the_answer_is_the_same_each_time() -> None:
    world = hub("a", "b", "c")
    world.node("other", gpus=4, memory="40Gi")
    world.settle()
    first, again = (answer(world, expect(100)) for _ in range(2))
    assert first == again
    assert rehearsal_json(first) == rehearsal_json(again)


def test_placeholders_and_users_count() -> None:
    """Two placeholders are there for the users; three servers run, and are part of a number in total only."""
    world = hub("a", gpus=1)
    for number in range(2):
        world.create_placeholder(SHARE)
        world.user(f"user-{number}", {"gpu": SHARE.claims["gpu"]}, requires_ready=False)
    world.schedule()
    assert not world.pending
    additional = answer(world, expect(4))
    assert (additional.wanted, additional.running, additional.warm, additional.free) == (4, 2, 2, 0)
    assert additional.orders[0].servers == 2
    in_total = answer(world, expect(4, counts=IN_TOTAL))
    assert (in_total.wanted, in_total.warm, in_total.orders) == (2, 2, ())
    fewer = answer(world, expect(1, counts=IN_TOTAL))
    assert (fewer.wanted, fewer.verdict) == (0, "Yes: no further server is needed for 1 user.")


def test_pending_servers_of_others_come_first() -> None:
    world = hub("a", gpus=1)
    world.user("early", {"gpu": gpu_claim()}, requires_ready=False)
    found = answer(world, expect(2))
    assert (found.free, found.orders[0].servers) == (0, 2), "the only device is about to be theirs"


def test_placeholders_of_other_shapes_stay() -> None:
    world = hub("a", gpus=1)
    world.create_placeholder(GPU)
    world.schedule()
    assert answer(world, expect(2)).free == 0


@all_of_them("state", ["cordoned", "draining", "not ready"])
def test_nodes_that_take_nobody(state: str) -> None:
    world = hub("a")
    node = world.snapshot.nodes["a"].node
    changed = {
        "cordoned": replace(node, is_unschedulable=True),
        "draining": replace(node, labels={**node.labels, names.DRAINING: names.TRUE}),
        "not ready": replace(node, is_ready=False),
    }
    world.snapshot.put(changed[state])
    found = answer(world, expect(4))
    assert (found.free, found.orders[0].nodes) == (0, 1)


def test_a_drained_node_is_named() -> None:
    """A person drains the only node; a copy of it, which can be added, is not drained."""
    world = hub("a")
    node = world.snapshot.nodes["a"].node
    world.snapshot.put(replace(node, labels={**node.labels, names.DRAINING: names.ORDERED}))
    found = answer(world, expect(4))
    assert (found.free, found.orders[0].nodes, found.is_possible) == (0, 1, True)
    found = answer(world, expect(4), ())
    assert found.verdict.endswith(
        "cannot start at 10:00: machines that could run them are taken out of use by an administrator."
    )
    assert found.problems[0].code == "drained"
    assert "a is drained by order; dra-spawner drain a --end, or let more nodes come" in found.problems[0].message


def test_servers_without_devices() -> None:
    world = World(Policy(shapes={PLAIN.id: PLAIN}))
    world.node("a", cpu="4")
    found = answer(world, expect(9, PLAIN))
    assert (found.free, found.orders[0].slots) == (4, (4, 1))


def test_kinds_are_used_in_their_order_up_to_their_maximum() -> None:
    world = hub("a")
    world.node("big", cpu="40", gpus=4, memory="40Gi")
    small, big = supplies(world)
    assert (small.name, big.name) == ("g2", "g4")
    found = answer(world, expect(24 + 30), (replace(small, max_nodes=2), big))
    assert [(each.supply.name, each.nodes, each.servers) for each in found.orders] == [("g2", 1, 8), ("g4", 2, 22)]
    assert found.verdict == (
        "Yes: 54 users can start at 10:00; 1 node of g2 and 2 nodes of g4 are needed, and the first of them is ordered "
        "at 09:45."
    )
    # A kind that comes too late is used last.
    found = answer(world, expect(24 + 30), (replace(small, lead=timedelta(hours=2)), big))
    assert [each.supply.name for each in found.orders] == ["g4"]


def test_a_kind_without_a_present_node_is_as_described() -> None:
    world = hub("a")
    absent = NodeSupply("t4", LEAD, slots=4, max_nodes=5)
    found = answer(world, expect(8 + 10), [absent])
    assert [(each.slots, each.template_node) for each in found.orders] == [((4, 4, 2), "")]
    assert found.verdict.startswith("Yes, if a node of t4 runs 4 servers: 18 users can start at 10:00; 3 nodes of t4")
    assert "no node of t4 is present: 4 servers on each are described, not proved" in rehearsal_text(found)
    assert codes(answer(world, expect(8 + 30), [absent])) == [ProblemCode.MAX_NODES]
    other = answer(world, expect(10), [replace(absent, slots=0)])
    assert codes(other) == [ProblemCode.NO_NODE_KIND]
    assert "t4: no node of this kind is present, and it is described for other profiles" in other.problems[0].message


def test_a_kind_of_unknown_capacity_is_reported() -> None:
    found = answer(hub("a"), expect(10), [NodeSupply("t4", LEAD)])
    assert codes(found) == [ProblemCode.NOT_KNOWN]
    assert found.verdict == (
        "Not known whether 2 of 10 users can start at 10:00: no node of t4 is present, so its capacity is unknown."
    )
    assert "describe the kinds of nodes (node_kinds of the service" in found.problems[0].message
    assert found.without_orders.without_end == 2


def test_where_other_kinds_may_come_no_answer_says_never() -> None:
    large = expect(10, user_shape(cpu="11"))
    found = answer(hub("a"), large, kinds_are_all=False)
    assert codes(found) == [ProblemCode.NOT_KNOWN]
    assert found.verdict == (
        "Not known whether 10 of 10 users can start at 10:00: no known node can run a server of this choice."
    )
    assert "g2: Insufficient cpu" in found.problems[0].message
    empty = answer(hub(), expect(10), kinds_are_all=False)
    assert codes(empty) == [ProblemCode.NOT_KNOWN]
    assert "no node is present or remembered. If nodes of another kind can come, describe" in empty.problems[0].message
    # Wrong selectors and a maximum are problems whatever else there is.
    nothing = user_shape({"gpu": gpu_claim(selectors=[{"cel": {"expression": 'device.driver == "other"'}}])})
    assert codes(answer(hub("a"), expect(3, nothing), kinds_are_all=False)) == [ProblemCode.NO_DEVICE_SELECTED]


def test_a_description_with_another_number_of_servers_is_reported() -> None:
    found = answer(hub("a"), expect(40), supplies(hub("a"), slots=10))
    assert found.is_possible
    assert "a new node of g2 runs 8 servers; the description says 10" in rehearsal_text(found)


def test_kinds_of_nodes_without_a_label() -> None:
    world = hub("a", "b", labels={names.INSTANCE_TYPE: ""})
    world.node("c", gpus=1)
    assert present_kinds(world.view(), names.INSTANCE_TYPE) == {"the kind of a": ("a", "b"), "g1": ("c",)}


def test_another_node_of_the_kind_is_the_template_where_the_first_does_not_do() -> None:
    world = World(Policy(shapes={}))
    for zone in ("a", "b"):
        world.node(f"in-{zone}", cpu="2", labels={names.INSTANCE_TYPE: "std", "zone": zone})
    found = answer(world, expect(6, user_shape(nodeSelector={"zone": "b"})))
    assert (found.free, found.orders[0].template_node, found.orders[0].nodes) == (2, "in-b", 2)


def _broken(world: World, node: str, how: str) -> None:
    """A node that shows less than its kind has."""
    (item,) = (each for each in world.snapshot.slices.values() if each.node_name == node)
    if how == "tainted":
        taint = Taint("example.com/broken", "", "NoExecute")
        devices = tuple(replace(each, taints=(taint,)) for each in item.devices)
        world.snapshot.put(replace(item, devices=devices))
    elif how == "withdrawn":
        world.snapshot.put(replace(item, devices=item.devices[:1]))
    else:
        labels = {**world.snapshot.nodes[node].node.labels, names.DRAINING: names.ORDERED}
        world.snapshot.put(
            replace(world.snapshot.nodes[node].node, is_unschedulable=True, is_ready=False, labels=labels)
        )


@all_of_them(
    "broken, how",
    {f"{how} {name}": (name, how) for how in ("tainted", "withdrawn", "drained and not ready") for name in ("a", "b")},
)
def test_the_state_of_one_node_is_not_its_kind(broken: str, how: str) -> None:
    """Which of the nodes sorts first does not matter."""
    world = hub("a", "b")
    _broken(world, broken, how)
    given = [replace(each, max_nodes=8) for each in supplies(world)]
    found = answer(world, expect(48), given)
    assert found.is_possible, found.verdict
    assert {each.slots[0] for each in found.orders} == {8}
    assert not any("differ" in each.message for each in found.problems)


@all_of_them(
    "small, slots, servers", {"the first": ("a", None, 3), "the last": ("c", None, 3), "described": ("a", 8, 8)}
)
def test_nodes_of_a_kind_that_differ_are_named(small: str, slots: int | None, servers: int) -> None:
    world = hub(*({"a", "b", "c"} - {small}))
    world.node(small, gpus=2, memory="40Gi", cpu="3")
    found = answer(world, expect(60), [replace(each, slots=slots) for each in supplies(world)])
    (order,) = found.orders
    assert order.slots[0] == servers
    (note,) = (each.message for each in found.problems if "differ" in each.message)
    like = small if slots is None else min({"a", "b", "c"} - {small})
    assert note == f"nodes of g2 differ: 3 to 8 servers fit on one. New nodes are assumed to be like {like}"


def test_devices_in_doubt_count_for_nobody() -> None:
    """A server has a GPU that its driver does not publish any more: what else is there is not known."""
    world = hub("a", "b")
    world.user("ada", {"gpu": gpu_claim()}, requires_ready=False)
    world.settle()
    node = world.node_of("ada")
    (item,) = (each for each in world.snapshot.slices.values() if each.node_name == node)
    (claim,) = world.snapshot.claims.values()
    (held,) = claim.claim.status.devices or ()
    assert answer(world, expect(12)).free == 12
    world.snapshot.put(replace(item, devices=tuple(each for each in item.devices if each.id != held.id)))
    found = answer(world, expect(12))
    assert (found.free, [each.slots for each in found.orders]) == (8, [(4,)])
