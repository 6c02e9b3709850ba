"""The admission policy of the service's account as a cluster administrator applies it, once for the whole cluster."""

from __future__ import annotations

from pathlib import Path

import yaml

from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.api_connection import ApiRequest
from tests.polling import eventually

POLICY = Path(__file__).parents[2] / "helm-values" / "service-policy.yaml"
HUB_POLICY = POLICY.with_name("hub-policy-user-namespaces.yaml")
ADMISSION_API = "admissionregistration.k8s.io/v1"
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
# The API server looks for changed policies once a second.
_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.05


def policy_objects(file: Path = POLICY) -> list[JsonObject]:
    """The objects of ``helm-values/service-policy.yaml``, or another file."""
    return [obj for obj in yaml.safe_load_all(file.read_text()) if obj]


def policy_path(obj: JsonObject, *, named: bool = False) -> str:
    """Where objects of a policy's kind are, or this one is."""
    return resource_path(ADMISSION_API, _PLURALS[obj["kind"]], name=obj["metadata"]["name"] if named else None)


async def apply_policy(api: KubernetesApi, namespace: str, account: str) -> None:
    """Apply the policy, if this cluster has none yet, and wait until it holds for an account that may make Leases."""
    created = False
    for obj in policy_objects():
        try:
            await api.create(policy_path(obj), obj)
            created = True
        except KubernetesError as error:
            if not error.already_exists:
                raise
    if created:
        await until_in_force(api, namespace, account)


async def withdraw_policy(api: KubernetesApi, namespace: str, account: str) -> None:
    """Remove the bindings, as if nobody had applied the policy, and wait until it holds no more."""
    for obj in policy_objects():
        if obj["kind"] == "ValidatingAdmissionPolicyBinding":
            await api.delete(policy_path(obj, named=True), missing_ok=True)
    await until_in_force(api, namespace, account, in_force=False)


async def until_in_force(api: KubernetesApi, namespace: str, account: str, *, in_force: bool = True) -> None:
    """Wait until a Lease of another name is refused to an account, or is not any more; it is never made."""

    async def is_so() -> bool:
        return await _is_refused(api, namespace, account) == in_force

    await eventually(is_so, f"the policy holds for {account}: {in_force}", _TIMEOUT_SECONDS)


async def _is_refused(api: KubernetesApi, namespace: str, account: str) -> bool:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "of-somebody-else"}}
    request = ApiRequest(
        "create",
        "POST",
        resource_path("coordination.k8s.io/v1", "leases", namespace),
        params={"dryRun": "All"},
        body=lease,
        headers={"Impersonate-User": f"system:serviceaccount:{namespace}:{account}"},
    )
    try:
        await api.connection.read_json(request)
    except KubernetesError as error:
        if "dra-spawner-service-makes-leases" not in error.message:
            raise
        return True
    return False
