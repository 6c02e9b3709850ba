"""The ``node`` fixture: a real kubelet, container runtime and DRA drivers, joined to a control plane of their own.

A process has one node, which tests use one after another, each in a namespace of its own. What a test ended is started
again after it.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cluster.background import BackgroundLoop
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import namespace_on
from tests.cluster.harness_binary import BinaryUnavailable
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually_sync

from .devices import device_classes
from .machine import Machine, NoRealNode, examine
from .node_binaries import NodeBinaries, node_binaries
from .real_node import NodeOptions, RealNode

_CLIENT_QPS = 500
# Kubernetes' default is 1m: a preparation that failed, or a driver that was away, is tried again 60 to 90 s later.
_SYNC_FREQUENCY = "2s"
_EMPTY_SECONDS = 120.0
_POLL_SECONDS = 0.05


@pytest.fixture(scope="session")
def machine() -> Machine:
    """This machine's abilities; skips if they are not enough for a node."""
    try:
        return examine()
    except NoRealNode as error:
        pytest.skip(f"no real node: {error}")


@pytest.fixture(scope="session")
def binaries(machine: Machine, control_plane_path: Path, control_plane_report: Callable[[str], None]) -> NodeBinaries:
    """The node's programs; skips if there are none."""
    try:
        return node_binaries(control_plane_path, control_plane_report)
    except BinaryUnavailable as error:
        pytest.skip(f"no real node: {error}")


@pytest.fixture(scope="session")
def node_plane(binaries: NodeBinaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that only real nodes use: other tests end with the removal of all nodes."""
    directory = tmp_path_factory.mktemp("node-plane")
    with ControlPlane(binaries.harness, directory, client_qps=_CLIENT_QPS, node_grace_seconds=None) as plane:
        yield plane
        plane.check()
    shutil.rmtree(directory / "etcd", ignore_errors=True)


@pytest.fixture(scope="session")
def shared_node(
    node_plane: ControlPlane, binaries: NodeBinaries, machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealNode]:
    """The process's node; tests take ``node``."""
    options = NodeOptions(kubelet={"syncFrequency": _SYNC_FREQUENCY})
    with RealNode(node_plane, binaries, machine, tmp_path_factory.mktemp("node"), options=options) as node:
        yield node


@pytest_asyncio.fixture
async def node_cluster(
    node_plane: ControlPlane, shared_node: RealNode, background_loop: BackgroundLoop, tmp_path: Path
) -> AsyncIterator[ClusterUnderTest]:
    """A namespace of its own beside the node, and the demo's device classes."""
    async with namespace_on(node_plane, background_loop, tmp_path / "cluster", keeps_nodes=True) as cluster:
        await cluster.publish(*device_classes())
        yield cluster
    await asyncio.to_thread(_until_empty, shared_node)


@pytest_asyncio.fixture
async def node(shared_node: RealNode, node_cluster: ClusterUnderTest) -> AsyncIterator[RealNode]:
    """A node that is ready, empty, and has the demo's devices; ``node_cluster`` is its cluster."""
    for driver in shared_node.drivers.values():
        driver.forget_calls()
    yield shared_node
    # The test's pods can only go where all runs.
    await asyncio.to_thread(shared_node.heal)


def _until_empty(node: RealNode) -> None:
    """Wait until nothing of the test is on the node."""

    def left() -> list[str]:
        claims = [f"{name}: {claim}" for name, driver in node.drivers.items() for claim in driver.state().prepared]
        return [*map(str, node.containerd.tasks()), *claims]

    try:
        eventually_sync(
            lambda: not left(), "the node is empty", _EMPTY_SECONDS, shows=left, pause_seconds=_POLL_SECONDS
        )
    except AssertionError:
        print(node.log_tail("kubelet"), file=sys.stderr)
        raise
