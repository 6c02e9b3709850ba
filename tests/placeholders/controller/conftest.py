"""A cluster that placeholders can be kept on."""

from __future__ import annotations

import pytest_asyncio

from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes
from tests.placeholders.controller.world import (
    PRIORITY_CLASS,
)


@pytest_asyncio.fixture
async def prepared(cluster: ClusterUnderTest) -> ClusterUnderTest:
    await cluster.start_kubelet(fake=True)
    await cluster.publish(
        *classes(),
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": PRIORITY_CLASS},
            "value": -10,
        },
    )
    return cluster
