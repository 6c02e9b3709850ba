"""The scheduler on priorities: which pods are preempted for which."""

from __future__ import annotations

import pytest

from dra_spawner.devcluster.api.resource_types import PODS, PRIORITYCLASSES
from tests.devcluster.cluster_objects import pod


@pytest.fixture
def ranks(cluster):
    for name, value in (("high", 1000), ("low", -10)):
        cluster.create(PRIORITYCLASSES, {"metadata": {"name": name}, "value": value})
    return cluster


def test_preemption(ranks):
    ranks.add_node("a")
    ranks.create(PODS, pod("low", cpu="3", priorityClassName="low"))
    ranks.run("low")
    ranks.create(PODS, pod("vip", cpu="2", priorityClassName="high"))
    victim = ranks.pod("low")
    assert victim["metadata"]["deletionTimestamp"]
    disrupted = victim["status"]["conditions"][-1]
    assert (disrupted["type"], disrupted["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")
    assert disrupted["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    vip = ranks.pod("vip")
    assert vip["status"]["nominatedNodeName"] == "a"
    uid = vip["metadata"]["uid"]
    assert ("Preempted", f"Preempted by pod {uid} on node a", 1) in ranks.events("low")
    assert ranks.condition("vip")[2] == "0/1 nodes are available: 1 Insufficient cpu."
    # No lesser pod gets the capacity that is being cleared.
    ranks.create(PODS, pod("small", cpu="3"))
    ranks.delete("low")
    assert ranks.place("vip") == "a"
    assert "nominatedNodeName" not in ranks.pod("vip")["status"]
    assert ranks.place("small") is None


def test_greater_preemptor_replaces_the_nomination(ranks):
    ranks.add_node("a")
    ranks.create(PODS, pod("low", cpu="4", priorityClassName="low"))
    ranks.run("low")
    ranks.create(PODS, pod("middle", cpu="4"))
    assert ranks.pod("middle")["status"]["nominatedNodeName"] == "a"
    ranks.create(PODS, pod("vip", cpu="4", priorityClassName="high"))
    assert ranks.pod("vip")["status"]["nominatedNodeName"] == "a"
    ranks.delete("low")
    assert (ranks.place("vip"), ranks.place("middle")) == ("a", None)
