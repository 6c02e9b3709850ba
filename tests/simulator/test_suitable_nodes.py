"""Where a pod that is not created yet would fit."""

import pytest

from dra_spawner.simulator.suitable_nodes import SuitableNodes


def node(name, cpu="4", **spec):
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {"metadata": {"name": name, "labels": {"zone": name}}, "spec": spec, "status": {"allocatable": allocatable}}


def pod(cpu="1", node="", **spec):
    made = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **spec}
    return {"metadata": {"name": "p", "namespace": "lab"}, "spec": {**made, **({"nodeName": node} if node else {})}}


NODES = [node("a"), node("b", unschedulable=True), node("c", cpu="2")]


@pytest.mark.parametrize(
    ("candidate", "pods", "names"),
    [
        pytest.param(pod(), [], "ac", id="not where nothing may go"),
        pytest.param(pod("3"), [], "a", id="capacity"),
        pytest.param(pod(1.5), [pod("1", node="c")], "a", id="numbers as KubeSpawner writes them"),
        pytest.param(pod("2"), [pod("3", node="a")], "c", id="capacity beside others"),
        pytest.param(pod("2"), [pod("3"), pod("3", node="gone")], "ac", id="pods elsewhere do not count"),
        pytest.param(pod(nodeSelector={"zone": "c"}), [], "c", id="selector"),
        pytest.param(pod("4"), [pod("3", node="a", priority=-10)], "a", id="placeholders give way"),
        pytest.param(pod("4"), [pod("3", node="a", priority=0)], "", id="equals do not"),
        pytest.param(
            pod("4", priorityClassName="user"),
            [pod("3", node="a", priority=5), pod("0", node="c", priority=10, priorityClassName="user")],
            "a",
            id="priority of a class that others have",
        ),
        pytest.param(pod("2"), [pod("1", node="a", priority=-10)], "ac", id="without need nobody gives way"),
        pytest.param({"metadata": {"name": 3}, "spec": {"containers": []}}, [], "abc", id="no judgement of nonsense"),
        pytest.param(pod("2"), [{"metadata": {}, "spec": {}}], "ac", id="other nonsense is passed over"),
    ],
)
def test_suitable_nodes(candidate, pods, names):
    suitable_nodes = SuitableNodes()
    suitable_nodes.read(NODES, [(each, each["spec"].get("nodeName", "")) for each in pods])
    assert suitable_nodes.for_pod(candidate) == frozenset(names)


def test_pods_that_are_coming_count_and_those_that_are_gone_do_not():
    suitable_nodes = SuitableNodes()
    suitable_nodes.read(NODES, [(pod("3"), "a")])
    assert suitable_nodes.for_pod(pod("2")) == {"c"}
    assert suitable_nodes.for_pod(pod("2"), {"c": [pod(1.0)], "gone": [pod()]}) == frozenset()
    suitable_nodes.read(NODES, [])
    assert suitable_nodes.for_pod(pod("2"), {"c": [pod(1.0)]}) == {"a"}


def test_a_pod_that_changed_is_looked_at_again():
    suitable_nodes = SuitableNodes()
    before, after = pod("3"), pod("1")
    before["metadata"] |= {"uid": "1", "resourceVersion": "1"}
    after["metadata"] |= {"uid": "1", "resourceVersion": "2"}
    suitable_nodes.read(NODES, [(before, "a")])
    suitable_nodes.read(NODES, [(after, "a")])
    assert suitable_nodes.for_pod(pod("3")) == {"a"}
    suitable_nodes.read(NODES, [(after, "c")])
    assert suitable_nodes.for_pod(pod("2")) == {"a"}
