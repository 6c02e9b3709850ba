"""Detection of rest in a cluster; the tests put changes into its watch."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest

from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.set_clock import SetClock
from tests.virtual_time.quiet import Quiet

Json = dict[str, Any]


@pytest.fixture
def seconds() -> SetClock[float]:
    return SetClock(0.0)


@pytest.fixture
def watch() -> ClusterWatch:
    """A watch without an API."""
    return ClusterWatch(cast(KubernetesApi, None))


@pytest.fixture
def quiet(watch: ClusterWatch, seconds: SetClock[float]) -> Quiet:
    watch.put(Kind.NODE, node())
    return Quiet(watch, monotonic=seconds)


def node() -> Json:
    allocatable = {"cpu": "1", "memory": "1Gi", "pods": "9"}
    return {"kind": "Node", "metadata": {"name": "a", "uid": "a"}, "status": {"allocatable": allocatable}}


def pod(name: str, cpu: str = "1", priority: int = 0, **spec: Any) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "hub", "uid": name},
        "spec": {"containers": [container], "priority": priority, **spec},
    }


async def rests(quiet: Quiet) -> bool:
    """Whether the cluster is at rest now, after a few looks."""
    looks = itertools.count()
    return await quiet.wait(until=lambda: next(looks) >= 3)


async def test_rest_is_a_while_without_any_change(quiet: Quiet, watch: ClusterWatch, seconds: SetClock[float]) -> None:
    assert not await rests(quiet)
    seconds.now = 0.3
    assert await rests(quiet)
    watch.put(Kind.NODE, node())
    assert not await rests(quiet), "a change that decides nothing is one, too"
    seconds.now = 0.6
    quiet.stir()
    assert not await rests(quiet)
    seconds.now = 0.9
    assert await rests(quiet)


async def test_a_busy_actor_is_awaited_but_not_for_ever(quiet: Quiet, seconds: SetClock[float]) -> None:
    quiet.is_busy = lambda: True
    seconds.now = 5
    assert not await rests(quiet)
    seconds.now = 16
    assert await rests(quiet)


async def test_a_pod_that_fits_is_awaited_and_reported_if_it_gets_no_node(
    quiet: Quiet, watch: ClusterWatch, seconds: SetClock[float]
) -> None:
    watch.put(Kind.POD, pod("waits"))
    seconds.now = 10
    assert not await rests(quiet)
    assert quiet.overdue == []
    seconds.now = 16
    assert await rests(quiet)
    assert quiet.overdue == ["waits"]
    quiet.stir()
    seconds.now = 17
    assert await rests(quiet), "it is not awaited again"


async def test_a_pod_that_preempts_is_awaited(quiet: Quiet, watch: ClusterWatch, seconds: SetClock[float]) -> None:
    watch.put(Kind.POD, pod("keeps", priority=-10, nodeName="a"))
    watch.put(Kind.POD, pod("waits"))
    seconds.now = 1
    assert not await rests(quiet)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("waits", cpu="2"), id="too large"),
        pytest.param(pod("waits", schedulingGates=[{"name": "example.com/gate"}]), id="gated"),
        pytest.param(pod("there", nodeName="a"), id="has a node"),
    ],
)
async def test_other_pods_are_not_awaited(
    quiet: Quiet, watch: ClusterWatch, seconds: SetClock[float], other: Json
) -> None:
    watch.put(Kind.POD, other)
    seconds.now = 1
    assert await rests(quiet)
