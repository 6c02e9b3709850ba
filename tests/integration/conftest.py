"""Fixtures of tests that run on whole clusters."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dra_spawner.devcluster.demo.example_nodes import example_objects
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.faulty_hub import Faulty, faulty_on
from tests.integration.scheduling_script import Script


@pytest.fixture
async def faulty(cluster: ClusterUnderTest) -> AsyncIterator[Faulty]:
    """A hub's side on a cluster with one node and a shareable GPU, whose requests can be made to fail."""
    async with faulty_on(cluster) as found:
        yield found


@pytest.fixture
async def embedded_faulty(embedded_cluster: ClusterUnderTest) -> AsyncIterator[Faulty]:
    """The same, for what the control plane has no part in."""
    async with faulty_on(embedded_cluster) as found:
        yield found


@pytest.fixture
async def script(cluster: ClusterUnderTest) -> Script:
    """The demo's nodes, with pods that only pretend to run."""
    await cluster.start_kubelet(fake=True)
    await cluster.publish(*example_objects())
    return Script(cluster)
