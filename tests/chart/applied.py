"""The chart's objects on a real API server, and what its accounts may do."""

from __future__ import annotations

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError
from dra_spawner.kube.client.api_connection import ApiRequest
from tests.cluster.object_paths import path_of
from tests.cluster.under_test import ClusterUnderTest

#: Kinds whose objects make something run.
_RUNNING = frozenset({"DaemonSet", "Deployment", "Job", "Pod", "StatefulSet"})
#: Of the Prometheus Operator, which no test cluster has.
FOREIGN = frozenset({"PrometheusRule", "ServiceMonitor"})


async def apply_chart(cluster: ClusterUnderTest, objects: list[JsonObject]) -> None:
    """Create the objects as `helm install` does. An unknown field is an error; a Deployment is only validated."""
    for obj in objects:
        if obj["kind"] not in FOREIGN:
            await create_object(cluster.admin, obj, dry_run=obj["kind"] in _RUNNING)


async def create_object(api: KubernetesApi, obj: JsonObject, *, dry_run: bool = False) -> JsonObject:
    """Create an object of a chart. An unknown field is an error."""
    params = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
    return await api.create(path_of(obj), obj, params=params)


async def replace_object(api: KubernetesApi, obj: JsonObject) -> JsonObject:
    """Put an object of a chart in place of the one of its name."""
    return await api.replace(path_of(obj, named=True), obj)


async def withdraw_chart(cluster: ClusterUnderTest, objects: list[JsonObject]) -> None:
    """Delete cluster-wide objects, which would disturb other tests on this control plane."""
    for obj in objects:
        if "namespace" not in obj["metadata"]:
            await delete_object(cluster.admin, obj)


async def delete_object(api: KubernetesApi, obj: JsonObject) -> None:
    """Delete an object of a chart, if it is there."""
    await api.delete(path_of(obj, named=True), missing_ok=True)


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
