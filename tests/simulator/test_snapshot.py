"""Snapshot: taking nodes down, forks, refusals that change nothing, objects that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.simulator.fitting import PodFit
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.scheduler.node_fit import Filter, FitCode
from dra_spawner.simulator.snapshot import Snapshot, SnapshotError, SnapshotProblem
from tests.all_of_them import all_of_them
from tests.containers import containers
from tests.dra.builders import make_slice, request, result, slice_json
from tests.simulator.changes import take_down_node
from tests.simulator.dump import dump
from tests.simulator.objects import node, pod
from tests.simulator.small_cluster import (
    GPU,
    claim,
    cluster,
    gpu_slice,
    key,
    template,
    with_claim,
    with_template,
)


def test_taking_a_node_down():
    snapshot = cluster(template())
    snapshot.schedule(with_template(), "n1")
    with snapshot.trial():
        (gone,) = take_down_node(snapshot, "n1")
        assert gone.name == "p"
        assert (list(snapshot.nodes), list(snapshot.slices), dict(snapshot.claims)) == (["n2"], [], {})
    assert [each.name for each in snapshot.nodes["n1"].pods] == ["p"]


def test_a_cluster_made_of_the_items_of_another_is_equal():
    """Whatever was changed before, and with objects that make no sense."""
    snapshot = cluster(template(), claim("c"), pod("waits"), gpu_slice("n2"))
    snapshot.schedule(with_template(), "n1")
    snapshot.put(node("n1"))
    snapshot.remove(Kind.RESOURCE_SLICE, ObjectKey("", gpu_slice("n2").name))
    wrong_slice = slice_json("n3", [], pool="n3", nodeName="n2")
    wrong_slice["spec"]["pool"]["resourceSliceCount"] = "many"
    wrong_node = {"kind": "Node", "metadata": {"name": "n4"}, "status": {"allocatable": {"cpu": "many"}}}
    wrong_pod = {
        "kind": "Pod",
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"nodeName": "n1", "containers": 3},
    }
    assert all(snapshot.apply(each) is not None for each in (wrong_slice, wrong_node, wrong_pod))
    copy = Snapshot(snapshot.items())
    assert dump(copy) == dump(snapshot)
    copy.remove_pod(key("waits"))
    assert key("waits") in snapshot.pods


def test_pods_of_a_node_that_is_not_there_yet():
    snapshot = Snapshot([pod("p", {"cpu": "3"}, nodeName="n1")])
    snapshot.put(node("n1"))
    assert snapshot.nodes["n1"].requested["cpu"] == 3000
    snapshot.remove(Kind.NODE, ObjectKey("", "n1"))
    assert key("p") in snapshot.pods


def test_forks_nest():
    snapshot = cluster()
    snapshot.fork()
    snapshot.put(pod("p1"))
    snapshot.fork()
    snapshot.put(pod("p2"))
    snapshot.commit()
    snapshot.fork()
    snapshot.put(pod("p3"))
    snapshot.revert()
    assert sorted(each.name for each in snapshot.pods) == ["p1", "p2"]
    snapshot.revert()
    assert not snapshot.pods


def test_a_trial_reverts_its_open_forks():
    snapshot = cluster()

    def fail() -> None:
        with snapshot.trial():
            snapshot.fork()
            snapshot.put(pod("p"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not snapshot.pods
    with pytest.raises(SnapshotError):
        snapshot.revert()


def test_a_fork_costs_its_changes_and_not_the_cluster():
    snapshot = Snapshot([GPU, template()])
    for number in range(50):
        snapshot.put(node(f"n{number}"))
        snapshot.put(gpu_slice(f"n{number}"))
    snapshot.fork()
    snapshot.schedule(with_template(), "n7")
    few = containers(snapshot)["Journal._undos"]
    snapshot.revert()
    small = cluster(template())
    small.fork()
    small.schedule(with_template(), "n1")
    assert few == containers(small)["Journal._undos"]


@all_of_them(
    "operation, problem",
    {
        "no pod": (lambda s: s.remove(Kind.POD, key("x")), SnapshotProblem.NOT_FOUND),
        "no slice": (lambda s: s.remove(Kind.RESOURCE_SLICE, ObjectKey("", "x")), SnapshotProblem.NOT_FOUND),
        "nothing to commit": (lambda s: s.commit(), SnapshotProblem.NO_FORK),
        "nothing to revert": (lambda s: s.revert(), SnapshotProblem.NO_FORK),
    },
)
def test_a_refusal_changes_nothing(operation, problem):
    snapshot = cluster()
    before = dump(snapshot)
    with pytest.raises(SnapshotError) as caught:
        operation(snapshot)
    assert caught.value.problem is problem
    assert dump(snapshot) == before


# --- objects that make no sense ------------------------------------------------------------------------------------


def bad(kind: str, name: str, namespace: str = "default", **content: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, **content}


BAD_POD = bad("Pod", "bad", spec={"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "lots"}}}]})
BAD_CLAIM = bad("ResourceClaim", "c", spec={"devices": {"requests": [{"name": "r"}]}})
BAD_TEMPLATE = bad("ResourceClaimTemplate", "t", spec={"spec": 5})
BAD_CLASS = bad("DeviceClass", "gpu", "", spec={"selectors": 5})
BAD_NODE = bad("Node", "n1", "", status={"allocatable": {"cpu": "lots"}})
BAD_SLICE = slice_json("n1", [{"name": "d0", "capacity": 5}], pool="n1", nodeName="n1")


@all_of_them(
    "obj, candidate, code, others",
    {
        "pod on the node": (BAD_POD, pod(), FitCode.UNDECIDABLE, {"n2": True}),
        "claim": (BAD_CLAIM, with_claim(), FitCode.UNDECIDABLE, {"n2": False}),
        "template": (BAD_TEMPLATE, with_template(), FitCode.UNDECIDABLE, {"n2": False}),
        "class": (BAD_CLASS, with_template(), FitCode.UNDECIDABLE, {"n2": False}),
        "node": (BAD_NODE, pod(), FitCode.UNDECIDABLE, {"n2": True}),
        "slice": (BAD_SLICE, with_template(), FitCode.UNRESOLVABLE, {"n2": True}),
    },
)
def test_one_bad_object_costs_one_verdict(obj, candidate, code, others):
    snapshot = cluster(gpu_slice("n2"), template())
    broken = snapshot.apply(obj)
    assert broken is not None
    assert snapshot.broken == (broken,)
    answer = snapshot.fits_on(candidate, "n1")
    assert answer.verdict.code is code
    if code is FitCode.UNDECIDABLE:
        assert broken.problem in str(answer)
    assert {name: snapshot.fits_on(candidate, name).fits for name in others} == others
    assert snapshot.fits(pod("untouched")).fitting


def test_the_other_objects_are_added_all_the_same():
    objects = [
        BAD_POD,
        BAD_SLICE,
        BAD_CLASS,
        {"kind": "ConfigMap"},
        "nonsense",
        bad("Node", "", ""),
        bad("Node", "", ""),
    ]
    fine = {"kind": "Node", "metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
    snapshot = Snapshot.from_objects([*objects, fine])
    assert [str(each.key) for each in snapshot.broken] == ["gpu", "(object 6)", "(object 7)", "default/bad", "n1"]
    assert snapshot.fits(pod()).fitting == ("n2",)


def test_an_object_that_makes_sense_again():
    snapshot = cluster(gpu_slice("n2"), template())
    snapshot.apply(BAD_SLICE)
    snapshot.put(gpu_slice())
    assert snapshot.broken == ()
    assert snapshot.fits(with_template()).fitting == ("n1", "n2")


def test_a_claim_that_becomes_invalid_keeps_its_devices():
    snapshot = cluster(claim("c", result("d0", pool="n1")), template())
    snapshot.apply(BAD_CLAIM)
    assert snapshot.place(with_template("p1")) == "n1"
    assert isinstance(snapshot.place(with_template("p2")), PodFit)


def test_devices_of_an_invalid_claim_count():
    allocated = {"allocation": {"devices": {"results": [result("d0", pool="n1")]}}}
    snapshot = cluster(template())
    snapshot.apply({**BAD_CLAIM, "status": allocated})
    assert "exactly and firstAvailable" in str(snapshot.fits_on(with_claim(), "n1"))
    assert snapshot.place(with_template("p1")) == "n1"
    assert isinstance(snapshot.place(with_template("p2")), PodFit)
    snapshot.remove_claim(key("c"))
    assert (snapshot.broken, snapshot.place(with_template("p2"))) == ((), "n1")


def test_a_bad_object_is_removed():
    snapshot = cluster()
    snapshot.apply(BAD_POD)
    snapshot.remove_pod(key("bad"))
    assert snapshot.broken == ()
    assert snapshot.fits(pod()).fitting == ("n1", "n2")


def test_the_verdict_names_its_filter():
    taint = {"key": "gpu", "effect": "NoSchedule"}
    snapshot = Snapshot([node("n1", taints=[taint]), node("n2")])
    assert snapshot.fits_on(pod(), "n1").verdict.filter is Filter.TAINT_TOLERATION


def test_where_the_scheduler_gives_up_the_reason_names_the_nodes_own_pool():
    everything = template(request(allocationMode="All"))
    snapshot = cluster(everything, *(make_slice(name, pool=name, nodeName=name, count=2) for name in ("n1", "n2")))
    answers = snapshot.fits(with_template()).nodes
    for name in ("n1", "n2"):
        assert f"pool gpu.example.com/{name} is being updated" in str(answers[name])
        assert answers[name].verdict == snapshot.fits_on(with_template(), name).verdict
