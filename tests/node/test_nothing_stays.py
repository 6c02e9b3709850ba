"""A node leaves nothing on the machine, however the test run ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually_sync

from .devices import GPU_SHARE_CLASS
from .machine import Machine
from .network import Bridge, owners
from .node_binaries import NodeBinaries
from .objects import claim, environment, server_pod
from .real_node import NodeError, RealNode

ROOT = Path(__file__).parents[2]


def control_groups(name: str) -> list[str]:
    """All groups of this name on the machine, wherever a hierarchy is mounted."""
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if Path(path).name == name]


def kernel_settings() -> list[str]:
    names = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")
    return [Path("/proc/sys", name).read_text() for name in names]


async def test_node_with_a_running_pod_leaves_nothing(
    node_plane: ControlPlane,
    binaries: NodeBinaries,
    machine: Machine,
    node: RealNode,
    node_cluster: ClusterUnderTest,
    tmp_path: Path,
):
    """A second node beside the first; each has its own pods."""
    settings = kernel_settings()
    second = RealNode(node_plane, binaries, machine, tmp_path / "second")
    await asyncio.to_thread(second.start)
    try:
        await node_cluster.publish(
            claim("share", GPU_SHARE_CLASS, memory="5Gi"),
            server_pod("server", claim="share", nodeSelector={"kubernetes.io/hostname": second.name}),
            server_pod("neighbour", nodeSelector={"kubernetes.io/hostname": node.name}),
        )
        running = await node_cluster.wait_running("server")
        assert environment(running)["DEVICE_MAIN"].startswith(second.name)
        neighbour = await node_cluster.wait_running("neighbour")
        pids, bridge = second.pids, second.bridge
        assert len(pids) >= 6
        assert control_groups(second.cgroup)
        assert bridge is not None
        assert bridge.exists
    finally:
        await asyncio.to_thread(second.stop)
        # No kubelet is left that could say that it is gone.
        await node_cluster.admin.delete(node_cluster.path("pods", "server"), grace_period_seconds=0)
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert control_groups(second.cgroup) == []
    assert not bridge.exists
    assert second.left_behind() == []
    assert kernel_settings() == settings
    assert sorted(path.suffix for path in second.directory.rglob("*.sock")) == []
    assert second.node() == {}
    # The first one did not notice.
    assert environment(neighbour)
    node.check()


def test_node_whose_container_runtime_cannot_serve_pods_shows_why(
    node_plane: ControlPlane, binaries: NodeBinaries, machine: Machine, tmp_path: Path
):
    """containerd itself would go on without the plugin that the kubelet needs."""

    class WrongMachine(Machine):
        def snapshotter(self, directory: Path) -> str:
            return "unheard-of"

    node = RealNode(node_plane, binaries, WrongMachine(machine.cgroups), tmp_path / "node")
    with pytest.raises(NodeError, match="containerd ended with exit code 1") as raised:
        node.start()
    assert "unheard-of" in str(raised.value)
    assert node.left_behind() == []


def test_killed_test_run_leaves_no_process(binaries: NodeBinaries, machine: Machine, tmp_path: Path):
    script = f"""
import sys, time
from pathlib import Path
from tests.cluster.control_plane import ControlPlane
from tests.node.machine import examine
from tests.node.node_binaries import NodeBinaries
from tests.node.real_node import RealNode
binaries = NodeBinaries(Path({str(binaries.directory)!r}), Path({str(binaries.harness)!r}))
directory = Path({str(tmp_path)!r})
plane = ControlPlane(binaries.harness, directory / "plane")
plane.start()
node = RealNode(plane, binaries, examine(), directory / "node")
node.start()
print(node.cgroup, node.bridge.owner, *node.pids, sep="|", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        cgroup, owner, *pids = run.stdout.readline().strip().split("|")
        assert len(pids) > 4
        assert control_groups(cgroup)
        run.kill()
    eventually_sync(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "all its processes end")
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(tmp_path) not in mounts
    # Kernel objects without a process are removed with the next node.
    Bridge.create().remove()
    assert owner
    assert owner not in owners()
    machine.cgroups.sweep()
    assert control_groups(cgroup) == []
