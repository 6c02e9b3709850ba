"""Each single right that roles grant, and the requests that use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from dra_spawner.common.json_types import JsonObject
from tests.chart.audit_log import Access

#: Further rights that the API server checks for a request that the audit log shows: Kubernetes 1.36 and later.
_IMPLIED = {("patch", "resourceclaims/status"): ("patch", "resourceclaims/binding")}


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb for one resource.

    Attributes
    ----------
    namespace
        Of the role's binding; empty for all namespaces.
    name
        Of the only object; empty for all.
    """

    account: str
    role: str
    namespace: str
    verb: str
    group: str
    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.role}: {self.verb} {self.resource} {self.name}".rstrip()

    def is_used_by(self, access: Access) -> bool:
        """Whether a request needs this right, or one like it."""
        asked = (access.verb, access.resource)
        return (
            access.account == self.account
            and (self.verb, self.resource) in (asked, _IMPLIED.get(asked))
            and access.group == self.group
            and self.namespace in ("", access.namespace)
            and self.name in ("", access.name)
        )


def granted(objects: Iterable[JsonObject]) -> Iterator[Right]:
    """The rights that a chart's roles and bindings grant."""
    objects = list(objects)
    roles = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each["rules"]
        for each in objects
        if each["kind"] in ("Role", "ClusterRole")
    }
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        namespace = binding["metadata"].get("namespace", "")
        reference = binding["roleRef"]
        for subject, rule in product(binding["subjects"], roles[reference["kind"], namespace, reference["name"]]):
            account = f"{subject['namespace']}:{subject['name']}"
            parts = (rule["verbs"], rule["apiGroups"], rule["resources"], rule.get("resourceNames") or [""])
            for verb, group, resource, name in product(*parts):
                yield Right(account, reference["name"], namespace, verb, group, resource, name)


def unused(objects: Iterable[JsonObject], accesses: Iterable[Access]) -> list[Right]:
    """The rights that no request has used. A right for all namespaces is used where there is no right for the one."""
    rights = set(granted(objects))
    used: set[Right] = set()
    for access in accesses:
        if access.status not in (401, 403):
            found = {right for right in rights if right.is_used_by(access)}
            nearer = {right.resource for right in found if right.namespace}
            used |= {right for right in found if right.namespace or right.resource not in nearer}
    return sorted(rights - used)
