"""Lint rules about Intel GPUs of the device-plugin age."""

from __future__ import annotations

import pytest

from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.intel_gas.gas_findings import findings, intel_gas_problems
from tests.all_of_them import all_of_them
from tests.presence import present
from tests.profiles.intel_gas.gpus import gpu_node

OLD, NEW = "docker.io/intel/intel-gpu-plugin:0.32.1", "registry.example/intel-gpu-plugin:v0.34.0"
FRACTION = {"extra_resource_limits": {"gpu.intel.com/i915": 1, "gpu.intel.com/millicores": 100}}


def found(settings, *nodes, gas_runs=None):
    """Rule, level and message of each finding."""
    (listed,) = list_choices(
        [{"display_name": "GPU", "slug": "gpu", "kubespawner_override": settings}], {"device_claims": {}}
    )
    facts = ClusterFacts(nodes=nodes or None, gas_runs=gas_runs)
    return [(each.rule, each.level, each.message) for each in findings(present(listed.choice), facts)]


def rules(*arguments, **options):
    return [f"{rule} {level}" for rule, level, _ in found(*arguments, **options)]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"intel_gas": {}},
        {"extra_resource_limits": {"gpu.intel.com/i915": 1, "memory": "1Gi", "x": "no quantity"}},
        {"intel_gas": {"millicores": 100}},
        FRACTION,
    ],
)
def test_nothing_to_say_where_nothing_is_known(settings):
    assert found(settings) == []


def test_a_sound_choice_on_a_sound_cluster():
    assert (
        found({"intel_gas": {"count": 2, "tiles": 1, "memory": "16Gi"}}, gpu_node(images=(OLD,)), gas_runs=False) == []
    )


@all_of_them(
    "images, expected",
    {
        "0.32": ([(OLD,)], []),
        "0.33": ([("intel/intel-gpu-plugin:0.33.0",)], []),
        "0.34": ([(NEW,)], ["intel-gas-plugin error"]),
        "1.0": ([("x/intel-gpu-plugin:1.0",)], ["intel-gas-plugin error"]),
        "both: either may run": ([(NEW, OLD)], []),
        "on some nodes": ([(OLD,), (NEW,)], ["intel-gas-plugin warning"]),
        "not known": ([("intel/intel-gpu-plugin@sha256:0",), ("x/my-intel-gpu-plugin:0.35",)], []),
    },
)
def test_the_plugin_is_too_new(images, expected):
    nodes = [gpu_node(f"node-{index}", images=names) for index, names in enumerate(images)]
    assert rules({"intel_gas": {"count": 1}}, *nodes) == expected
    assert rules(FRACTION, *nodes) == expected


def test_a_whole_gpu_is_for_any_plugin():
    assert rules({"extra_resource_limits": {"gpu.intel.com/i915": 1}}, gpu_node(images=(NEW,))) == []


def test_no_node_has_the_requested_gpus():
    assert rules({"intel_gas": {"resource": "xe"}}, gpu_node()) == ["intel-gas-plugin warning"]


@pytest.mark.parametrize(
    ("settings", "gas_runs", "expected"),
    [
        ({"intel_gas": {"scheduler": "gas"}}, False, ["intel-gas-scheduler error"]),
        ({"intel_gas": {"scheduler": "gas"}}, True, []),
        ({"intel_gas": {"scheduler": "none"}}, False, []),
        ({"intel_gas": {"count": 1}}, False, []),
        (FRACTION, False, ["intel-gas-scheduler error"]),
        (FRACTION, True, []),
        ({**FRACTION, "extra_annotations": {"gas-container-cards": "card0"}}, False, []),
        ({"intel_gas": {"scheduler": "gas", "prefer": ["card0"]}}, True, ["intel-gas-scheduler info"]),
    ],
)
def test_findings_by_the_scheduler_that_chooses(settings, gas_runs, expected):
    assert rules(settings, gas_runs=gas_runs) == expected


@pytest.mark.parametrize(
    ("cards", "tiles", "expected"),
    [
        pytest.param("card0,card1", "card0:gt0,card1:gt1", "", id="good"),
        pytest.param("card0", "card1:gt0", "names card1", id="absent card"),
        pytest.param("card0|card1", "card0:gt0|card0:gt0", "names card0", id="card of another container"),
        pytest.param("", "card0:gt0", "names card0", id="no cards"),
        pytest.param("card0", "card0:gt2", "names tile gt2; the cards of this cluster have 2", id="absent tile"),
        pytest.param("card0", "card0:gtX", "cannot be understood", id="syntax"),
    ],
)
def test_tiles(cards, tiles, expected):
    annotations = {"gas-container-cards": cards, "gas-container-tiles": tiles}
    messages = [message for _, _, message in found({"extra_annotations": annotations}, gpu_node())]
    assert len(messages) == bool(expected)
    assert expected in "".join(messages)


def sidecar(**limits):
    amounts = {f"gpu.intel.com/{name}": value for name, value in limits.items()}
    return {"extra_containers": [{"name": "sidecar", "image": "x", "resources": {"limits": amounts}}]}


def notebook(**limits):
    return {"extra_resource_limits": {f"gpu.intel.com/{name}": value for name, value in limits.items()}}


SAME = {"extra_annotations": {"gas-same-gpu": "notebook,sidecar"}}
LINK = {"extra_annotations": {"gas-allocate-xelink": "true"}}


@all_of_them("settings, expected", {
    "i915 and xe": ({**notebook(i915=1), **sidecar(xe=1)}, ["never both"]),
    "intel_gas and limits": ({"intel_gas": {"resource": "xe"}, **notebook(i915=1)}, ["never both"]),
    "same gpu": ({**SAME, **notebook(i915=1), **sidecar(i915=1)}, []),
    "two": ({**SAME, **notebook(i915=1), **sidecar(i915=2)}, ["Container sidecar shares"]),
    "tiles": ({**SAME, **notebook(i915=1, tiles=1), **sidecar(i915=1)}, ["Container notebook"]),
    "monitoring": ({**SAME, **notebook(i915=1), **sidecar(i915=1, i915_monitoring=1)}, ["Container sidecar"]),
    "no such container": ({**SAME, **notebook(i915=1)}, ["Container sidecar"]),
    "alone": ({"extra_annotations": {"gas-same-gpu": "notebook"}, **notebook(i915=1)}, ["two containers"]),
    "xe link": ({**LINK, **notebook(i915=2, tiles=2)}, []),
    "odd": ({**LINK, **notebook(i915=3, tiles=3)}, ["come in pairs; notebook asks for 3"]),
    "too many tiles": ({**LINK, **notebook(i915=2, tiles=4)}, ["as many tiles as GPUs"]),
    "no tiles": ({**LINK, **notebook(i915=2)}, ["as many tiles as GPUs"]),
    "xe link and same gpu": ({"extra_annotations": {**LINK["extra_annotations"], **SAME["extra_annotations"]}, **notebook(i915=1, tiles=1)}, ["Container notebook", "Container sidecar", "one of the two", "in pairs"]),
})  # fmt: skip
def test_combinations(settings, expected):
    messages = [(rule, level, message) for rule, level, message in found(settings)]
    assert all(rule == "intel-gas-combination" and level == "error" for rule, level, _ in messages)
    assert len(messages) == len(expected)
    for part, (_, _, message) in zip(expected, messages, strict=True):
        assert part in message


def test_findings_of_a_hub_that_chooses():
    request = {"intel_gas": {"tiles": 1}, "environment": {"ZE_AFFINITY_MASK": "0"}}
    assert rules(request, gpu_node()) == ["intel-gas-tiles warning"]
    assert rules({"intel_gas": {"memory": "17Gi"}}, gpu_node()) == ["intel-gas-capacity warning"]
    assert rules({"intel_gas": {"count": 1}}, gpu_node(numa_gpu_map="x")) == ["intel-gas-labels warning"]
    node = gpu_node()
    node["metadata"]["labels"] = {}
    assert rules({"intel_gas": {"count": 1}}, node) == ["intel-gas-labels warning"]
    assert rules({"intel_gas": {"count": 1, "scheduler": "gas"}}, node) == []


def test_values_that_the_language_refuses_are_reported_with_their_path():
    profiles = [
        {
            "display_name": "GPU",
            "kubespawner_override": {"intel_gas": {"millicores": 100}},
            "profile_options": {
                "size": {
                    "display_name": "Size",
                    "choices": {
                        "small": {"display_name": "s", "kubespawner_override": {"intel_gas": {"millicores": 200}}},
                        "large": {"display_name": "l", "kubespawner_override": {"intel_gas": {"millicores": 2000}}},
                    },
                }
            },
        }
    ]
    (problem,) = intel_gas_problems(profiles, {})
    assert (
        problem.path == "profile_list[0].profile_options.size.choices.large.kubespawner_override.intel_gas.millicores"
    )
    assert intel_gas_problems(profiles[:0], {"count": 0})[0].path == "intel_gas.count"
    assert intel_gas_problems(lambda spawner: [], {"count": 1}) == []
    listed = list(list_choices(profiles, {"device_claims": {}}))
    (finding,) = findings(present(listed[1].choice), ClusterFacts())
    assert (finding.path, finding.level) == (problem.path, "error")
