"""The ledger: annotations of pods, assignments of the hub, and that no card is given away twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.common.json_types import JsonObject
from dra_spawner.profiles.intel_gas.choosing import choose
from dra_spawner.profiles.intel_gas.cleanup import next_cleanup, stale_assignments
from dra_spawner.profiles.intel_gas.gas_language import ContainerGpuRequest, GpuRequest
from dra_spawner.profiles.intel_gas.labels import node_gpus
from dra_spawner.profiles.intel_gas.ledger import CardAssignment, CardUse, ContainerCards, Ledger, Need
from dra_spawner.profiles.intel_gas.names import CardPolicy, GpuResource
from dra_spawner.profiles.intel_gas.pod_changes import changes_with_cards
from dra_spawner.profiles.intel_gas.pods import counts, node_of, read_pod, rebuild
from tests.examples import example_count
from tests.presence import present
from tests.profiles.intel_gas.gpus import container, gpu_node, gpu_pod

# Annotations of pods


@pytest.mark.parametrize(
    ("pod", "containers"),
    [
        pytest.param(
            gpu_pod("ada", container(i915=1, millicores=500, memory_max=1024), gas_container_cards="card1"),
            (ContainerCards(("card1",), (), Need(500, 1024)),),
            id="one card",
        ),
        pytest.param(
            gpu_pod("ada", container(i915=2, millicores=500, tiles=2), gas_container_cards="card1,card0",
                    gas_container_tiles="card1:gt0,card0:gt1"),
            (ContainerCards(("card1", "card0"), (("card1", (0,)), ("card0", (1,))), Need(250, 0, 1)),),
            id="amounts are of all cards",
        ),
        pytest.param(
            gpu_pod("ada", container(i915=2, millicores=501), gas_container_cards="card0,card1"),
            (ContainerCards(("card0", "card1"), (), Need(251)),),
            id="a remainder is rounded up",
        ),
        pytest.param(
            gpu_pod("ada", container("a"), container("b", xe=1), gas_container_cards="|card0"),
            (ContainerCards(), ContainerCards(("card0",))),
            id="a section for each container",
        ),
        pytest.param(
            gpu_pod("ada", container("a"), container("b", xe=1), gas_container_cards="card0"),
            (ContainerCards(), ContainerCards(("card0",))),
            id="only a filled one",
        ),
    ],
)  # fmt: skip
def test_read_pod(pod, containers):
    read = read_pod(
        {**pod, "metadata": {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], "gas-ts": "7"}}}
    )
    assert (read.assignment, read.warnings) == (CardAssignment("node-a", 7, containers), ())


@pytest.mark.parametrize(
    ("pod", "warning"),
    [
        pytest.param(gpu_pod(), "", id="without annotation"),
        pytest.param(gpu_pod(gas_container_cards="gpu0"), "'gpu0' is no card", id="no card"),
        pytest.param(
            gpu_pod(gas_container_cards="card0", gas_container_tiles="card0"),
            "'card0' is not a card with its tiles",
            id="no tiles",
        ),
        pytest.param(gpu_pod(gas_container_cards="card0|card1"), "another number of containers", id="too many"),
        pytest.param(gpu_pod(gas_container_cards="card0", node=""), "it has cards but no node", id="nowhere"),
    ],
)
def test_pods_of_which_nothing_is_known(pod, warning):
    read = read_pod(pod)
    assert read.assignment is None
    assert warning in (" ".join(read.warnings) if warning else "")
    assert bool(read.warnings) == bool(warning)


def test_a_wrong_count_is_reported_and_the_cards_count_all_the_same():
    read = read_pod(gpu_pod("ada", container(i915=1), gas_container_cards="card0,card1"))
    assert read.warnings == ("pod lab/ada: container notebook asks for 1 cards and has 2",)
    assert present(read.assignment).containers[0].cards == ("card0", "card1")


def test_a_pod_that_is_not_bound_yet_counts_on_the_node_of_its_affinity():
    pod = gpu_pod(node="")
    fields = [{"key": "metadata.name", "operator": "In", "values": ["node-b"]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}, {"matchFields": fields}]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert node_of(pod) == "node-b"
    required["nodeSelectorTerms"].append({"matchFields": [{**fields[0], "values": ["node-c"]}]})
    assert node_of(pod) == ""


@pytest.mark.parametrize(
    ("annotations", "by_gas"),
    [
        ({"gas_ts": "5"}, True),
        ({"gas_ts": "5", "hub.jupyter.org/intel-gas": "5"}, False),
        ({"gas_ts": "6", "hub.jupyter.org/intel-gas": "5"}, True),
        ({}, False),
    ],
    ids=["gas", "hub", "hub, then gas", "by hand"],
)
def test_annotations_show_whether_gas_chose(annotations, by_gas):
    assert rebuild([gpu_pod(gas_container_cards="card0", **annotations)]).gas_runs is by_gas


@pytest.mark.parametrize(
    ("phase", "is_counted"),
    [("Pending", True), ("Running", True), ("Unknown", True), ("Succeeded", False), ("Failed", False)],
)
def test_which_pods_count(phase, is_counted):
    ledger = rebuild([gpu_pod(phase=phase, gas_container_cards="card0")]).ledger
    assert (("lab", "ada") in ledger) is is_counted


def test_a_pod_that_is_being_deleted_counts_until_it_is_gone():
    pod = gpu_pod(gas_container_cards="card0")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert ("lab", "ada") in rebuild([pod]).ledger


def test_strangers_cards_count_where_they_run_and_as_many_as_they_ask_for():
    own = frozenset({"hub"})
    pinned = gpu_pod(node="", gas_container_cards="card0")
    fields = [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    pinned["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    two_cards = gpu_pod("eve", container(i915=1), gas_container_cards="card0,card1")
    runs = gpu_pod(gas_container_cards="card0", gas_ts="5")
    for pod, expected in ((pinned, False), (two_cards, False), (runs, True), (gpu_pod(), True)):
        assert counts(pod, own) is expected
        assert counts(pod, own | {"lab"})
        assert counts(pod, None)
    assert not rebuild([runs], own).gas_runs, "a stranger does not turn the hub's choice off"
    assert rebuild([runs], own | {"lab"}).gas_runs


def test_use_adds_up_with_tiles_known_and_unknown():
    pods = [
        gpu_pod(
            "a", container(i915=1, tiles=1, millicores=10), gas_container_cards="card0", gas_container_tiles="card0:gt1"
        ),
        gpu_pod("b", container(i915=1, tiles=1, memory_max=5), gas_container_cards="card0"),
        gpu_pod("c", container(i915=1), gas_container_cards="card0", node="node-b"),
    ]
    uses = rebuild(pods).ledger.uses()
    assert uses["node-a"] == {"card0": CardUse(2, 10, 5, frozenset({1}), 1)}
    assert uses["node-b"] == {"card0": CardUse(1)}


# Whatever happens

NODES = [
    present(node_gpus(gpu_node("node-a", "0.1.2", shares=3, memory=1000))),
    present(node_gpus(gpu_node("node-b", "0.1", shares=3, memory=1000))),
]
needs = st.builds(Need, st.sampled_from([0, 100, 400, 500, 1000]), st.sampled_from([0, 300, 1000]), st.integers(0, 2))
containers = st.lists(st.tuples(st.integers(1, 3), needs), min_size=1, max_size=3)
starts = st.tuples(st.just("start"), st.integers(0, 9), containers, st.sampled_from(list(CardPolicy)))
stops = st.tuples(st.just("stop"), st.integers(0, 9))


def created_pod(name, request, chosen, names, time) -> JsonObject:
    """The pod as the hub would create it."""
    changes = changes_with_cards(request, chosen, names, {}, 2, time)
    made = [{"name": name, "resources": {"limits": dict(changes.limits.get(name, {}))}} for name in names]
    spec = {"nodeName": changes.node, "containers": made}
    return {"metadata": {"name": name, "namespace": "lab", "annotations": dict(changes.annotations)}, "spec": spec}


@settings(max_examples=example_count(150))
@given(st.lists(starts | stops, max_size=25))
def test_updated_and_rebuilt_ledgers_are_equal_and_no_card_is_overcommitted(steps):
    updated = Ledger()
    pods: dict[str, JsonObject] = {}
    capacity = {gpus.node: gpus.capacity for gpus in NODES}
    for time, step in enumerate(steps, 1):
        name = f"user-{step[1]}"
        updated.release(("lab", name))
        pods.pop(name, None)
        if step[0] == "start":
            request = GpuRequest(
                tuple(ContainerGpuRequest(f"c{i}", count, need) for i, (count, need) in enumerate(step[2])),
                policy=step[3],
            )
            names = ["idle", *(each.name for each in request.containers)]
            chosen = choose(request, NODES, updated.uses(), names)
            if chosen is None:
                continue
            updated.assign(("lab", name), CardAssignment(chosen.node, time, chosen.containers))
            pods[name] = created_pod(name, request, chosen, names, time)
        rebuilt = rebuild(pods.values())
        assert rebuilt.warnings == ()
        assert not rebuilt.gas_runs
        assert rebuilt.ledger == updated
        assert rebuilt.ledger.uses() == updated.uses()
        for node, cards in updated.uses().items():
            for use in cards.values():
                assert use.within(capacity[node][GpuResource.I915])
                assert use.unknown_tiles == 0
        tiles = [
            (assignment.node, card, tile)
            for assignment in (present(updated.get(pod)) for pod in updated)
            for each in assignment.containers
            for card, numbers in each.tiles
            for tile in numbers
        ]
        assert len(tiles) == len(set(tiles))


# Cleaning


@pytest.mark.parametrize(("chance", "minutes"), [(0.0, 10), (0.5, 20), (1.0, 30)])
def test_cleaning_is_at_a_random_time(chance, minutes):
    assert next_cleanup(timedelta(minutes=20), chance) == timedelta(minutes=minutes)


def test_assignments_of_pods_that_are_gone_and_not_awaited_are_stale():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ledger = Ledger.of({("lab", name): CardAssignment("node-a", 1, ()) for name in "abcd"})
    until = {("lab", "b"): now + timedelta(seconds=1), ("lab", "c"): now}
    assert set(stale_assignments(ledger, {("lab", "a")}, until, now)) == {("lab", "c"), ("lab", "d")}
