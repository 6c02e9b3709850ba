"""A thief with the token of the hub's account, where servers are in a namespace of each user, on a real control plane.

It may make pods, which is much, but with the shipped policy only where the hub's users are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dra_spawner.kube.api import KubernetesApi, KubernetesError, resource_path
from tests.adversary.stolen_account import DRA, DRY
from tests.cluster.access import HUB_USERS_RULES, grant
from tests.cluster.object_paths import path_of
from tests.cluster.policy import hub_policy_objects
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import SHARE, user_pod
from tests.polling import PATIENCE_SECONDS, eventually

Json = dict[str, Any]

POD = user_pod("jupyter-ada", {})
CLAIM = {"apiVersion": DRA, "kind": "ResourceClaim", "metadata": {"name": "gpu"}, "spec": SHARE["gpu"]}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "home"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
KINDS = {"pods": ("v1", POD), "persistentvolumeclaims": ("v1", VOLUME), "resourceclaims": (DRA, CLAIM)}


@pytest.fixture
async def users_namespace(real_cluster: ClusterUnderTest) -> AsyncIterator[str]:
    async with real_cluster.another_namespace("ada") as name:
        yield name


async def refusals(api: KubernetesApi, namespace: str) -> dict[str, str]:
    """Refusals by kind of object in a namespace; empty where the objects can be created."""
    found = {}
    for plural, (version, manifest) in KINDS.items():
        try:
            await api.create(resource_path(version, plural, namespace), manifest, params=DRY)
        except KubernetesError as error:
            found[plural] = error.message
    return found


async def test_the_account_writes_only_in_namespaces_of_its_users(
    real_cluster: ClusterUnderTest, users_namespace: str
) -> None:
    cluster = real_cluster
    await grant(cluster.admin, cluster.namespace, HUB_USERS_RULES)
    namespaces = resource_path("v1", "namespaces")
    foreign = {"metadata": {"name": f"not-{cluster.namespace}"}}
    async with await KubernetesApi.from_kubeconfig(cluster.hub_kubeconfig, timeout_seconds=PATIENCE_SECONDS) as thief:
        assert await refusals(thief, "kube-system") == {}
        await thief.create(namespaces, foreign, params=DRY)
        policy, binding = [
            await cluster.admin.create(path_of(obj), obj) for obj in hub_policy_objects(cluster.namespace)
        ]
        try:
            refused: dict[str, str] = {}

            async def all_are_refused() -> bool:
                nonlocal refused
                refused = await refusals(thief, "kube-system")
                return refused.keys() == KINDS.keys()

            await eventually(all_are_refused, "the policy is in force", shows=lambda: refused)
            sentence = (
                f"request: namespace kube-system: the hub writes in {cluster.namespace} and in namespaces that begin "
                f"with {cluster.namespace}-, and nowhere else"
            )
            assert all(sentence in each for each in refused.values()), refused
            with pytest.raises(KubernetesError, match=f"namespace not-{cluster.namespace}: the hub writes in"):
                await thief.create(namespaces, foreign, params=DRY)
            for namespace in (cluster.namespace, users_namespace):
                assert await refusals(thief, namespace) == {}
            await thief.create(namespaces, {"metadata": {"name": f"{cluster.namespace}-eve"}}, params=DRY)
            assert await refusals(cluster.admin, "kube-system") == {}
            stored = await cluster.wait_for(
                path_of(policy, named=True), lambda found: "typeChecking" in found.get("status", {})
            )
            assert stored["status"]["typeChecking"] == {}
        finally:
            for obj in (binding, policy):
                await cluster.admin.delete(path_of(obj, named=True))


async def test_the_account_reads_no_passwords_of_others(real_cluster: ClusterUnderTest, users_namespace: str) -> None:
    """Few hubs have the settings for which KubeSpawner needs Secrets."""
    cluster = real_cluster
    await grant(cluster.admin, cluster.namespace, HUB_USERS_RULES)
    async with await KubernetesApi.from_kubeconfig(cluster.hub_kubeconfig, timeout_seconds=PATIENCE_SECONDS) as thief:
        for namespace in (users_namespace, "kube-system"):
            with pytest.raises(KubernetesError, match='cannot list resource "secrets"'):
                await thief.list(resource_path("v1", "secrets", namespace))
        # The chart allows the Secrets of its own namespace.
        await thief.list(resource_path("v1", "secrets", cluster.namespace))
