"""Which cards are taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.profiles.intel_gas import parse_intel_gas
from dra_spawner.profiles.intel_gas.choosing import choose, choose_on_node
from dra_spawner.profiles.intel_gas.labels import node_gpus
from dra_spawner.profiles.intel_gas.ledger import CardUse
from tests.all_of_them import all_of_them
from tests.presence import present
from tests.profiles.intel_gas.gpus import gpu_node, with_labels


def cards_of(intel_gas, node=None, use=None, containers=None):
    """Cards of each container, or ``None``."""
    request = present(parse_intel_gas(intel_gas))
    names = containers or [each.name for each in request.containers]
    found = choose_on_node(request, present(node_gpus(node or gpu_node(cards="0.1.2.3"))), use or {}, names)
    return None if found is None else [",".join(each.cards) for each in found]


def tiles_of(intel_gas, node=None, use=None):
    request = present(parse_intel_gas(intel_gas))
    found = choose_on_node(request, present(node_gpus(node or gpu_node(cards="0.1.2.3"))), use or {}, ["notebook"])
    return None if found is None else found[0].tiles


BUSY = {"card0": CardUse(1, millicores=700), "card1": CardUse(1, millicores=200), "card2": CardUse(1, millicores=800)}


@all_of_them(
    "intel_gas, cards",
    {
        "first fit": ({"millicores": 300}, "card0"),
        "first fit, the first is full": ({"millicores": 400}, "card1"),
        "balanced": ({"millicores": 300, "policy": "balanced"}, "card3"),
        "packed": ({"millicores": 100, "policy": "packed"}, "card2"),
        "packed, the fullest has no capacity": ({"millicores": 300, "policy": "packed"}, "card0"),
        "prefer, the first is full": ({"millicores": 300, "prefer": ["card2", "card1"]}, "card1"),
        "prefer before policy": ({"millicores": 300, "prefer": ["card3"], "policy": "packed"}, "card3"),
        "allow": ({"millicores": 300, "allow": ["card1", "card3"]}, "card1"),
        "deny": ({"millicores": 300, "deny": ["card0", "card1"]}, "card3"),
        "deny before allow": ({"millicores": 300, "allow": ["card0"], "deny": ["card0"]}, None),
        "two cards": ({"count": 2, "millicores": 300}, "card0,card1"),
        "two cards, balanced": ({"count": 2, "millicores": 300, "policy": "balanced"}, "card3,card1"),
        "only two have capacity": ({"count": 3, "millicores": 400}, None),
        "a card once for a container": ({"count": 4}, "card0,card1,card2,card3"),
        "more than there are": ({"count": 5}, None),
    },
)
def test_cards(intel_gas, cards):
    assert cards_of(intel_gas, use=BUSY) == (cards and [cards])


def test_cards_are_ordered_by_number():
    assert cards_of({"count": 3}, gpu_node(cards="10.2.9")) == ["card2,card9,card10"]


@pytest.mark.parametrize(
    ("use", "fits"),
    [
        pytest.param(CardUse(9), True, id="the last share"),
        pytest.param(CardUse(10), False, id="no share"),
        pytest.param(CardUse(0, 500), True, id="just enough millicores"),
        pytest.param(CardUse(0, 501), False, id="one too few"),
        pytest.param(CardUse(0, 0, 16 * 2**30 - 2**20), True, id="just enough memory"),
        pytest.param(CardUse(0, 0, 16 * 2**30 - 2**20 + 1), False, id="a byte too few"),
        pytest.param(CardUse(0, 0, 0, frozenset({1})), True, id="the last tile"),
        pytest.param(CardUse(0, 0, 0, frozenset({0, 1})), False, id="no tile"),
        pytest.param(CardUse(0, 0, 0, frozenset({1}), 1), False, id="a tile nobody knows the number of"),
    ],
)
def test_a_request_fits_the_free_capacity(use, fits):
    wanted = {"millicores": 500, "memory": "1Mi", "tiles": 1}
    assert (cards_of(wanted, gpu_node(cards="0"), {"card0": use}) is not None) is fits


def test_resources_that_the_node_does_not_offer_do_not_fit():
    assert cards_of({"resource": "xe"}) is None
    node = gpu_node()
    del node["status"]["allocatable"]["gpu.intel.com/millicores"]
    assert cards_of({"millicores": 1}, node) is None
    assert cards_of({"count": 1}, node) == ["card0"]


def test_disabled_cards_and_tiles_are_not_chosen():
    node = with_labels(gpu_node(cards="0.1.2", pci_groups="0.1_2"), **{"gas-disable-card0": "PCI_GROUP"})
    assert cards_of({"count": 1}, node) == ["card2"]
    node = with_labels(gpu_node(), **{"gas-tile-disable-card0_gt0": "x"})
    assert tiles_of({"tiles": 1}, node) == (("card0", (1,)),)
    assert tiles_of({"tiles": 2}, node) == (("card1", (0, 1)),)


def test_preferred_cards_and_tiles_are_chosen_first():
    node = with_labels(gpu_node(cards="0.1"), **{"gas-prefer-gpu": "card1", "gas-tile-preferred-card1": "gt1"})
    assert tiles_of({"tiles": 1}, node) == (("card1", (1,)),)
    assert tiles_of({"tiles": 1, "prefer": ["card0"]}, node) == (("card0", (0,)),)
    assert cards_of({"count": 1}, node, {"card1": CardUse(10)}) == ["card0"]


def test_containers_in_turn_and_a_section_for_each():
    three = {"millicores": 600, "containers": {"a": {}, "b": {}, "c": {"millicores": 300}}}
    assert cards_of(three, containers=["idle", "c", "b", "a"]) == ["", "card0", "card1", "card0"]


def test_a_later_container_without_capacity_sends_the_search_back():
    use = {"card1": CardUse(1, 500)}
    two = {"containers": {"a": {"millicores": 400}, "b": {"millicores": 700}}}
    assert cards_of(two, gpu_node(), use) == ["card1", "card0"]


def test_same_gpu():
    shared = {
        "containers": {"a": {"millicores": 300}, "b": {"millicores": 300}, "c": {"millicores": 500}},
        "same_gpu": ["a", "b"],
    }
    assert cards_of(shared, use={"card0": CardUse(1, 500)}) == ["card1", "card1", "card0"]
    full = {card: CardUse(1, 500) for card in ("card0", "card1", "card2", "card3")}
    assert cards_of(shared, use=full) is None
    assert cards_of(shared, gpu_node(cards="0.1", shares=1)) is None, "each container needs a share"


def test_single_numa():
    node = gpu_node(cards="0.1.2.3", numa_gpu_map="0-0.2_1-1.3")
    two = {"count": 2, "millicores": 600}
    assert cards_of(two, node) == ["card0,card1"]
    assert cards_of({**two, "single_numa": True}, node) == ["card0,card2"]
    assert cards_of({**two, "single_numa": True}, node, {"card2": CardUse(1, 500)}) == ["card1,card3"]
    assert cards_of({**two, "single_numa": True}, node, {c: CardUse(1, 500) for c in ("card1", "card2")}) is None
    assert cards_of({**two, "single_numa": True}) == ["card0,card1"], "a node that says nothing about NUMA"
    both = {"containers": {"a": {"millicores": 600}, "b": {"millicores": 600}}, "single_numa": True}
    assert cards_of(both, node) == ["card0", "card2"], "all containers at one node"


LINKED = {"count": 2, "tiles": 1, "xe_link": True}


@pytest.mark.parametrize(
    ("links", "use", "tiles"),
    [
        pytest.param("0.0-1.0_2.0-3.0", {}, (("card0", (0,)), ("card1", (0,))), id="first pair"),
        pytest.param("3.1-2.0", {}, (("card2", (0,)), ("card3", (1,))), id="either direction"),
        pytest.param(
            "0.0-1.0_2.0-3.1",
            {"card1": CardUse(1, tiles=frozenset({0}))},
            (("card2", (0,)), ("card3", (1,))),
            id="a linked tile is taken",
        ),
        pytest.param("0.0-1.0", {"card0": CardUse(10)}, None, id="no share of a linked card"),
        pytest.param("0.0-0.1", {}, None, id="a card linked with itself"),
        pytest.param("", {}, None, id="no links"),
    ],
)
def test_xe_links(links, use, tiles):
    node = gpu_node(cards="0.1.2.3", **({"xe_links": links} if links else {}))
    assert tiles_of(LINKED, node, use) == tiles


def test_two_pairs_with_links():
    node = gpu_node(cards="0.1.2.3", xe_links="0.0-1.0_1.1-2.1_2.0-3.0")
    assert cards_of({**LINKED, "count": 4}, node) == ["card0,card1,card2,card3"]
    node = gpu_node(cards="0.1.2.3", xe_links="0.0-1.0_1.1-2.1_0.1-3.0")
    assert cards_of({**LINKED, "count": 4}, node) == ["card0,card3,card1,card2"], "the first pair would leave none"


# Nodes


def node_of(intel_gas, nodes, uses=None):
    request = present(parse_intel_gas(intel_gas))
    found = choose(request, [present(node_gpus(node)) for node in nodes], uses or {}, ["notebook"])
    return found and found.node


@pytest.mark.parametrize(("policy", "node"), [("first-fit", "node-a"), ("balanced", "node-c"), ("packed", "node-b")])
def test_node_by_policy(policy, node):
    nodes = [gpu_node(name) for name in ("node-b", "node-c", "node-a")]
    uses = {"node-a": {"card0": CardUse(1, 300)}, "node-b": {"card1": CardUse(1, 900)}}
    assert node_of({"millicores": 100, "policy": policy}, nodes, uses) == node


def test_nodes_of_other_sizes_are_compared_by_their_part():
    nodes = [gpu_node("large", "0.1.2.3"), gpu_node("small", "0")]
    uses = {"large": {"card0": CardUse(1, 600)}, "small": {"card0": CardUse(1, 500)}}
    assert node_of({"millicores": 100, "policy": "balanced"}, nodes, uses) == "large"


def test_a_node_with_its_preferred_card_comes_first():
    nodes = [gpu_node("node-a"), with_labels(gpu_node("node-b"), **{"gas-prefer-gpu": "card1"})]
    nodes[0]["metadata"]["labels"]["telemetry.aware.scheduling.x/gas-prefer-gpu"] = "card9"
    assert node_of({"count": 1}, nodes) == "node-b"


def test_no_node_has_capacity():
    assert node_of({"count": 3}, [gpu_node("node-a"), gpu_node("node-b")]) is None


def greedy(sizes, cards):
    """Result of first fit without going back."""
    free = [1000] * cards
    for size in sizes:
        card = next((index for index, capacity in enumerate(free) if capacity >= size), None)
        if card is None:
            return False
        free[card] -= size
    return True


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6), st.integers(1, 4))
def test_a_request_that_first_fit_places_is_placed(sizes, cards):
    request = {"containers": {f"c{i}": {"millicores": size} for i, size in enumerate(sizes)}}
    found = cards_of(request, gpu_node(cards=".".join(map(str, range(cards)))))
    if greedy(sizes, cards):
        assert found is not None
    if found is not None:
        for card in set(found):
            assert sum(size for size, mine in zip(sizes, found, strict=True) if mine == card) <= 1000
