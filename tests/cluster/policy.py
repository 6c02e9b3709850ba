"""The admission policy of the service's account, once for the services of all tests on a control plane.

An administrator applies it for each service. Here it has other conditions, as each would be another wait of a second.
"""

from __future__ import annotations

from typing import Final

import yaml

from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.needed_rights import chart_objects_text
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.api_connection import ApiRequest
from tests.integration.devices import PRIORITY_CLASS
from tests.polling import eventually

from .object_paths import path_of, plural_of

#: Each service of a test reads all manifests: the one in C takes a tenth of the time.
YAML_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ADMISSION_API = "admissionregistration.k8s.io/v1"
_KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def policy_objects() -> list[JsonObject]:
    """The policies of services, for accounts named dra-spawner-service in any namespace."""
    text = chart_objects_text("any")
    for shipped, here in (
        (
            "request.userInfo.username == 'system:serviceaccount:any:dra-spawner-service'",
            "request.userInfo.username.endsWith(':dra-spawner-service')",
        ),
        ("dra-spawner-any.dra-spawner-placeholder", PRIORITY_CLASS),
        ("dra-spawner-any.dra-spawner-service-", "dra-spawner-service-"),
        # Of a rule, which has no namespace: any of the tests.
        (
            "[?'hub.jupyter.org/hub-namespace'].orValue('') == 'any'",
            "[?'hub.jupyter.org/hub-namespace'].orValue('').matches('^(any|test-.*)$')",
        ),
    ):
        assert shipped in text
        text = text.replace(shipped, here)
    return [obj for obj in _policies(text) if not obj["metadata"]["name"].endswith("-users")]


def hub_policy_objects(namespace: str) -> list[JsonObject]:
    """The policies about the hub's account and the namespaces of its users; a binding is after its policy."""
    found = _policies(chart_objects_text(namespace))
    return [obj for obj in found if obj["metadata"]["name"].endswith(("-hub-users", "-of-users"))]


def _policies(text: str) -> list[JsonObject]:
    return [obj for obj in yaml.load_all(text, YAML_LOADER) if obj and obj["kind"] in _KINDS]


async def apply_policy(api: KubernetesApi, namespace: str, account: str) -> None:
    """Apply the policy, if this cluster has none yet, and wait until it holds for an account that may make Leases."""
    objects = policy_objects()
    # The API server compiles a policy that is sent before it says that there is one.
    there = {
        (kind, each["metadata"]["name"])
        for kind in _KINDS
        for each in (await api.list(resource_path(ADMISSION_API, plural_of(kind))))["items"]
    }
    missing = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) not in there]
    for obj in missing:
        await api.create(path_of(obj), obj)
    if missing:
        await until_in_force(api, namespace, account)


async def withdraw_policy(api: KubernetesApi, namespace: str, account: str) -> None:
    """Remove the bindings, as if the policy was never applied, and wait until it is not in force any more."""
    for obj in policy_objects():
        if obj["kind"] == "ValidatingAdmissionPolicyBinding":
            await api.delete(path_of(obj, named=True), missing_ok=True)
    await until_in_force(api, namespace, account, in_force=False)


async def until_in_force(
    api: KubernetesApi,
    namespace: str,
    account: str,
    policy: str = "dra-spawner-service-makes-leases",
    *,
    in_force: bool = True,
) -> None:
    """Wait until a policy refuses an account a Lease of another name, or does not any more; it is never made."""

    async def is_so() -> bool:
        return await _is_refused(api, namespace, account, policy) == in_force

    await eventually(is_so, f"{policy} holds for {account}: {in_force}")


async def _is_refused(api: KubernetesApi, namespace: str, account: str, policy: str) -> bool:
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
        return f"'{policy}'" in error.message
    return False
