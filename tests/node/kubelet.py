"""The kubelet of a real node."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.control_plane import ControlPlane
from tests.cluster.programs import Programs

from .containerd import CONTAINERD_SOCKET

__all__ = ["Kubelet", "KubeletOptions"]

_NAME = "kubelet"
_PORT = 10250
_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """Options that differ between nodes."""

    address: str
    cgroup: str
    labels: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the KubeletConfiguration."""


@dataclass(frozen=True, slots=True)
class Kubelet:
    """The kubelet of one node; pods go on while it is not running."""

    name: str
    """Of the Node."""
    programs: Programs
    plane: ControlPlane
    binary: Path
    """The control plane's, in which the kubelet is, too."""
    directory: Path
    options: KubeletOptions

    def __post_init__(self) -> None:
        self._write_configuration()

    def start(self) -> None:
        """Start it; returns when the kubelet reports the node as ready."""
        # A node that was ready before the kubelet's end is still called so.
        before = self._heartbeat()
        self.programs.start(
            _NAME,
            self.binary,
            "kubelet",
            f"--config={self.directory / 'kubelet.json'}",
            f"--kubeconfig={self.directory / 'kubelet.kubeconfig'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.options.address}",
            f"--node-labels={','.join(f'{key}={value}' for key, value in self.options.labels.items())}",
            "--root-dir=/var/lib/kubelet",
            "--cert-dir=/var/lib/kubelet/pki",
            "--v=2",
        )
        self.programs.until(
            lambda: self.is_ready() and self._heartbeat() != before, lambda: "the kubelet is ready", _START_SECONDS
        )

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it by a signal."""
        self.programs.end(_NAME, number)

    @property
    def is_running(self) -> bool:
        return _NAME in self.programs

    def node(self) -> dict[str, Any]:
        """The Node; {} if there is none."""
        return self.plane.request("GET", f"/api/v1/nodes/{self.name}")

    def is_ready(self) -> bool:
        """Whether the Node is called ready."""
        return self._ready_condition().get("status") == "True"

    def _heartbeat(self) -> str:
        return str(self._ready_condition().get("lastHeartbeatTime"))

    def _ready_condition(self) -> dict[str, Any]:
        conditions = self.node().get("status", {}).get("conditions") or []
        return next((each for each in conditions if each["type"] == "Ready"), {})

    def _write_configuration(self) -> None:
        directory = self.directory
        (directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        (directory / "kubelet.json").write_text(json.dumps(self._configuration()))
        self.plane.write_kubeconfig(directory / "kubelet.kubeconfig", self.plane.admin_token)
        kubeconfig = json.loads((directory / "kubelet.kubeconfig").read_text())
        # Actions that a node may not do are forbidden here, too.
        kubeconfig["users"][0]["user"] |= {"as": f"system:node:{self.name}", "as-groups": ["system:nodes"]}
        (directory / "kubelet.kubeconfig").write_text(json.dumps(kubeconfig))

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            # The address is the node's own, so the port is free.
            "address": self.options.address,
            "port": _PORT,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.options.cgroup}",
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
            **self.options.configuration,
        }
