"""A collection of the API that is followed."""

from __future__ import annotations

from dataclasses import dataclass

from dra_spawner.kube.client.api import resource_path
from dra_spawner.kube.client.api_errors import KubernetesError


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection of the API, in all namespaces, or one object of it."""

    kind: str
    group_version: str
    """As in ``apiVersion``."""
    plural: str
    namespace: str = ""
    name: str = ""
    """Only the object of this name, which is to be in `namespace`."""

    @property
    def path(self) -> str:
        return resource_path(self.group_version, self.plural, self.namespace or None)

    @property
    def field_selector(self) -> str:
        return f"metadata.name={self.name}" if self.name else ""

    @property
    def group(self) -> str:
        return self.group_version.rpartition("/")[0]

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def missing_rule(self, error: KubernetesError) -> str:
        """The rule that lets the account list and watch, to be copied into a role."""
        names = f", resourceNames: [{self.name}]" if self.name else ""
        rule = f'{{apiGroups: ["{self.group}"], resources: [{self.plural}]{names}, verbs: [list, watch]}}'
        role = f"rule {rule} in namespace {self.namespace}" if self.namespace else f"ClusterRole rule {rule}"
        return f"its account lacks the {role} (the API server says: {error.message})"
