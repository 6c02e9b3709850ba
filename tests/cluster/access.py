"""The hub's account as a cluster administrator sets it up: the chart's own Role and the rules this project ships."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import yaml

from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.needed_rights import chart_objects_text
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from tests.polling import eventually

from .object_paths import path_of
from .policy import YAML_LOADER, apply_policy

RBAC_API = "rbac.authorization.k8s.io/v1"
SHIPPED_RULES = Path(__file__).parents[2] / "helm-values" / "rbac.yaml"
# Of this project's chart, by the end of the names of the objects.
SERVICE_RULES = "-service"
PLACEHOLDER_RULES = "-placeholders"
USER_NAMESPACES_RULES = "-placeholders-users"
NODE_EVENT_RULES = "-node-events"
HUB_USERS_RULES = "-hub-users"
Rules = Path | str
SERVICE_ACCOUNT = "dra-spawner-service"
HUB_ACCOUNT = "hub"
_ROLES = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})

# The Role of the hub in the zero-to-jupyterhub chart 4.x (templates/hub/rbac.yaml).
CHART_RULES = [
    {
        "apiGroups": [""],
        "resources": ["pods", "persistentvolumeclaims", "secrets", "services"],
        "verbs": ["get", "watch", "list", "create", "delete"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "watch", "list"]},
]


async def hub_token(api: KubernetesApi, namespace: str) -> str:
    """Make the hub's account in `namespace`; a token for it, once the API server grants the rules."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": HUB_ACCOUNT}}
    await api.create(resource_path("v1", "serviceaccounts", namespace), account)
    objects = [*chart_objects(namespace), *shipped_objects(namespace)]
    for obj in objects:
        await _put(api, obj)
    await _until_granted(api, namespace, objects)
    return await account_token(api, namespace, HUB_ACCOUNT)


async def account_token(api: KubernetesApi, namespace: str, account: str, pod: JsonObject | None = None) -> str:
    """A token of an account; with a pod, as the kubelet mounts it there."""
    spec: JsonObject = {"expirationSeconds": 7200}
    if pod is not None:
        spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1"} | {
            key: pod["metadata"][key] for key in ("name", "uid")
        }
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = resource_path("v1", "serviceaccounts", namespace, account, "token")
    return str((await api.create(path, request))["status"]["token"])


async def grant(api: KubernetesApi, namespace: str, rules: Rules, account: str = HUB_ACCOUNT) -> None:
    """Apply further rules for the hub, or another account, in `namespace`."""
    objects = [obj for obj in shipped_objects(namespace, rules) if obj["kind"] in _ROLES]
    for obj in objects:
        await _put(api, obj)
    await _until_granted(api, namespace, objects, account)


async def service_token(api: KubernetesApi, namespace: str) -> str:
    """Make the service's account in `namespace` with the rules and the policy this project ships; a token for it."""
    objects = shipped_objects(namespace, SERVICE_RULES)
    (account,) = [obj for obj in objects if obj["kind"] == "ServiceAccount"]
    rules = [obj for obj in objects if obj is not account]
    await api.create(resource_path("v1", "serviceaccounts", namespace), account)
    for obj in rules:
        await _put(api, obj)
    name = account["metadata"]["name"]
    await _until_granted(api, namespace, rules, name)
    await apply_policy(api, namespace, name)
    return await account_token(api, namespace, name)


def manifests(namespace: str) -> list[JsonObject]:
    """All objects of this project's chart."""
    return [obj for obj in yaml.load_all(chart_objects_text(namespace), YAML_LOADER) if obj]


def shipped_objects(namespace: str, rules: Rules = SHIPPED_RULES) -> list[JsonObject]:
    """The objects of ``helm-values/rbac.yaml``, of another file, or of a part, for a hub in `namespace`."""
    if isinstance(rules, str):
        kinds = {*_ROLES, "ServiceAccount"}
        found = manifests(namespace)
        return [obj for obj in found if obj["kind"] in kinds and obj["metadata"]["name"].endswith(rules)]
    objects: list[JsonObject] = [obj for obj in yaml.load_all(rules.read_text(), YAML_LOADER) if obj]
    for obj in objects:
        if not obj["kind"].startswith("Cluster"):
            obj["metadata"].setdefault("namespace", namespace)
        for subject in obj.get("subjects") or []:
            subject["namespace"] = namespace
    return objects


def chart_objects(namespace: str) -> list[JsonObject]:
    """The Role of the hub in the chart, and its binding."""
    metadata = {"name": "hub", "namespace": namespace}
    subject = {"kind": "ServiceAccount", "name": HUB_ACCOUNT, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hub"}
    return [
        {"apiVersion": RBAC_API, "kind": "Role", "metadata": metadata, "rules": CHART_RULES},
        {
            "apiVersion": RBAC_API,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [subject],
        },
    ]


async def _put(api: KubernetesApi, obj: JsonObject) -> None:
    """Create an object; one of the same name may be left from another namespace's hub."""
    await api.delete(path_of(obj, named=True), missing_ok=True)
    await api.create(path_of(obj), obj)


async def _until_granted(
    api: KubernetesApi, namespace: str, objects: list[JsonObject], account: str = HUB_ACCOUNT
) -> None:
    """Wait until the authorizer, which follows the objects by watching, knows each rule."""
    user = f"system:serviceaccount:{namespace}:{account}"
    for obj in objects:
        for rule in obj.get("rules") or []:
            for resource in rule["resources"]:
                attributes = {
                    "namespace": obj["metadata"].get("namespace", ""),
                    "verb": rule["verbs"][0],
                    "group": rule["apiGroups"][0],
                    "resource": resource,
                    "name": next(iter(rule.get("resourceNames") or ()), ""),
                }
                await eventually(partial(is_allowed, api, user, attributes), f"{user} may {attributes}")


async def is_allowed(api: KubernetesApi, user: str, attributes: dict[str, str]) -> bool:
    """Whether the authorizer lets an account do something."""
    groups = ["system:serviceaccounts", "system:authenticated"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
    }
    answer = await api.create(resource_path("authorization.k8s.io/v1", "subjectaccessreviews"), review)
    return bool(answer["status"]["allowed"])
