"""Snapshot: pods get nodes, with claims that exist and that do not exist yet; causes that rule out all nodes."""

from __future__ import annotations

from dataclasses import replace

from dra_spawner.dra.model.node_selector import node_name_selector
from dra_spawner.simulator.fitting import PodFit
from dra_spawner.simulator.scheduler.node_fit import FitCode
from tests.all_of_them import all_of_them
from tests.dra.builders import device_json, first_available, make_slice, request, result
from tests.simulator.changes import claims_of
from tests.simulator.dump import dump
from tests.simulator.objects import pod, pod_term, required_pods
from tests.simulator.small_cluster import (
    MANY,
    claim,
    cluster,
    consumers_of,
    devices_of,
    gpu_slice,
    key,
    template,
    with_claim,
    with_template,
)


def test_a_pod_whose_claim_is_not_made_yet():
    snapshot = cluster(template())
    answer = snapshot.schedule(with_template(), "n1")
    assert answer.fits
    placed = snapshot.pods[key("p")]
    (made,) = claims_of(snapshot, placed)
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


def test_a_claim_that_is_not_in_the_pods_status_is_found():
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


def test_shared_claim_of_several_pods():
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


def test_place_uses_the_first_fitting_or_the_chosen_node():
    snapshot = cluster(gpu_slice("n2"), template())
    assert snapshot.place(with_template("p1")) == "n1"
    assert snapshot.place(with_template("p2"), lambda names: names[-1]) == "n2"
    assert snapshot.place(pod("p3")) == "n1"


def test_place_until_no_device_is_left():
    snapshot = cluster(template())
    assert [snapshot.place(with_template(f"p{number}")) for number in range(2)] == ["n1", "n1"]
    refused = snapshot.place(with_template("p2"))
    assert isinstance(refused, PodFit)
    assert {name: str(answer) for name, answer in refused.nodes.items()} == {
        "n1": "all 2 devices in use",
        "n2": "no devices",
    }
    assert key("p2") not in snapshot.pods


def test_a_pod_that_is_bound_is_not_scheduled_again():
    snapshot = cluster()
    snapshot.schedule(pod("p"), "n1")
    assert "is bound to node n1 already" in str(snapshot.schedule(pod("p"), "n2"))


def test_extra_requests_of_nodes_count():
    snapshot = cluster()
    assert snapshot.schedule(pod("p1", {"cpu": "3"}), "n1").fits
    answer = snapshot.schedule(pod("p2", {"cpu": "2"}), "n1")
    assert (answer.verdict.code, answer.verdict.reasons) == (FitCode.UNSCHEDULABLE, ("Insufficient cpu",))
    snapshot.remove_pod(key("p1"))
    assert snapshot.schedule(pod("p2", {"cpu": "2"}), "n1").fits


def test_neighbours_count():
    anti_affinity = required_pods("podAntiAffinity", pod_term(app="hub"))
    snapshot = cluster()
    assert snapshot.schedule(pod("p1", labels={"app": "hub"}, affinity=anti_affinity), "n1").fits
    assert snapshot.fits(pod("p2", labels={"app": "hub"})).fitting == ("n2",)
    assert snapshot.fits(pod("p3", labels={"app": "other"}, affinity=anti_affinity)).fitting == ("n2",)
    near = required_pods("podAffinity", pod_term(app="hub"))
    assert snapshot.fits(pod("p4", affinity=near)).fitting == ("n1",)


# --- causes that rule out all nodes ----------------------------------------------------------------------------------


NEVER, ERROR = FitCode.UNRESOLVABLE, FitCode.ERROR
OF_STATUS = replace(with_template(), claims=(replace(with_template().claims[0], claim="c"),))
LEAVING = claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
MALFORMED = {"nodeSelectorTerms": [{"matchFields": [{"key": "x", "operator": "Exists"}]}]}
ALTERNATIVES = first_available("r", {"name": "a"}, {"name": "b", "deviceClassName": "none"})
NO_CEL = request(selectors=[{"cel": {"expression": "device."}}])


@all_of_them(
    "candidate, more, code, reason",
    {
        "no template": (with_template(), [], NEVER, 'resourceclaimtemplate.resource.k8s.io "t" not found'),
        "no claim": (with_claim(), [], NEVER, 'resourceclaim.resource.k8s.io "c" not found'),
        "claim goes": (with_claim(), [LEAVING], NEVER, 'resourceclaim "c" is being deleted'),
        "somebody else's claim": (
            OF_STATUS,
            [claim(owner="other")],
            NEVER,
            "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",
        ),
        "too many consumers": (
            with_claim(),
            [claim("c", result("d0", pool="n1"), users=MANY)],
            NEVER,
            'resourceclaim "c" has 256 consumers already, the most it may have',
        ),
        "no class": (
            with_template(),
            [template(request(deviceClassName="none"))],
            NEVER,
            "request r: device class none does not exist",
        ),
        "no class of an alternative": (
            with_template(),
            [template(ALTERNATIVES)],
            NEVER,
            "request r/b: device class none does not exist",
        ),
        "selector does not compile": (with_template(), [template(NO_CEL)], ERROR, "CEL does not compile"),
        "malformed node selector": (
            with_claim(),
            [claim("c", result("d0", pool="n1"), nodeSelector=MALFORMED)],
            ERROR,
            "claim default/c: field x: unknown operator 'Exists'",
        ),
        "gated": (pod(schedulingGates=[{"name": "wait"}]), [], NEVER, "scheduling gates"),
        "pod goes": (replace(pod(), is_deleted=True), [], NEVER, "being deleted"),
    },
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


def test_an_error_on_one_node_ends_scheduling_on_all():
    # All devices are wanted while node n1 has half a pool: n2 would do, but kube-scheduler gives up.
    half = make_slice("half", [device_json("x")], pool="half", nodeName="n1", count=2)
    snapshot = cluster(half, gpu_slice("n2"), template(request(allocationMode="All")))
    fit = snapshot.fits(with_template())
    assert fit.fitting == ("n2",)
    assert fit.error is not None
    assert isinstance(snapshot.place(with_template()), PodFit)
    assert snapshot.schedule(with_template(), "n2").fits


def test_no_such_node():
    assert 'node "n9" not found' in str(cluster().schedule(pod(), "n9"))
