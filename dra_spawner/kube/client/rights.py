"""Missing rights of an account, as the rule to add."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.client.api_errors import KubernetesError

_REVIEWS: Final = resource_path(f"{names.AUTHORIZATION_GROUP}/v1", "selfsubjectaccessreviews")

_REFUSED: Final = re.compile(
    r'cannot (?P<verb>[\w:-]+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)


@dataclass(frozen=True, slots=True, order=True)
class MissingRight:
    """A right that an account lacks.

    Attributes
    ----------
    namespace
        Empty for all namespaces.
    """

    group: str
    resource: str
    verb: str
    namespace: str = ""


def missing_rule(error: KubernetesError) -> MissingRight | None:
    """The missing right; None if the request was refused for another reason.

    It is in the API server's message (k8s.io/apiserver, ``responsewriters.forbiddenMessage``). Finer checks, like that
    of ``resourceclaims/binding`` from Kubernetes 1.36 on, have status 422 and name another right than the request's.
    """
    return right_in(error.message) if error.status in (403, 422) else None


def right_in(message: str) -> MissingRight | None:
    """The missing right that a message of the API server names; None if it names none."""
    found = _REFUSED.search(message)
    if found is None:
        return None
    return MissingRight(found["group"], found["resource"], found["verb"], found["namespace"] or "")


def missing_right(error: KubernetesError) -> str:
    """The rule to add to a role, as a clause; empty if the request was refused for another reason."""
    found = missing_rule(error)
    if found is None:
        return ""
    rule = f'{{apiGroups: ["{found.group}"], resources: [{found.resource}], verbs: [{found.verb}]}}'
    if found.namespace:
        return f"its account lacks the rule {rule} in namespace {found.namespace}"
    return f"its account lacks the ClusterRole rule {rule}"


async def is_granted(api: KubernetesApi, verb: str, group: str, resource: str, namespace: str | None = None) -> bool:
    """Whether the own account may do something, which every account may ask.

    A request for something optional that is refused looks like an attack in the audit log of the API server.

    Parameters
    ----------
    namespace
        None for all namespaces.

    Returns
    -------
    bool
        True also if the API server does not tell.

    Raises
    ------
    KubernetesError
        When the API server does not answer.
    """
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace or ""}
    review = {
        "apiVersion": f"{names.AUTHORIZATION_GROUP}/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = await api.create(_REVIEWS, review)
    except KubernetesError as error:
        if error.status in (403, 404):
            return True
        raise
    return answer.get("status", {}).get("allowed") is not False
