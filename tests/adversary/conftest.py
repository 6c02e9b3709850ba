"""A thief with the token of the service's account, on a real control plane with the shipped roles and policy."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from tests.adversary.stolen_account import Thief
from tests.cluster.access import PLACEHOLDER_RULES, SERVICE_ACCOUNT, USER_NAMESPACES_RULES
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.policy import apply_policy
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import PRIORITY_CLASS, shareable
from tests.placeholders.controller.objects import node, prepare
from tests.polling import PATIENCE_SECONDS


@pytest.fixture
async def thief(real_cluster: ClusterUnderTest) -> AsyncIterator[Thief]:
    cluster = real_cluster
    await prepare(cluster, *node("node-a", shareable("gpu-0")))
    kubeconfig = await service_kubeconfig(cluster, rules=(PLACEHOLDER_RULES, USER_NAMESPACES_RULES))
    settings = PlaceholderSettings(cluster.namespace, PRIORITY_CLASS)
    async with await KubernetesApi.from_kubeconfig(kubeconfig, timeout_seconds=PATIENCE_SECONDS) as api:
        try:
            yield Thief(api, cluster, settings)
        finally:
            await apply_policy(cluster.admin, cluster.namespace, SERVICE_ACCOUNT)
