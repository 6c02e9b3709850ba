from __future__ import annotations

import pytest

from dra_spawner.dra.model.objects import ObjectError
from dra_spawner.dra.quantity import Quantity
from dra_spawner.simulator.model.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.model.resources import container_sum, to_amounts
from dra_spawner.simulator.scheduler.node_fit import Filter, FilterVerdict, FitCode, NodeFit, eligible_nodes
from tests.all_of_them import all_of_them
from tests.simulator.objects import node, pod, pod_term, required_nodes, required_pods, state

AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TOLERATION = {"key": "dedicated", "value": "gpu"}
TAINT = {**TOLERATION, "effect": "NoSchedule"}
FITS, UNSCHEDULABLE, UNRESOLVABLE = FitCode.FITS, FitCode.UNSCHEDULABLE, FitCode.UNRESOLVABLE
CPU, MEMORY, TAINTED = "Insufficient cpu", "Insufficient memory", "node(s) had untolerated taint(s)"


def verdict(candidate: Pod, target=None, *others) -> FilterVerdict:
    target = target or state()
    return NodeFit(candidate, [target, *others]).verdict(target)


def expression(key: str, operator: str, *values: str):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def name_field(operator: str, *values: str):
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


FULL = pod("other", {"cpu": "3", "memory": "7Gi"})
THING = "example.com/thing"


@all_of_them(
    "candidate, target, reasons, code",
    {
        "nothing wanted": (pod(), state(), [], FITS),
        "all of the cpu": (pod(requests={"cpu": "4"}), state(), [], FITS),
        "cpu": (pod(requests={"cpu": "1100m"}), state("node", FULL), [CPU], UNSCHEDULABLE),
        "cpu beyond the node": (pod(requests={"cpu": "5"}), state(), [CPU], UNRESOLVABLE),
        "both": (pod(requests={"cpu": "2", "memory": "2Gi"}), state("node", FULL), [CPU, MEMORY], UNSCHEDULABLE),
        "one for good": (pod(requests={"cpu": "2", "memory": "9Gi"}), state("node", FULL), [CPU, MEMORY], UNRESOLVABLE),
        "storage": (pod(requests={"ephemeral-storage": "1"}), state(), ["Insufficient ephemeral-storage"], UNRESOLVABLE),
        "extended": (pod(requests={THING: "2"}), state("node", allocatable={THING: "1"}), [f"Insufficient {THING}"], UNRESOLVABLE),
        "pods": (pod(), state("node", FULL, allocatable={"pods": "1"}), ["Too many pods"], UNSCHEDULABLE),
        "overhead": (pod(overhead={"cpu": "2"}, requests={"cpu": "3"}), state(), [CPU], UNRESOLVABLE),
        "pod level": (pod(requests={"cpu": "9"}, resources={"requests": {"cpu": "1"}}), state(), [], FITS),
        "cordoned": (pod(), state(unschedulable=True), ["node(s) were unschedulable"], UNRESOLVABLE),
        "cordon tolerated": (pod(tolerations=[{"operator": "Exists"}]), state(unschedulable=True), [], FITS),
        "node name": (pod(nodeName="x"), state(), ["node(s) didn't match the requested node name"], UNRESOLVABLE),
        "taint": (pod(), state(taints=[TAINT]), [TAINTED], UNRESOLVABLE),
        "taint as a preference": (pod(), state(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), [], FITS),
        "toleration": (pod(tolerations=[TOLERATION]), state(taints=[TAINT]), [], FITS),
        "operator that is off": (pod(tolerations=[{**TOLERATION, "operator": "Gt"}]), state(taints=[TAINT]), [TAINTED], UNRESOLVABLE),
        "selector": (pod(nodeSelector={"zone": "a"}), state(labels={"zone": "a"}), [], FITS),
        "selector no": (pod(nodeSelector={"zone": "a"}), state(), [AFFINITY], UNRESOLVABLE),
    },
)  # fmt: skip
def test_verdict(candidate, target, reasons, code):
    found = verdict(candidate, target)
    assert (list(found.reasons), found.code, found.fits) == (reasons, code, code is FITS)


@all_of_them(
    "terms, fits",
    {
        "In": ([expression("zone", "In", "a", "b")], True),
        "In no": ([expression("zone", "In", "b")], False),
        "NotIn": ([expression("zone", "NotIn", "b")], True),
        "NotIn without the label": ([expression("rack", "NotIn", "b")], True),
        "Exists": ([expression("zone", "Exists")], True),
        "DoesNotExist": ([expression("zone", "DoesNotExist")], False),
        "Gt": ([expression("cores", "Gt", "3")], True),
        "Lt": ([expression("cores", "Lt", "4")], False),
        "Gt of no number": ([expression("zone", "Gt", "3")], False),
        "terms are alternatives": ([expression("zone", "In", "b"), expression("zone", "In", "a")], True),
        "a term's parts add up": ([expression("zone", "In", "a") | name_field("In", "else")], False),
        "field": ([name_field("In", "node")], True),
        "field NotIn": ([name_field("NotIn", "node")], False),
        "empty term": ([{}], False),
        "no terms": ([], False),
        "malformed term": ([expression("zone", "Gt", "x", "y")], False),
        "malformed one passed over": ([expression("zone", "Like", "a"), expression("zone", "In", "a")], True),
    },
)
def test_required_node_affinity(terms, fits):
    found = verdict(pod(affinity=required_nodes(*terms)), state(labels={"zone": "a", "cores": "4"}))
    assert found.fits is fits
    if not fits:
        assert (found.filter, found.reasons) == (Filter.NODE_AFFINITY, (AFFINITY,))


@all_of_them(
    "terms, names",
    {
        "by label": ([expression("zone", "In", "a")], None),
        "either": ([name_field("In", "n1"), name_field("In", "n2")], {"n1", "n2"}),
        "one term open": ([name_field("In", "n1"), expression("zone", "In", "a")], None),
        "contradiction": (
            [{"matchFields": [*name_field("In", "n1")["matchFields"], *name_field("In", "n2")["matchFields"]]}],
            set(),
        ),
        "no terms": ([], None),
    },
)
def test_eligible_nodes(terms, names):
    assert eligible_nodes(pod(affinity=required_nodes(*terms))) == names


def port(number: int, address: str = "", protocol: str = "TCP", **spec):
    container = {
        "name": "main",
        "ports": [{"containerPort": number, "hostPort": number, "hostIP": address, "protocol": protocol}],
    }
    return pod(f"port-{number}", containers=[container], **spec)


@all_of_them(
    "wanted, taken, fits",
    {
        "same": (port(80), port(80), False),
        "another": (port(80), port(81), True),
        "another protocol": (port(80, protocol="UDP"), port(80), True),
        "other addresses": (port(80, "10.0.0.1"), port(80, "10.0.0.2"), True),
        "any address covers one": (port(80, "10.0.0.1"), port(80), False),
    },
)
def test_host_ports(wanted, taken, fits):
    found = verdict(wanted, state("node", taken))
    assert found.fits is fits
    if not fits:
        assert found.reasons == ("node(s) didn't have free ports for the requested pod ports",)


WEB = pod("web", labels={"app": "web"})


NO_COMPANY, CROWDED = "node(s) didn't match pod affinity rules", "node(s) didn't match pod anti-affinity rules"
TO_WEB, FROM_WEB = (required_pods(kind, pod_term(app="web")) for kind in ("podAffinity", "podAntiAffinity"))
SHY = pod("shy", affinity=required_pods("podAntiAffinity", pod_term(team="red")))


@all_of_them(
    "affinity, here, reason",
    {
        "company": (TO_WEB, [WEB], ""),
        "alone": (TO_WEB, [], NO_COMPANY),
        "node outside the topology": (required_pods("podAffinity", pod_term("rack", app="web")), [WEB], NO_COMPANY),
        "crowd": (FROM_WEB, [WEB], CROWDED),
        "harmless company": (required_pods("podAntiAffinity", pod_term(app="db")), [WEB], ""),
        "neighbour with anti-affinity": ({}, [SHY], "node(s) didn't satisfy existing pods anti-affinity rules"),
    },
)
def test_pod_affinity(affinity, here, reason):
    found = verdict(pod(labels={"team": "red"}, affinity=affinity), state("node", *here))
    assert found.reasons == ((reason,) if reason else ())


def test_pod_affinity_looks_at_the_whole_topology():
    rack = {"labels": {"rack": "r1"}}
    near, far = state("near", **rack), state("far", WEB, **rack)
    wants = pod(affinity=required_pods("podAffinity", pod_term("rack", app="web")))
    avoids = pod(affinity=required_pods("podAntiAffinity", pod_term("rack", app="web")))
    assert verdict(wants, near, far).fits
    assert not verdict(avoids, near, far).fits


def test_first_of_a_series_may_start():
    assert verdict(pod(labels={"app": "web"}, affinity=TO_WEB)).fits


def test_pods_of_other_namespaces_do_not_count():
    term = {**pod_term(app="web"), "namespaces": ["other"]}
    assert verdict(pod(affinity=required_pods("podAntiAffinity", term)), state("node", WEB)).fits
    everywhere = {**pod_term(app="web"), "namespaceSelector": {}}
    assert not verdict(pod(affinity=required_pods("podAntiAffinity", everywhere)), state("node", WEB)).fits


KEYED = required_pods("podAffinity", {**pod_term(app="web"), "matchLabelKeys": ["x"]})
SELECTED = required_pods("podAntiAffinity", {**pod_term(), "namespaceSelector": {"matchLabels": {"a": "b"}}})


@all_of_them(
    "candidate, target, reason",
    {
        "match label keys": (pod(affinity=KEYED), state(), "matchLabelKeys of a pod affinity term"),
        "of a neighbour": (pod(), state("node", pod("shy", affinity=SELECTED)), "namespaceSelector of a pod affinity term"),
        "gang": (pod(schedulingGroup={"podGroupName": "x"}), state(), "spec.schedulingGroup"),
    },
)  # fmt: skip
def test_fields_that_are_not_modelled_make_a_pod_undecidable(candidate, target, reason):
    found = verdict(candidate, target)
    assert (found.code, found.filter) == (FitCode.UNDECIDABLE, Filter.NOT_MODELLED)
    assert reason in found.reasons[0]


def test_spreading_as_a_preference_does_not_matter():
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    assert verdict(pod(topologySpreadConstraints=[constraint])).fits


def test_refusals_before_the_unknown_part_stand():
    candidate = pod(requests={"cpu": "5"}, topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule"}])
    assert verdict(candidate).filter is Filter.NODE_RESOURCES_FIT


def test_resources_that_devices_stand_for():
    candidate, known = pod(requests={"example.com/gpu": "1"}), frozenset({"example.com/gpu"})
    without, with_plugin = state(), state("plugin", allocatable={"example.com/gpu": "1"})
    fit = NodeFit(candidate, [without, with_plugin], known)
    assert fit.verdict(without).code is FitCode.UNDECIDABLE
    assert fit.verdict(with_plugin).fits


INIT = {"name": "init", "resources": {"requests": {"cpu": "3"}}}
SIDECAR = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}


@all_of_them(
    "init_containers, millicores",
    {
        "none": ([], 1500),
        "an init container needs more": ([INIT], 3000),
        "a sidecar adds up": ([SIDECAR], 2500),
        "an init container beside a sidecar": ([SIDECAR, INIT], 4000),
        "an init container before the sidecar": ([INIT, SIDECAR], 3000),
    },
)
def test_requests_of_init_containers(init_containers, millicores):
    assert pod(requests={"cpu": "1500m"}, initContainers=init_containers).requests["cpu"] == millicores


def test_amounts_are_rounded_up_once():
    tiny = {"cpu": Quantity.parse("1u"), "memory": Quantity.parse("500m")}
    assert to_amounts(container_sum([tiny] * 3, [])) == {"cpu": 1, "memory": 2}


def test_scoring_counts_containers_that_request_nothing():
    assert pod().scoring_requests == {"cpu": 100, "memory": 200 * 2**20}
    assert pod(requests={"cpu": "1"}).scoring_requests == {"cpu": 1000, "memory": 200 * 2**20}


def test_node_state_adds_and_removes_exactly():
    one, two = pod("one", {"cpu": "1"}), pod("two", {"cpu": "2", "memory": "1Gi"})
    full = state("node", one, two)
    assert full.requested == {"cpu": 3000, "memory": 2**30}
    left = full.without_pods([two])
    assert (left.pods, left.requested["cpu"], left.requested["memory"]) == ((one,), 1000, 0)
    assert left.with_pods([two]).requested == full.requested


def test_decoding_names_the_wrong_field():
    with pytest.raises(ObjectError, match=r"spec\.containers\[0\]\.resources\.requests.*cpu"):
        Pod.from_json({"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "1x"}}}]}})


def test_claim_references():
    claims = [
        {"name": "own", "resourceClaimName": "standing"},
        {"name": "made", "resourceClaimTemplateName": "template"},
        {"name": "coming", "resourceClaimTemplateName": "template"},
        {"name": "spared", "resourceClaimTemplateName": "template"},
    ]
    statuses = [{"name": "made", "resourceClaimName": "pod-made-x"}, {"name": "spared"}]
    found = pod(resourceClaims=claims, status={"resourceClaimStatuses": statuses}).claims
    assert [(each.claim, each.is_needed) for each in found] == [
        ("standing", True),
        ("pod-made-x", True),
        (None, True),
        (None, False),
    ]


def test_nodes_without_capacity_for_pods():
    bare = NodeState.of(SchedulableNode("bare"), ())
    assert verdict(pod(), bare).reasons == ("Too many pods",)
    assert node().allocatable["cpu"] == 4000
