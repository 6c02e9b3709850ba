"""Which objects go, which objects stay and why, decided from objects alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.commands.removing import marks
from dra_spawner.commands.removing.found_objects import (
    ApiKind,
    ClaimConsumer,
    FoundLease,
    FoundObject,
    FoundPod,
    SurveyedObjects,
)
from dra_spawner.commands.removing.plan import Plan, plan_removal
from tests.all_of_them import all_of_them

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LATER, EARLIER = (NOW + timedelta(minutes=5)).isoformat(), (NOW - timedelta(minutes=5)).isoformat()
PODS = ApiKind("v1", "pods", "Pod")
CLAIMS = ApiKind("resource.k8s.io/v1", "resourceclaims", "ResourceClaim")
TEMPLATES = ApiKind("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate")
CONFIG_MAPS = ApiKind("v1", "configmaps", "ConfigMap")
OURS = {names.MANAGED_BY: names.MANAGER}
WARM = {**OURS, names.COMPONENT: names.PLACEHOLDER, names.SHAPE: "s"}
MADE = {**OURS, names.PART: "device-claim"}
SHARED = {**OURS, names.PART: "standing"}


def found(
    kind: ApiKind, name: str, labels: dict[str, str], annotations: dict[str, str] | None = None, **more: Any
) -> FoundObject:
    return FoundObject(kind, "ns", name, f"uid-of-{name}", "7", labels, annotations or {}, **more)


def pod(name: str, *claims: str, phase: str = "Running", node: str = "n1", **annotations: str) -> FoundPod:
    marked = {names.START: annotations["start"]} if "start" in annotations else {}
    return FoundPod(found(PODS, name, {names.SHAPE: "s"}, marked), frozenset(claims), frozenset(), node, phase)


def placeholder(*claims: str) -> FoundPod:
    return FoundPod(found(PODS, "placeholder-1", WARM), frozenset(claims), frozenset(), "n1", "Running")


def of_pods(*pods: str) -> tuple[ClaimConsumer, ...]:
    return tuple(ClaimConsumer("", "pods", name, f"uid-of-{name}") for name in pods)


def decide(*objects: FoundObject, pods: tuple[FoundPod, ...] = (), **more: Any) -> Plan:
    return plan_removal(SurveyedObjects(pods=pods, objects=objects), NOW, **more)


def removed(plan: Plan) -> set[str]:
    return {each.object.name for each in plan.removals}


def left(plan: Plan) -> dict[str, str]:
    return {each.object.name: each.reason for each in plan.left}


def test_the_pod_of_a_failed_test_of_the_chart_goes():
    labels = {names.APPLICATION: names.SERVICE, names.CHART_COMPONENT: names.CHART_TEST}
    service = found(PODS, "dra-spawner-0", {**labels, names.CHART_COMPONENT: "service"})
    plan = decide(pods=(FoundPod(found(PODS, "dra-spawner-test", labels)), FoundPod(service)))
    assert (removed(plan), left(plan)) == ({"dra-spawner-test"}, {})


def test_a_placeholder_and_its_claim_go():
    claim = found(
        CLAIMS,
        "placeholder-1-gpu",
        WARM,
        owners=frozenset({"uid-of-placeholder-1"}),
        consumers=of_pods("placeholder-1"),
    )
    plan = decide(claim, pods=(placeholder("placeholder-1-gpu"),))
    assert removed(plan) == {"placeholder-1", "placeholder-1-gpu"}
    assert not plan.left


@pytest.mark.promise("`dra-spawner uninstall` removes placeholders, and leaves the device of a running server.")
def test_a_claim_that_a_server_runs_with_stays_and_its_placeholder_goes():
    claim = found(CLAIMS, "placeholder-1-gpu", {**WARM, **MADE}, consumers=of_pods("placeholder-1", "jupyter-ada"))
    plan = decide(claim, pods=(placeholder("placeholder-1-gpu"), pod("jupyter-ada", "placeholder-1-gpu")))
    assert removed(plan) == {"placeholder-1"}
    assert left(plan) == {"jupyter-ada": "a server", "placeholder-1-gpu": "ns/jupyter-ada uses it"}


def test_while_a_server_starts_on_its_node_the_placeholder_stays():
    """A kubelet that unprepares the claim at this moment would never start the server."""
    claim = found(CLAIMS, "placeholder-1-gpu", {**WARM, **MADE}, consumers=of_pods("placeholder-1", "jupyter-ada"))
    server = pod("jupyter-ada", "placeholder-1-gpu", phase="Pending")
    plan = decide(claim, pods=(placeholder("placeholder-1-gpu"), server), force=True)
    assert removed(plan) == set()
    assert "ns/jupyter-ada is starting with its claim" in left(plan)["placeholder-1"]


def test_a_pending_server_gets_the_capacity_of_the_placeholder():
    claim = found(CLAIMS, "placeholder-1-gpu", {**WARM, **MADE}, consumers=of_pods("placeholder-1"))
    server = pod("jupyter-ada", "placeholder-1-gpu", phase="Pending", node="")
    plan = decide(claim, pods=(placeholder("placeholder-1-gpu"), server))
    assert removed(plan) == {"placeholder-1"}


@all_of_them("until, goes", {"under way": (LATER, False), "over": (EARLIER, True)})
def test_a_reservation_stays_until_it_is_over(until: str, goes: bool):
    seconds = str(int(datetime.fromisoformat(until).timestamp()))
    labels = {**WARM, names.RESERVED_FOR: "jupyter-ada", names.RESERVED_UNTIL: seconds}
    claim = found(CLAIMS, "placeholder-1-gpu", labels, consumers=of_pods("placeholder-1"))
    pods = (placeholder("placeholder-1-gpu"),)
    assert removed(decide(claim, pods=pods)) == ({"placeholder-1", "placeholder-1-gpu"} if goes else set())
    assert removed(decide(claim, pods=pods, force=True)) == {"placeholder-1", "placeholder-1-gpu"}


def test_a_consumer_that_no_controller_knows_is_taken_off_whether_the_claim_goes_or_stays():
    own_consumer = ClaimConsumer(names.CONSUMER_GROUP, "promises", "jupyter-ada", "its-own")
    going = found(CLAIMS, "a", WARM, consumers=(own_consumer,))
    staying = found(CLAIMS, "b", {**WARM, **MADE}, consumers=(own_consumer, *of_pods("jupyter-ada")))
    plan = decide(going, staying, pods=(pod("jupyter-ada", "b"),))
    assert [(each.claim.name, each.consumers) for each in plan.releases] == [("a", ("its-own",)), ("b", ("its-own",))]
    assert removed(plan) == {"a"}


def test_a_claim_that_something_else_uses_stays():
    other = ClaimConsumer("example.com", "jobs", "job", "u")
    plan = decide(found(CLAIMS, "a", SHARED, consumers=(other,)))
    assert left(plan) == {"a": "jobs job uses it"}


@all_of_them("kind", [CLAIMS, TEMPLATES, CONFIG_MAPS])
def test_objects_of_a_start(kind: ApiKind):
    labels = MADE if kind != CONFIG_MAPS else {**OURS, names.PART: "companion"}

    def plan(ends: str, owners: frozenset[str] = frozenset(), pods: tuple[FoundPod, ...] = ()) -> Plan:
        marked = {names.START: "1", names.START_ENDS: ends}
        return decide(found(kind, "x", labels, marked, owners=owners), pods=pods)

    assert removed(plan(EARLIER)) == {"x"}
    assert left(plan(LATER)) == {"x": "a server may be starting with it, until 12:05:00 UTC"}
    assert removed(plan(LATER, frozenset({"uid-of-one-that-is-gone"}))) == {"x"}
    assert left(plan(EARLIER, pods=(pod("jupyter-ada", start="1"),)))["x"] == "ns/jupyter-ada uses it"
    assert (
        left(plan(EARLIER, frozenset({"uid-of-jupyter-ada"}), (pod("jupyter-ada"),)))["x"] == "ns/jupyter-ada uses it"
    )
    assert removed(plan(EARLIER, frozenset({"uid-of-jupyter-ada"}), (pod("jupyter-ada", phase="Failed"),))) == {"x"}


def test_a_shared_object_goes_only_unchanged():
    """A start writes an annotation on a shared object before it uses the object."""
    plan = decide(found(CLAIMS, "x", SHARED, {names.START_PREFIX + "1": EARLIER}))
    assert [(each.object.name, each.only_unchanged) for each in plan.removals] == [("x", True)]
    assert left(decide(found(CLAIMS, "x", SHARED, {names.START_PREFIX + "1": LATER})))
    pods = tuple(pod(f"jupyter-{number}", start=str(number)) for number in range(5))
    annotations = {names.START_PREFIX + str(number): EARLIER for number in range(5)}
    reason = left(decide(found(CONFIG_MAPS, "x", SHARED, annotations), pods=pods))["x"]
    assert reason == "ns/jupyter-0, ns/jupyter-1, ns/jupyter-2 and 2 more use it"


def test_the_account_of_vlans_stays_while_a_server_is_in_one():
    account = found(CONFIG_MAPS, names.VLANS_CONFIG_MAP, OURS)
    server = FoundPod(found(PODS, "jupyter-ada", {names.VLAN: "100"}), phase="Running")
    assert "ns/jupyter-ada uses" in left(decide(account, pods=(server,)))[names.VLANS_CONFIG_MAP]
    assert removed(decide(account)) == {names.VLANS_CONFIG_MAP}


def test_an_object_that_only_looks_like_ours_is_left_and_reported():
    strange = [found(ApiKind("v1", "secrets", "Secret"), "mine", OURS), found(CONFIG_MAPS, "mine-too", OURS)]
    plan = decide(*strange)
    assert set(left(plan)) == {"mine", "mine-too"}
    assert all(each.is_administrators for each in plan.left)
    assert "kubectl get secrets mine -n ns" in plan.left[1].advice


@all_of_them("text", ["", "soon", "2030-01-01T13:00:00", "9" * 400])
def test_times_that_make_no_sense_keep_nothing(text: str):
    annotations = {names.START_ENDS: text, names.START_PREFIX + "1": text}
    claim = found(CLAIMS, "x", {**SHARED, names.RESERVED_FOR: "y", names.RESERVED_UNTIL: text}, annotations)
    assert removed(decide(claim)) == {"x"}


def test_labels_of_nodes_stay_where_another_service_goes_by_them():
    node = FoundObject(
        ApiKind("v1", "nodes", "Node", namespaced=False), "", "n1", "u", "1", {marks.NODE_LABELS[0]: "true"}
    )
    plan = plan_removal(SurveyedObjects(nodes=(node,)), NOW, nodes_used_by="other/dra-spawner")
    assert (plan.removals, plan.unmarkings, plan.releases) == ((), (), ())
    assert "(other/dra-spawner)" in left(plan)["n1"]


def test_the_label_that_servers_require_stays_where_they_run():
    """Without the label, a kubelet that restarts would end the servers (tests/node/test_readiness.py)."""
    kind = ApiKind("v1", "nodes", "Node", namespaced=False)
    marked = dict.fromkeys(marks.NODE_LABELS, "true")
    nodes = tuple(FoundObject(kind, "", name, name, "1", marked) for name in ("n1", "n2"))
    plan = plan_removal(SurveyedObjects(pods=(pod("ada"), pod("bob", node="n2", phase="Failed")), nodes=nodes), NOW)
    assert {each.object.name: each.labels for each in plan.unmarkings if each.object.kind == kind} == {
        "n1": tuple(each for each in marks.NODE_LABELS if each != names.IMAGES_READY),
        "n2": marks.NODE_LABELS,
    }
    assert "ns/ada may require its label" in left(plan)["n1"]


def test_a_lease_goes():
    lease = FoundLease(found(ApiKind("coordination.k8s.io/v1", "leases", "Lease"), "dra-spawner", {}))
    assert removed(plan_removal(SurveyedObjects(leases=(lease,)), NOW)) == {"dra-spawner"}


def test_objects_that_helm_installed_are_removed_by_helm() -> None:
    by_helm = {"meta.helm.sh/release-name": "gpus", "meta.helm.sh/release-namespace": "hub"}
    kind = ApiKind("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False)
    role = FoundObject(kind, "", "dra-spawner-hub.gpus-dra-spawner-service", "u", "1", {}, by_helm)
    (left,) = plan_removal(SurveyedObjects(administrators=(role,)), NOW).left
    assert (left.reason, left.advice) == ("Helm installed it", "helm uninstall gpus -n hub")


def test_settings_go_where_helm_did_not_install_them() -> None:
    by_helm = {"meta.helm.sh/release-name": "gpus"}
    settings = found(CONFIG_MAPS, names.SETTINGS_CONFIG_MAP, {})
    of_helm = FoundObject(CONFIG_MAPS, "ns", names.SETTINGS_CONFIG_MAP, "u", "1", {}, by_helm)
    assert removed(plan_removal(SurveyedObjects(administrators=(settings,)), NOW)) == {names.SETTINGS_CONFIG_MAP}
    assert removed(plan_removal(SurveyedObjects(administrators=(of_helm,)), NOW)) == set()
