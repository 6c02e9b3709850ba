"""A real node on this machine: kubelet, containerd, pods' network and DRA drivers, joined to a `ControlPlane`."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.control_plane import ControlPlane
from tests.cluster.programs import Programs, Startable

from .containerd import Containerd
from .devices import GPU_DRIVER, NIC_DRIVER, PREPARES_FOR, Pools, bound_pools, example_pools
from .driver_client import DriverClient
from .images import PAUSE, QUICK_SERVER, notebook_image, program_image
from .kubelet import Kubelet, KubeletOptions
from .machine import Machine
from .network import Bridge
from .node_binaries import NodeBinaries
from .node_space import NodeSpace

_START_SECONDS = 120.0


class NodeError(Exception):
    """A program of the node did not start or has ended; the message holds the tails of the logs."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Options that a test may change."""

    labels: Mapping[str, str] = field(default_factory=dict)
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the KubeletConfiguration."""
    pools: Mapping[str, Pools] | None = None
    """Of each driver by its name; None for the demo's devices, and those that drivers prepare for one pod or container."""


class RealNode(Startable):
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
    containerd
        The container runtime, with the images.
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
        self.containerd: Containerd
        self._kubelet: Kubelet
        self._plane = plane
        self._binaries = binaries
        self._machine = machine
        self._space = NodeSpace(directory, binaries["pause"])
        self._programs = Programs(directory, NodeError, self._space.popen, self._space.send)
        # By a kubelet that started after the drivers.
        self._slices_removed = False

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
            self._configure(self.bridge)
            self._space.start()
            self.containerd.start()
            archive = self.directory / "image.tar"
            for image, program in ((PAUSE, "pause"), (QUICK_SERVER, "quick-server")):
                self.containerd.import_image(program_image(archive, image, self._binaries[program]))
            self.containerd.import_image(notebook_image(archive))
            self.start_kubelet()
            self._start_drivers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all of it and leave nothing on this machine but logs; the Node and its slices go, too."""
        self._space.stop()
        self._programs.wait_all()
        self._machine.cgroups.remove(self.cgroup)
        if self.bridge is not None:
            self.bridge.remove()
            self.bridge = None
        for name in ("kubelet", "containerd"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        if self._plane.pids():
            self._plane.request("DELETE", f"/api/v1/nodes/{self.name}")
            self._plane.request("DELETE", self._slices_path)

    def reboot(self) -> None:
        """Cut the power and switch on again: processes and containers are lost, files stay."""
        self._space.stop()
        self._programs.wait_all()
        self._machine.cgroups.remove(self.cgroup)
        self._machine.cgroups.create(self.cgroup)
        self._space.start()
        self.containerd.start()
        self.start_kubelet()
        self._start_drivers()

    def has_slices(self) -> bool:
        """Whether all slices of this node's drivers are published."""
        found = {each["spec"]["pool"]["name"] for each in self._plane.request("GET", self._slices_path)["items"]}
        return found >= {pool for driver in self.drivers.values() for pool in driver.pools}

    def heal(self) -> None:
        """Start programs that are not running, and reset the drivers, for the next test."""
        if not self._space.pids:
            self.reboot()
        for driver in self.drivers.values():
            driver.reset()
        self._programs.forget_ended()
        if not self.containerd.is_running:
            self.containerd.start()
        if not self._kubelet.is_running:
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
        self._programs.until(self._kubelet.is_ready, lambda: "the node is ready", _START_SECONDS)
        for driver in self.drivers.values():
            driver.wait_registered(self.check)
        self._programs.until(self.has_slices, lambda: "the drivers' slices are published", _START_SECONDS)

    def _start_drivers(self) -> None:
        for name in self.drivers:
            if name not in self._programs:
                self.start_driver(name, wait=False)
        self._slices_removed = False
        self.wait_ready()

    # --- kubelet ------------------------------------------------------------------------------------------------

    def start_kubelet(self) -> None:
        self._slices_removed = True
        self._kubelet.start()

    def stop_kubelet(self, number: int = signal.SIGTERM) -> None:
        """End the kubelet; its pods go on."""
        self._kubelet.stop(number)

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
        self._programs.start(
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
        self._programs.end(name, number)

    def restart_driver(self, name: str = GPU_DRIVER, number: int = signal.SIGTERM) -> None:
        self.stop_driver(name, number)
        self.start_driver(name)

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
        """Run a program on the node; its output."""
        return self._space.run(*command)

    def node(self) -> dict[str, Any]:
        """The Node; {} if there is none."""
        return self._kubelet.node()

    def left_behind(self) -> list[str]:
        """Leftovers of the node on this machine: processes, mounts, network, control groups."""
        found = [f"process {pid}" for pid in self.pids]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found += [line for line in mounts if str(self.directory) in line]
        found += [str(path) for path in self._machine.cgroups.left(self.cgroup)]
        if self.bridge is not None and self.bridge.exists:
            found.append(self.bridge.name)
        return found

    def log_tail(self, name: str) -> str:
        """The end of the log of ``kubelet``, ``containerd`` or a driver."""
        return self._programs.log_tail(name)

    # --- its own ----------------------------------------------------------------------------------------------------

    def _socket(self, driver: str) -> Path:
        return self._space.path(f"/run/{driver}.sock")

    def _configure(self, bridge: Bridge) -> None:
        directory = self.directory
        pools = self.options.pools
        if pools is None:
            examples = {name: example_pools(name, self.name) for name in (GPU_DRIVER, NIC_DRIVER)}
            pools = examples | bound_pools(self.name)
        for name, content in pools.items():
            settings, prepares_for = directory / f"{name}.json", PREPARES_FOR.get(name, "claim")
            self.drivers[name] = DriverClient(name, content, settings, partial(self._socket, name), prepares_for)
        self.containerd = Containerd(
            programs=self._programs,
            space=self._space,
            binaries=self._binaries,
            directory=directory,
            snapshotter=self._machine.snapshotter(directory),
            bridge=bridge,
        )
        options = KubeletOptions(bridge.address, self.cgroup, self.options.labels, self.options.kubelet)
        self._kubelet = Kubelet(self.name, self._programs, self._plane, self._binaries.harness, directory, options)

    @property
    def _slices_path(self) -> str:
        return f"/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3D{self.name}"
