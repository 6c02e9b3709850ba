"""Cards of nodes, by labels and allocatable resources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.profiles.intel_gas.labels import joined_label, node_gpus
from dra_spawner.profiles.intel_gas.ledger import CardCapacity
from dra_spawner.profiles.intel_gas.names import GpuResource
from tests.presence import present
from tests.profiles.intel_gas.gpus import gpu_node, with_labels


def chunked(name, value, size=63):
    """As the plugin writes long labels."""
    first, rest = value[:size], value[size:]
    labels = {name: first}
    number = 2
    while rest:
        labels[f"{name}{number}"] = "Z" + rest[: size - 1]
        rest, number = rest[size - 1 :], number + 1
    return labels


@given(st.lists(st.integers(0, 200), min_size=1, max_size=64, unique=True), st.integers(5, 63))
def test_long_lists_of_cards_are_put_together(numbers, size):
    value = ".".join(map(str, numbers))
    labels = chunked("gpu.intel.com/gpu-numbers", value, size)
    assert joined_label(labels, "gpu.intel.com/gpu-numbers") == value
    gpus = present(node_gpus({"metadata": {"name": "a", "labels": labels}}))
    assert gpus.cards == tuple(f"card{number}" for number in sorted(numbers))


def test_a_continuation_that_does_not_begin_with_z_makes_the_label_useless():
    assert joined_label({"x": "0.1", "x2": ".2"}, "x") is None
    node = gpu_node(gpu_numbers2=".2", cards="0.1")
    node["metadata"]["labels"]["gpu.intel.com/cards"] = "card0.card1"
    gpus = present(node_gpus(node))
    assert gpus.cards == ("card0", "card1")
    assert "continuation" in gpus.warnings[0]


def test_cards_of_the_older_label():
    labels = {"gpu.intel.com/cards": "card1.card0"}
    assert present(node_gpus({"metadata": {"name": "a", "labels": labels}})).cards == ("card0", "card1")


@pytest.mark.parametrize("labels", [{}, {"gpu.intel.com/gpu-numbers": ""}, {"gpu.intel.com/gpu-numbers": "x"}])
def test_nodes_without_cards(labels):
    assert node_gpus({"metadata": {"name": "a", "labels": labels}}) is None


def test_capacity_is_divided_evenly():
    gpus = present(node_gpus(gpu_node(cards="0.1.3", shares=7, memory=8 * 2**30, tiles=2)))
    assert gpus.capacity[GpuResource.I915] == CardCapacity(7, 1000, 8 * 2**30, 2)
    assert gpus.capacity[GpuResource.XE].shares == 0


def test_groups_and_links():
    node = gpu_node(cards="0.2.10.11", numa_gpu_map="0-0.2_1-10.11", xe_links="0.0-1.1_2.0-3.0", pci_groups="0.2_10.11")
    gpus = present(node_gpus(node))
    assert gpus.numa_groups == (("card0", "card2"), ("card10", "card11"))
    # Level Zero counts the cards there are: device 2 is card10.
    assert gpus.xe_links == ((("card0", 0), ("card2", 1)), (("card10", 0), ("card11", 0)))
    assert gpus.warnings == ()


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("numa_gpu_map", "0-0.1_1"),
        ("numa_gpu_map", "0-0.x"),
        ("numa_gpu_map", "a-0.1"),
        ("pci_groups", "0.y"),
        ("xe_links", "0.0-1"),
        ("xe_links", "0.0-9.0"),
    ],
)
def test_invalid_labels_are_reported_and_left_out(label, value):
    gpus = present(node_gpus(gpu_node(**{label: value})))
    assert gpus.cards == ("card0", "card1")
    assert (gpus.numa_groups, gpus.xe_links) == ((), ())
    assert value in gpus.warnings[0]


@pytest.mark.parametrize(
    ("labels", "cards", "tiles"),
    [
        pytest.param({"gas-disable-card1": "true"}, {"card1"}, set(), id="a card"),
        pytest.param({"gas-disable-card1": "PCI_GROUP"}, {"card0", "card1"}, set(), id="its group"),
        pytest.param({"gas-deschedule-pods-card2": "true"}, {"card2"}, set(), id="a card to be emptied"),
        pytest.param({"gas-deschedule-pods-card3": "PCI_GROUP"}, {"card2", "card3"}, set(), id="a group to be emptied"),
        pytest.param({"gas-tile-disable-card0_gt1": "true"}, set(), {("card0", 1)}, id="a tile"),
        pytest.param({"gas-tile-deschedule-card0_gt1": "x"}, set(), {("card0", 1)}, id="a tile to be emptied"),
        pytest.param({"gas-tile-disable-card0": "x"}, set(), set(), id="no tile"),
    ],
)
def test_cards_and_tiles_that_telemetry_disables(labels, cards, tiles):
    gpus = present(node_gpus(with_labels(gpu_node(cards="0.1.2.3", pci_groups="0.1_2.3"), **labels)))
    assert (gpus.disabled_cards, gpus.disabled_tiles) == (cards, tiles)


def test_labels_that_only_look_like_telemetrys_do_nothing():
    node = gpu_node()
    node["metadata"]["labels"] |= {"gas-disable-card0": "true", "example.com/gas-disable-card1": "true"}
    assert present(node_gpus(node)).disabled_cards == frozenset()


def test_cards_and_tiles_that_telemetry_prefers():
    node = with_labels(gpu_node(), **{"gas-prefer-gpu": "card1", "gas-tile-preferred-card1": "gt1"})
    gpus = present(node_gpus(node))
    assert (gpus.preferred_card, gpus.preferred_tiles) == ("card1", (("card1", 1),))
