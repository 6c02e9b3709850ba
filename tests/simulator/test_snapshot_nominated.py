"""Snapshot: pods for which a node was cleared."""

from __future__ import annotations

from dataclasses import replace

from tests.simulator.objects import pod, pod_term, required_pods
from tests.simulator.small_cluster import (
    cluster,
)


def test_lesser_pods_do_not_fit_on_a_node_that_is_being_cleared():
    nominated = pod("nominated", {"cpu": "3"}, priority=5, status={"nominatedNodeName": "n1"})
    snapshot = cluster(nominated)
    assert snapshot.fits(pod("lesser", {"cpu": "2"})).fitting == ("n2",)
    assert snapshot.fits(pod("equal", {"cpu": "2"}, priority=5)).fitting == ("n2",)
    assert snapshot.fits(pod("greater", {"cpu": "2"}, priority=9)).fitting == ("n1", "n2")
    assert snapshot.place(replace(nominated)) == "n1"


def test_other_pods_do_not_fit_beside_a_nominated_pod_with_anti_affinity():
    anti_affinity = required_pods("podAntiAffinity", pod_term(app="hub"))
    snapshot = cluster(pod("waiting", affinity=anti_affinity, status={"nominatedNodeName": "n1"}))
    assert snapshot.fits(pod("p", labels={"app": "hub"})).fitting == ("n2",)
