"""Rehearsals of random days, compared with what then happens."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.all_of_them import all_of_them
from tests.cluster.under_test import ClusterUnderTest
from tests.examples import example_count
from tests.placeholders.planner.objects import gpu_claim
from tests.placeholders.planner.simulated_cluster import START
from tests.scale_ahead.rehearsal.announced_day import AnnouncedDay
from tests.scale_ahead.rehearsal.coming_day import happens_as_rehearsed
from tests.virtual_time.announced_cluster_day import AnnouncedClusterDay
from tests.virtual_time.clock import JumpingClock
from tests.virtual_time.systems import Ours, System, at_work

_DAYS = [*((seed, False) for seed in range(example_count(200))), *((seed, True) for seed in range(example_count(100)))]


@all_of_them("seed, is_short", _DAYS)
def test_days_in_virtual_time(seed: int, is_short: bool) -> None:
    """Random clusters, calendars and modes: the verdict is right, and as many users wait as it says."""
    happens_as_rehearsed(AnnouncedDay(seed, is_short=is_short))


@pytest.mark.parametrize("seed", range(example_count(200)))
async def test_days_on_a_cluster(embedded_cluster: ClusterUnderTest, seed: int) -> None:
    """The same with API server, scheduler and reconciler."""
    day = AnnouncedDay(seed, is_short=True)
    clock = JumpingClock(START - timedelta(minutes=2))
    kubeconfig, namespace = embedded_cluster.admin_kubeconfig, embedded_cluster.namespace
    async with at_work(System.OURS, kubeconfig, namespace, clock, {"gpu": gpu_claim()}) as world:
        assert isinstance(world, Ours)
        happening = AnnouncedClusterDay(world, day)
        day.check(await happening.run(), happening.waited)
