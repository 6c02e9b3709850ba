"""The rights that hub and service need, derived from the roles of the chart, and the question about each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.facts import Account, NeededRight, ServiceSettings
from dra_spawner.doctor.objects import hub_deployment, pod_spec, service_deployment
from dra_spawner.kube.client.api import resource_path

_HUB: Final = "hub"
#: Ends of the names of roles that not every installation has.
_PLACEHOLDERS: Final = ("-placeholders", "-node-events")
_USERS: Final = "-users"
#: What KubeSpawner does with servers: in all namespaces for a hub whose users have namespaces, else by the Role of
#: zero-to-jupyterhub in the hub's own.
_KUBESPAWNER: Final = "-hub-users"
_NAMESPACES: Final = "namespaces"
_CONFIG_MAPS: Final = "configmaps"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def needed_rights(namespace: str, known: ServiceSettings | None) -> tuple[NeededRight, ...]:
    """The rights of both accounts for these settings.

    Parameters
    ----------
    namespace
        Namespace of hub and service.
    known
        None where the settings could not be seen: then those rights that every installation needs.
    """
    settings = known or ServiceSettings(has_placeholders=False)
    renamed = {
        names.LEASE: settings.lease_name,
        names.SHAPES_CONFIG_MAP: settings.shapes_config_map,
        names.SETTINGS_CONFIG_MAP: settings.settings_config_map,
    }
    found: dict[NeededRight, None] = {}
    for account, role, where in _granted(namespace):
        role_name = role["metadata"]["name"]
        if not _is_needed(role_name, settings):
            continue
        own_namespace = role_name.endswith(_KUBESPAWNER) and not settings.user_namespaces
        for right in _rights(account, role, namespace if own_namespace else where, renamed):
            is_named = known is None and right.name in renamed
            if not is_named and not (own_namespace and right.resource == _NAMESPACES):
                found[right] = None
    if settings.has_tickets:
        found |= dict.fromkeys(_of_tickets(settings.tickets_namespace or namespace))
    return tuple(found)


def _of_tickets(namespace: str) -> Iterator[NeededRight]:
    """The rights of the queue for devices, which the chart grants only where it is on."""
    for account, verbs in ((Account.SERVICE, ("get", "list", "watch", "update")), (Account.HUB, ("get", "update"))):
        for verb in verbs:
            yield NeededRight(account, "", _CONFIG_MAPS, verb, namespace, names.TICKETS_CONFIG_MAP)
    # The hub makes it when the first user joins; such a right has no name.
    yield NeededRight(Account.HUB, "", _CONFIG_MAPS, "create", namespace, "")


def _is_needed(role: str, settings: ServiceSettings) -> bool:
    if role.endswith(_USERS) and not role.endswith(_KUBESPAWNER):
        return settings.user_namespaces and (settings.has_placeholders or settings.stops_idle_servers)
    return settings.has_placeholders or not role.endswith(_PLACEHOLDERS)


def _rights(account: Account, role: JsonObject, namespace: str, renamed: dict[str, str]) -> Iterator[NeededRight]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or ("",):
                        yield NeededRight(account, group, resource, verb, namespace, renamed.get(name, name))


@cache
def _objects(namespace: str) -> tuple[Any, ...]:
    return tuple(each for each in yaml.load_all(chart_objects_text(namespace, hub=_HUB), _LOADER) if each)


def _granted(namespace: str) -> Iterator[tuple[Account, JsonObject, str]]:
    """Each role with the account that it is bound to, and the namespace where it counts; empty for all."""
    objects = _objects(namespace)
    roles = {(each["kind"], each["metadata"]["name"]): each for each in objects if each["kind"].endswith("Role")}
    for binding in objects:
        if binding["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
            (subject,) = binding["subjects"]
            account = Account.HUB if subject["name"] == _HUB else Account.SERVICE
            yield account, role, binding["metadata"].get("namespace", "")


def _deployment(account: Account, deployments: Iterable[JsonObject] | None) -> JsonObject | None:
    return (hub_deployment if account is Account.HUB else service_deployment)(deployments)


def is_there(account: Account, deployments: Iterable[JsonObject] | None) -> bool:
    """Whether an account has a Deployment, or may have one that cannot be seen."""
    return deployments is None or _deployment(account, deployments) is not None


def account_name(account: Account, running: Iterable[JsonObject] | None) -> str:
    """Name of the service account of hub or service.

    Parameters
    ----------
    running
        Deployments or pods, which name it; without them, the chart's name counts.
    """
    found = _deployment(account, running)
    default = _HUB if account is Account.HUB else names.SERVICE
    return str(pod_spec(found).get("serviceAccountName") or default) if found is not None else default


def access_review(right: NeededRight, user: str, *, is_own: bool) -> tuple[str, JsonObject]:
    """The question whether an account has a right, with the path to send it to.

    Parameters
    ----------
    is_own
        Whether the account asks about itself, to which no right is needed.
    """
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": right.namespace,
        "name": right.name,
    }
    spec: JsonObject = {"resourceAttributes": attributes}
    if not is_own:
        namespace = user.split(":")[2]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        spec |= {"user": user, "groups": groups}
    kind = "SelfSubjectAccessReview" if is_own else "SubjectAccessReview"
    review = {"apiVersion": names.AUTHORIZATION_API, "kind": kind, "spec": spec}
    return resource_path(names.AUTHORIZATION_API, f"{kind.lower()}s"), review


#: Words in ``chart_objects.yaml`` that are replaced.
NAMESPACE_WORD: Final = "the-namespace"
IMAGE_WORD: Final = "the-image:the-tag"
BASE_URL_WORD: Final = "/the-base-url/"
HUB_WORD: Final = "the-hub"


def chart_objects_text(namespace: str, *, hub: str = "hub", image: str = "image:tag") -> str:
    """The objects of this project's Helm chart with all its rights, as YAML documents.

    They are for users' servers in namespaces of their own and a hub at ``/``.
    ``python -m tests.chart.packaged_objects`` makes ``chart_objects.yaml`` from ``helm-values/chart``.

    Parameters
    ----------
    namespace
        Namespace of hub and service.
    hub
        Name of the hub's Service, account and Secret.
    image
        Image of the service, and its tag.
    """
    text = resources.files(__package__).joinpath("chart_objects.yaml").read_text(encoding="utf-8")
    values = {BASE_URL_WORD: "/", NAMESPACE_WORD: namespace, IMAGE_WORD: image, HUB_WORD: hub}
    # At once: a value may have one of the words in it.
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], text)
