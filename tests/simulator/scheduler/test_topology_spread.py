"""Topology spread constraints: where a pod may go so that the pods stay evenly spread."""

from __future__ import annotations

from typing import Any

from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.node_fit import Filter, FitCode, NodeFit
from tests.all_of_them import all_of_them
from tests.simulator.objects import pod, state

LABELS = {"app": "hub"}


def spread(max_skew: int = 1, key: str = "zone", **fields: Any) -> dict[str, Any]:
    selector = {"labelSelector": {"matchLabels": LABELS}}
    return {"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"} | selector | fields


def users(count: int, **more: Any) -> list[Pod]:
    return [pod(f"user-{number}", labels=LABELS, **more) for number in range(count)]


def fitting_nodes(constraints: list[dict[str, Any]], nodes: list[Any], **spec: Any) -> list[str]:
    candidate = pod("new", labels=LABELS, topologySpreadConstraints=constraints, **spec)
    fit = NodeFit(candidate, nodes)
    return [each.node.name for each in nodes if fit.verdict(each).fits]


def zones(a: int, b: int, c: int | None = None) -> list[Any]:
    counts = {"a": a, "b": b} | ({"c": c} if c is not None else {})
    return [state(zone, *users(count), labels={"zone": zone}) for zone, count in counts.items()]


@all_of_them(
    "constraints, nodes, expected",
    {
        "2-0 would be too uneven": ([spread()], zones(1, 0), ["b"]),
        "even: anywhere": ([spread()], zones(1, 1), ["a", "b"]),
        "larger skew": ([spread(2)], zones(1, 0), ["a", "b"]),
        "too few domains: the minimum is 0": ([spread(minDomains=3)], zones(1, 1), []),
        "enough domains": ([spread(minDomains=3)], zones(1, 1, 0), ["c"]),
        "a selector of everything counts none": ([spread(labelSelector={})], zones(5, 0), ["a", "b"]),
        "no selector selects none": ([spread(labelSelector=None)], zones(5, 0), ["a", "b"]),
        "a preference only": ([spread(whenUnsatisfiable="ScheduleAnyway")], zones(5, 0), ["a", "b"]),
        "expressions": (
            [spread(labelSelector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})],
            zones(1, 0),
            ["b"],
        ),
        "match label keys": ([spread(matchLabelKeys=["app"], labelSelector={})], zones(1, 0), ["b"]),
        "two constraints": ([spread(), spread(key="kubernetes.io/hostname")], zones(1, 0), ["b"]),
    },
)
def test_domains(constraints, nodes, expected):
    assert fitting_nodes(constraints, nodes) == expected


def test_a_node_without_the_label_is_out_of_the_question():
    fit = NodeFit(pod(topologySpreadConstraints=[spread()]), [state()])
    verdict = fit.verdict(state())
    assert (verdict.code, verdict.filter) == (FitCode.UNRESOLVABLE, Filter.POD_TOPOLOGY_SPREAD)
    assert verdict.reasons == ("node(s) didn't match pod topology spread constraints (missing required label)",)


def test_an_uneven_node_might_do_if_others_were_gone():
    nodes = zones(1, 0)
    verdict = NodeFit(pod(labels=LABELS, topologySpreadConstraints=[spread()]), nodes).verdict(nodes[0])
    assert (verdict.code, verdict.filter) == (FitCode.UNSCHEDULABLE, Filter.POD_TOPOLOGY_SPREAD)


@all_of_them(
    "policy, expected",
    {
        "nodes ruled out by affinity do not count": ({}, ["b"]),
        "unless ignored: zone c has fewest": ({"nodeAffinityPolicy": "Ignore"}, []),
    },
)
def test_nodes_that_the_affinity_rules_out(policy, expected):
    nodes = [*zones(2, 1), state("c", labels={"zone": "c", "closed": "yes"})]
    only_open = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "closed", "operator": "DoesNotExist"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only_open}}
    assert fitting_nodes([spread(**policy)], nodes, affinity=affinity) == expected


@all_of_them(
    "policy, expected",
    {
        "tainted nodes count": ({}, []),
        "unless taints are honoured": ({"nodeTaintsPolicy": "Honor"}, ["b"]),
    },
)
def test_nodes_that_are_tainted(policy, expected):
    taint = {"key": "gpu", "effect": "NoSchedule"}
    nodes = [*zones(2, 1), state("c", labels={"zone": "c"}, taints=[taint])]
    assert fitting_nodes([spread(**policy)], nodes) == expected


def test_other_namespaces_and_terminating_pods_do_not_count():
    leaving = Pod("leaving", "default", "leaving", LABELS, is_deleted=True)
    foreign = Pod("foreign", "elsewhere", "foreign", LABELS)
    nodes = [state("a", leaving, foreign, labels={"zone": "a"}), state("b", labels={"zone": "b"})]
    assert fitting_nodes([spread()], nodes) == ["a", "b"]
