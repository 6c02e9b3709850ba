"""Topology spread constraints: where a pod may go so that the pods stay evenly spread."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.simulator.node_fit import Filter, FitCode, NodeFit
from dra_spawner.simulator.pods import Pod
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


@pytest.mark.parametrize(
    ("constraints", "nodes", "expected"),
    [
        pytest.param([spread()], zones(1, 0), ["b"], id="2-0 would be too uneven"),
        pytest.param([spread()], zones(1, 1), ["a", "b"], id="even: anywhere"),
        pytest.param([spread(2)], zones(1, 0), ["a", "b"], id="larger skew"),
        pytest.param([spread(minDomains=3)], zones(1, 1), [], id="too few domains: the minimum is 0"),
        pytest.param([spread(minDomains=3)], zones(1, 1, 0), ["c"], id="enough domains"),
        pytest.param([spread(labelSelector={})], zones(5, 0), ["a", "b"], id="a selector of everything counts none"),
        pytest.param([spread(labelSelector=None)], zones(5, 0), ["a", "b"], id="no selector selects none"),
        pytest.param([spread(whenUnsatisfiable="ScheduleAnyway")], zones(5, 0), ["a", "b"], id="a preference only"),
        pytest.param(
            [spread(labelSelector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})],
            zones(1, 0),
            ["b"],
            id="expressions",
        ),
        pytest.param([spread(matchLabelKeys=["app"], labelSelector={})], zones(1, 0), ["b"], id="match label keys"),
        pytest.param([spread(), spread(key="kubernetes.io/hostname")], zones(1, 0), ["b"], id="two constraints"),
    ],
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


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, ["b"], id="nodes ruled out by affinity do not count"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, [], id="unless ignored: zone c has fewest"),
    ],
)
def test_nodes_that_the_affinity_rules_out(policy, expected):
    nodes = [*zones(2, 1), state("c", labels={"zone": "c", "closed": "yes"})]
    only_open = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "closed", "operator": "DoesNotExist"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only_open}}
    assert fitting_nodes([spread(**policy)], nodes, affinity=affinity) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, [], id="tainted nodes count"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, ["b"], id="unless taints are honoured"),
    ],
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
