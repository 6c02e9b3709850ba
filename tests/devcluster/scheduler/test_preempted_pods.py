"""The scheduler on priorities: which pods are preempted for which."""

from __future__ import annotations

import pytest

from dra_spawner.devcluster.api.resource_types import PODS, PRIORITYCLASSES, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from tests.devcluster.cluster_objects import NAMESPACE, claim, pod, template, whole
from tests.devcluster.scheduler.scheduled_store import ALL_TAKEN


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


def test_preemption_never_frees_devices(ranks):
    ranks.add_node("a", whole("gpu-0"))
    ranks.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    ranks.create(PODS, pod("low", template="gpus", priorityClassName="low"))
    ranks.create(PODS, pod("vip", template="gpus", priorityClassName="high"))
    assert "deletionTimestamp" not in ranks.pod("low")["metadata"]
    assert ranks.condition("vip") == ("False", "Unschedulable", ALL_TAKEN)


def test_handover_preempts_the_placeholder(ranks):
    ranks.add_node("a", whole("gpu-0"))
    ranks.create(RESOURCECLAIMS, claim("warm"))
    ranks.create(
        PODS, pod("placeholder", claim="warm", cpu="3", priorityClassName="low", terminationGracePeriodSeconds=0)
    )
    allocation = ranks.claim("warm")["status"]["allocation"]
    ranks.create(PODS, pod("user", claim="warm", cpu="3"))
    assert ranks.store.find(PODS, NAMESPACE, "placeholder") is None
    assert ranks.place("user") == "a"
    assert [consumer["name"] for consumer in ranks.claim("warm")["status"]["reservedFor"]] == ["user"]
    assert ranks.devices(ranks.claim("warm")) == [("a", "gpu-0", None)]
    assert allocation["devices"] == ranks.claim("warm")["status"]["allocation"]["devices"]


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
