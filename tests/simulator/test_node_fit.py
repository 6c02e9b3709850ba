from __future__ import annotations

import pytest

from dra_spawner.dra.objects import ObjectError
from dra_spawner.dra.quantity import Quantity
from dra_spawner.simulator.node_fit import Filter, FilterVerdict, FitCode, NodeFit, eligible_nodes
from dra_spawner.simulator.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.pods import Pod
from dra_spawner.simulator.resources import container_sum, to_amounts
from tests.simulator.objects import node, pod, pod_term, required_nodes, required_pods, state

AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def verdict(candidate: Pod, target=None, *others) -> FilterVerdict:
    target = target or state()
    return NodeFit(candidate, [target, *others]).verdict(target)


def expression(key: str, operator: str, *values: str):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def name_field(operator: str, *values: str):
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


FULL = pod("other", {"cpu": "3", "memory": "7Gi"})


@pytest.mark.parametrize(
    ("candidate", "target", "reasons", "code"),
    [
        pytest.param(pod(), state(), (), FitCode.FITS, id="nothing wanted"),
        pytest.param(pod(requests={"cpu": "4"}), state(), (), FitCode.FITS, id="all of the cpu"),
        pytest.param(
            pod(requests={"cpu": "1100m"}), state("node", FULL), ("Insufficient cpu",), FitCode.UNSCHEDULABLE, id="cpu"
        ),
        pytest.param(
            pod(requests={"cpu": "5"}), state(), ("Insufficient cpu",), FitCode.UNRESOLVABLE, id="cpu beyond the node"
        ),
        pytest.param(
            pod(requests={"cpu": "2", "memory": "2Gi"}),
            state("node", FULL),
            ("Insufficient cpu", "Insufficient memory"),
            FitCode.UNSCHEDULABLE,
            id="cpu and memory",
        ),
        pytest.param(
            pod(requests={"cpu": "2", "memory": "9Gi"}),
            state("node", FULL),
            ("Insufficient cpu", "Insufficient memory"),
            FitCode.UNRESOLVABLE,
            id="one of them for good",
        ),
        pytest.param(
            pod(requests={"ephemeral-storage": "1Gi"}),
            state(),
            ("Insufficient ephemeral-storage",),
            FitCode.UNRESOLVABLE,
            id="ephemeral storage",
        ),
        pytest.param(
            pod(requests={"example.com/thing": "2"}),
            state("node", allocatable={"example.com/thing": "1"}),
            ("Insufficient example.com/thing",),
            FitCode.UNRESOLVABLE,
            id="extended resource",
        ),
        pytest.param(
            pod(), state("node", FULL, allocatable={"pods": "1"}), ("Too many pods",), FitCode.UNSCHEDULABLE, id="pods"
        ),
        pytest.param(
            pod(overhead={"cpu": "2"}, requests={"cpu": "3"}),
            state(),
            ("Insufficient cpu",),
            FitCode.UNRESOLVABLE,
            id="overhead",
        ),
        pytest.param(
            pod(requests={"cpu": "9"}, resources={"requests": {"cpu": "1"}}), state(), (), FitCode.FITS, id="pod level"
        ),
        pytest.param(
            pod(), state(unschedulable=True), ("node(s) were unschedulable",), FitCode.UNRESOLVABLE, id="cordoned"
        ),
        pytest.param(
            pod(tolerations=[{"operator": "Exists"}]),
            state(unschedulable=True),
            (),
            FitCode.FITS,
            id="cordon tolerated",
        ),
        pytest.param(
            pod(nodeName="else"),
            state(),
            ("node(s) didn't match the requested node name",),
            FitCode.UNRESOLVABLE,
            id="node name",
        ),
        pytest.param(
            pod(), state(taints=[TAINT]), ("node(s) had untolerated taint(s)",), FitCode.UNRESOLVABLE, id="taint"
        ),
        pytest.param(
            pod(), state(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), (), FitCode.FITS, id="taint as a preference"
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "value": "gpu"}]),
            state(taints=[TAINT]),
            (),
            FitCode.FITS,
            id="toleration",
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "operator": "Gt", "value": "gpu"}]),
            state(taints=[TAINT]),
            ("node(s) had untolerated taint(s)",),
            FitCode.UNRESOLVABLE,
            id="toleration with an operator that is off",
        ),
        pytest.param(pod(nodeSelector={"zone": "a"}), state(labels={"zone": "a"}), (), FitCode.FITS, id="selector"),
        pytest.param(pod(nodeSelector={"zone": "a"}), state(), (AFFINITY,), FitCode.UNRESOLVABLE, id="selector no"),
    ],
)
def test_verdict(candidate, target, reasons, code):
    found = verdict(candidate, target)
    assert (found.reasons, found.code, found.fits) == (reasons, code, code is FitCode.FITS)


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        pytest.param([expression("zone", "In", "a", "b")], True, id="In"),
        pytest.param([expression("zone", "In", "b")], False, id="In no"),
        pytest.param([expression("zone", "NotIn", "b")], True, id="NotIn"),
        pytest.param([expression("rack", "NotIn", "b")], True, id="NotIn without the label"),
        pytest.param([expression("zone", "Exists")], True, id="Exists"),
        pytest.param([expression("zone", "DoesNotExist")], False, id="DoesNotExist"),
        pytest.param([expression("cores", "Gt", "3")], True, id="Gt"),
        pytest.param([expression("cores", "Lt", "4")], False, id="Lt"),
        pytest.param([expression("zone", "Gt", "3")], False, id="Gt of no number"),
        pytest.param([expression("zone", "In", "b"), expression("zone", "In", "a")], True, id="terms are alternatives"),
        pytest.param([expression("zone", "In", "a") | name_field("In", "else")], False, id="a term's parts add up"),
        pytest.param([name_field("In", "node")], True, id="field"),
        pytest.param([name_field("NotIn", "node")], False, id="field NotIn"),
        pytest.param([{}], False, id="empty term"),
        pytest.param([], False, id="no terms"),
        pytest.param([expression("zone", "Gt", "x", "y")], False, id="malformed term"),
        pytest.param(
            [expression("zone", "Like", "a"), expression("zone", "In", "a")], True, id="malformed one passed over"
        ),
    ],
)
def test_required_node_affinity(terms, fits):
    found = verdict(pod(affinity=required_nodes(*terms)), state(labels={"zone": "a", "cores": "4"}))
    assert found.fits is fits
    if not fits:
        assert (found.filter, found.reasons) == (Filter.NODE_AFFINITY, (AFFINITY,))


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        pytest.param([expression("zone", "In", "a")], None, id="by label"),
        pytest.param([name_field("In", "n1"), name_field("In", "n2")], {"n1", "n2"}, id="either"),
        pytest.param([name_field("In", "n1"), expression("zone", "In", "a")], None, id="one term open"),
        pytest.param(
            [{"matchFields": [*name_field("In", "n1")["matchFields"], *name_field("In", "n2")["matchFields"]]}],
            set(),
            id="contradiction",
        ),
        pytest.param([], None, id="no terms"),
    ],
)
def test_eligible_nodes(terms, names):
    assert eligible_nodes(pod(affinity=required_nodes(*terms))) == names


def port(number: int, address: str = "", protocol: str = "TCP", **spec):
    container = {
        "name": "main",
        "ports": [{"containerPort": number, "hostPort": number, "hostIP": address, "protocol": protocol}],
    }
    return pod(f"port-{number}", containers=[container], **spec)


@pytest.mark.parametrize(
    ("wanted", "taken", "fits"),
    [
        pytest.param(port(80), port(80), False, id="same"),
        pytest.param(port(80), port(81), True, id="another"),
        pytest.param(port(80, protocol="UDP"), port(80), True, id="another protocol"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.2"), True, id="other addresses"),
        pytest.param(port(80, "10.0.0.1"), port(80), False, id="any address covers one"),
    ],
)
def test_host_ports(wanted, taken, fits):
    found = verdict(wanted, state("node", taken))
    assert found.fits is fits
    if not fits:
        assert found.reasons == ("node(s) didn't have free ports for the requested pod ports",)


WEB = pod("web", labels={"app": "web"})


@pytest.mark.parametrize(
    ("affinity", "here", "reason"),
    [
        pytest.param(required_pods("podAffinity", pod_term(app="web")), [WEB], "", id="company"),
        pytest.param(
            required_pods("podAffinity", pod_term(app="web")), [], "node(s) didn't match pod affinity rules", id="alone"
        ),
        pytest.param(
            required_pods("podAffinity", pod_term("rack", app="web")),
            [WEB],
            "node(s) didn't match pod affinity rules",
            id="node outside the topology",
        ),
        pytest.param(
            required_pods("podAntiAffinity", pod_term(app="web")),
            [WEB],
            "node(s) didn't match pod anti-affinity rules",
            id="crowd",
        ),
        pytest.param(required_pods("podAntiAffinity", pod_term(app="db")), [WEB], "", id="harmless company"),
        pytest.param(
            {},
            [pod("shy", affinity=required_pods("podAntiAffinity", pod_term(team="red")))],
            "node(s) didn't satisfy existing pods anti-affinity rules",
            id="neighbour with anti-affinity",
        ),
    ],
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
    term = required_pods("podAffinity", pod_term(app="web"))
    assert verdict(pod(labels={"app": "web"}, affinity=term)).fits


def test_pods_of_other_namespaces_do_not_count():
    term = {**pod_term(app="web"), "namespaces": ["other"]}
    assert verdict(pod(affinity=required_pods("podAntiAffinity", term)), state("node", WEB)).fits
    everywhere = {**pod_term(app="web"), "namespaceSelector": {}}
    assert not verdict(pod(affinity=required_pods("podAntiAffinity", everywhere)), state("node", WEB)).fits


@pytest.mark.parametrize(
    ("candidate", "target", "reason"),
    [
        pytest.param(
            pod(affinity=required_pods("podAffinity", {**pod_term(app="web"), "matchLabelKeys": ["x"]})),
            state(),
            "matchLabelKeys of a pod affinity term",
            id="match label keys",
        ),
        pytest.param(
            pod(),
            state(
                "node",
                pod(
                    "shy",
                    affinity=required_pods(
                        "podAntiAffinity", {**pod_term(), "namespaceSelector": {"matchLabels": {"a": "b"}}}
                    ),
                ),
            ),
            "namespaceSelector of a pod affinity term",
            id="namespace selector of a neighbour",
        ),
        pytest.param(pod(schedulingGroup={"podGroupName": "x"}), state(), "spec.schedulingGroup", id="gang"),
    ],
)
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


@pytest.mark.parametrize(
    ("init_containers", "millicores"),
    [
        pytest.param([], 1500, id="none"),
        pytest.param([INIT], 3000, id="an init container needs more"),
        pytest.param([SIDECAR], 2500, id="a sidecar adds up"),
        pytest.param([SIDECAR, INIT], 4000, id="an init container beside a sidecar"),
        pytest.param([INIT, SIDECAR], 3000, id="an init container before the sidecar"),
    ],
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
