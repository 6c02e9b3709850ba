"""Where a pod that is not created yet would fit."""

from dra_spawner.simulator.scheduler.suitable_nodes import SuitableNodes
from tests.all_of_them import all_of_them


def node(name, cpu="4", **spec):
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {"metadata": {"name": name, "labels": {"zone": name}}, "spec": spec, "status": {"allocatable": allocatable}}


def pod(cpu="1", node="", **spec):
    made = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **spec}
    return {"metadata": {"name": "p", "namespace": "lab"}, "spec": {**made, **({"nodeName": node} if node else {})}}


NODES = [node("a"), node("b", unschedulable=True), node("c", cpu="2")]


@all_of_them(
    "candidate, pods, names",
    {
        "not where nothing may go": (pod(), [], "ac"),
        "capacity": (pod("3"), [], "a"),
        "numbers as KubeSpawner writes them": (pod(1.5), [pod("1", node="c")], "a"),
        "capacity beside others": (pod("2"), [pod("3", node="a")], "c"),
        "pods elsewhere do not count": (pod("2"), [pod("3"), pod("3", node="gone")], "ac"),
        "selector": (pod(nodeSelector={"zone": "c"}), [], "c"),
        "placeholders give way": (pod("4"), [pod("3", node="a", priority=-10)], "a"),
        "equals do not": (pod("4"), [pod("3", node="a", priority=0)], ""),
        "priority of a class that others have": (
            pod("4", priorityClassName="user"),
            [pod("3", node="a", priority=5), pod("0", node="c", priority=10, priorityClassName="user")],
            "a",
        ),
        "without need nobody gives way": (pod("2"), [pod("1", node="a", priority=-10)], "ac"),
        "no judgement of nonsense": ({"metadata": {"name": 3}, "spec": {"containers": []}}, [], "abc"),
        "other nonsense is passed over": (pod("2"), [{"metadata": {}, "spec": {}}], "ac"),
    },
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
