"""Points as kube-scheduler gives them; the amounts are worked out by hand from its formulas."""

from __future__ import annotations

from dra_spawner.simulator.scheduler.node_score import best_nodes, score_nodes
from tests.all_of_them import all_of_them
from tests.simulator.objects import pod, pod_term, required_pods, state

EVEN = 75  # of balance, where the pod changes nothing about it


def points(candidate, *states, devices=None):
    return score_nodes(candidate, states, states, devices or {})


def preferred(weight: int, **labels: str):
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]}
    return {"weight": weight, "preference": term}


def prefers_nodes(*terms):
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def prefers_pods(kind: str, weight: int, **labels: str):
    term = {"weight": weight, "podAffinityTerm": pod_term(**labels)}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def difference(candidate, one, other, **more) -> int:
    first, second = points(candidate, one, other, **more)
    return first - second


def test_empty_node_of_a_pod_that_takes_a_quarter():
    # 75 points for free resources, 75 for balance, 3 x 100 for no taints that would rather not have it.
    assert points(pod(requests={"cpu": "1", "memory": "2Gi"}), state()) == [75 + EVEN + 300]


def test_pods_without_requests_count_as_small_ones_and_have_no_balance():
    # cpu: 3900 of 4000 free, memory: 7992 of 8192 MiB.
    assert points(pod(), state()) == [97 + 300]


def test_emptier_node_is_better():
    busy = state("busy", pod("other", {"cpu": "2", "memory": "4Gi"}))
    assert difference(pod(requests={"cpu": "1", "memory": "2Gi"}), state("idle"), busy) == 50


def test_balance():
    lopsided = state("lopsided", pod("other", {"memory": "4Gi"}))
    # Free: 75 and 100 on one node; on the other 3900 millicores less 1000, so 72, and 50.
    # Balance: from 100 to 87 there, from 75 to 87 here.
    candidate = pod(requests={"cpu": "1"})
    idle, other = points(candidate, state("idle"), lopsided)
    assert idle == (75 + 97) // 2 + 50 + (50 + 87 - 100) // 2 + 300
    assert other == (72 + 47) // 2 + 50 + (50 + 87 - 75) // 2 + 300


FAN = pod("fan", affinity=required_pods("podAffinity", pod_term(app="web")))
WEB, DB = pod("web", labels={"app": "web"}), pod("db", labels={"app": "db"})
ZONE_A, ZONE_B = (state(zone, labels={"zone": zone}) for zone in "ab")
#: Half of the nodes have the image.
FOR_IMAGE = 100 * (1023 * 2**19 - 23 * 2**20) // (977 * 2**20)


@all_of_them(
    "candidate, better, worse, gain",
    {
        "nodes": (pod(affinity=prefers_nodes(preferred(10, zone="a"), preferred(5, zone="b"))), ZONE_A, ZONE_B, 2 * 50),
        "taint": (pod(), state("a"), state("b", taints=[{"key": "x", "effect": "PreferNoSchedule"}]), 3 * 100),
        "company": (pod(affinity=prefers_pods("podAffinity", 7, app="web")), state("a", WEB), state("b", DB), 2 * 100),
        "shunned": (pod(affinity=prefers_pods("podAntiAffinity", 7, app="web")), state("a", DB), state("b", WEB), 2 * 100),
        "where one is wanted": (pod(labels={"app": "web"}), state("a", FAN), state("b", pod("stranger")), 2 * 100),
        "image": (pod(), state("a", images=[{"names": ["example.com/image:1"], "sizeBytes": 1023 * 2**20}]), state("b"), FOR_IMAGE),
    },
)  # fmt: skip
def test_preferences(candidate, better, worse, gain):
    assert difference(candidate, better, worse) == gain


def test_better_devices():
    assert difference(pod(), state("a"), state("b"), devices={"a": 8, "b": 4}) == 2 * 50


def test_best_nodes_are_all_that_are_equally_good():
    busy = state("busy", pod("other", {"cpu": "2"}))
    nodes = [state("a"), busy, state("b")]
    assert [each.node.name for each in best_nodes(pod(), nodes, nodes, {})] == ["a", "b"]
    assert [each.node.name for each in best_nodes(pod(), nodes, [busy], {})] == ["busy"]
