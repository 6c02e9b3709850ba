"""Manifests, their API paths, and the labels of this project's objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import resource_path

TEMPLATES = "resourceclaimtemplates"
CLAIMS = "resourceclaims"

MANAGED_LABELS: Mapping[str, str] = {names.MANAGED_BY: names.MANAGER}
#: Labels of the templates that starts create, and of their claims.
TEMPLATE_LABELS: Mapping[str, str] = {**MANAGED_LABELS, names.PART: "device-claim"}
#: Labels of a companion of one start.
COMPANION_LABELS: Mapping[str, str] = {**MANAGED_LABELS, names.PART: "companion"}
#: Labels of objects that several starts share.
SHARED_LABELS: Mapping[str, str] = {**MANAGED_LABELS, names.PART: "standing"}


@dataclass(frozen=True, slots=True)
class ApiObject:
    """A manifest of a namespaced kind.

    Attributes
    ----------
    plural
        The resource's name in paths.
    """

    plural: str
    manifest: JsonObject

    @property
    def api_version(self) -> str:
        return str(self.manifest["apiVersion"])

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return str(self.manifest["metadata"]["name"])

    @property
    def description(self) -> str:
        """Kind and name, for messages."""
        return f"{self.manifest['kind']} {self.name}"

    def collection(self, namespace: str) -> str:
        """Path of the objects of its kind."""
        return resource_path(self.api_version, self.plural, namespace)

    def path(self, namespace: str) -> str:
        return resource_path(self.api_version, self.plural, namespace, self.name)


def label_selector(labels: Mapping[str, str]) -> str:
    """Label selector for a list request."""
    return ",".join(f"{key}={value}" for key, value in labels.items())
