"""Snapshot: pods for which a node was cleared, and all that wait in their order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dra_spawner.simulator.dump import dump
from dra_spawner.simulator.fitting import PodFit
from tests.dra.builders import request
from tests.simulator.objects import pod, pod_term, required_pods
from tests.simulator.small_cluster import (
    cluster,
    gpu_slice,
    key,
    template,
    with_template,
)


def nominated(name: str, priority: int = 10, where: str = "n1", **spec: Any) -> Any:
    return with_template(name, priority=priority, status={"nominatedNodeName": where}, **spec)


def test_a_nominated_pod_passes_all_checks():
    snapshot = cluster(template(), nominated("first"), nominated("second"), nominated("third"))
    answers = snapshot.place_nominated()
    assert {name.name: str(answer) for name, answer in answers.items()} == {
        "first": "fits",
        "second": "fits",
        "third": "cannot allocate all claims",
    }
    assert snapshot.pods[key("third")].node_name == ""
    assert snapshot.fits(with_template("other")).fitting == ()


def test_the_most_important_comes_first():
    snapshot = cluster(template(), nominated("low", 1), nominated("high", 5), nominated("mid", 3))
    answers = snapshot.place_nominated()
    assert [name.name for name in answers] == ["high", "mid", "low"]
    assert [answer.fits for answer in answers.values()] == [True, True, False]


def test_a_nominated_pod_takes_the_place_of_those_that_leave_for_it():
    leaving = replace(pod("leaving", {"cpu": "4"}, nodeName="n1"), is_deleted=True)
    staying = pod("staying", {"cpu": "1"}, nodeName="n2")
    snapshot = cluster(template(), leaving, staying, nominated("p", requests={"cpu": "2"}))
    (answer,) = snapshot.place_nominated().values()
    assert answer.fits
    assert sorted(each.name for each in snapshot.pods) == ["p", "staying"]


def test_all_that_wait_are_placed_in_order():
    waiting = [
        replace(with_template("low"), created="1"),
        replace(with_template("high", priority=9), created="3"),
        replace(with_template("old"), created="0"),
        with_template("helpless", "no-template"),
        pod("plain"),
        pod("done", status={"phase": "Failed"}),
        nominated("chosen", 0),
    ]
    snapshot = cluster(template(), gpu_slice(count=3), *waiting)
    found = snapshot.place_pending()
    assert {name.name: where for name, where in found.items() if isinstance(where, str)} == {
        "chosen": "n1",
        "high": "n1",
        "plain": "n1",
        "old": "n1",
    }
    assert sorted(name.name for name, where in found.items() if isinstance(where, PodFit)) == ["helpless", "low"]


def test_nobody_leaves_in_vain():
    leaving = replace(pod("leaving", {"cpu": "4"}, nodeName="n1"), is_deleted=True)
    snapshot = cluster(template(request(count=3)), leaving, nominated("p", requests={"cpu": "2"}))
    before = dump(snapshot)
    (answer,) = snapshot.place_nominated().values()
    assert str(answer) == "cannot allocate all claims"
    assert dump(snapshot) == before


def test_others_keep_clear_of_a_place_that_is_being_cleared():
    waiting = pod("waiting", {"cpu": "3"}, priority=5, status={"nominatedNodeName": "n1"})
    snapshot = cluster(waiting)
    assert snapshot.fits(pod("lesser", {"cpu": "2"})).fitting == ("n2",)
    assert snapshot.fits(pod("equal", {"cpu": "2"}, priority=5)).fitting == ("n2",)
    assert snapshot.fits(pod("greater", {"cpu": "2"}, priority=9)).fitting == ("n1", "n2")
    assert snapshot.place(replace(waiting)) == "n1"


def test_others_keep_clear_of_a_pod_that_wants_to_be_alone_there():
    shy = required_pods("podAntiAffinity", pod_term(app="hub"))
    snapshot = cluster(pod("waiting", affinity=shy, status={"nominatedNodeName": "n1"}))
    assert snapshot.fits(pod("p", labels={"app": "hub"})).fitting == ("n2",)
