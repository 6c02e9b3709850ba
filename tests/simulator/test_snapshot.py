"""Snapshot: claims from made to gone, pods with claims that are not made yet, refusals that change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dra_spawner.dra.node_selector import node_name_selector
from dra_spawner.dra.objects import ConsumerReference, DeviceClass
from dra_spawner.simulator.claims import MAX_CONSUMERS, ClaimTemplate, ObjectKey, TrackedClaim
from dra_spawner.simulator.cluster_objects import Kind
from dra_spawner.simulator.dump import dump
from dra_spawner.simulator.fitting import PodFit
from dra_spawner.simulator.node_fit import Filter, FitCode
from dra_spawner.simulator.snapshot import Snapshot, SnapshotError, SnapshotProblem
from tests.dra.builders import device_json, first_available, make_slice, request, result, slice_json
from tests.simulator.objects import node, pod, pod_term, required_pods

GPU = DeviceClass("gpu", ("true",))
FINALIZER = "resource.kubernetes.io/delete-protection"


def gpu_slice(node_name: str = "n1", count: int = 2, **more: Any) -> Any:
    return make_slice(
        node_name, [device_json(f"d{number}") for number in range(count)], pool=node_name, nodeName=node_name, **more
    )


def cluster(*more: Any, **options: Any) -> Snapshot:
    """Two nodes, the first with two devices."""
    return Snapshot([node("n1"), node("n2"), GPU, gpu_slice(), *more], **options)


def template(*requests: Any, name: str = "t") -> ClaimTemplate:
    spec = {"devices": {"requests": list(requests or (request(),))}}
    return ClaimTemplate.from_json({"metadata": {"name": name, "namespace": "default"}, "spec": {"spec": spec}})


def claim(name: str = "c", *results: Any, users: tuple[str, ...] = (), owner: str = "", **more: Any) -> TrackedClaim:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "finalizers": [FINALIZER]}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}
        ]
        metadata["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    metadata |= more.pop("metadata", {})
    status: dict[str, Any] = {}
    if results:
        status["allocation"] = {"devices": {"results": list(results)}} | more
        status["reservedFor"] = [{"resource": "pods", "name": name, "uid": name} for name in users]
    spec = {"devices": {"requests": [request()]}}
    return TrackedClaim.from_json({"metadata": metadata, "spec": spec, "status": status})


def with_claim(name: str = "p", claim_name: str = "c", **spec: Any) -> Any:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claim_name}], **spec)


def with_template(name: str = "p", template_name: str = "t", **spec: Any) -> Any:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": template_name}], **spec)


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


def devices_of(snapshot: Snapshot, name: str) -> list[str] | None:
    devices = snapshot.claims[key(name)].claim.status.devices
    return [device.id.device for device in devices] if devices is not None else None


def consumers_of(snapshot: Snapshot, name: str) -> list[str]:
    return [consumer.name for consumer in snapshot.claims[key(name)].consumers]


# --- placing -------------------------------------------------------------------------------------------------------


def test_a_pod_whose_claim_is_not_made_yet():
    snapshot = cluster(template())
    answer = snapshot.schedule(with_template(), "n1")
    assert answer.fits
    placed = snapshot.pods[key("p")]
    (made,) = snapshot.claims_of(placed)
    assert made is not None
    assert (placed.node_name, made.belongs_to(placed), made.is_reserved_for(placed)) == ("n1", True, True)
    assert made.claim.status.node_selector == node_name_selector("n1")
    assert [each.name for each in snapshot.nodes["n1"].pods] == ["p"]


def test_a_pod_whose_claim_is_made():
    snapshot = cluster(claim(owner="p"))
    made = pod(
        "p",
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gone"}],
        status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]},
    )
    assert snapshot.schedule(made, "n1").fits
    assert (devices_of(snapshot, "c"), consumers_of(snapshot, "c")) == (["d0"], ["p"])


def test_each_entry_has_a_claim_of_its_own():
    other = replace(claim("other", owner="p"), entry="other")
    snapshot = cluster(other, claim(owner="p"), template())
    references = [{"name": name, "resourceClaimTemplateName": "t"} for name in ("gpu", "other")]
    assert snapshot.schedule(pod("p", resourceClaims=references), "n1").fits
    placed = snapshot.pods[key("p")]
    assert [reference.claim for reference in placed.claims] == ["c", "other"]


def test_a_claim_that_the_pod_was_not_told_of_is_found():
    snapshot = cluster(claim(owner="p"), template())
    assert snapshot.schedule(with_template(), "n1").fits
    assert list(snapshot.claims) == [key("c")]


def test_an_entry_for_which_no_claim_is_needed():
    needless = pod(
        "p",
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gone"}],
        status={"resourceClaimStatuses": [{"name": "gpu"}]},
    )
    assert cluster().fits(needless).fitting == ("n1", "n2")


def test_standing_claim_of_several_pods():
    snapshot = cluster(claim())
    assert snapshot.schedule(with_claim("p1"), "n1").fits
    assert snapshot.fits(with_claim("p2")).fitting == ("n1",)
    assert str(snapshot.fits_on(with_claim("p2"), "n2")) == "resourceclaim not available on the node"
    assert snapshot.schedule(with_claim("p2"), "n1").fits
    assert (devices_of(snapshot, "c"), consumers_of(snapshot, "c")) == (["d0"], ["p1", "p2"])


def test_two_entries_for_one_claim_are_one_claim():
    snapshot = cluster(claim())
    twice = pod("p", resourceClaims=[{"name": name, "resourceClaimName": "c"} for name in "ab"])
    assert snapshot.schedule(twice, "n1").fits
    assert (devices_of(snapshot, "c"), consumers_of(snapshot, "c")) == (["d0"], ["p"])


def test_place_takes_a_node_that_fits_or_the_one_chosen():
    snapshot = cluster(gpu_slice("n2"), template())
    assert snapshot.place(with_template("p1")) == "n1"
    assert snapshot.place(with_template("p2"), lambda names: names[-1]) == "n2"
    assert snapshot.place(pod("p3")) == "n1"


def test_place_until_nothing_is_left():
    snapshot = cluster(template())
    assert [snapshot.place(with_template(f"p{number}")) for number in range(2)] == ["n1", "n1"]
    refused = snapshot.place(with_template("p2"))
    assert isinstance(refused, PodFit)
    assert {name: str(answer) for name, answer in refused.nodes.items()} == {
        "n1": "all 2 devices in use",
        "n2": "no devices",
    }
    assert key("p2") not in snapshot.pods


def test_a_pod_that_has_a_place():
    snapshot = cluster()
    snapshot.schedule(pod("p"), "n1")
    assert "has a place on node n1 already" in str(snapshot.schedule(pod("p"), "n2"))


def test_extra_requests_of_nodes_count():
    snapshot = cluster()
    assert snapshot.schedule(pod("p1", {"cpu": "3"}), "n1").fits
    answer = snapshot.schedule(pod("p2", {"cpu": "2"}), "n1")
    assert (answer.verdict.code, answer.verdict.reasons) == (FitCode.UNSCHEDULABLE, ("Insufficient cpu",))
    snapshot.remove_pod(key("p1"))
    assert snapshot.schedule(pod("p2", {"cpu": "2"}), "n1").fits


def test_neighbours_count():
    shy = required_pods("podAntiAffinity", pod_term(app="hub"))
    snapshot = cluster()
    assert snapshot.schedule(pod("p1", labels={"app": "hub"}, affinity=shy), "n1").fits
    assert snapshot.fits(pod("p2", labels={"app": "hub"})).fitting == ("n2",)
    assert snapshot.fits(pod("p3", labels={"app": "other"}, affinity=shy)).fitting == ("n2",)
    near = required_pods("podAffinity", pod_term(app="hub"))
    assert snapshot.fits(pod("p4", affinity=near)).fitting == ("n1",)


# --- what rules out all nodes --------------------------------------------------------------------------------------

MANY = tuple(f"u{number}" for number in range(MAX_CONSUMERS))


@pytest.mark.parametrize(
    ("candidate", "more", "code", "reason"),
    [
        pytest.param(
            with_template(),
            [],
            FitCode.UNRESOLVABLE,
            'resourceclaimtemplate.resource.k8s.io "t" not found',
            id="no template",
        ),
        pytest.param(
            with_claim(), [], FitCode.UNRESOLVABLE, 'resourceclaim.resource.k8s.io "c" not found', id="no claim"
        ),
        pytest.param(
            with_claim(),
            [claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            FitCode.UNRESOLVABLE,
            'resourceclaim "c" is being deleted',
            id="claim goes",
        ),
        pytest.param(
            replace(with_template(), claims=(replace(with_template().claims[0], claim="c"),)),
            [claim(owner="other")],
            FitCode.UNRESOLVABLE,
            "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",
            id="somebody else's claim",
        ),
        pytest.param(
            with_claim(),
            [claim("c", result("d0", pool="n1"), users=MANY)],
            FitCode.UNRESOLVABLE,
            'resourceclaim "c" has 256 consumers already, the most it may have',
            id="too many consumers",
        ),
        pytest.param(
            with_template(),
            [template(request(deviceClassName="none"))],
            FitCode.UNRESOLVABLE,
            "request r: device class none does not exist",
            id="no class",
        ),
        pytest.param(
            with_template(),
            [template(first_available("r", {"name": "a"}, {"name": "b", "deviceClassName": "none"}))],
            FitCode.UNRESOLVABLE,
            "request r/b: device class none does not exist",
            id="no class of an alternative",
        ),
        pytest.param(
            with_template(),
            [template(request(selectors=[{"cel": {"expression": "device."}}]))],
            FitCode.ERROR,
            "CEL does not compile",
            id="selector does not compile",
        ),
        pytest.param(
            with_claim(),
            [
                claim(
                    "c",
                    result("d0", pool="n1"),
                    nodeSelector={"nodeSelectorTerms": [{"matchFields": [{"key": "x", "operator": "Exists"}]}]},
                )
            ],
            FitCode.ERROR,
            "claim default/c: field x: unknown operator 'Exists'",
            id="malformed node selector",
        ),
        pytest.param(pod(schedulingGates=[{"name": "wait"}]), [], FitCode.UNRESOLVABLE, "scheduling gates", id="gated"),
        pytest.param(replace(pod(), is_deleted=True), [], FitCode.UNRESOLVABLE, "being deleted", id="pod goes"),
    ],
)
def test_no_node_will_do(candidate, more, code, reason):
    snapshot = cluster(*more)
    before = dump(snapshot)
    fit = snapshot.fits(candidate)
    assert {(answer.verdict.code, reason in str(answer)) for answer in fit.nodes.values()} >= {(code, True)}
    assert fit.fitting == ()
    assert (fit.error is not None) == (code is FitCode.ERROR)
    assert not snapshot.schedule(candidate, "n1").fits
    assert isinstance(snapshot.place(candidate), PodFit)
    assert dump(snapshot) == before


def test_what_stops_the_scheduler_on_one_node_stops_it_on_all():
    # All devices are wanted while node n1 has half a pool: n2 would do, but kube-scheduler gives up.
    half = make_slice("half", [device_json("x")], pool="half", nodeName="n1", count=2)
    snapshot = cluster(half, gpu_slice("n2"), template(request(allocationMode="All")))
    fit = snapshot.fits(with_template())
    assert fit.fitting == ("n2",)
    assert fit.error is not None
    assert isinstance(snapshot.place(with_template()), PodFit)
    assert snapshot.schedule(with_template(), "n2").fits


@pytest.mark.parametrize(("name", "reason"), [pytest.param("n9", 'node "n9" not found', id="unknown node")])
def test_no_such_node(name, reason):
    assert reason in str(cluster().schedule(pod(), name))


# --- claims come and go --------------------------------------------------------------------------------------------


def test_claims_go_with_the_pod_they_were_made_for():
    snapshot = cluster(template())
    before = dump(snapshot)
    snapshot.schedule(with_template(), "n1")
    snapshot.remove_pod(key("p"))
    assert dump(snapshot) == before


def test_a_standing_claim_is_deallocated_after_its_last_pod():
    snapshot = cluster(claim())
    for name in ("p1", "p2"):
        snapshot.schedule(with_claim(name), "n1")
    snapshot.remove_pod(key("p1"))
    assert (devices_of(snapshot, "c"), consumers_of(snapshot, "c")) == (["d0"], ["p2"])
    snapshot.remove_pod(key("p2"))
    assert devices_of(snapshot, "c") is None
    assert snapshot.fits(with_claim("p3")).fitting == ("n1",)


def test_an_allocation_without_finalizer_is_not_the_controllers_business():
    kept = claim("c", result("d0", pool="n1"), users=("p",), metadata={"finalizers": []})
    snapshot = cluster(kept, with_claim(nodeName="n1"))
    snapshot.remove_pod(key("p"))
    assert (devices_of(snapshot, "c"), consumers_of(snapshot, "c")) == (["d0"], [])


def test_a_pod_that_has_ended_needs_nothing():
    snapshot = cluster(template())
    snapshot.schedule(with_template(requests={"cpu": "3"}), "n1")
    snapshot.put(replace(snapshot.pods[key("p")], phase="Succeeded"))
    assert not snapshot.claims
    assert snapshot.nodes["n1"].requested.get("cpu", 0) == 0


def test_a_pod_of_the_same_name_is_another_pod():
    snapshot = cluster(claim("c", result("d0", pool="n1"), users=("old",)), with_claim("old", nodeName="n1"))
    snapshot.put(with_claim("old", uid="new"))
    assert devices_of(snapshot, "c") is None


def test_a_claim_made_for_a_pod_that_others_use_goes_after_them():
    shared = claim("c", result("d0", pool="n1"), users=("p", "q"), owner="p")
    snapshot = cluster(shared, with_template("p", nodeName="n1"), with_claim("q", nodeName="n1"))
    snapshot.remove_pod(key("p"))
    assert snapshot.claims[key("c")].is_deleted
    snapshot.remove_pod(key("q"))
    assert not snapshot.claims


def test_settling_does_what_the_claim_controller_is_yet_to_do():
    snapshot = cluster(
        claim("standing", result("d0", pool="n1"), users=("gone",)),
        claim("made", result("d1", pool="n1"), users=("gone",), owner="gone"),
        claim("used", result("x"), users=("p",)),
        claim("foreign", result("y")).with_consumers((ConsumerReference("podgroups", "g", "g"),)),
        pod("p", nodeName="n1"),
    )
    snapshot.settle_claims()
    assert sorted(each.name for each in snapshot.claims) == ["foreign", "standing", "used"]
    assert devices_of(snapshot, "standing") is None
    assert (consumers_of(snapshot, "used"), consumers_of(snapshot, "foreign")) == (["p"], ["g"])


def elsewhere(users: tuple[str, ...] = ()) -> TrackedClaim:
    """The claim, allocated on node n1."""
    selector = node_name_selector("n1").to_json()
    return claim("c", result("d0", pool="n1"), users=users, nodeSelector=selector)


def test_a_claim_that_nobody_else_uses_moves():
    # A hand-over that failed: the placeholder is gone, its node is full, the claim is still there.
    snapshot = cluster(gpu_slice("n2"), elsewhere(), pod("full", {"cpu": "4"}, nodeName="n1"))
    late = with_claim("p", requests={"cpu": "1"})
    assert isinstance(snapshot.place(late), PodFit)
    assert snapshot.release_idle_claims(late) == (key("c"),)
    assert snapshot.place(late) == "n2"
    assert snapshot.release_idle_claims(late) == ()


@pytest.mark.parametrize(
    ("users", "released"),
    [
        pytest.param((), True, id="nobody"),
        pytest.param(("p",), True, id="itself"),
        pytest.param(("q",), False, id="another"),
    ],
)
def test_claims_in_use_stay(users, released):
    snapshot = cluster(elsewhere(users), with_claim("p"))
    assert bool(snapshot.release_idle_claims(with_claim("p"))) == released
    assert (devices_of(snapshot, "c") is None) == released


def test_allocate_reserve_and_back():
    snapshot = cluster(claim())
    before = dump(snapshot)
    user = with_claim("p")
    snapshot.allocate(key("c"), "n1")
    assert devices_of(snapshot, "c") == ["d0"]
    snapshot.reserve(key("c"), user)
    snapshot.reserve(key("c"), user)
    assert consumers_of(snapshot, "c") == ["p"]
    snapshot.unreserve(key("c"), user)
    assert devices_of(snapshot, "c") is None
    snapshot.allocate(key("c"), "n1")
    snapshot.deallocate(key("c"))
    after = dump(snapshot)
    # Only the finalizer has come and gone.
    assert after["holders"] == before["holders"]
    assert after["claims_reserved_for"] == before["claims_reserved_for"]


FULL = claim("full", result("d0", pool="n1"), users=MANY)


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        pytest.param(lambda s: s.allocate(key("x"), "n1"), SnapshotProblem.NOT_FOUND, id="no claim"),
        pytest.param(lambda s: s.allocate(key("free"), "n9"), SnapshotProblem.NOT_FOUND, id="no node"),
        pytest.param(lambda s: s.allocate(key("full"), "n1"), SnapshotProblem.ALLOCATED, id="allocated twice"),
        pytest.param(lambda s: s.allocate(key("free"), "n2"), SnapshotProblem.DOES_NOT_FIT, id="no devices"),
        pytest.param(lambda s: s.allocate(key("typo"), "n1"), SnapshotProblem.DOES_NOT_FIT, id="no class"),
        pytest.param(lambda s: s.deallocate(key("free")), SnapshotProblem.NOT_ALLOCATED, id="not allocated"),
        pytest.param(lambda s: s.reserve(key("free"), pod()), SnapshotProblem.NOT_ALLOCATED, id="reserved too early"),
        pytest.param(lambda s: s.reserve(key("full"), pod()), SnapshotProblem.TOO_MANY_CONSUMERS, id="too many"),
        pytest.param(lambda s: s.unreserve(key("x"), pod()), SnapshotProblem.NOT_FOUND, id="nothing to unreserve"),
        pytest.param(lambda s: s.remove(Kind.POD, key("x")), SnapshotProblem.NOT_FOUND, id="no pod"),
        pytest.param(
            lambda s: s.remove(Kind.RESOURCE_SLICE, ObjectKey("", "x")), SnapshotProblem.NOT_FOUND, id="no slice"
        ),
        pytest.param(lambda s: s.take_down_node("n9"), SnapshotProblem.NOT_FOUND, id="nothing to take down"),
        pytest.param(lambda s: s.commit(), SnapshotProblem.NO_FORK, id="nothing to commit"),
        pytest.param(lambda s: s.revert(), SnapshotProblem.NO_FORK, id="nothing to revert"),
    ],
)
def test_a_refusal_changes_nothing(operation, problem):
    typo = replace(template(request(deviceClassName="none")).claim_for(pod(), "x"))
    typo = replace(typo, claim=replace(typo.claim, name="typo"))
    snapshot = cluster(claim("free"), FULL, typo)
    before = dump(snapshot)
    with pytest.raises(SnapshotError) as caught:
        operation(snapshot)
    assert caught.value.problem is problem
    assert dump(snapshot) == before


# --- nodes, forks --------------------------------------------------------------------------------------------------


def test_taking_a_node_down():
    snapshot = cluster(template())
    snapshot.schedule(with_template(), "n1")
    with snapshot.trial():
        (gone,) = snapshot.take_down_node("n1")
        assert gone.name == "p"
        assert (list(snapshot.nodes), list(snapshot.slices), dict(snapshot.claims)) == (["n2"], [], {})
    assert [each.name for each in snapshot.nodes["n1"].pods] == ["p"]


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


def test_a_trial_takes_forks_back_that_it_left_open():
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
    few = len(snapshot._journal._undos)
    snapshot.revert()
    small = cluster(template())
    small.fork()
    small.schedule(with_template(), "n1")
    assert few == len(small._journal._undos)


# --- nominated pods ------------------------------------------------------------------------------------------------


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


# --- objects that make no sense ------------------------------------------------------------------------------------


def bad(kind: str, name: str, namespace: str = "default", **content: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, **content}


BAD_POD = bad("Pod", "bad", spec={"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "lots"}}}]})
BAD_CLAIM = bad("ResourceClaim", "c", spec={"devices": {"requests": [{"name": "r"}]}})
BAD_TEMPLATE = bad("ResourceClaimTemplate", "t", spec={"spec": 5})
BAD_CLASS = bad("DeviceClass", "gpu", "", spec={"selectors": 5})
BAD_NODE = bad("Node", "n1", "", status={"allocatable": {"cpu": "lots"}})
BAD_SLICE = slice_json("n1", [{"name": "d0", "capacity": 5}], pool="n1", nodeName="n1")


@pytest.mark.parametrize(
    ("obj", "candidate", "code", "others"),
    [
        pytest.param(BAD_POD, pod(), FitCode.UNDECIDABLE, {"n2": True}, id="pod on the node"),
        pytest.param(BAD_CLAIM, with_claim(), FitCode.UNDECIDABLE, {"n2": False}, id="claim"),
        pytest.param(BAD_TEMPLATE, with_template(), FitCode.UNDECIDABLE, {"n2": False}, id="template"),
        pytest.param(BAD_CLASS, with_template(), FitCode.UNDECIDABLE, {"n2": False}, id="class"),
        pytest.param(BAD_NODE, pod(), FitCode.UNDECIDABLE, {"n2": True}, id="node"),
        pytest.param(BAD_SLICE, with_template(), FitCode.UNRESOLVABLE, {"n2": True}, id="slice"),
    ],
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


def test_the_rest_is_taken_in_all_the_same():
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


def test_a_claim_that_makes_no_sense_any_more_keeps_what_it_holds():
    snapshot = cluster(claim("c", result("d0", pool="n1")), template())
    snapshot.apply(BAD_CLAIM)
    assert snapshot.place(with_template("p1")) == "n1"
    assert isinstance(snapshot.place(with_template("p2")), PodFit)


def test_what_a_claim_holds_counts_even_if_the_rest_makes_no_sense():
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


def test_filters_are_told():
    taint = {"key": "gpu", "effect": "NoSchedule"}
    snapshot = Snapshot([node("n1", taints=[taint]), node("n2")])
    assert snapshot.fits_on(pod(), "n1").verdict.filter is Filter.TAINT_TOLERATION
