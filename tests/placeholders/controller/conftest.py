"""A cluster on which placeholders can be created."""

from __future__ import annotations

import pytest_asyncio

from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import prepare


@pytest_asyncio.fixture
async def prepared(cluster: ClusterUnderTest) -> ClusterUnderTest:
    await prepare(cluster)
    return cluster
