"""A real node on this machine: kubelet, containerd, pods' network and DRA drivers, joined to a `ControlPlane`."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster.control_plane import ControlPlane

from .devices import GPU_DRIVER, NIC_DRIVER, Pools, example_pools
from .driver_client import DriverClient
from .images import PAUSE, QUICK_SERVER, notebook_image, program_image
from .machine import Machine
from .network import Bridge
from .node_binaries import NodeBinaries
from .node_space import NodeSpace, children

_START_SECONDS = 40.0
# A process that was asked to end.
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02
_CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_KUBELET_PORT = 10250


class NodeError(Exception):
    """A program of the node did not start or has ended; the message holds the tails of the logs."""


@dataclass
class _Program:
    """One that runs in the node; `process` is ``nsenter``."""

    process: subprocess.Popen[bytes]

    def send(self, number: int) -> None:
        for pid in children(self.process.pid):
            os.kill(pid, number)


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a test may want otherwise than usual."""

    labels: Mapping[str, str] = field(default_factory=dict)
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the KubeletConfiguration."""
    pools: Mapping[str, Pools] | None = None
    """Of each driver by its name; None for the demo's devices."""


class RealNode:
    """One node; `start` it, use it, `stop` it.

    All methods block; none may be called from two threads at a time.

    Parameters
    ----------
    plane
        What it joins.
    binaries, machine
        Of `node_binaries` and `machine.examine`.
    directory
        An empty one of its own for data, logs and sockets.
    name
        Of the Node; one of its own if not given.

    Attributes
    ----------
    address
        Of this machine as pods see it: a hub that listens there is reached from containers.
    drivers
        By name.
    """

    def __init__(
        self,
        plane: ControlPlane,
        binaries: NodeBinaries,
        machine: Machine,
        directory: Path,
        *,
        name: str = "",
        options: NodeOptions | None = None,
    ) -> None:
        self.name = name or f"node-{secrets.token_hex(3)}"
        self.directory = directory
        self.options = options or NodeOptions()
        self.cgroup = f"dra-node-{secrets.token_hex(3)}-{os.getpid()}"
        self.drivers: dict[str, DriverClient] = {}
        self.bridge: Bridge | None = None
        self._plane = plane
        self._binaries = binaries
        self._machine = machine
        self._snapshotter = ""
        self._space = NodeSpace(directory, binaries["pause"])
        self._programs: dict[str, _Program] = {}
        # By a kubelet that started after the drivers.
        self._slices_removed = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # --- the whole node ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all of it; returns when the node is ready, its slices are published and its images are there.

        Raises
        ------
        NodeError
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self.bridge = Bridge.create()
            self._machine.cgroups.sweep()
            self._machine.cgroups.create(self.cgroup)
            self._snapshotter = self._machine.snapshotter(self.directory)
            self._configure()
            self._space.start()
            self.start_containerd()
            for image, program in ((PAUSE, "pause"), (QUICK_SERVER, "quick-server")):
                self.import_image(program_image(self.directory / "image.tar", image, self._binaries[program]))
            self.import_image(notebook_image(self.directory / "image.tar"))
            self.start_kubelet()
            self._start_drivers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all of it and leave nothing on this machine but logs; the Node and its slices go, too."""
        self._space.stop()
        self._reap()
        self._machine.cgroups.remove(self.cgroup)
        if self.bridge is not None:
            self.bridge.remove()
            self.bridge = None
        for name in ("kubelet", "containerd"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        if self._plane.pids():
            self._request("DELETE", f"/api/v1/nodes/{self.name}")
            self._request(
                "DELETE", f"/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3D{self.name}"
            )

    def reboot(self, *, off_seconds: float = 0.0) -> None:
        """Cut the power and switch on again: no process or container is left, what was on disk is."""
        self._space.stop()
        self._reap()
        self._machine.cgroups.remove(self.cgroup)
        time.sleep(off_seconds)
        self._machine.cgroups.create(self.cgroup)
        self._space.start()
        self.start_containerd()
        self.start_kubelet()
        self._start_drivers()

    def heal(self) -> None:
        """Start what is not running, and let drivers be as at first: for the next test."""
        if not self._space.pids:
            self.reboot()
        for driver in self.drivers.values():
            driver.reset()
        self._reap()
        if "containerd" not in self._programs:
            self.start_containerd()
        if "kubelet" not in self._programs:
            self.start_kubelet()
        if self._slices_removed:
            for name in self.drivers:
                if name in self._programs:
                    self.stop_driver(name)
        self._start_drivers()

    def wait_ready(self) -> None:
        """Wait until the node is ready, and each driver is registered and has published its pools.

        Raises
        ------
        NodeError
        """
        self._until(self._is_ready, "the node is ready")
        for driver in self.drivers.values():
            driver.wait_registered(self.check)
        self._until(self._has_slices, "the drivers' slices are published")

    def _start_drivers(self) -> None:
        for name in self.drivers:
            if name not in self._programs:
                self.start_driver(name, wait=False)
        self._slices_removed = False
        self.wait_ready()

    # --- kubelet ------------------------------------------------------------------------------------------------

    def start_kubelet(self) -> None:
        self._slices_removed = True
        # A node that was ready before the kubelet's end is still called so.
        before = self._heartbeat()
        self._launch(
            "kubelet",
            self._binaries.harness,
            "kubelet",
            f"--config={self.directory / 'kubelet.json'}",
            f"--kubeconfig={self.directory / 'kubelet.kubeconfig'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            f"--node-labels={','.join(f'{key}={value}' for key, value in self.options.labels.items())}",
            "--root-dir=/var/lib/kubelet",
            "--cert-dir=/var/lib/kubelet/pki",
            "--v=2",
        )
        self._until(lambda: self._is_ready() and self._heartbeat() != before, "the kubelet is ready")

    def stop_kubelet(self, number: int = signal.SIGTERM) -> None:
        """End the kubelet; its pods go on."""
        self._end("kubelet", number)

    def restart_kubelet(self, number: int = signal.SIGTERM) -> None:
        """End the kubelet and start it again.

        A kubelet removes all slices of its node when it starts. A driver that goes on publishes them again after 30 s,
        or, if it had done so in the last minute, when that is over; one that is restarted publishes at once.
        """
        self.stop_kubelet(number)
        self.start_kubelet()

    # --- drivers ------------------------------------------------------------------------------------------------

    @property
    def gpus(self) -> DriverClient:
        """The demo's driver of GPUs."""
        return self.drivers[GPU_DRIVER]

    @property
    def nics(self) -> DriverClient:
        """The demo's driver of network cards."""
        return self.drivers[NIC_DRIVER]

    def pool(self, name: str) -> str:
        """This node's pool of that name, such as `devices.SHARED_NODE`."""
        return f"{self.name}-{name}"

    def start_driver(self, name: str = GPU_DRIVER, *, wait: bool = True) -> None:
        driver = self.drivers[name]
        self._launch(
            name,
            self._binaries.harness,
            "dra-driver",
            f"--name={name}",
            f"--node={self.name}",
            f"--kubeconfig={self._plane.admin_kubeconfig}",
            f"--settings={driver.settings_path}",
            f"--control=/run/{name}.sock",
            "--kubelet=/var/lib/kubelet",
            "--cdi=/run/cdi",
        )
        if wait:
            driver.wait_registered(self.check)

    def stop_driver(self, name: str = GPU_DRIVER, number: int = signal.SIGTERM) -> None:
        self._end(name, number)

    def restart_driver(self, name: str = GPU_DRIVER, number: int = signal.SIGTERM) -> None:
        self.stop_driver(name, number)
        self.start_driver(name)

    # --- containerd ---------------------------------------------------------------------------------------------

    def start_containerd(self) -> None:
        self._launch("containerd", self._binaries["containerd"], "--config", self.directory / "containerd.toml")
        socket = self._space.path(_CONTAINERD_SOCKET)
        self._until(lambda: socket.exists() and self._answers(), "containerd answers")

    def restart_containerd(self) -> None:
        """End the container runtime and start it again; containers go on."""
        self._end("containerd", signal.SIGTERM)
        self.start_containerd()

    def import_image(self, archive: Path) -> None:
        """Bring an image to the node, as a pull does."""
        self.ctr("images", "import", "--snapshotter", self._snapshotter, archive)

    def remove_image(self, name: str) -> None:
        self.ctr("images", "remove", "--sync", name)

    def tasks(self) -> list[str]:
        """Ids of containers with a process, sandboxes included."""
        return self.ctr("tasks", "list", "--quiet").split()

    def ctr(self, *arguments: str | Path) -> str:
        """Run containerd's client."""
        return self.run(self._binaries["ctr"], "--namespace", "k8s.io", *arguments)

    # --- looking at it --------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        assert self.bridge is not None
        return self.bridge.address

    @property
    def pids(self) -> list[int]:
        """All processes of the node, containers' included, as this machine numbers them."""
        return self._space.pids

    def run(self, *command: str | Path) -> str:
        """Run a program on the node; what it printed."""
        return self._space.run(*command)

    def node(self) -> dict[str, Any]:
        """The Node; {} if there is none."""
        return self._request("GET", f"/api/v1/nodes/{self.name}")

    def left_behind(self) -> list[str]:
        """What of it is on this machine: processes, mounts, network, control groups."""
        found = [f"process {pid}" for pid in self.pids]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found += [line for line in mounts if str(self.directory) in line]
        found += [str(path) for path in self._machine.cgroups.left(self.cgroup)]
        if self.bridge is not None and self.bridge.exists:
            found.append(self.bridge.name)
        return found

    def log_tail(self, name: str, lines: int = 40) -> str:
        """The end of the log of ``kubelet``, ``containerd`` or a driver."""
        log = self.directory / f"{name}.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        return f"--- end of {log}\n" + "\n".join(text.splitlines()[-lines:])

    def check(self) -> None:
        """Raise if a program of the node has ended by itself.

        Raises
        ------
        NodeError
            With the tail of its log.
        """
        for name, program in self._programs.items():
            code = program.process.poll()
            if code is not None:
                raise NodeError(f"{name} ended with exit code {code}\n{self.log_tail(name)}")

    # --- its own ----------------------------------------------------------------------------------------------------

    def _configure(self) -> None:
        assert self.bridge is not None
        directory = self.directory
        pools = self.options.pools
        if pools is None:
            pools = {name: example_pools(name, self.name) for name in (GPU_DRIVER, NIC_DRIVER)}
        for name, content in pools.items():
            self.drivers[name] = DriverClient(
                name, content, directory / f"{name}.json", lambda name=name: self._space.path(f"/run/{name}.sock")
            )
        (directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        (directory / "cni").mkdir(exist_ok=True)
        (directory / "cni" / "10-bridge.conflist").write_text(json.dumps(_pod_network(self.bridge)))
        (directory / "containerd.toml").write_text(self._containerd_configuration())
        (directory / "kubelet.json").write_text(json.dumps(self._kubelet_configuration()))
        self._plane.write_kubeconfig(directory / "kubelet.kubeconfig", self._plane.admin_token)
        kubeconfig = json.loads((directory / "kubelet.kubeconfig").read_text())
        # What a node may not do is forbidden here, too.
        kubeconfig["users"][0]["user"] |= {"as": f"system:node:{self.name}", "as-groups": ["system:nodes"]}
        (directory / "kubelet.kubeconfig").write_text(json.dumps(kubeconfig))

    def _containerd_configuration(self) -> str:
        runtime = "plugins.'io.containerd.cri.v1.runtime'"
        return f"""
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
imports = []

[plugins.'io.containerd.cri.v1.images']
snapshotter = "{self._snapshotter}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE}"

[{runtime}]
cdi_spec_dirs = ["/run/cdi"]
# A container may itself not be allowed to lower this.
restrict_oom_score_adj = true
disable_apparmor = true
[{runtime}.cni]
bin_dirs = ["{self._binaries.directory}"]
conf_dir = "{self.directory}/cni"

[plugins.'io.containerd.internal.v1.opt']
path = "/var/lib/containerd/opt"
[plugins.'io.containerd.nri.v1.nri']
disable = true
"""

    def _kubelet_configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            # The address is the node's own, so the port is free.
            "address": self.address,
            "port": _KUBELET_PORT,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{_CONTAINERD_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "resolvConf": str(self.directory / "resolv.conf"),
            "maxPods": 500,
            "nodeStatusUpdateFrequency": "1s",
            # The machine's disk is not the node's alone.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0.5%", "imagefs.available": "0.5%"},
            **self.options.kubelet,
        }

    def _launch(self, name: str, *command: str | Path) -> None:
        assert name not in self._programs, f"{name} is running already"
        with (self.directory / f"{name}.log").open("ab") as log:
            self._programs[name] = _Program(self._space.popen(command, log))

    def _end(self, name: str, number: int) -> None:
        program = self._programs.pop(name)
        program.send(number)
        try:
            program.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            program.send(signal.SIGKILL)
            program.process.wait()

    def _reap(self) -> None:
        """Forget programs that have ended."""
        if not self._space.pids:
            for program in self._programs.values():
                program.process.wait()
        self._programs = {name: each for name, each in self._programs.items() if each.process.poll() is None}

    def _answers(self) -> bool:
        try:
            self.ctr("version")
        except AssertionError:
            return False
        return True

    def _heartbeat(self) -> str | None:
        for condition in self.node().get("status", {}).get("conditions") or []:
            if condition["type"] == "Ready":
                return str(condition["lastHeartbeatTime"])
        return None

    def _is_ready(self) -> bool:
        conditions = self.node().get("status", {}).get("conditions") or []
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _has_slices(self) -> bool:
        path = f"/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3D{self.name}"
        found = {each["spec"]["pool"]["name"] for each in self._request("GET", path)["items"]}
        return found >= {pool for driver in self.drivers.values() for pool in driver.pools}

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                tails = "\n".join(self.log_tail(name) for name in self._programs)
                raise NodeError(f"not in {_START_SECONDS:g} s: {what}\n{tails}")
            time.sleep(_POLL_SECONDS)

    def _request(self, method: str, path: str) -> dict[str, Any]:
        """Ask the API server as an administrator; {} for what is not there."""
        context = ssl.create_default_context(cafile=str(self._plane.certificate_authority))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        headers = {"Authorization": f"Bearer {self._plane.admin_token}"}
        try:
            with opener.open(
                urllib.request.Request(self._plane.url + path, headers=headers, method=method), timeout=10
            ) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return {}
            raise


def _pod_network(bridge: Bridge) -> dict[str, Any]:
    """CNI's: addresses behind the node's bridge, no translation, nothing else on the machine changed."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": bridge.subnet, "gateway": bridge.address}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugin = {"type": "bridge", "bridge": bridge.name, "isGateway": False, "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "node", "plugins": [plugin]}
