"""A release on a cluster under test."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from dra_spawner.common.json_types import JsonObject
from tests.chart.applied import apply_chart, withdraw_chart
from tests.chart.rendering import rendered
from tests.cluster.under_test import ClusterUnderTest


@contextlib.asynccontextmanager
async def installed(cluster: ClusterUnderTest, values: JsonObject, *, release: str) -> AsyncIterator[list[JsonObject]]:
    """The objects of the chart, which are in the cluster meanwhile; Deployment and test pod are only validated."""
    objects = rendered(values, release=release, namespace=cluster.namespace, with_tests=True)
    try:
        await apply_chart(cluster, objects)
        yield objects
    finally:
        await withdraw_chart(cluster, objects)
