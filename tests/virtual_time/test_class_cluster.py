"""The cluster of the benchmark of a class, without users and hub."""

from __future__ import annotations

from datetime import timedelta

from tests.bench.class_cluster import DAY, KIND, PROFILE, PlaceholderSetup, class_cluster
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import SHARE, shape
from tests.service.replica import publish_shapes

_A_MINUTE = timedelta(minutes=1)
_BEGINS = DAY - timedelta(hours=13, minutes=35)
_USERS = 14


async def test_placeholders_above_a_target_go_while_the_clock_jumps(embedded_cluster: ClusterUnderTest) -> None:
    """A jump is no time in which the service knew nothing: its eviction budget fills, as in the minutes that pass."""
    entry = {"users": f"{_USERS} of {PROFILE} within 5 min", "begins": f"{_BEGINS:%Y-%m-%d %H:%M}", "name": "class"}
    settings = {
        "placeholders": {PROFILE: {"min": 0, "max": 100}},
        "scale_ahead": "act",
        "calendar_entries": [entry],
        "node_kinds": [KIND],
    }
    await publish_shapes(embedded_cluster, {PROFILE: shape(SHARE, cpu="250m")})
    async with class_cluster(embedded_cluster, PlaceholderSetup("calendar entry", settings), 1) as cluster:
        placeholders = cluster.world.snapshot.pods
        await cluster.jump_on(_BEGINS, _A_MINUTE)
        assert (len(placeholders), cluster.autoscaler.nodes) == (_USERS, 1)
        # Nobody comes. After each jump the budget is full: five placeholders go at once.
        await cluster.jump_on(_BEGINS + 10 * _A_MINUTE, _A_MINUTE)
        await cluster.jump_on(_BEGINS + 16 * _A_MINUTE, 2 * _A_MINUTE)
        assert not placeholders
        await cluster.jump_on(_BEGINS + 30 * _A_MINUTE, 2 * _A_MINUTE)
        assert cluster.autoscaler.nodes == 0
