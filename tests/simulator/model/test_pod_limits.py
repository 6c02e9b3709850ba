"""Pods with more terms than are modelled are undecidable; all else of them stays."""

from __future__ import annotations

from typing import Any

from dra_spawner.simulator.model.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.model.pod_limits import MAX_HOST_PORTS, MAX_RESOURCES, MAX_VALUES
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.node_fit import FitCode, NodeFit
from tests.all_of_them import all_of_them


def pod(**spec: Any) -> Pod:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    return Pod.from_json(
        {"kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [container], **spec}}
    )


def code_of(one: Pod) -> FitCode:
    node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
    state = NodeState.of(SchedulableNode.from_json(node), ())
    return NodeFit(one, [state]).verdict(state).code


def terms(number: int) -> dict[str, Any]:
    term = {"topologyKey": "k", "labelSelector": {"matchLabels": {"a": "b"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term] * number}}


@all_of_them(
    "part, short, long",
    [
        ("nodeSelector", {}, {f"k{each}": "v" for each in range(MAX_VALUES + 1)}),
        ("tolerations", [{"key": "k"}] * 100, [{"key": "k"}] * (MAX_VALUES + 1)),
        ("affinity", terms(20), terms(MAX_VALUES)),
        ("topologySpreadConstraints", [], [{"topologyKey": "k", "maxSkew": 1}] * MAX_VALUES),
    ],
)
def test_a_part_with_too_many_values_is_left_out(part: str, short: Any, long: Any) -> None:
    assert pod(**{part: short}).undecidable == ()
    assert code_of(pod(**{part: short})) is FitCode.FITS
    found = pod(**{part: long})
    assert found.undecidable == (f"spec.{part} with more than {MAX_VALUES} values",)
    assert code_of(found) is FitCode.UNDECIDABLE
    assert found.requests == {"cpu": 2000}
    assert not found.required_anti_affinity
    assert not found.node_selector


def test_ports_and_resources_are_counted_over_all_containers() -> None:
    ports = [{"hostPort": each} for each in range(1, MAX_HOST_PORTS + 2)]
    found = pod(containers=[{"name": "c", "ports": ports}])
    assert found.undecidable == (f"more than {MAX_HOST_PORTS} host ports",)
    assert len(found.host_ports) == MAX_HOST_PORTS
    requests = {"cpu": "1", "memory": "1Gi"} | {f"a.example.com/{each}": "1" for each in range(MAX_RESOURCES)}
    found = pod(containers=[{"name": "c", "resources": {"requests": requests}}])
    assert found.undecidable == (f"requests of more than {MAX_RESOURCES} resources",)
    assert len(found.requests) == MAX_RESOURCES
    assert found.requests["cpu"] == 1000
    assert "memory" in found.requests
