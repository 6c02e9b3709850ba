"""Changes of the pod; and that the plugin reads them as intended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.common.json_types import JsonObject
from dra_spawner.profiles.intel_gas import changes_for_gas, changes_with_cards, choose, parse_intel_gas, plain_changes
from dra_spawner.profiles.intel_gas.gas_language import GpuRequest
from dra_spawner.profiles.intel_gas.labels import node_gpus
from tests.presence import present
from tests.profiles.intel_gas.gpus import gpu_node
from tests.profiles.intel_gas.plugin import Plugin

BOTH = {"count": 2, "millicores": 500, "memory": "1Ki", "tiles": 1, "hierarchy": "COMPOSITE"}
LIMITS = {
    "gpu.intel.com/i915": "2",
    "gpu.intel.com/millicores": "1000",
    "gpu.intel.com/memory.max": "2048",
    "gpu.intel.com/tiles": "2",
}


def request_of(intel_gas: JsonObject) -> GpuRequest:
    return present(parse_intel_gas(intel_gas))


def chosen_changes(intel_gas, node, names=("notebook",), hierarchies=None):
    request = request_of(intel_gas)
    gpus = present(node_gpus(node))
    chosen = present(choose(request, [gpus], {}, names))
    return changes_with_cards(request, chosen, names, hierarchies or {}, gpus.capacity[request.resource].tiles, 42)


def test_plain():
    changes = plain_changes(request_of({**BOTH, "allow": ["card0"]}))
    assert changes.limits == {"notebook": LIMITS}
    assert changes.environment == {"notebook": {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}}
    assert (changes.annotations, changes.node) == ({}, "")
    assert plain_changes(request_of({"resource": "xe"})).limits == {"notebook": {"gpu.intel.com/xe": "1"}}


@pytest.mark.parametrize(
    ("intel_gas", "annotations"),
    [
        ({"count": 1}, {}),
        ({"allow": ["card0", "card2"], "deny": ["card1"]}, {"gas-allow": "card0,card2", "gas-deny": "card1"}),
        ({"containers": {"a": {}, "b": {}}, "same_gpu": ["a", "b"]}, {"gas-same-gpu": "a,b"}),
        ({"count": 2, "tiles": 1, "xe_link": True}, {"gas-allocate-xelink": "true"}),
        ({"single_numa": True, "prefer": ["card0"]}, {"gas-allocate-single-numa": "true"}),
    ],
)
def test_for_gas_the_annotations_are_those_of_the_request(intel_gas, annotations):
    changes = changes_for_gas(request_of(intel_gas))
    assert (changes.annotations, changes.node) == (annotations, "")


def test_with_cards():
    changes = chosen_changes({**BOTH, "deny": ["card0"]}, gpu_node(cards="0.3.5"), ["idle", "notebook"])
    assert changes.annotations == {
        "gas-deny": "card0",
        "gas-ts": "42",
        "hub.jupyter.org/intel-gas": "42",
        "gas-container-cards": "|card3,card5",
        "gas-container-tiles": "|card3:gt0,card5:gt0",
    }
    assert changes.environment == {"notebook": {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE", "ZE_AFFINITY_MASK": "0.0,1.0"}}
    assert (changes.limits, changes.node) == ({"notebook": LIMITS}, "node-a")


@pytest.mark.parametrize(
    ("own", "in_pod", "mask"),
    [
        (None, None, "0,2"),
        (None, "COMPOSITE", "0.0,1.0"),
        (None, "nonsense", "0,2"),
        ("COMBINED", None, "0,2"),
        ("FLAT", "COMPOSITE", "0,2"),
    ],
)
def test_hierarchy_of_the_mask(own, in_pod, mask):
    changes = chosen_changes({**BOTH, "hierarchy": own}, gpu_node(), hierarchies={"notebook": in_pod} if in_pod else {})
    assert changes.environment["notebook"]["ZE_AFFINITY_MASK"] == mask


def test_no_mask_without_tiles_or_where_cards_have_one():
    assert chosen_changes({"count": 2}, gpu_node()).environment == {}
    changes = chosen_changes({"tiles": 1}, gpu_node(tiles=1))
    assert changes.environment == {}
    assert changes.annotations["gas-container-tiles"] == "card0:gt0"


def containers_with(tiles):
    amounts = st.fixed_dictionaries({"count": st.integers(1, 3), "tiles": tiles})
    return st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), amounts, min_size=1)


@given(
    containers_with(st.integers(1, 2)) | containers_with(st.just(0)), st.sampled_from(["FLAT", "COMPOSITE", "COMBINED"])
)
def test_the_plugin_gives_the_cards_and_sets_the_mask_that_were_chosen(containers, hierarchy):
    """Container after container, as the kubelet asks for them."""
    wanted = {name: {key: value for key, value in each.items() if value} for name, each in containers.items()}
    names = ["a", "b", "c", "d"]
    node = gpu_node(cards="0.1.7.8", tiles=8)
    changes = chosen_changes({"containers": wanted, "hierarchy": hierarchy}, node, names)
    pod = {
        "metadata": {"name": "ada", "namespace": "lab", "annotations": changes.annotations},
        "spec": {
            "containers": [
                {
                    "name": name,
                    "resources": {"requests": dict(changes.limits.get(name, {}))},
                    "env": [{"name": key, "value": value} for key, value in changes.environment.get(name, {}).items()],
                }
                for name in names
            ]
        },
        "status": {"phase": "Pending"},
    }
    devices = [f"card{number}-{share}" for number in (0, 1, 7, 8) for share in range(10)]
    plugin = Plugin(pod, tiles_per_card=8)
    sections = dict(zip(names, changes.annotations["gas-container-cards"].split("|"), strict=True))
    gpu_containers = [name for name in names if name in wanted]
    for index, name in enumerate(gpu_containers):
        count = wanted[name]["count"]
        ids = plugin.preferred(count, devices, index)
        assert [device.split("-")[0] for device in ids] == sections[name].split(",")
        assert len(ids) == count
        assert plugin.environment(index).get("ZE_AFFINITY_MASK") == changes.environment[name].get("ZE_AFFINITY_MASK")
        devices = [device for device in devices if device not in ids]
