"""The chart's objects on a real API server, and the kubeconfigs of its accounts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.api_connection import ApiRequest
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually

_PLURALS = {
    "DaemonSet": "daemonsets",
    "Ingress": "ingresses",
    "Job": "jobs",
    "StatefulSet": "statefulsets",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "NetworkPolicy": "networkpolicies",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "PriorityClass": "priorityclasses",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
#: Kinds whose objects make nothing run.
_REAL = frozenset(_PLURALS) - {"DaemonSet", "Deployment", "Job", "Pod", "StatefulSet"}
#: Of the Prometheus Operator, which no test cluster has.
FOREIGN = frozenset({"PrometheusRule", "ServiceMonitor"})
_TIMEOUT_SECONDS = 120.0
_POLL_SECONDS = 0.05


async def apply_chart(cluster: ClusterUnderTest, objects: list[JsonObject]) -> None:
    """Create the objects as `helm install` does. An unknown field is an error; a Deployment is only validated."""
    for obj in objects:
        if obj["kind"] not in FOREIGN:
            await create_object(cluster.admin, obj, dry_run=obj["kind"] not in _REAL)


async def create_object(api: KubernetesApi, obj: JsonObject, *, dry_run: bool = False) -> JsonObject:
    """Create an object of a chart. An unknown field is an error."""
    params = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
    path = resource_path(obj["apiVersion"], _PLURALS[obj["kind"]], obj["metadata"].get("namespace"))
    return await api.create(path, obj, params=params)


async def replace_object(api: KubernetesApi, obj: JsonObject) -> JsonObject:
    """Put an object of a chart in place of the one of its name."""
    metadata = obj["metadata"]
    return await api.replace(
        resource_path(obj["apiVersion"], _PLURALS[obj["kind"]], metadata.get("namespace"), metadata["name"]), obj
    )


async def withdraw_chart(cluster: ClusterUnderTest, objects: list[JsonObject]) -> None:
    """Delete cluster-wide objects, which would disturb other tests on this control plane."""
    for obj in objects:
        if "namespace" not in obj["metadata"]:
            await delete_object(cluster.admin, obj)


async def delete_object(api: KubernetesApi, obj: JsonObject) -> None:
    """Delete an object of a chart, if it is there."""
    metadata = obj["metadata"]
    path = resource_path(obj["apiVersion"], _PLURALS[obj["kind"]], metadata.get("namespace"), metadata["name"])
    await api.delete(path, missing_ok=True)


async def kubeconfig_of(cluster: ClusterUnderTest, account: str, pod: JsonObject | None = None) -> Path:
    """Of an account, with a token as the kubelet mounts it into a pod."""
    path = resource_path("v1", "serviceaccounts", cluster.namespace, account, "token")
    spec: JsonObject = {"expirationSeconds": 7200}
    if pod is not None:
        metadata = pod["metadata"]
        spec["boundObjectRef"] = {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await cluster.admin.create(path, request)
    return cluster.kubeconfig_with(answer["status"]["token"], account)


async def refusal(cluster: ClusterUnderTest, account: str, request: ApiRequest) -> str:
    """The refusal of an account's request by the API server; empty if it would carry out the request."""
    as_account = {"Impersonate-User": f"system:serviceaccount:{cluster.namespace}:{account}"}
    try:
        await cluster.admin.connection.read_json(
            ApiRequest(
                request.verb,
                request.method,
                request.path,
                params={"dryRun": "All"},
                body=request.body,
                headers={**(request.headers or {}), **as_account},
            )
        )
    except KubernetesError as error:
        return error.message
    return ""


async def until_in_force(cluster: ClusterUnderTest, account: str, policy: str) -> None:
    """Wait until roles and policy hold: a Lease of another name is refused by the policy, not for lack of a right."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "of-somebody-else"}}
    path = resource_path("coordination.k8s.io/v1", "leases", cluster.namespace)
    request = ApiRequest("create", "POST", path, body=lease)

    async def is_so(policy: str) -> bool:
        return f"'{policy}'" in await refusal(cluster, account, request)

    await eventually(partial(is_so, policy), f"{policy} holds for {account}", _TIMEOUT_SECONDS)
