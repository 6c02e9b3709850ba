"""A thief with the token of the service's account, on a real control plane with the shipped roles and policy."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesError, PatchType, resource_path
from dra_spawner.placeholders.planner.targets.placeholder_objects import placeholder_claims
from tests.adversary.stolen_account import (
    DRA,
    DRY,
    GPU,
    HUB,
    OURS,
    PODS,
    Attempt,
    Json,
    Thief,
    a_pod,
    pod_with,
    put,
    refused_by_the_policy_alone,
)
from tests.cluster.access import manifests
from tests.cluster.policy import ADMISSION_API, policy_objects
from tests.integration.devices import PRIORITY_CLASS
from tests.placeholders.controller.objects import SHARE, shape, user_pod
from tests.polling import eventually


async def test_pods_that_are_no_placeholders(thief: Thief) -> None:
    await refused_by_the_policy_alone(thief, "makes-pods", PODS)
    # Pods of the service are allowed, with and without devices.
    await thief.make(thief.path("pods"), a_pod(thief))
    await thief.make(thief.path("pods"), a_pod(thief, of=shape({})))
    more = {
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"pool": "gpu"},
        "serviceAccountName": "default",
    }
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    await pod_with(**more, tolerations=tolerations, schedulerName="another")(thief)


async def test_pods_of_others(thief: Thief) -> None:
    """Pods of users' servers and of the hub, in the service's namespace and in a namespace of another user."""
    cluster = thief.cluster
    other = f"{cluster.namespace}-eve"
    await cluster.admin.create(resource_path("v1", "namespaces"), {"metadata": {"name": other}})
    hub = user_pod("hub", {})
    hub["metadata"]["labels"] = {"app": "jupyterhub", "component": "hub"}
    theirs = a_pod(thief, "placeholder-2", of=shape({}))
    theirs["metadata"]["labels"][names.INSTALLATION] = "theirs"
    await cluster.publish(user_pod("jupyter-ada", {}), hub, a_pod(thief, "placeholder-1", of=shape({})), theirs)
    await cluster.admin.create(resource_path("v1", "pods", other), user_pod("jupyter-eve", {}))
    ada, eve = thief.path("pods", "jupyter-ada"), thief.path("pods", "jupyter-eve", other)
    pod = thief.path("pods", "hub")
    image = {"op": "replace", "path": "/spec/containers/0/image", "value": "registry.example.com/thief:1"}
    nothing_else, only = "of pods the labels hub.jupyter.org/preempted-at and", "only placeholders are deleted"
    other_label = "metadata.labels: of pods hub.jupyter.org/preempted-at is written"
    annotation = "metadata.annotations: of users' servers hub.jupyter.org/dra-idle-notice is written"
    attempts: dict[str, tuple[Attempt, str]] = {
        "his image in the hub": (lambda t: t.change(pod, image), nothing_else),
        "his image in a server": (lambda t: t.change(ada, image), nothing_else),
        "his image in a server of another namespace": (lambda t: t.change(eve, image), nothing_else),
        "the end of the hub": (lambda t: t.delete(pod), only),
        "the end of another hub's placeholder": (lambda t: t.delete(t.path("pods", "placeholder-2")), only),
        "the end of a server": (lambda t: t.delete(ada), only),
        "a server that is called a placeholder": (lambda t: t.merge(ada, {"metadata": {"labels": OURS}}), other_label),
        "the hub without labels": (lambda t: t.merge(pod, {"metadata": {"labels": {"component": None}}}), other_label),
        "a server's end in an hour": (lambda t: t.merge(ada, {"spec": {"activeDeadlineSeconds": 3600}}), nothing_else),
        "the leader's label": (
            lambda t: t.merge(ada, {"metadata": {"labels": {names.LEADER: names.TRUE}}}),
            other_label,
        ),
        "an annotation": (lambda t: t.merge(eve, {"metadata": {"annotations": {"a": "b"}}}), annotation),
        "a warning of the hub": (
            lambda t: t.merge(pod, {"metadata": {"annotations": {names.IDLE_NOTICE: "{}"}}}),
            annotation,
        ),
        "a long warning": (
            lambda t: t.merge(ada, {"metadata": {"annotations": {names.IDLE_NOTICE: "x" * 1001}}}),
            annotation,
        ),
        "an owner": (lambda t: t.merge(ada, {"metadata": {"ownerReferences": [HUB]}}), nothing_else),
        "a finalizer": (lambda t: t.merge(ada, {"metadata": {"finalizers": ["example.com/f"]}}), nothing_else),
        "his image in a placeholder": (lambda t: t.change(t.path("pods", "placeholder-1"), image), nothing_else),
    }
    await refused_by_the_policy_alone(thief, "changes-pods", attempts)
    # Actions of the service are allowed.
    for path in (ada, eve):
        await thief.merge(path, {"metadata": {"labels": {names.PREEMPTED_AT: "1790000000-2"}}})
        for notice in ('{"kept": 1}', '{"kept": 2}', None):
            await thief.merge(path, {"metadata": {"annotations": {names.IDLE_NOTICE: notice}}})
    await thief.merge(thief.path("pods", "placeholder-1"), {})
    await thief.delete(thief.path("pods", "placeholder-1"))
    await cluster.admin.delete(resource_path("v1", "namespaces", None, other))


# --- claims ---------------------------------------------------------------------------------------------------------


def a_claim(thief: Thief, name: str = "placeholder-0123abcd-1") -> Json:
    (claim,) = placeholder_claims(GPU, name, thief.settings)
    return copy.deepcopy(claim)


def claim_with(**parts: Any) -> Attempt:
    async def attempt(thief: Thief) -> None:
        claim = a_claim(thief)
        put(claim["metadata"], parts)
        await thief.make(thief.path("resourceclaims"), claim)

    return attempt


async def admin_access(thief: Thief) -> None:
    """To devices that others have; the namespace allows it, as one for monitoring may."""
    claim = a_claim(thief)
    claim["spec"]["devices"]["requests"][0]["exactly"] = {"deviceClassName": "gpu.example.com", "adminAccess": True}
    await thief.make(thief.path("resourceclaims"), claim)


async def test_claims_that_are_not_warm_claims(thief: Thief) -> None:
    cluster = thief.cluster
    allowed = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await cluster.admin.patch(resource_path("v1", "namespaces", None, cluster.namespace), allowed)
    labels_rule, name_rule = (
        "metadata.labels: a warm claim has component",
        "metadata: a warm claim's name begins with placeholder-",
    )
    attempts: dict[str, tuple[Attempt, str]] = {
        "no labels": (claim_with(labels=None), labels_rule),
        "one label more": (claim_with(labels={**OURS, "a": "b"}), labels_rule),
        "another hub's": (claim_with(labels={**OURS, names.INSTALLATION: "theirs"}), labels_rule),
        "the name of a claim that servers share": (claim_with(name="jupyter-shared-gpu"), name_rule),
        "a name that could be of two placeholders": (claim_with(name="placeholder-0123abcd-gpu"), name_rule),
        "an annotation": (claim_with(annotations={names.DIGEST: "0"}), name_rule),
        "an owner": (claim_with(ownerReferences=[HUB]), name_rule),
        "a finalizer": (claim_with(finalizers=["example.com/forever"]), name_rule),
        "devices that others have": (admin_access, "spec.devices.requests: a warm claim has no adminAccess"),
    }
    await refused_by_the_policy_alone(thief, "makes-claims", attempts)
    await thief.make(thief.path("resourceclaims"), a_claim(thief))


async def test_claims_of_servers(thief: Thief) -> None:
    """A claim of a server's own, and a warm claim that was handed over to a server."""
    cluster = thief.cluster
    admin, claims = cluster.admin, thief.path("resourceclaims")
    own = {"apiVersion": DRA, "kind": "ResourceClaim", "metadata": {"name": "jupyter-ada-gpu"}, "spec": SHARE["gpu"]}
    warm = a_claim(thief, "placeholder-0123abcd-2")
    theirs = a_claim(thief, "placeholder-0123abcd-4")
    theirs["metadata"]["labels"][names.INSTALLATION] = "theirs"
    ready = {"metadata": {"labels": {names.IMAGES_READY: names.TRUE}}}
    await admin.patch(resource_path("v1", "nodes", None, "node-a"), ready)
    await cluster.publish(
        own,
        warm,
        user_pod("ada", {"gpu": {"resourceClaimName": "jupyter-ada-gpu"}}),
        user_pod("eve", {"gpu": {"resourceClaimName": "placeholder-0123abcd-2-gpu"}}),
        a_claim(thief, "placeholder-0123abcd-3"),
        theirs,
        # As a hub whose pods have the names of users could call it.
        user_pod("placeholder-0123abcd", {}),
    )
    for pod in ("ada", "eve"):
        await cluster.wait_running(pod)
    ada, eve = f"{claims}/jupyter-ada-gpu", f"{claims}/placeholder-0123abcd-2-gpu"
    eve_pod = await admin.get(thief.path("pods", "eve"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "eve", "uid": eve_pod["metadata"]["uid"]}
    reserved_labels = {
        names.RESERVED_FOR: "eve",
        names.RESERVED_SINCE: "1790000000",
        names.RESERVED_UNTIL: "1790000030",
    }
    short = await admin.get(thief.path("pods", "placeholder-0123abcd"))
    alike = {**owner, "name": "placeholder-0123abcd", "uid": short["metadata"]["uid"]}
    changed = await admin.patch(eve, {"metadata": {"labels": reserved_labels, "ownerReferences": [owner, alike]}})
    allocation = changed["status"]["allocation"]
    forged = copy.deepcopy(allocation)
    forged["devices"]["results"][0]["device"] = "gpu-1"
    nobody = {"op": "remove", "path": "/status/reservedFor"}
    freed = {"op": "remove", "path": "/status/allocation"}
    thief_pod = {"resource": "nodes", "name": "node-a", "uid": "1"}
    reservation = {"apiGroup": "hub.jupyter.org", "resource": "promises", "name": "eve", "uid": "1"}
    only = "only warm claims are changed and deleted"
    leave, enter = (
        "status.reservedFor: none of a claim's consumers",
        "status.reservedFor: pods are entered",
    )
    attempts: dict[str, tuple[Attempt, str]] = {
        "a running server's device": (lambda t: t.change(f"{ada}/status", nobody, freed), only),
        "a running server's claim": (lambda t: t.delete(ada), only),
        "another hub's warm claim": (lambda t: t.delete(f"{claims}/placeholder-0123abcd-4-gpu"), only),
        "a claim that is called a warm one": (lambda t: t.merge(ada, {"metadata": {"labels": OURS}}), only),
        "a device that a server took over": (lambda t: t.change(f"{eve}/status", nobody, freed), leave),
        "only the consumer": (lambda t: t.change(f"{eve}/status", nobody), leave),
        "a claim that a server took over": (lambda t: t.delete(eve), leave),
        "a consumer of another kind": (
            lambda t: t.change(f"{eve}/status", {"op": "add", "path": "/status/reservedFor/-", "value": thief_pod}),
            enter,
        ),
        "a consumer that Kubernetes never takes away": (
            lambda t: t.change(f"{eve}/status", {"op": "add", "path": "/status/reservedFor/-", "value": reservation}),
            enter,
        ),
        "another promise": (
            lambda t: t.merge(eve, {"metadata": {"labels": {names.RESERVED_FOR: "mallory"}}}),
            "metadata.labels: of a warm claim",
        ),
        "the shape": (
            lambda t: t.merge(eve, {"metadata": {"labels": {names.SHAPE: None}}}),
            "metadata.labels: of a warm claim",
        ),
        "no owner": (
            lambda t: t.merge(eve, {"metadata": {"ownerReferences": None}}),
            "metadata.ownerReferences: of a warm claim",
        ),
        "a server whose name begins like its placeholder's": (
            lambda t: t.merge(eve, {"metadata": {"ownerReferences": [owner]}}),
            "metadata.ownerReferences: of a warm claim",
        ),
        "an owner that is no pod": (
            lambda t: t.merge(eve, {"metadata": {"ownerReferences": [owner, alike, {**HUB, "controller": False}]}}),
            "metadata.ownerReferences: of a warm claim",
        ),
        "an annotation": (
            lambda t: t.merge(eve, {"metadata": {"annotations": {"a": "b"}}}),
            "of a warm claim labels, owners and consumers are written",
        ),
        "no finalizer": (
            lambda t: t.merge(eve, {"metadata": {"finalizers": None}}),
            "of a warm claim labels, owners and consumers are written",
        ),
    }
    await refused_by_the_policy_alone(thief, "changes-claims", attempts)
    # A claim of nobody's: the device is not his to choose.
    forge = {"status": {"allocation": forged}}
    warm_path = f"{claims}/placeholder-0123abcd-3-gpu/status"
    await refused_by_the_policy_alone(
        thief,
        "changes-claims",
        {"a device of his choice": (lambda t: t.merge(warm_path, forge), "status: of a claim reservedFor is written")},
    )
    # Actions of the service are allowed, also after the hub has made the claim its server's.
    await admin.patch(eve, {"metadata": {"labels": {names.COMPONENT: names.USER_SERVER}}})
    consumer = {"resource": "pods", "name": "eve-again", "uid": "2"}
    entry = {"metadata": {"uid": changed["metadata"]["uid"]}, "status": {"reservedFor": [consumer]}}
    entered = await thief.api.patch(f"{eve}/status", entry, patch_type=PatchType.STRATEGIC)
    assert {each["name"] for each in entered["status"]["reservedFor"]} == {"eve", "eve-again"}
    # A placeholder that terminates leaves its claim to the server.
    own = {"resource": "pods", "name": "placeholder-0123abcd-2", "uid": "3"}
    await admin.patch(f"{eve}/status", {"status": {"reservedFor": [own]}}, patch_type=PatchType.STRATEGIC)
    leaves = {"status": {"reservedFor": [{"$patch": "delete", "uid": own["uid"]}]}}
    left = await thief.api.patch(f"{eve}/status", leaves, patch_type=PatchType.STRATEGIC)
    assert owner["uid"] in [each["uid"] for each in left["status"]["reservedFor"]]
    await thief.delete(f"{claims}/placeholder-0123abcd-3-gpu")


# --- nodes and Leases -----------------------------------------------------------------------------------------------


async def test_nodes(thief: Thief) -> None:
    path = resource_path("v1", "nodes", None, "node-a")
    taint = {"spec": {"taints": [{"key": "thief", "effect": "NoExecute"}]}}
    label = "metadata.labels: of nodes hub.jupyter.org/images-ready, attract-placeholders, draining and those that begin with"
    nothing_else = "of nodes four kinds of labels are written"
    attempts: dict[str, tuple[Attempt, str]] = {
        "a taint": (lambda t: t.merge(path, taint), nothing_else),
        "no new pods": (lambda t: t.merge(path, {"spec": {"unschedulable": True}}), nothing_else),
        "an annotation": (lambda t: t.merge(path, {"metadata": {"annotations": {"a": "b"}}}), nothing_else),
        "a finalizer": (lambda t: t.merge(path, {"metadata": {"finalizers": ["example.com/f"]}}), nothing_else),
        "an owner": (lambda t: t.merge(path, {"metadata": {"ownerReferences": [HUB]}}), nothing_else),
        "a label": (
            lambda t: t.merge(path, {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}),
            label,
        ),
        "another name": (lambda t: t.merge(path, {"metadata": {"labels": {"kubernetes.io/hostname": "b"}}}), label),
        "a name alike": (lambda t: t.merge(path, {"metadata": {"labels": {"hub.jupyter.org/drain-spare": ""}}}), label),
        "no name": (lambda t: t.merge(path, {"metadata": {"labels": {"kubernetes.io/hostname": None}}}), label),
    }
    await refused_by_the_policy_alone(thief, "labels-nodes", attempts)
    for key in (names.IMAGES_READY, names.ATTRACT, names.DRAINING, names.DRAIN_SPARES_PREFIX + "0123456789"):
        await thief.merge(path, {"metadata": {"labels": {key: "true"}}})
        await thief.cluster.admin.patch(path, {"metadata": {"labels": {key: "true"}}})
        await thief.merge(path, {"metadata": {"labels": {key: None}}})


async def test_leases(thief: Thief) -> None:
    def lease(name: str, **metadata: Any) -> Json:
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, **metadata}}

    path = resource_path("coordination.k8s.io/v1", "leases", thief.cluster.namespace)
    attempts: dict[str, tuple[Attempt, str]] = {
        "the Lease of another": (lambda t: t.make(path, lease("ingress-leader")), "metadata: the Lease is dra-spawner"),
        "an owner": (
            lambda t: t.make(path, lease("dra-spawner", ownerReferences=[HUB])),
            "metadata: the Lease is dra-spawner",
        ),
    }
    await refused_by_the_policy_alone(thief, "makes-leases", attempts)
    await thief.make(path, lease("dra-spawner"))


async def test_the_lease_and_the_settings_keep_their_metadata(thief: Thief) -> None:
    """Finalizers and owners decide when an object goes, and nobody changes an immutable one."""
    namespace = thief.cluster.namespace
    lease = resource_path("coordination.k8s.io/v1", "leases", namespace, "dra-spawner")
    settings = resource_path("v1", "configmaps", namespace, names.SETTINGS_CONFIG_MAP)
    for path, kind, version in ((lease, "Lease", "coordination.k8s.io/v1"), (settings, "ConfigMap", "v1")):
        name = path.rpartition("/")[2]
        manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
        await thief.cluster.admin.create(path.rpartition("/")[0], manifest)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "nobody", "uid": "1"}
    metadata = {
        "labels": {"grafana_dashboard": "1"},
        "annotations": {"a": "b"},
        "finalizers": ["example.com/forever"],
        "ownerReferences": [owner],
    }

    def replaced(path: str, **parts: Any) -> Attempt:
        async def attempt(t: Thief) -> None:
            found = await t.api.get(path)
            body = put({**found}, {key: value for key, value in parts.items() if key not in metadata})
            body["metadata"] = {**found["metadata"], **{k: v for k, v in parts.items() if k in metadata}}
            await t.api.replace(path, body, params=DRY)

        return attempt

    contents = "of a ConfigMap with settings its data are written"
    for path, rule, sentence in (
        (lease, "changes-leases", "metadata: of the Lease its spec is written"),
        (settings, "changes-settings", f"metadata: {contents}"),
    ):
        attempts: dict[str, tuple[Attempt, str]] = {
            key: (replaced(path, **{key: value}), sentence) for key, value in metadata.items()
        }
        if path == settings:
            attempts["immutable"] = (replaced(path, immutable=True), f"immutable, binaryData: {contents}")
            attempts["binaryData"] = (replaced(path, binaryData={"a": "YQ=="}), f"immutable, binaryData: {contents}")
        await refused_by_the_policy_alone(thief, rule, attempts)
    # As the service writes them.
    await replaced(lease, spec={"holderIdentity": "a", "leaseDurationSeconds": 15})(thief)
    await replaced(settings, data={"placeholders": "{}"})(thief)


async def test_the_api_server_finds_nothing_wrong_with_the_policy(thief: Thief) -> None:
    """The status of a policy lists expressions that do not fit the types of their objects."""
    admin = thief.cluster.admin
    wrong = copy.deepcopy(policy_objects()[0])
    wrong["metadata"]["name"] = "dra-spawner-wrong"
    wrong["spec"]["validations"] = [{"expression": "object.spec.containers == 'one'"}]
    path = resource_path(ADMISSION_API, "validatingadmissionpolicies")
    await admin.create(path, wrong)
    stored = await thief.cluster.wait_for(f"{path}/dra-spawner-wrong", is_checked)
    assert stored["status"]["typeChecking"]["expressionWarnings"]
    await admin.delete(f"{path}/dra-spawner-wrong")
    for obj in policy_objects():
        if obj["kind"] != "ValidatingAdmissionPolicy":
            continue
        stored = await thief.cluster.wait_for(f"{path}/{obj['metadata']['name']}", is_checked)
        assert stored["status"]["typeChecking"] == {}, obj["metadata"]["name"]
        assert stored["status"]["observedGeneration"] == stored["metadata"]["generation"]
        assert stored["spec"]["failurePolicy"] == "Fail"


def is_checked(policy: Json) -> bool:
    return "typeChecking" in policy.get("status", {})


async def test_others_are_not_hindered(thief: Thief) -> None:
    """The policy is for the service's account alone."""
    await thief.cluster.publish(user_pod("jupyter-ada", {}))
    path = thief.path("pods", "jupyter-ada")
    await thief.cluster.admin.patch(path, {"metadata": {"annotations": {"a": "b"}}})
    await thief.cluster.admin.delete(path)


async def test_the_documented_quota_bounds_placeholders(thief: Thief) -> None:
    """And nothing else: users' servers have another priority."""
    text = (Path(__file__).parents[2] / "docs" / "explanation" / "security.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?kind: ResourceQuota.*?)```", text, re.DOTALL)
    quota = yaml.safe_load(block)
    quota["spec"]["hard"] = {"pods": "1"}
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    # Of the chart; the tests have one for all namespaces.
    assert scope["values"] == [
        obj["metadata"]["name"] for obj in manifests("jupyterhub") if obj["kind"] == "PriorityClass"
    ]
    scope["values"] = [PRIORITY_CLASS]
    await thief.cluster.publish(quota)
    path = resource_path("v1", "resourcequotas", thief.cluster.namespace, "placeholders")
    await thief.cluster.wait_for(path, lambda found: "hard" in found.get("status", {}))

    async def is_counted() -> bool:
        """Whether a new placeholder counts: the API server learns of the quota's status some time later itself."""
        created = await thief.api.create(thief.path("pods"), a_pod(thief, "placeholder-1", of=shape({})))
        if (await thief.cluster.admin.get(path))["status"].get("used", {}).get("pods") == "1":
            return True
        pod = thief.path("pods", created["metadata"]["name"])
        await thief.cluster.admin.delete(pod, grace_period_seconds=0)
        await thief.cluster.wait_gone(pod)
        return False

    await eventually(is_counted, "the quota counts placeholders")
    with pytest.raises(KubernetesError, match="exceeded quota: placeholders"):
        await thief.api.create(thief.path("pods"), a_pod(thief, "placeholder-2", of=shape({})))
    await thief.cluster.publish(user_pod("jupyter-ada", {}))
