"""Missing rights of an account, as the rule to add."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dra_spawner.kube.api_errors import KubernetesError

__all__ = ["MissingRight", "missing_right", "missing_rule"]

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
    found = _REFUSED.search(error.message) if error.status in (403, 422) else None
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
