"""NetworkAttachmentDefinitions: a kind that a CustomResourceDefinition brings; the embedded cluster has none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dra_spawner.kube.client.api import KubernetesError, resource_path
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually

NETWORKS = ("k8s.cni.cncf.io/v1", "network-attachment-definitions")

_GROUP, _, _VERSION = NETWORKS[0].partition("/")
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{NETWORKS[1]}.{_GROUP}"},
    "spec": {
        "group": _GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": NETWORKS[1],
            "singular": "network-attachment-definition",
            "kind": "NetworkAttachmentDefinition",
            "shortNames": ["net-attach-def"],
        },
        "versions": [
            {
                "name": _VERSION,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@asynccontextmanager
async def networks_served(cluster: ClusterUnderTest) -> AsyncIterator[None]:
    """The kind is there within the block."""
    path = resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions")
    await cluster.admin.create(path, DEFINITION)
    try:

        async def served() -> bool:
            try:
                await cluster.admin.list(resource_path(*NETWORKS, cluster.namespace))
            except KubernetesError:
                return False
            return True

        await eventually(served, "the new kind is served")
        yield
    finally:
        await cluster.admin.delete(f"{path}/{DEFINITION['metadata']['name']}")
