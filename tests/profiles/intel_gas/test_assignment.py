"""What the plugin does with the annotations: the behaviours of its own resource manager."""

import pytest

from dra_spawner.profiles.intel_gas.assignment import (
    Candidate,
    ContainerDevices,
    NoCandidate,
    PluginMemory,
    PreferredRequest,
    pod_being_allocated,
    preferred_ids,
)
from tests.profiles.intel_gas.gpus import container, gpu_pod

GOOD = ("card0-0", "card0-1", "card1-0", "card1-1")


def pending(name="ada", *containers, **annotations):
    return gpu_pod(name, *containers, phase="Pending", **annotations)


def none_allocated(*pods):
    return {("lab", pod["metadata"]["name"]): 0 for pod in pods}


@pytest.mark.parametrize(
    ("cards", "requests", "ids"),
    [
        pytest.param("card0", [], None, id="no request"),
        pytest.param("card0", [PreferredRequest(1, GOOD)] * 2, None, id="two requests"),
        pytest.param("card0", [PreferredRequest(1, GOOD)], ("card0-0",), id="good"),
        pytest.param("card0", [PreferredRequest(1, ("card6-0", "card5-1"))], (), id="absent devices"),
        pytest.param(
            "card0,card1", [PreferredRequest(2, GOOD, ("card0-2",))], ("card0-2", "card1-0"), id="must include"
        ),
        pytest.param(
            "card0,card1,card0", [PreferredRequest(3, GOOD)], ("card0-0", "card1-0", "card0-1"), id="a card twice"
        ),
        pytest.param("card0,card1", [PreferredRequest(3, GOOD)], ("card0-0", "card1-0"), id="more than cards"),
        pytest.param("card0,card1", [PreferredRequest(1, GOOD)], ("card0-0",), id="fewer than cards"),
        pytest.param("card0", [PreferredRequest(1, ("all",))], None, id="monitoring"),
    ],
)
def test_preferred(cards, requests, ids):
    pod = pending(gas_container_cards=cards)
    assert PluginMemory().preferred(requests, [pod], none_allocated(pod)) == ids


def test_a_pod_without_gpus_is_ignored():
    pod, other = pending(gas_container_cards="card0"), pending("bob", container(), gas_container_cards="card1")
    assert PluginMemory().preferred([PreferredRequest(1, GOOD)], [pod, other], none_allocated(pod, other)) == (
        "card0-0",
    )


def test_wrong_counts_and_absent_cards_are_told():
    assert preferred_ids(1, ["card0", "card9"], GOOD) == (
        ("card0-0",),
        ("1 devices are asked for, and 2 cards were chosen",),
    )
    ids, warnings = preferred_ids(2, ["card9", "card1"], GOOD)
    assert (ids, warnings) == (("card1-0",), ("card9 is not among the devices",))


@pytest.mark.parametrize(
    ("size", "cards", "available", "ids"),
    [
        (2, ["card0", "card1"], ["card0-0", "card0-1", "card0-2", "card1-0", "card1-1"], ("card0-0", "card1-0")),
        (1, ["card2"], ["card0-0", "card0-1", "card1-0", "card2-0", "card2-1"], ("card2-0",)),
        (3, ["card2", "card2", "card2"], ["card2-0", "card2-1"], ("card2-0", "card2-1")),
    ],
    ids=["two cards", "one card", "more of a card than it has"],
)
def test_select_ids(size, cards, available, ids):
    assert preferred_ids(size, cards, available)[0] == ids


ANNOTATED = {"gas_container_cards": "card0"}


@pytest.mark.parametrize(
    ("pods", "requests", "works"),
    [
        pytest.param([pending(**ANNOTATED)], [], False, id="no request"),
        pytest.param([pending(**ANNOTATED)], [["card0-0"], ["card1-0"]], False, id="two containers at once"),
        pytest.param([pending(**ANNOTATED)], [["all"]], False, id="monitoring"),
        pytest.param([], [["card0-0"]], False, id="no pending pod"),
        pytest.param([pending()], [["card0-0"]], False, id="no annotation"),
        pytest.param([pending(**ANNOTATED)], [["card0-0"]], True, id="annotated"),
        pytest.param([pending(**ANNOTATED)], [["card7-0"]], False, id="unknown device"),
        pytest.param([pending(**ANNOTATED), pending("bob", **ANNOTATED)], [["card0-0"]], False, id="two without time"),
        pytest.param(
            [pending(**ANNOTATED, gas_ts="2"), pending("bob", **ANNOTATED, gas_ts="1")],
            [["card0-0"]],
            True,
            id="two with time",
        ),
    ],
)
def test_allocate(pods, requests, works):
    plugin = PluginMemory()
    allocated = none_allocated(*pods)
    plugin.preferred([PreferredRequest(1, GOOD)], pods, allocated)
    found = plugin.allocate(requests, pods, allocated, {"card0-0", "card1-0"})
    assert found == (ContainerDevices(("card0-0",)) if works else None)


def test_allocate_without_preferring_first_is_left_to_the_kubelet():
    pod = pending(**ANNOTATED)
    assert PluginMemory().allocate([["card0-0"]], [pod], none_allocated(pod), {"card0-0"}) is None


def test_other_devices_than_preferred_are_told():
    pod = pending(**ANNOTATED)
    plugin = PluginMemory()
    plugin.preferred([PreferredRequest(1, GOOD)], [pod], none_allocated(pod))
    found = plugin.allocate([["card1-0", "card1-1"]], [pod], none_allocated(pod), set(GOOD))
    assert found.warnings == (
        "2 devices are wanted, and 1 were preferred",
        "card1-0 was not preferred",
        "card1-1 was not preferred",
    )


@pytest.mark.parametrize(
    ("cards", "tiles", "per_card", "mask"),
    [
        ("card0", "card0:gt0+gt1", 2, "0.0,0.1"),
        ("card1,card2", "card1:gt3,card2:gt4", 5, "0.3,1.4"),
        ("card0,card1,card2", "card0:gt0+gt1,card1:gt2+gt3,card2:gt3+gt4", 5, "0.0,0.1,1.2,1.3,2.3,2.4"),
    ],
)
def test_the_mask_comes_with_the_devices(cards, tiles, per_card, mask):
    names = cards.split(",")
    pod = pending(
        "ada", container(hierarchy="COMPOSITE", i915=len(names)), gas_container_cards=cards, gas_container_tiles=tiles
    )
    plugin = PluginMemory(tiles_per_card=per_card)
    ids = tuple(f"{name}-0" for name in names)
    plugin.preferred([PreferredRequest(len(names), ids)], [pod], none_allocated(pod))
    found = plugin.allocate([list(ids)], [pod], none_allocated(pod), set(ids))
    assert found.environment == {"ZE_AFFINITY_MASK": mask}


def test_containers_get_their_cards_one_after_the_other():
    pod = pending(
        "ada", container("a", i915=1), container("b"), container("c", i915=1), gas_container_cards="card0||card1"
    )
    plugin = PluginMemory()
    assert plugin.preferred([PreferredRequest(1, GOOD)], [pod], {("lab", "ada"): 0}) == ("card0-0",)
    assert plugin.preferred([PreferredRequest(1, GOOD)], [pod], {("lab", "ada"): 1}) == ("card1-0",)


def test_pods_at_their_end_are_forgotten():
    plugin = PluginMemory()
    pod = pending(**ANNOTATED)
    plugin.preferred([PreferredRequest(1, GOOD)], [pod], none_allocated(pod))
    plugin.clean_up({("lab", "ada")})
    assert ("lab", "ada") in plugin
    plugin.clean_up(set())
    assert ("lab", "ada") not in plugin


# Finding the pod

A, B = ("lab", "ada"), ("lab", "bob")


@pytest.mark.parametrize(
    ("pods", "allocated", "found"),
    [
        pytest.param([], {}, NoCandidate.NONE, id="none"),
        pytest.param([pending(**ANNOTATED)], {}, NoCandidate.NONE, id="not listed by the kubelet"),
        pytest.param([pending(**ANNOTATED)], {A: 1}, NoCandidate.NONE, id="has its devices"),
        pytest.param([gpu_pod(phase="Running", **ANNOTATED)], {A: 0}, NoCandidate.NONE, id="runs"),
        pytest.param([pending()], {A: 0}, NoCandidate.RETRY, id="not annotated yet"),
        pytest.param([pending(**ANNOTATED)], {A: 0}, "ada", id="the only one, without time"),
        pytest.param([pending("ada", **ANNOTATED, gas_ts="5"), pending("bob", gas_ts="4")], {A: 0, B: 0}, "bob", id="oldest"),
        pytest.param(
            [pending("ada", **ANNOTATED, gas_ts="10"), pending("bob", **ANNOTATED, gas_ts="9")], {A: 0, B: 0}, "bob",
            id="times are numbers, not text",
        ),
        pytest.param([pending("ada", gas_ts="5"), pending("bob")], {A: 0, B: 0}, "ada", id="with time before without"),
        pytest.param([pending("ada"), pending("bob")], {A: 0, B: 0}, NoCandidate.RETRY, id="none with time"),
        pytest.param([pending("ada", gas_ts="x"), pending("bob", gas_ts="1")], {A: 0, B: 0}, "bob", id="time that is none"),
    ],
)  # fmt: skip
def test_pod_being_allocated(pods, allocated, found):
    result = pod_being_allocated(pods, allocated)
    assert (result.pod["metadata"]["name"] if isinstance(result, Candidate) else result) == found


def test_xe_counts_as_well():
    pod = pending("ada", container(xe=1), gas_container_cards="card3")
    assert isinstance(pod_being_allocated([pod], none_allocated(pod)), Candidate)


def test_several_containers_are_counted():
    pod = pending("ada", container("a", i915=1), container("b", i915=1), gas_container_cards="card0|card1")
    assert pod_being_allocated([pod], {A: 1}).index == 1
    assert pod_being_allocated([pod], {A: 2}) is NoCandidate.NONE
