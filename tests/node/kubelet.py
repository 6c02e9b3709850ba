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


class Kubelet:
    """The kubelet of one node; pods go on while it is not running.

    Parameters
    ----------
    name
        Of the Node.
    programs
        Of the node.
    plane
        What the node joins.
    binary
        The control plane's, in which the kubelet is, too.
    directory
        Of the node, for configuration.
    """

    def __init__(
        self,
        name: str,
        programs: Programs,
        plane: ControlPlane,
        binary: Path,
        directory: Path,
        options: KubeletOptions,
    ) -> None:
        self._name = name
        self._programs = programs
        self._plane = plane
        self._binary = binary
        self._directory = directory
        self._options = options
        self._write_configuration()

    def start(self) -> None:
        """Start it; returns when the kubelet reports the node as ready."""
        # A node that was ready before the kubelet's end is still called so.
        before = self._heartbeat()
        self._programs.start(
            _NAME,
            self._binary,
            "kubelet",
            f"--config={self._directory / 'kubelet.json'}",
            f"--kubeconfig={self._directory / 'kubelet.kubeconfig'}",
            f"--hostname-override={self._name}",
            f"--node-ip={self._options.address}",
            f"--node-labels={','.join(f'{key}={value}' for key, value in self._options.labels.items())}",
            "--root-dir=/var/lib/kubelet",
            "--cert-dir=/var/lib/kubelet/pki",
            "--v=2",
        )
        self._programs.until(
            lambda: self.is_ready() and self._heartbeat() != before, lambda: "the kubelet is ready", _START_SECONDS
        )

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it by a signal."""
        self._programs.end(_NAME, number)

    @property
    def is_running(self) -> bool:
        return _NAME in self._programs

    def node(self) -> dict[str, Any]:
        """The Node; {} if there is none."""
        return self._plane.request("GET", f"/api/v1/nodes/{self._name}")

    def is_ready(self) -> bool:
        """Whether the Node is called ready."""
        return self._ready_condition().get("status") == "True"

    def _heartbeat(self) -> str:
        return str(self._ready_condition().get("lastHeartbeatTime"))

    def _ready_condition(self) -> dict[str, Any]:
        conditions = self.node().get("status", {}).get("conditions") or []
        return next((each for each in conditions if each["type"] == "Ready"), {})

    def _write_configuration(self) -> None:
        directory = self._directory
        (directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        (directory / "kubelet.json").write_text(json.dumps(self._configuration()))
        self._plane.write_kubeconfig(directory / "kubelet.kubeconfig", self._plane.admin_token)
        kubeconfig = json.loads((directory / "kubelet.kubeconfig").read_text())
        # Actions that a node may not do are forbidden here, too.
        kubeconfig["users"][0]["user"] |= {"as": f"system:node:{self._name}", "as-groups": ["system:nodes"]}
        (directory / "kubelet.kubeconfig").write_text(json.dumps(kubeconfig))

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            # The address is the node's own, so the port is free.
            "address": self._options.address,
            "port": _PORT,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._options.cgroup}",
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "resolvConf": str(self._directory / "resolv.conf"),
            "maxPods": 500,
            "nodeStatusUpdateFrequency": "1s",
            # The machine's disk is not the node's alone.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0.5%", "imagefs.available": "0.5%"},
            **self._options.configuration,
        }
